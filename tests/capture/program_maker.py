"""Random programs over NumPy arrays: a module with classes, functions and generators, a `main` to mark, and changes that
are made to the world between its calls. A seed gives the same program everywhere."""

from __future__ import annotations

import random

HEADER = """
import contextlib, functools, itertools, math
import numpy as np

COUNT = 1
SCALE = 1.5
FLAG = True
NAMES = ["a", "bb", "ccc"]
TABLE = {"a": 1.0, "b": 2}
LOG = []


class Problem(Exception):
    def __init__(self, text, code=0):
        super().__init__(text)
        self.code = code


class Model:
    rate = 2.0
    kinds = ("p", "q")

    def __init__(self, w, n=1):
        self.w = w
        self.n = n
        self.log = []

    def step(self, x, k=1.0):
        self.n += 1
        self.w = self.w * self.rate + x * k
        return self.w + self.n

    @property
    def half(self):
        return self.w * 0.5

    @half.setter
    def half(self, value):
        self.w = value + self.w

    @classmethod
    def of(cls, w):
        return cls(w * cls.rate)

    @staticmethod
    def twice(x):
        return x * 2.0

    def __call__(self, x):
        return x - self.w

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, error, tb):
        self.log.append("out" if kind is None else "error")
        return self.n % 4 == 0

    def __add__(self, other):
        return Model(self.w + (other.w if isinstance(other, Model) else other), self.n)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.w[i]

    def __eq__(self, other):
        return isinstance(other, Model) and self.n == other.n

    def __iter__(self):
        yield self.w
        yield self.w * 0.5


class Deep(Model):
    def __init__(self, w, n=2):
        super().__init__(w, n)
        self.extra = w + 1.0

    def step(self, x, k=2.0):
        return super().step(x, k) * 0.5 + self.extra

    def __getattr__(self, name):
        if name == "ghost":
            return 3.0
        raise AttributeError(name)


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a, b=1.0):
        self.a = a
        self.b = b


@contextlib.contextmanager
def noted(log, name):
    log.append("in " + name)
    try:
        yield len(log)
    except KeyError:
        log.append("key")
    finally:
        log.append("out")


def rows(x, n):
    for i in range(n):
        yield x * i + 1.0
    return n


def careful(x, n, log):
    try:
        for i in range(n):
            yield x - i
    finally:
        log.append(n)


def relay(x, n):
    got = yield from rows(x, n)
    yield x * got


def fails(k):
    if k == 1:
        raise KeyError("k1")
    if k == 2:
        raise ValueError("k", k)
    if k == 3:
        raise Problem("p", code=k)
    return k
"""


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
        self.functions = 0
        self.budget = 34

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
            f"f'{{{self.integer(1)}}}'", f"str({self.integer(1)})", f"'-'.join(NAMES)", f"NAMES[{self.integer(2)} % 3].upper()",
            f"'%d' % {self.integer(2)}", f"repr({self.number()})", f"type({self.pick(*self.models)}).__name__",
        )

    # --- statements

    def block(self, count: int) -> None:
        before = (list(self.arrays), list(self.ints), list(self.lists), list(self.dicts), list(self.models))
        self.depth += 1
        for _ in range(count):
            self.statement()
        self.depth -= 1
        self.arrays, self.ints, self.lists, self.dicts, self.models = before

    def statement(self) -> None:
        r = self.r
        self.budget -= 1
        nested = self.depth < 3 and self.budget > 0
        kind = r.randrange(46)
        if kind < 8:
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
                               "TABLE.pop('c', None)", "NAMES.append('d')"))
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
        self.put("global COUNT, SCALE")
        for _ in range(self.r.randint(4, 9)):
            self.statement()
        self.put(f"return {self.array(1)}, {self.integer(1)}, {self.r.choice(self.models)}, {self.r.choice(self.lists)}")
        main = "def main(x, y, o, items, table, n, m, live):\n" + "\n".join(self.lines)
        if self.r.random() < 0.1:
            main = main.replace("\n    global COUNT, SCALE\n", "\n    global COUNT, SCALE\n    yield x\n", 1)
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
    x = np.arange(np.prod(shape), dtype=r.choice([float, float, float, np.float32, int])).reshape(shape) + 1
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
