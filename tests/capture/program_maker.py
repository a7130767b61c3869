"""Random programs over NumPy arrays: a module with classes, functions and generators, a `main` to mark, and changes that
are made to the world between its calls. A seed gives the same program everywhere. What all programs begin with is
program_world.py."""

from __future__ import annotations

import random
from pathlib import Path

HEADER = (Path(__file__).parent / "program_world.py").read_text()


class Maker:
    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 0
        self.names = 0
        self.arrays = ["x", "y"]
        self.ints = ["n", "m"]
        self.lists = ["items"]
        self.dicts = ["table"]
        self.models = ["o"]
        self.loops = 0
        self.budget = 34
        self.tuples: list[str] = []
        self.values: list[str] = []  # of other kinds: points, keys
        self.kind = self.r.choices(["function", "generator", "coroutine"], [84, 8, 8])[0]

    def pick(self, *choices):
        return self.r.choice(choices)

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def put(self, line: str) -> None:
        self.lines.append("    " * (self.depth + 1) + line)

    # --- expressions

    def integer(self, depth: int = 0) -> str:
        r = self.r
        if depth > 1:
            return r.choice([*self.ints, "2", "3", "1"])
        kind = r.randrange(16)
        if kind < 5:
            return r.choice([*self.ints, str(r.randrange(5)), "COUNT"])
        if kind < 9:
            return f"({self.integer(depth + 1)} {self.pick('+', '-', '*', '%', '//', '&')} {self.integer(depth + 1)})"
        if kind == 9:
            return f"len({r.choice([*self.lists, *self.dicts, 'NAMES', 'TABLE'])})"
        if kind == 10:
            return f"{r.choice(self.models)}.n"
        if kind == 11:
            return f"int({self.pick('bool(n)', '2.7', chr(34) + '12' + chr(34))})"
        if kind == 12:
            return f"sum(i for i in range({self.integer(depth + 1)} % 5) if i != 2)"
        if kind == 13:
            return f"({self.integer(depth + 1)} if {self.condition(depth + 1)} else {self.integer(depth + 1)})"
        if kind == 14:
            return f"{self.pick('min', 'max')}({self.integer(depth + 1)}, {self.integer(depth + 1)})"
        return f"fails({self.integer(depth + 1)} % 6)"

    def number(self) -> str:
        kind = self.r.randrange(8)
        if kind < 3:
            return self.pick("0.5", "2.0", "SCALE", "-1.25", "1e-3")
        if kind == 3:
            return f"TABLE[{self.pick(repr('a'), repr('b'), repr('zz'))}]"
        if kind == 4:
            return f"float({self.integer(1)})"
        if kind == 5:
            return f"math.sqrt({self.pick('2.0', 'abs(n)')})"
        if kind == 6:
            return f"{self.r.choice(self.models)}.{self.pick('rate', 'ghost', 'rate')}"
        return self.integer(1)

    def condition(self, depth: int = 0) -> str:
        kind = self.r.randrange(14)
        if kind < 4 or depth > 1:
            return f"{self.integer(2)} {self.pick('<', '>', '==', '!=', '<=')} {self.integer(2)}"
        if kind == 4:
            return "FLAG"
        if kind == 5:
            return f"isinstance({self.r.choice(self.models)}, {self.pick('Deep', 'Model', '(Slots, Deep)')})"
        if kind == 6:
            return f"{self.pick(repr('a'), repr('b'), repr('q'))} in {self.pick(*self.dicts, 'NAMES', 'TABLE')}"
        if kind == 7:
            return f"not {self.condition(depth + 1)}"
        if kind == 8:
            return f"({self.condition(depth + 1)} {self.pick('and', 'or')} {self.condition(depth + 1)})"
        if kind == 9:
            return f"{self.r.choice(self.arrays)}.ndim == {self.pick(1, 2)}"
        if kind == 10:
            return f"hasattr({self.r.choice(self.models)}, {self.pick(repr('extra'), repr('w'), repr('late'))})"
        if kind == 11 and self.r.random() < 0.5:
            return f"{self.r.choice(self.arrays)}.sum() {self.pick('<', '>')} {self.pick('4.0', '0.0', '50.0')}"
        if kind == 12:
            return f"{self.r.choice(self.models)} == {self.r.choice(self.models)}"
        return f"{self.r.choice(self.lists)}"

    def array(self, depth: int = 0) -> str:
        r = self.r
        if depth > 2:
            return r.choice(self.arrays)
        kind = r.randrange(30)
        inner = lambda: self.array(depth + 1)  # noqa: E731
        if kind < 5:
            return r.choice(self.arrays)
        if kind < 12:
            return f"({inner()} {self.pick('+', '-', '*')} {r.choice([inner(), self.number(), self.number()])})"
        if kind == 12:
            return f"np.{self.pick('tanh', 'abs', 'negative', 'square')}({inner()})"
        if kind == 13:
            return f"{r.choice(self.models)}.step({inner()}{self.pick('', ', k=0.5', ', 1.5')})"
        if kind == 14:
            return f"{r.choice(self.models)}.{self.pick('half', 'w', 'w', 'extra')}"
        if kind == 15:
            return f"helper({inner()}, {self.integer(1)}{self.pick('', ', c=2.0', ', z=0.5', ', *[1.0, 2]', ', **{' + repr('q') + ': 2.0}')})"
        if kind == 16:
            return f"sum({inner()} for i in range({self.integer(1)} % 4))"
        if kind == 17:
            return f"[{inner()} * v for v in ({self.number()}, {self.number()})][{self.pick(0, 1, -1)}]"
        if kind == 18:
            return f"Model.{self.pick('twice', 'twice')}({inner()})"
        if kind == 19:
            return f"{self.pick('Model', 'Deep')}{self.pick('', '', '.of')}({inner()}).{self.pick('w', 'half', 'step(x)')}"
        if kind == 20:
            return f"{r.choice(self.models)}({inner()})"
        if kind == 21:
            return f"({inner()} if {self.condition(1)} else {inner()})"
        if kind == 22:
            return f"np.where({inner()} > 0.5, {inner()}, {self.number()})"
        if kind == 23:
            return f"{r.choice(self.lists)}[{self.pick(0, -1, 1, 7)}]"
        if kind == 24:
            return f"{r.choice(self.dicts)}{self.pick('.get(' + repr('a') + ', x)', '[' + repr('a') + ']', '.setdefault(' + repr('k') + ', y)')}"
        if kind == 25:
            return f"functools.reduce(lambda a, b: a + b, [{inner()}, {inner()}])"
        if kind == 26:
            return f"({r.choice(self.models)} + {self.pick('1.0', r.choice(self.models))}).w"
        if kind == 27:
            return f"next({self.pick('rows', 'relay')}({inner()}, {self.integer(1)} % 3))"
        if kind == 28:
            return f"sum(list({self.pick('rows', 'relay')}({inner()}, 2)))"
        return f"Slots({inner()}).a"

    def text(self) -> str:
        return self.pick(
            f"f'{{{self.integer(1)}}}'", f"str({self.integer(1)})", "'-'.join(NAMES)", f"NAMES[{self.integer(2)} % 3].upper()",
            f"'%d' % {self.integer(2)}", f"repr({self.number()})", f"type({self.pick(*self.models)}).__name__",
        )

    # --- statements

    def block(self, count: int) -> None:
        names = ("arrays", "ints", "lists", "dicts", "models", "tuples", "values")
        before = {name: list(getattr(self, name)) for name in names}
        self.depth += 1
        for _ in range(count):
            self.statement()
        self.depth -= 1
        for name, held in before.items():
            setattr(self, name, held)

    def statement(self) -> None:
        r = self.r
        self.budget -= 1
        nested = self.depth < 3 and self.budget > 0
        kind = r.randrange(46)
        if r.random() < 0.35:
            self.wider(nested)
        elif kind < 8:
            name = r.choice(self.arrays) if r.random() < 0.6 else self.fresh("v")
            self.put(f"{name} = {self.array()}")
            if name not in self.arrays:
                self.arrays.append(name)
        elif kind < 10:
            name = r.choice(self.ints) if r.random() < 0.5 else self.fresh("i")
            self.put(f"{name} = {self.integer()}")
            if name not in self.ints:
                self.ints.append(name)
        elif kind == 10:
            self.put(f"{r.choice(self.arrays)} {self.pick('+=', '*=', '-=')} {self.pick(self.number(), r.choice(self.arrays))}")
        elif kind == 11:
            self.put(f"{r.choice(self.arrays)}[{self.pick('0', '-1', '...', '::2')}] {self.pick('=', '+=', '*=')} {self.number()}")
        elif kind == 12:
            self.put(f"{r.choice(self.models)}.{self.pick('n += 1', 'w = ' + self.array(1), 'half = ' + self.array(1), 'late = ' + self.integer(1), 'w += 1.0')}")
        elif kind == 13:
            self.put(f"{r.choice(self.dicts)}[{self.pick(repr('a'), repr('b'), repr('new'), 'n')}] {self.pick('=', '=', '+=')} {self.array(1)}")
        elif kind == 14:
            name = r.choice(self.lists)
            self.put(self.pick(
                f"{name}.append({self.array(1)})", f"{name}.pop()", f"{name}.insert(0, {self.array(1)})", f"{name}[0] = {self.array(1)}",
                f"{name}.extend([{self.array(2)}, {self.array(2)}])", f"{name} += [{self.array(2)}]", f"del {name}[0]",
                f"{name}.reverse()", f"{name}[1:] = [{self.array(2)}]", f"{name}[:] = {name}[::-1]",
            ))
        elif kind == 15:
            self.put(f"LOG.append({self.pick(self.integer(), self.text(), self.text())})")
        elif kind == 16:
            self.put(f"print({self.text()}, {self.integer()}{self.pick('', ', end=' + repr(';'))})")
        elif kind == 17:
            self.put(self.pick("COUNT += 1", f"COUNT = {self.integer(1)}", "SCALE = SCALE * 0.5", f"TABLE['b'] = {self.integer(1)}",
                               "TABLE.pop('c', None)", "NAMES[8:] or NAMES.append('d')"))
        elif kind == 18:
            a, b = r.choice(self.arrays), r.choice(self.arrays)
            self.put(self.pick(f"{a}, {b} = {self.array(1)}, {self.array(1)}", f"{a}, *rest = [{self.array(2)}, {self.array(2)}, 1]",
                               f"({a}, {b}), k1 = ({self.array(2)}, {self.array(2)}), 3"))
        elif kind == 19:
            name = self.fresh("d")
            self.put(f"{name} = {{key: {self.array(1)} for key in NAMES[:{self.integer(2)}]}}")
            self.dicts.append(name)
        elif kind == 20:
            name = self.fresh("l")
            self.put(name + " = " + self.pick(
                f"[{self.array(1)}, {self.array(1)}]", f"[{self.array(1)} for _ in range({self.integer(1)} % 4)]", f"list(rows({self.array(2)}, 3))",
                f"list(map(lambda v: v + {self.number()}, [{self.array(2)}]))", f"list({r.choice(self.dicts)}.values())",
                f"list(itertools.islice(relay({self.array(2)}, 3), 2))", f"list(itertools.accumulate([{self.array(2)}, {self.array(2)}]))",
            ))
            self.lists.append(name)
        elif kind == 21:
            name = self.fresh("o")
            self.put(f"{name} = {self.pick('Model', 'Deep', 'Model.of')}({self.array(1)})")
            self.models.append(name)
        elif kind == 22:
            self.put(f"assert {self.condition()}, {self.text()}")
        elif kind == 23:
            self.put(f"if {self.condition()}: return {self.array(1)}, {self.integer(1)}")
        elif kind == 24 and self.loops:
            self.put(f"if {self.condition()}: {self.pick('break', 'continue')}")
        elif kind == 25:
            self.put(f"if {self.condition()}: raise {self.pick('ValueError(n)', 'KeyError', 'Problem(' + self.text() + ', code=n)', 'IndexError(' + self.text() + ')')}")
        elif kind == 26:
            s = self.fresh("s")
            self.put(f"{s} = {self.pick('{1, 2, n}', 'set(NAMES)', '{i % 3 for i in range(5)}', 'set()')}")
            self.put(f"{s}.add({self.integer(2)})")
            self.put(f"LOG.append((len({s}), {self.integer(2)} in {s}, sorted({s}, key=str)))")
        elif kind == 27:
            self.put(f"del {r.choice(self.dicts)}[{self.pick(repr('a'), repr('b'))}]")
        elif kind == 28:
            g = self.fresh("g")
            self.put(f"{g} = {self.pick('rows', 'relay')}({self.array(1)}, 3)")
            self.put(f"{r.choice(self.arrays)} = next({g}) + next({g})")
        elif kind == 29:
            self.put(f"print({self.pick('float(np.sum(x))', 'x.shape', 'y', 'sorted(table, key=str)')})")
        elif not nested:
            self.put(f"{r.choice(self.arrays)} = {self.array()}")
        elif kind < 33:
            self.put(f"if {self.condition()}:")
            self.block(r.randint(1, 3))
            if r.random() < 0.5:
                self.put(f"{self.pick('else', 'elif ' + self.condition())}:")
                self.block(r.randint(1, 2))
        elif kind < 38:
            self.loop()
        elif kind < 42:
            self.attempt()
        elif kind == 42:
            manager = self.pick(f"{r.choice(self.models)}", f"Model({self.array(2)}) as c1", "noted(LOG, 'w') as k2", "contextlib.suppress(ValueError)",
                                "np.errstate(all='ignore')", "contextlib.nullcontext(2.0) as k3")
            self.put(f"with {manager}:")
            self.block(r.randint(1, 3))
        elif kind == 43:
            self.closure()
        elif kind == 44:
            self.put(f"match {self.pick('(n, x)', '[n, m, 3]', 'table', 'o', 'n', '{' + repr('a') + ': x, ' + repr('k') + ': n}')}:")
            self.depth += 1
            for pattern in r.sample(["1 | 2", "[1, z]", "[_, *zs]", "{'a': z}", "Deep(n=z)", "Model(w=z)", "int(z)", "(z, w) if n > 1"], 3):
                self.put(f"case {pattern}:")
                self.block(r.randint(1, 2))
            self.depth -= 1
        else:
            self.put(f"for v in careful({self.array(1)}, {self.integer(2)} % 3, LOG):")
            self.arrays.append("v")
            self.loops += 1
            self.block(r.randint(1, 2))
            self.loops -= 1
            self.arrays.remove("v")

    def wider(self, nested: bool) -> None:
        """Statements of every family of library and language that functions around arrays are made of."""
        families = [
            self.named_tuple, self.enumeration, self.calls, self.collection, self.finalized, self.dynamic, self.conversation,
            self.text_work, self.big_numbers, self.identity, self.bindings, self.data_class, self.keys, self.views, self.library,
        ]
        if nested:
            families += [self.groups, self.local_class, self.finally_flow, self.managers]
        if self.kind == "generator":
            families += [self.yields] * 4
        if self.kind == "coroutine":
            families += [self.awaits] * 4
        guarded = nested and self.r.random() < 0.6  # so that the program goes on
        if guarded:
            self.put("try:")
            self.depth += 1
        self.r.choice(families)()
        if guarded:
            self.depth -= 1
            self.put(f"except {self.pick('Exception', '(LookupError, TypeError, ValueError)', 'ArithmeticError')} as err:")
            self.put("    LOG.append(type(err).__name__)")

    def assign(self, kind: str, value: str) -> str:
        name = self.fresh(kind[0])
        self.put(f"{name} = {value}")
        getattr(self, kind).append(name)
        return name

    def note(self, *texts: str) -> None:
        self.put(f"LOG.append({self.pick(*texts)})")

    def named_tuple(self) -> None:
        if not self.tuples or self.r.random() < 0.4:
            self.assign("tuples", self.pick(f"Pair({self.array(1)}, {self.number()})", f"Pair({self.array(1)})", f"Pair(b={self.integer()}, a={self.array(2)})",
                                            f"Pair._make([{self.array(2)}, 2])", f"Pair(*[{self.array(2)}][:{self.pick(1, 1, 0)}])"))
            return
        p = self.r.choice(self.tuples)
        self.put(self.pick(
            f"{self.r.choice(self.arrays)} = {p}.a * {p}.b", f"{self.r.choice(self.arrays)}, k0 = {p}", f"{p} = {p}._replace({self.pick('a', 'b', 'c')}={self.array(2)})",
            f"{self.r.choice(self.arrays)} = {p}[{self.pick(0, 1, -1, 2)}] + 1.0", f"LOG.append((len({p}), {p}._fields, type({p}) is Pair, isinstance({p}, tuple)))",
            f"LOG.append(sorted({p}._asdict()))", f"x = sum(v for v in {p})", f"{p}.a = 1", f"k0 = {p} + (1, 2)", f"k0 = {p} == {p}", f"k0 = {p}[::-1]",
        ))

    def enumeration(self) -> None:
        c = self.pick("Color.RED", "Color.BLUE", "Color(1)", "Color['BLUE']", "Color(n)", "list(Color)[0]", "Level(n)", "Level.HIGH")
        a = self.r.choice(self.arrays)
        self.put(self.pick(
            f"{a} = {a} * Color.{self.pick('RED', 'BLUE')}.weight", f"{a} = {a} + Level.{self.pick('LOW', 'HIGH')}", f"k0 = {c}",
            f"LOG.append(({c}.name, {c}.value))", f"{a} = {a} * (2.0 if {c} is Color.RED else 0.5)", f"{a} = {a} * (2.0 if {c} == Color.BLUE else 0.5)",
            f"{a} = {a} + {{Color.RED: 1.0, Color.BLUE: 2.0}}[{c}]", f"LOG.append({c} in (Color.RED, Level.LOW))", "LOG.append([c.name for c in Color])",
            "LOG.append(Level.HIGH > n)", f"LOG.append(isinstance({c}, Color))", f"{a} = {a} * Level({self.integer(1)})",
        ))

    def calls(self) -> None:
        a = self.r.choice(self.arrays)
        self.put(f"{a} = " + self.pick(
            f"HALF({self.array(1)})", f"HALF({self.array(1)}, by={self.number()})", f"functools.partial(helper, {self.array(2)}, c=0.5)({self.integer(1)})",
            f"shifted({self.array(1)}{self.pick('', ', 2.0', ', by=n')})", f"{a} + COUNTER({self.pick('', 'n', 'by=2')})", f"{a} * cached({self.integer(1)})",
            f"{a} + told({self.pick('n', 'x', 'None', '1.5')})", f"{a} + BASE({self.integer(2)})", f"(lambda v, *r, k=2.0: v * k + len(r))({self.array(1)}, 1)",
            f"operator.add({self.array(1)}, {self.number()})", f"functools.reduce(operator.mul, [{self.array(2)}, 2.0, {a}])",
            f"max([{self.array(2)}, {self.array(2)}], key=lambda v: v.ndim)", f"counter(2)({self.integer(1)}) * {a}",
        ))

    def collection(self) -> None:
        a = self.r.choice(self.arrays)
        q = self.fresh("q")
        self.put(f"{q} = " + self.pick(
            f"collections.deque([{a}, 1.0], maxlen=3)", "collections.defaultdict(list)", "collections.defaultdict(lambda: 2.0, b=1.0)",
            f"collections.OrderedDict(b={a}, a=2.0)", "collections.Counter(NAMES)", "collections.ChainMap(table, TABLE)", "frozenset((1, n))",
        ))
        for _ in range(self.r.randint(1, 3)):
            self.put(self.pick(
                f"{q}.append({a})", f"{a} = {q}.popleft() * 2.0", f"{q}.appendleft(n)", f"{q}['a'].append({a})", f"{a} = {a} + {q}['b']", f"{q}.move_to_end('b')",
                f"LOG.append(len({q}))", f"LOG.append(sorted({q}, key=str))", f"{q}.update(['a', 'zz'])", f"{q}['n'] += 1", f"{a} = sum(v for v in {q}) + {a}",
                f"k0 = {q}[0]", f"k0 = {q}.get('b')", f"LOG.append({self.integer(2)} in {q})", f"k0 = list({q}.items())", f"{q} = {q}.copy()", f"k0 = {q} | {{'z': n}}",
            ))

    def finalized(self) -> None:
        name = self.fresh("h")
        make = f"Handle({name!r}{self.pick('', ', ' + self.array(2))})"
        self.put(self.pick(
            f"{name} = {make}", f"{name} = [{make}, {make}]", f"{self.r.choice(self.lists)}.append({make})", f"o.late = {make}", f"table['h'] = {make}", f"{make}",
            f"{name} = ({make}, x)", f"NAMES[: len(NAMES) > 8] = [{make}]", f"{name} = Model({make})", f"{name} = lambda v={make}: v", f"{name} = {{'k': {make}}}",
            f"{name} = (lambda h: lambda: h)({make})", f"{name} = rows({make}, 2)", f"{name} = {make}.__init__", f"TABLE['h'] = {make}", f"HELD = [{make}]",
        ))
        for _ in range(self.r.randint(0, 3)):
            self.put(self.pick(
                f"{name} = None", f"del {name}", f"{self.r.choice(self.arrays)} = {self.array(1)}", "LOG.append(len(LOG))", "o.late = 1", "table['h'] = 2", f"{name} = {self.array(2)}",
                f"{self.r.choice(self.lists)}.clear()", f"{self.r.choice(self.lists)}[:] = []", f"{self.r.choice(self.lists)}.pop()", "NAMES[:1] = ['n']", "table.pop('h', None)",
                "del o.late", "TABLE.pop('h', None)", "HELD[0] = 1", "HELD = n", f"{name}[0] = 3", "table.update(h=1)", "o.__dict__.pop('late', None)", f"{name} = {self.integer(1)}",
                f"{self.r.choice(self.lists)}.sort(key=len)", f"{self.r.choice(self.lists)} += [n]", f"del {self.r.choice(self.lists)}[-1:]", "TABLE = dict(a=1.0, b=2)",
            ))
            self.put(f"{self.r.choice(self.arrays)} = {self.array(1)}")
        self.note("'after'", "len(LOG)")

    def dynamic(self) -> None:
        o = self.r.choice(self.models)
        a = self.r.choice(self.arrays)
        self.put(self.pick(
            f"setattr({o}, {self.pick(repr('w'), repr('n'), repr('late'))}, {self.integer(1)})", f"{a} = getattr({o}, 'w', x)", f"delattr({o}, 'late')", f"{a} = getattr({o}, 'la' + 'te', y)",
            f"LOG.append(sorted(vars({o})))", f"{o}.__dict__['n'] = {self.integer(1)}", f"{o}.__class__ = {self.pick('Model', 'Deep')}", f"{o}.rate = {self.number()}",
            "LOG.append(sorted(locals()))", "LOG.append(sys._getframe().f_lineno)", f"LOG.append(type({o}).__mro__[0].__name__)", f"{o}.step = lambda v, k=1.0: v * k",
            f"del {o}.n", f"LOG.append(callable({o}.step))", f"LOG.append({o}.step.__name__)", "LOG.append(sys.exc_info()[0])", f"Model.rate = {self.number()}", f"Deep.late = {self.integer()}",
            f"{a} = Model.step({o}, {self.array(2)})", "LOG.append(hasattr(Model, 'late'))", f"{a} = {a} * globals()['COUNT']", f"{a} = {a} + eval('n + 1')", f"{o}.n.real = 1",
            f"d0 = Described({self.integer()}); d0.level = {self.array(2)}; {a} = d0.level + 1.0", f"d0 = Described({self.pick('1', '99')}); LOG.append(vars(d0))",
        ))

    def conversation(self) -> None:
        g = self.fresh("g")
        a = self.r.choice(self.arrays)
        self.put(f"{g} = {self.pick(f'echo({self.array(1)})', f'echo({self.array(1)})', f'careful({self.array(1)}, 2, LOG)')}")
        for _ in range(self.r.randint(1, 4)):
            self.put(self.pick(
                f"{a} = next({g})", f"{a} = {g}.send({self.number()})", f"{a} = {g}.throw(KeyError('t'))", f"{g}.close()", f"{a} = next({g}, {a})", f"{g}.throw(ValueError)",
                f"{a} = {g}.send(None)", f"del {g}", f"LOG.append({g}.gi_frame is None)", f"{a} = sum(itertools.islice({g}, 2))", f"{a}, *k0 = {g}" if self.r.random() < 0.1 else f"next({g})",
            ))
        self.put(f"{a} = {a} * 0.5")

    def text_work(self) -> None:
        self.note(
            "f'{n:>4}|{SCALE:.2f}|{NAMES!r}'", "f'{n!s:*^{m + 6}}'", "'{:03d}-{x}'.format(n, x=m)", "', '.join(sorted(str(k) for k in table))", "NAMES[0][::-1] + str(COUNT)",
            "'a,b,,c'.split(',')", "'abc'.partition('b')", "'%s and %r' % (n, NAMES)", "f'{x.shape} {x.dtype}'", "str(FLAG) + repr(SCALE)", "'x' * n", "'abcdef'[n:m]", "'a' < NAMES[0]",
            "bytes([n, 65]).decode()", "'é'.encode()", "'abc'.startswith(('a', 'b'))", "int('0x1f', 16)", "f'{n=}'", "ascii('é')", "' pad '.strip().title()", "'abc'.index('z')", "str(x[0, 0])",
            "repr(o.n)", "f'{o.w.sum():.3f}'", "'a' in 'cab'", "chr(97 + n)", "max(NAMES)", "min(NAMES, key=len)", "format(n, '05d')", "f'{1e300 * SCALE:g}'", "'{}'.format(Color.RED.name)",
        )

    def big_numbers(self) -> None:
        i = self.r.choice(self.ints)
        self.put(self.pick(
            f"{i} = {i} << {self.pick(3, 40, 70)}", f"{i} = ({i} + 10**18) * {self.pick(3, 10**3, -1)}", f"{i}, k0 = divmod({i}, {self.integer(1)})", f"{i} = {i} ** {self.pick(2, 3, -1, 0)}",
            f"{i} = round({self.pick('2.5', '3.5', 'SCALE', 'n / 3')})", f"{i} = {i} // {self.integer(1)}", f"{i} = -{i} % 7", f"{i} = ~{i}", f"{i} = int({i} * 1.5)", f"{i} = True + {i}",
            f"LOG.append(({i} / 3).hex())", f"LOG.append(complex({i}, 1) * 2j)", f"{i} = ({i} & 0xff) | 8", f"{i} = abs({i} - 4)", f"{i} = len(str({i}))", f"LOG.append({i}.bit_length())",
            f"{i} = math.floor({i} * 0.3) + math.ceil(SCALE)", f"LOG.append(0 < {i} <= 5 != m)", "LOG.append(float('nan') == SCALE)", f"{i} = hash({i}) % 11", f"LOG.append({i} == {i} * 1.0)",
            "LOG.append(sum([0.1] * n))", f"{i} = sum(range({i} % 50))", f"LOG.append(math.gcd({i}, 12))", f"{i} = {i} >> {self.pick(1, 2, '(n - 2)')}", f"LOG.append(({i} * 0.1) // 0.3)",
        ))
        if self.r.random() < 0.6:
            self.put(f"{self.r.choice(self.arrays)} = {self.r.choice(self.arrays)} * ({i} % 5)")

    def identity(self) -> None:
        a, b = self.r.choice(self.arrays), self.r.choice(self.arrays)
        self.note(f"{a} is {b}", f"{a} is not x", f"items and items[0] is {a}", f"table.get('a') is {b}", f"o.w is {a}", f"o is {self.r.choice(self.models)}", f"[{a}].index({a})", f"{a}.base is None",
                  f"any(v is {a} for v in items)", "o.step == o.step", "o.step is o.step", "n is m", "FLAG is True", f"type({a}) is type({b})", f"len({{id({a}), id({b})}})", f"{a} in [x]",
                  "Model.of == Deep.of", "helper is helper", "Model is type(o)", "SCALE is SCALE", f"np.shares_memory({a}, {b})")

    def bindings(self) -> None:
        a = self.r.choice(self.arrays)
        name = self.fresh("b")
        self.put(self.pick(
            f"{a} = ({name} := {self.array(1)}) + 1.0", f"{name} = {a}; del {name}; {a} = {a} * 2.0", f"del {name}", "k0 = MISSING", f"{a} = {a} * 2.0 if ({name} := n) > 1 else {a}",
            f"{name} = k0 = {self.array(1)}", f"{name}, {a} = items", f"[{a}, *{name}] = items or [x]", f"{name} = [*items, *[{a}]]", f"{name} = {{**table, 'z': {a}}}", f"{a}, ({name}, k0) = {a}, (n, m)",
            f"FRESH = {a}", f"{name} = [v * w for v in items for w in (1.0, n) if w]", f"{name} = {{k: v for k, v in zip('ab', items)}}", f"{name} = {{*NAMES[:2], 'z'}}",
            f"{name} = [i for i in range(n % 5 + 2)][1:]", f"{name} = sorted(NAMES, key=lambda s: (len(s), s), reverse=FLAG)", f"{name} = list(zip(*[[1, 2], [3, n]]))", "x, y = y, x",
            f"{name} = (lambda: {a} + COUNT)()", f"{name} = [lambda v=i: v + n for i in range(3)]; {a} = {a} + {name}[1]()", f"{name} = tuple(v for v in items)", f"{name} = list(map(operator.neg, items))",
        ))

    def data_class(self) -> None:
        if not self.values or self.r.random() < 0.4:
            self.assign("values", self.pick(f"Point({self.array(1)})", f"Point({self.array(1)}, b={self.number()})", f"Point({self.array(2)}).moved({self.number()})"))
            return
        p = self.r.choice(self.values)
        a = self.r.choice(self.arrays)
        self.put(self.pick(f"{a} = {p}.a * {p}.b", f"{p}.a = {self.array(1)}", f"{p}.tags.append({a})", f"{p} = dataclasses.replace({p}, b=n)", f"LOG.append([f.name for f in dataclasses.fields({p})])",
                           f"{p} = {p}.moved({a})", f"LOG.append(len({p}.tags))", f"match {p}:\n" + "    " * (self.depth + 2) + f"case Point(a=z, b=1.5): {a} = z + 1.0", f"k0 = {p} == n", f"del {p}.b"))

    def keys(self) -> None:
        a = self.r.choice(self.arrays)
        d = self.fresh("d")
        self.put(f"{d} = " + self.pick("{1: x, 1.0: y, True: n}", "{Key(1): x, Key(n): y}", "{(1, n): x, (m, 'a'): y}", "{None: x}", "{Color.RED: x, n: y}", "dict(table)", "{}", "{x.shape: y}"))
        for _ in range(self.r.randint(1, 2)):
            self.put(self.pick(f"{a} = {d}[1]", f"{a} = {d}.get((1, n), x) + 1.0", f"{d}[Key(1)] = {a}", f"LOG.append(Key(n) in {d})", f"{a} = {a} + len({d})", f"{d}.pop(1, None)", f"{d}[n] = {a}",
                               f"{d}.setdefault(m, {a})", f"{d} |= {{'q': {a}}}", f"{a} = {d}.popitem()[1]", f"k0 = [*{d}]", f"{a} = sum({d}.values())", f"del {d}[n]", f"{d}[[1]] = 2", f"{d}.clear()",
                               f"LOG.append(list({d}) == list(reversed({d})))", f"LOG.append({d} == {{1: 2}})", f"for k0 in {d}: {d}['new'] = 1", f"LOG.append({d}.keys() & {{1, 'a', n}})"))

    def views(self) -> None:
        a, b = self.r.choice(self.arrays), self.fresh("v")
        self.put(f"{b} = " + self.pick(f"{a}[0]", f"{a}.T", f"{a}.reshape(-1)", f"{a}[..., ::-1]", f"{a}[1:]", f"{a}.ravel()", f"{a}[None]", f"{a}.copy()", f"np.asarray({a})", f"{a}.astype(float)"))
        for _ in range(self.r.randint(1, 2)):
            self.put(self.pick(f"{b} += 1.0", f"{b}[0] = {self.number()}", f"{a} = {a} + {b}", f"{b} *= {b}", f"{a}[...] = {a} + {b}", f"np.add({b}, 1.0, out={b})", f"LOG.append({b}.tolist())", f"{a} = {b} @ {b}.T",
                               f"{b} = {b}.sum(axis=0)", f"LOG.append({b}.shape)", f"{b} -= {a}", f"LOG.append(float({b}.max()))", f"{a} = np.concatenate([{a}, {a}])[:2]", f"{b}.flags.writeable = False"))

    def library(self) -> None:
        a = self.r.choice(self.arrays)
        self.put(self.pick(
            "warnings.warn('w' + str(n))", "LOG.append([k for k, g in itertools.groupby(NAMES, len)])", f"{a} = list(itertools.chain.from_iterable([items, [x]]))[-1]", f"{a} = next(filter(None, [0, {a}.ndim])) * {a}",
            "LOG.append(list(itertools.product('ab', range(n % 3))))", f"{a} = operator.itemgetter(0)([{a}, 1])", f"{a} = operator.attrgetter('w')(o) + 1.0", "LOG.append(list(itertools.combinations(NAMES, 2)))",
            "LOG.append(list(itertools.zip_longest(NAMES, range(n % 9), fillvalue=0)))", "LOG.append(list(itertools.takewhile(lambda v: v < n, range(9))))", "LOG.append(math.isclose(SCALE, 1.5))",
            "LOG.append(list(map(lambda p, q: p * q, [1, 2], range(n % 9))))", f"{a} = {a} * math.prod([2, n])", "LOG.append(any(v for v in [0, n]) and all([m]))", "LOG.append(list(enumerate(reversed([n, m]), 2)))",
            f"{a} = np.stack([{a}, {a}])[0]", "LOG.append(isinstance(x, (np.ndarray, int)))", "LOG.append(list(zip(NAMES, items, strict=FLAG)) and 1)", "LOG.append(sum((i, j) == (1, 1) for i, j in np.ndindex(2, 2)))",
            f"{a} = np.maximum({a}, n)", "LOG.append(bool(np.any(x > 3)))", f"LOG.append(int(np.argmax({a})))", "LOG.append(next(live, 'end'))", f"{a} = {a} / {self.integer(1)}",
        ))

    def groups(self) -> None:
        """try with except*."""
        self.put("try:")
        self.depth += 1
        self.put(f"{self.r.choice(self.arrays)} = {self.array(1)}")
        self.put(self.pick("raise ExceptionGroup('g', [ValueError(n), KeyError('k'), TypeError()])", "raise ExceptionGroup('g', [ExceptionGroup('h', [ValueError(1)]), OSError()])", "raise KeyError(n)", "fails(n)"))
        self.depth -= 1
        for kind in self.r.sample(["ValueError", "(KeyError, TypeError)", "Problem", "OSError"], self.r.randint(1, 3)):
            self.put(f"except* {kind} as err:")
            self.depth += 1
            self.put(self.pick("LOG.append(len(err.exceptions))", "LOG.append(type(err).__name__)", "print(err)", "raise Problem('in group')", "raise", f"{self.r.choice(self.arrays)} = {self.array(1)}"))
            self.depth -= 1
        if self.r.random() < 0.4:
            self.put("finally:")
            self.depth += 1
            self.put("LOG.append('groups')")
            self.depth -= 1

    def local_class(self) -> None:
        name = self.fresh("C")
        kept = self.r.choice(self.arrays)
        self.put(f"class {name}({self.pick('Model', 'Deep', 'Described', 'object')}):")
        self.depth += 1
        self.put(f"late = {self.integer(1)}")
        self.put("def step(self, x, k=1.0):")
        self.put(f"    return {self.pick('super().step(x, k) + ' + kept, kept + ' * k', 'x * self.late', 'self.w + ' + kept)}")
        self.depth -= 1
        self.put(f"{self.r.choice(self.arrays)} = {name}({self.array(2)}).step({self.array(1)})")

    def finally_flow(self) -> None:
        """Ways out of try and finally."""
        i = self.fresh("i")
        self.put(f"for {i} in range(3):")
        self.depth += 1
        self.put("try:")
        self.depth += 1
        self.put(f"{self.r.choice(self.arrays)} = {self.array(1)}")
        self.put(self.pick(f"if {i} == n: break", "continue", f"if {i}: raise ValueError({i})", "fails(m)", "pass", f"if {self.condition()}: return x, {i}", "break"))
        self.depth -= 1
        if self.r.random() < 0.5:
            self.put(f"except ({self.pick('ValueError', 'KeyError, ValueError')}{self.pick(',', ', TypeError')}):")
            self.depth += 1
            self.put(self.pick("continue", "break", "LOG.append('caught')", "raise", f"{self.r.choice(self.arrays)} = {self.array(1)}"))
            self.depth -= 1
        self.put("finally:")
        self.depth += 1
        self.put(self.pick("LOG.append('out')", "break", "continue", f"{self.r.choice(self.arrays)} = {self.array(1)}", f"if {i} == 1: return y, {i}"))
        self.depth -= 2

    def managers(self) -> None:
        self.put("with " + self.pick(
            "Model(x) as c1, noted(LOG, 'q') as k2:", "contextlib.ExitStack() as k2:", "np.errstate(all='raise'):", "np.errstate(divide='warn', invalid='warn'):", "(o, noted(LOG, 'p')):",
            "contextlib.suppress(ZeroDivisionError, KeyError):", "contextlib.closing(Closer()):", "warnings.catch_warnings():", "contextlib.redirect_stdout(None):",
        ).replace("Closer()", "careful(x, 2, LOG)"))
        self.block(self.r.randint(1, 2))

    def yields(self) -> None:
        a = self.r.choice(self.arrays)
        self.put(self.pick(f"yield {self.array(1)}", f"k0 = yield {a}", f"yield from rows({a}, 2)", f"{a} = yield from relay({a}, 1)", "yield n", f"try:\n{'    ' * (self.depth + 2)}yield {a}\n{'    ' * (self.depth + 1)}finally:\n{'    ' * (self.depth + 2)}LOG.append('y')"))

    def awaits(self) -> None:
        a = self.r.choice(self.arrays)
        if self.r.random() < 0.6 or self.depth >= 3:
            self.put(self.pick(f"{a} = await later({self.array(1)})", f"{a} = {a} * await Ready()", f"{a} = sum([{a} * i async for i in ticks(2)])", "k0 = await Ready()"))
            return
        self.put(self.pick("async with Lock() as k1:", "async for i0 in ticks(n % 3):", "async with Lock(), Lock():"))
        self.block(self.r.randint(1, 2))

    def loop(self) -> None:
        r = self.r
        kind = r.randrange(9)
        added: tuple[str, str] | None = None
        if kind < 3:
            name = self.fresh("i")
            self.put(f"for {name} in range({self.pick('3', 'n % 5', 'len(items)', '2, 9, 3')}):")
            added = ("ints", name)
        elif kind == 3:
            name = self.fresh("e")
            self.put(f"for {name}, v0 in enumerate({self.pick('[x, y]', 'NAMES', 'rows(x, 2)', 'list(items)')}):")
            added = ("ints", name)
        elif kind == 4:
            name = self.fresh("v")
            self.put(f"for {name} in {self.pick('[x, y, x]', 'rows(y, 3)', 'o', 'x[:2]', 'list(items)', 'relay(x, 2)')}:")
            added = ("arrays", name)
        elif kind == 5:
            name = self.fresh("v")
            self.put(f"for k0, {name} in zip({self.pick('NAMES', 'range(4)', 'TABLE')}, {self.pick('[x, y]', 'rows(x, 3)', 'itertools.repeat(y, 2)')}):")
            added = ("arrays", name)
        elif kind == 6:
            self.put(f"for k0, u0 in {self.pick('list(table.items())', 'TABLE.items()', 'table.items()')}:")
        elif kind == 7:
            self.put(f"for k0 in {self.pick('live', 'sorted(NAMES)', 'reversed(NAMES)', 'itertools.chain(NAMES, [1])')}:")
        else:
            name = self.fresh("c")
            self.put(f"{name} = 0")
            self.put(f"while {name} < {self.pick('3', 'n % 4', '2')}:")
            self.depth += 1
            self.put(f"{name} += 1")
            self.depth -= 1
            added = ("ints", "n")
        if added:
            getattr(self, added[0]).append(added[1])
        self.loops += 1
        self.block(self.r.randint(1, 3))
        self.loops -= 1
        if added:
            getattr(self, added[0]).remove(added[1])
        if r.random() < 0.2:
            self.put("else:")
            self.block(1)

    def attempt(self) -> None:
        r = self.r
        loops, self.loops = self.loops, self.loops if r.random() < 0.5 else 0
        self.put("try:")
        self.block(r.randint(1, 3))
        caught = r.random() < 0.85
        if caught:
            for kind in r.sample(["KeyError", "(ValueError, IndexError)", "Problem", "TypeError", "LookupError", "AttributeError", "Exception"], r.randint(1, 3)):
                bind = r.random() < 0.5
                self.put(f"except {kind}{' as err' if bind else ''}:")
                self.depth += 1
                if bind:
                    self.put(self.pick("LOG.append(str(err))", "LOG.append(type(err).__name__)", "LOG.append(err.args[:1])", "print(err)", "raise", "raise Problem('again') from err", "x = x * len(err.args)"))
                self.depth -= 1
                self.block(r.randint(1, 2))
                if kind == "Exception":
                    break
            if r.random() < 0.25:
                self.put("else:")
                self.block(1)
        if not caught or r.random() < 0.35:
            self.loops = 0
            self.put("finally:")
            self.block(1)
        self.loops = loops

    def closure(self) -> None:
        name = self.fresh("f")
        kept = self.r.choice(self.arrays)
        total = self.fresh("t")
        self.put(f"{total} = {kept} * 0.5")
        self.put(f"def {name}(v, k={self.number()}):")
        self.depth += 1
        self.put(f"nonlocal {total}")
        self.put(f"{total} = {total} {self.pick('+', '-', '*')} {self.pick('v', 'v * k', 'SCALE')}")
        if self.r.random() < 0.3:
            self.put(f"{self.pick('LOG.append(n)', 'print(n)', 'if n == 2: raise KeyError(n)')}")
        self.put(f"return {total} * k")
        self.depth -= 1
        self.put(f"{self.r.choice(self.arrays)} = {name}({self.array(1)}) + {name}({self.array(2)}, 2.0)")
        self.arrays.append(total)

    def program(self) -> str:
        self.put("global COUNT, SCALE, HELD, FRESH, TABLE")
        for _ in range(self.r.randint(4, 9)):
            self.statement()
        self.put(f"return {self.array(1)}, {self.integer(1)}, {self.r.choice(self.models)}, {self.r.choice(self.lists)}")
        head = "async def" if self.kind == "coroutine" else "def"
        main = f"{head} main(x, y, o, items, table, n, m, live):\n" + "\n".join(self.lines)
        if self.kind == "generator":
            main += "\n    yield x"
        helper = (
            "def helper(a, b, *rest, c=1.0, **named):\n"
            f"    a = a * {self.pick('c', 'b', 'SCALE')}\n"
            "    for v in rest:\n        a = a + v\n"
            "    for key, v in named.items():\n        a = a * v\n"
            f"    {self.pick('return a', 'return a + COUNT', 'LOG.append(b); return a', 'return helper(a, b - 1) if b > 0 else a')}\n"
        )
        return f"{HEADER}\n\n{helper}\n\n{main}\n"


CHANGES = [
    "COUNT = 3",
    "SCALE = 0.25",
    "SCALE = 2",
    "FLAG = False",
    "FLAG = 0",
    "NAMES = ['q']",
    "TABLE['a'] = 5.0",
    "TABLE = {'b': 2, 'a': 3}",
    "Model.rate = 3.0",
    "Model.rate = 2",
    "Model.step = lambda self, x, k=1.0: x * k",
    "Deep.half = property(lambda self: self.w * 4.0)",
    "helper.__kwdefaults__ = {'c': 3.0}",
    "helper.__code__ = (lambda a, b, *rest, c=1.0, **named: a - c).__code__",
    "def helper(a, *rest, **named): return a + len(rest)",
    "def rows(x, n): return [x] * n",
    "def fails(k): return k - 1",
    "del COUNT; COUNT = 7",
    "len = lambda v: 2",
    "Model.__len__ = lambda self: 0",
    "Deep.extra = 2.0",
    "Model.__getattr__ = lambda self, name: 1.0",
    "LOG = LOG[:1]",
    "relay = rows",
    "HELD = None",
    "HALF = functools.partial(shifted, by=3.0)",
    "HALF.keywords['by'] = 5.0",
    "COUNTER.__closure__[0].cell_contents = 9",
    "shifted.__closure__[1].cell_contents = 4.0",
    "shifted.__wrapped__.__defaults__ = (7.0,)",
    "Color.RED._value_ = 9",
    "Pair = tuple",
    "Pair.c = 3",
    "Point.b = 9.0",
    "Point.moved = lambda self, by: self",
    "Handle.__del__ = lambda self: None",
    "Handle.__del__ = lambda self: LOG.append('gone ' + self.name)",
    "Described.level = 4.0",
    "Limited.__get__ = lambda self, instance, owner=None: 2.0",
    "Key.__eq__ = object.__eq__; Key.__hash__ = object.__hash__",
    "cached.cache_clear()",
    "told.register(np.ndarray, lambda x: 8.0)",
    "Ready.__await__ = lambda self: iter([])",
    "Model.__init__ = lambda self, w, n=1: self.__dict__.update(w=w, n=n, log=[])",
    "Model.__bases__ = (type('Root', (), {'rooted': 1}),)",
    "Deep.__bases__ = (Slots,)",
    "noted = lambda log, name: contextlib.nullcontext(1)",
    "echo = lambda x: iter([x, x])",
    "helper.__defaults__ = (1.0,)",
    "del TABLE['a']",
    "math = None",
]


def changes(seed: int, calls: int) -> list[str]:
    """What is executed in the module before each call; empty: nothing."""
    r = random.Random(seed * 7919 + 1)
    return [r.choice(CHANGES) if call > 1 and r.random() < 0.6 else "" for call in range(calls)]


def arguments(seed: int, call: int, world: dict) -> tuple:
    """Fresh arguments of a call, in terms of a module's own classes."""
    import numpy as np

    r = random.Random(seed * 31 + min(call, 1 + call // 2))
    shape = r.choice([(2, 3), (2, 3), (2, 3), (3,), (4, 3)])
    x = np.arange(np.prod(shape), dtype=r.choice([float] * 6 + [np.float32] * 2 + [int] * 2 + [complex])).reshape(shape) + 1
    y = x if r.random() < 0.15 else x * 2
    o = (world["Model"] if r.random() < 0.5 else world["Deep"])(x + 0.5)
    if r.random() < 0.2:
        o.rate = 0.5
    items = [x, y + 1][: r.choice([2, 2, 2, 1, 0])]
    table = {"a": y, "b": x}
    if r.random() < 0.2:
        table = {"b": 1.0}
    live = iter(r.choice([["p", "q"], [1, 2, 3], []]))
    return x, y, o, items, table, r.randrange(4), r.randrange(-1, 5), live
