"""Random loops over numbers and array elements: nests, conditions, early ends, stores, numbers at the edge of their types."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

DTYPES = ("f8", "f8", "f8", "f8", "f4", "f4", "i8", "i8", "i8", "i4", "i2", "u1", "?", "f2", "u8", "c16")
NUMBERS = (0, 1, -1, 2, 3, 7, -5, 0.5, -0.0, 1.5, 2.0, -3.25, 1e300, 1e-300, float("inf"), float("nan"), 2**31, 2**53 + 1)
LARGE = (2**62, -(2**63), 2**63 - 1, 2**64)
HEADER = """\
import math
import numpy as np
LIMIT = 5
RATE = 0.75
PLACES = (0, -1, 2, 300)
TEXT = "The Quick brown fox: 0123456789, jumps."
WIDE = "na\u00efve \u00df 1\u0663 \u4e16\u754c \U0001f40d end"

def helper(p, q):
    if p > q:
        return p - q
    return q * RATE

def second(p):
    return p * 2 + LIMIT

def third(p, q=2, r=RATE):
    if not q:
        return r
    return p // q, -r

class Box:
    pass

"""


class Box:
    """Numbers as attributes, and methods that store them."""

    rate = 0.25

    def __init__(self, p: Any, q: Any) -> None:
        self.p, self.q, self.steps = p, q, 0

    def step(self, by: Any) -> Any:
        self.steps += 1
        self.p = self.p * self.rate + by
        return self.p

    def half(self) -> Any:
        return self.q / 2


class Slots:
    """The same in slots."""

    __slots__ = ("p", "q", "steps")
    rate = 3
    __init__, step, half = Box.__init__, Box.step, Box.half


class Watched(Box):
    """One attribute is computed."""

    @property
    def q(self) -> Any:
        return self.p + 1

    @q.setter
    def q(self, value: Any) -> None:
        self.p = value


class LoopMaker:
    """One program: `main(a, b, m, n, x, k, l, o, r)` with vectors a and b, a matrix m, ints n and k, a number x, a list l and boxes o and r."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0
        self.over_held = False
        self.names = ["n", "x", "k", "s", "t"]
        self.indices: list[str] = []
        self.is_complex = is_complex(seed)
        self.has_boxes = seed % 4 == 1
        self.has_comprehensions = seed % 3 == 2
        self.has_text = seed % 7 == 3

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def number(self) -> str:
        if self.random.random() < 0.03:
            return f"({self.random.choice(LARGE)})"
        if self.is_complex and self.random.random() < 0.3:
            return self.pick("1j", "(1.5-0.5j)", "(-0.0+2j)", "0j", "complex(-0.0, -0.0)")
        value = self.random.choice(NUMBERS)
        return f'float("{value}")' if isinstance(value, float) and (value != value or abs(value) == float("inf")) else f"({value!r})"

    def index(self) -> str:
        if not self.indices:
            return self.pick("0", "1", "-1", "k")
        i = self.random.choice(self.indices)
        return self.pick(i, i, i, i, f"{i} - 1", f"{i} + 1", "-1", "k", f"{i} // 2", f"-{i}", f"({i} * 2) % n", f"n - 1 - {i}")

    def cut(self) -> str:
        return self.pick(f"{self.index()}:", f":{self.index()}", f":{self.index()}", f"{self.index()}:{self.index()}", ":", "1:-1", "::1")

    def vectors(self) -> str:
        """A number that is made of parts of arrays; most of them have equal lengths."""
        cut = self.cut()
        one, other = self.pick((f"a[{cut}]", f"a[{cut}]"), (f"a[{cut}]", f"b[{cut}]"), (f"m[{self.index()}, {cut}]", f"m[{self.index()}, {cut}]"), (f"m[{cut}, 0]", f"a[{cut}]"))
        if self.random.random() < 0.4:
            one, other = self.vector(cut), self.vector(cut)
            if self.random.random() < 0.3:
                return f"{one}[{self.index()}]"
        return self.pick(f"({one} @ {other})", f"np.dot({one}, {other})", f"np.dot({one}, {other})", f"len({one})")

    def part(self, cut: str) -> str:
        return self.pick(f"a[{cut}]", f"a[{cut}]", f"b[{cut}]", f"m[{self.index()}, {cut}]", f"m[{cut}, {self.index()}]", f"m[{self.index()}][{cut}]", "row", self.pick("row", "p", "q"))

    def vector(self, cut: str, depth: int = 2) -> str:
        """An expression of parts of arrays. Most of the parts have equal lengths."""
        if depth == 0 or self.random.random() < 0.2:
            return self.part(cut if self.random.random() < 0.9 else self.cut())
        one, other = self.vector(cut, depth - 1), self.vector(cut, depth - 1)
        roll = self.random.random()
        if roll < 0.45:
            return f"({one} {self.pick('+', '-', '*', '/')} {other})"
        if roll < 0.8:
            one, other = self.pick((one, self.expression(1)), (self.expression(1), one))
            return f"({one} {self.pick('+', '-', '*', '*', '/')} {other})"
        return self.pick(f"-{one}", f"{one} ** 2", f"{one} ** 2.0", f"({one} if {self.condition()} else {other})", one)

    def store_of_vector(self) -> str:
        cut = self.cut()
        value = self.vector(cut) if self.random.random() < 0.85 else self.expression(1)
        if self.random.random() < 0.35:
            return f"{self.pick('row', 'row', 'q', 'p')} {self.pick('=', '=', '=', '+=', '*=', '-=')} {value}"
        return f"{self.part(cut)} {self.pick('+=', '*=', '-=', '/=', '=', '=', '=')} {value}"

    def element(self) -> str:
        return self.pick(
            f"a[{self.index()}]", f"b[{self.index()}]", f"m[{self.index()}, {self.index()}]", f"m[{self.index()}][{self.index()}]",
            f"l[{self.index()}]", *([f"h.a[{self.index()}]", f"h.l[{self.index()}]"] if self.random.random() < 0.3 else []),
        )  # fmt: skip

    def atom(self) -> str:
        roll = self.random.random()
        if roll < 0.35:
            return self.element()
        if self.has_boxes and roll < 0.5:
            return self.pick("o.p", "o.q", "r.p", "o.rate", "r.steps", "r.half()", "o.step(1)", f"r.step({self.random.choice(self.names)})")
        if roll < 0.8:
            return self.random.choice([*self.names, *self.indices, *(["h.v"] if self.random.random() < 0.3 else [])])
        return self.number()

    def expression(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.25:
            return self.atom()
        p, q = self.expression(depth - 1), self.expression(depth - 1)
        roll = self.random.random()
        if roll < 0.55:
            return f"({p} {self.pick('+', '-', '*', '+', '-', '*', '/')} {q})"
        if roll < 0.67:
            if self.random.random() < 0.3:
                return f"({p} {self.pick('**', '<<')} {self.pick('2', '3', 'k', '1', '-2')})"
            return f"({p} {self.pick('//', '%', '&', '|', '^', '>>')} {self.pick('2', '3', q, 'k', '1', '-2')})"
        if self.is_complex and roll > 0.85:
            return self.pick(f"abs({p})", f"({p}).real", f"({p}).imag", f"complex({p}, {q})", f"complex({p})", f"({p} ** 2)", f"({p} ** 3)")
        if roll < 0.72:
            return f"({p} if {self.condition()} else {q})"
        if roll < 0.74:
            return self.vectors()
        if roll < 0.77:
            return f"({self.pick('-', '+', '-', '~', 'not ')}{self.atom()})" if self.random.random() < 0.5 else f"(-{p})"
        return self.pick(
            f"abs({p})", f"min({p}, {q})", f"max({p}, {q})", f"int({p})", f"float({p})", f"math.sqrt({p})", f"math.sin({p})",
            f"helper({p}, {q})", f"second({p})", f"math.floor({p})", f"np.sqrt({p})", f"bool({p})", f"round({p})", f"math.exp({p})",
            f"math.atan2({p}, {q})", f"np.maximum({p}, {q})", "len(a)", "m.shape[1]", f"math.fabs({p})", "LIMIT", "RATE", f"divmod({p}, {q})[{self.pick('0', '1')}]", f"math.gcd(int({p}), k)", f"int({p}).bit_length()", "int(k in (1, 2, n))",
            f"np.exp({p})", f"np.arctan2({p}, {q})", f"np.{self.pick('tanh', 'log', 'sin', 'square', 'isnan', 'sign')}({p})", f"np.{self.pick('power', 'fmod', 'hypot')}({p}, {q})",
            f"third({p}, {q})[0]", f"third({p})[1]", f"third({p}, 0)", f"math.{self.pick('hypot', 'remainder', 'isclose', 'lcm')}({p}, {q})",
            f"math.{self.pick('erf', 'gamma', 'cbrt', 'isfinite', 'isinf', 'log', 'log2', 'ceil')}({p})", f"{self.pick('sum', 'max', 'min', 'any', 'all')}({self.pick('m[0]', 'a', f'm[{self.index()}]', 'l', 'range(k, n)', f'b[{self.cut()}]')})",
            f"{self.pick('np.searchsorted(a, ', 'np.searchsorted(m[0], ', 'b.searchsorted(')}{p})",
        )  # fmt: skip

    def condition(self) -> str:
        p, q = self.expression(1), self.expression(1)
        if self.is_complex:
            if self.random.random() < 0.3:
                return f"{p} {self.pick('==', '!=')} {q}"
            p, q = f"abs({p})", self.pick("1.5", "3", f"abs({q})")
        compared = f"{p} {self.pick('<', '<=', '==', '!=', '>', '>=')} {q}"
        roll = self.random.random()
        if roll < 0.7:
            return compared
        if roll < 0.8:
            return f"{self.atom()} < {p} <= {q}"
        if roll < 0.9:
            return f"{compared} {self.pick('and', 'or')} {self.atom()}"
        return self.pick(self.atom(), f"not {self.atom()}")

    def emit(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def statement(self, indent: int, depth: int) -> None:
        if self.has_boxes and self.random.random() < 0.2:
            return self.emit(indent, f"{self.pick('o.p', 'r.p', 'o.q', 'r.q')} {self.pick('=', '+=', '*=')} {self.expression(1)}")
        if self.random.random() < 0.08:
            return self.emit(indent, self.statement_of_lists())
        if self.has_comprehensions and self.random.random() < 0.12:
            return self.emit(indent, self.statement_of_comprehension())
        if self.has_text and self.random.random() < 0.25:
            return self.emit(indent, self.statement_of_text())
        roll = self.random.random()
        if roll < 0.28:
            name = self.pick("s", "t", "s", "u", "x")
            self.emit(indent, f"{name} = {self.expression()}")
            if name == "u":
                self.emit(indent, "u = u if abs(u) < 1e30 else 2")
            if name not in self.names:
                self.names.append(name)
        elif roll < 0.48:
            self.emit(indent, f"{self.pick('s', 't')} {self.pick('+=', '-=', '*=', '+=')} {self.expression()}")
        elif roll < 0.66:
            to, how = self.element(), self.pick("=", "+=", "=", "*=")
            # An item may be a text, which a large number would make longer than memory.
            by = self.expression() if how != "*=" else self.pick("n", "k", "2", "-1", "0.5", "1e300")
            self.emit(indent, f"{to} {how} {by}")
        elif roll < 0.78:
            self.emit(indent, f"if {self.condition()}:")
            self.block(indent + 1, depth, 1)
            if self.random.random() < 0.4:
                self.emit(indent, "else:")
                self.block(indent + 1, depth, 1)
        elif roll < 0.86 and depth < 2:
            self.loop(indent, depth + 1)
        elif roll < 0.89:
            self.emit(indent, self.pick("s, t = t, s", "t = abs(s)", "u = max(s, t)", "u = t = min(s, x, t)", "t = +s", "s = x = round(t)"))
        elif roll < 0.905:
            self.emit(indent, "try:")
            self.block(indent + 1, depth, 2)
            self.emit(indent, f"except ({self.pick('IndexError', 'ZeroDivisionError', 'Exception')}, OverflowError) as error:")
            self.emit(indent + 1, self.pick("log.append(type(error).__name__)", "t = 1", "continue" if self.indices else "pass", "s = len(str(error))"))
        elif roll < 0.92 and self.indices:
            self.emit(indent, f"if {self.condition()}:")
            self.emit(indent + 1, self.pick("break", "continue", "break", "return s, t", "raise ValueError(str(s))"))
        elif roll < 0.935:
            self.emit(indent, self.store_of_vector())
        elif roll < 0.95:
            self.emit(indent, self.pick("log.append(s)", "log.append(float(t))", "l.append(s) if len(l) < 40 else None", "h.v = s", "h.a = b", "print(type(s).__name__)", "u = a[0:2]", "row = m[0]", "a[0] = a[1] = x", "p = q = (s, t)", "row = q = m[k]", "p = row", f"row = a[{self.cut()}]", f"q = m[{self.cut()}, {self.cut()}]", "held = iter(range(n))", "held = iter(a)", "held = iter(l)", "held = enumerate(a)"))
        else:
            self.emit(indent, f"{self.element()}, t = {self.expression(1)}, {self.expression(1)}")

    def statement_of_lists(self) -> str:
        """One that makes a list, or changes one."""
        name, item = self.pick("c", "c", "d"), self.pick(self.atom(), self.atom(), f"({self.atom()}, {self.atom()})", "[s]", "[]", "l[:2]", "(s, 'p', None)")
        return self.pick(
            f"{name} = []", f"c = d = [{item}, k]", f"{name} = [{item}, {self.atom()}]", f"{name} = [{self.atom()}] * {self.pick('3', 'k', 'n')}", f"{name} = l[{self.cut()}]",
            f"{name} = l[:3] + [{item}]", f"{name} = list({self.pick('range(n)', 'range(k, n)', 'l', 'c', 'range(5, 0, -2)')})",
            *[f"{name}.append({item}) if len({name}) < 40 else None"] * 4,
            f"log.append(({self.atom()}, {self.atom()}))", "log.append(p)", "p = (s, k)", "d.append(p) if len(d) < 40 else None", "q = [p, k]", "c, d = d, c", "d = c",
            f"t = {name}.pop() if {name} else s", f"t = {name}[{self.index()}]", f"{name}[{self.index()}] = {self.atom()}",
            f"t = len({name})", f"t = {self.pick('sum', 'max', 'min')}({self.pick(name, name, 'l', 'l[1:]')})", f"{name} = sorted({self.pick('l', name)})", "s, t = (s, t) if d else (t, s)", f"for e in {name}: s = e", f"l[{self.index()}] = {self.pick('7', 'k', '300', '-5', 'True')}",
        )  # fmt: skip

    def character(self) -> str:
        return self.pick("y", "y", "z", f"w[{self.index()}]", f"w[{self.index()}]", "'e'", f"chr({self.pick('97', '300', 'k', 'ord(y)', 'ord(z) + 1')})", f"{self.pick('y', 'z')}.{self.pick('upper', 'lower')}()")

    def statement_of_text(self) -> str:
        one, other = self.character(), self.character()
        test = self.pick(
            f"{one} {self.pick('==', '!=', '<', '>=')} {other}", f"{one} in {self.pick(repr('aeiou'), 'w', repr('a long text of vowels'), 'TEXT', repr(''))}", f"{one} not in w",
            f"{one}.{self.pick('isdigit', 'isalpha', 'isalnum', 'isspace', 'isupper', 'islower')}()", f"{one} == 'ab'", f"len(w) > {self.atom()}",
        )  # fmt: skip
        return self.pick(
            f"t += ord({one})", f"s = int({one})", f"y = {one}", f"z = {one}", f"y = z = {one}", f"if {test}: t = t + 1", f"if {test}: t = t + 1", f"if {test}: y = {one}",
            f"if {test}: break" if self.indices else "pass", f"log.append({one})", f"c.append({one}) if len(c) < 40 else None", "c = list(w)", f"t = c[{self.index()}] == y", f"c[{self.index()}] = {one}",
            f"c[{self.index()}], c[{self.index()}] = c[{self.index()}], c[{self.index()}]", "t = len(w)", "y, z = z, y", f"d = [{one}, {other}]", f"p = ({one}, s)", f"for y in {self.pick('c', 'w', repr('xyz'))}: z = y",
        )  # fmt: skip

    def comprehension(self, depth: int = 1) -> str:
        """The inside of the brackets of a list comprehension, or of a generator expression."""
        names, name = list(self.names), self.pick("e", "f", "e", "s")
        over = self.pick("range(n)", "range(k, 4)", "range(len(a))", "l", "a", "m[0]", "b[1:]", "c", "(1, k, 0.5)", "held")
        self.names += [name] * 3
        both = f"{name}, g"
        target, over = self.pick((name, over), (name, over), (name, over), (both, f"zip({over}, l)"), (both, f"enumerate({over})"))
        item = self.expression(1)
        if depth and self.random.random() < 0.25:
            item = self.pick(f"[{self.comprehension(0)}]", f"sum({self.comprehension(0)})", f"len([{self.comprehension(0)}])", f"({item}, {self.atom()})")
        elif self.random.random() < 0.1:
            item = f"(u := {item})"
        made = f"{item} for {target} in {over}"
        if depth and self.random.random() < 0.2:
            made += f" for v in {self.pick('range(3)', 'range(k)', 'l')}"
        if self.random.random() < 0.35:
            made += f" if {self.condition()}"
        self.names = names
        return made

    def statement_of_comprehension(self) -> str:
        made = self.comprehension()
        return self.pick(
            f"c = [{made}] if len(c) < 200 else []", f"d = [{made}]", f"t = sum({made})", f"s = sum({made})", f"t = {self.pick('any', 'all')}({made})", f"x = {self.pick('min', 'max')}({made})",
            f"t = len(list({made}))", f"s = sum([{made}])", f"log.append([{made}][-2:])", f"if {self.pick('any', 'all')}({made}): t = 2", f"log.append(sum({made}))",
        )  # fmt: skip

    def round(self, indent: int, depth: int) -> None:
        """Keeps ints from becoming ever longer."""
        for name in "stx":
            self.emit(indent, f"if abs({name}) > 1e30:" if self.is_complex else f"if {name} > 10**30 or {name} < -(10**30):")
            self.emit(indent + 1, f"{name} = {self.pick('1', '2.5', '-3')}")
        for name in ("o.p", "r.p", "o.q", "r.q") if self.has_boxes else ():
            self.emit(indent, f"if abs({name}) > 1e30:")
            self.emit(indent + 1, f"{name} = 1.5")
        self.block(indent, depth)

    def block(self, indent: int, depth: int, most: int = 4) -> None:
        for _ in range(self.random.randint(1, most)):
            self.statement(indent, depth)

    def loop(self, indent: int, depth: int) -> None:
        self.loops += 1
        known, within = list(self.names), self.over_held
        roll = self.random.random()
        if self.random.random() < (0.4 if within else 0.1):  # what one loop takes the others do not find
            name = f"h{depth}"
            self.emit(indent, self.pick(f"for {name} in held:", f"for {name}, g{depth} in zip(held, held):", f"for g{depth}, {name} in enumerate(held):"))
            self.names.append(name)
            self.over_held = True
            self.round(indent + 1, depth)
        elif self.has_text and roll < 0.4:
            self.emit(indent, self.pick("for y in w:", "for y in TEXT:", "for z in w:", "for t, y in enumerate(w):", "for y, z in zip(w, TEXT):", "for y in reversed(w):", f"for y in w[{self.cut()}]:"))
            self.round(indent + 1, depth)
        elif roll < 0.1:
            name = f"v{depth}"
            self.emit(indent, self.pick(f"for {name} in (-1, 0, 1):", f"for {name} in (1, k, n):", f"for {name} in (x, 0.5, True, {self.number()}):", f"for w{name}, {name} in ((0, 1), (1, 0), (-1, 0)):", f"for w{name}, {name} in enumerate((2, k, -1)):", f"for {name} in PLACES:"))
            self.names.append(name)
            self.indices.append(name)
            self.round(indent + 1, depth)
            self.indices.pop()
        elif roll < 0.2:
            name = f"v{depth}"
            over = self.pick("a", "l", "b", "m[0]", "l", "m", f"a[{self.cut()}]")
            if self.random.random() < 0.3:
                self.names.append(f"w{name}")
                over = self.pick(f"enumerate({over})", f"zip({over}, a)", f"zip(range(n), {over})", f"enumerate({over}, k)")
                self.emit(indent, f"for w{name}, {name} in {over}:")
            else:
                self.emit(indent, f"for {name} in {over}:")
            self.names.append(name)
            self.round(indent + 1, depth)
        elif roll < 0.8:
            name = "ijk"[depth] if depth < 2 else "j2"
            bounds = self.pick(
                "len(a)", "n", "1, n", "n - 1", "0, n, 2", "n - 1, -1, -1", "len(b)", "m.shape[0]", "3", "k, n", "-2, 3",
                "0, len(a), k", "k, 2 * n, k + 1",
                *([f"{self.indices[-1]}", f"{self.indices[-1]}, n", f"{self.indices[-1]} + 1, n", f"0, n, {self.indices[-1]} + 1", f"{self.indices[-1]}, len(a), {self.indices[-1]}"] if self.indices else []),
            )  # fmt: skip
            self.emit(indent, f"for {name} in range({bounds}):")
            self.indices.append(name)
            self.round(indent + 1, depth)
            self.indices.pop()
            if self.random.random() < 0.1:
                self.emit(indent, "else:")
                self.emit(indent + 1, "t = t + 1")
        else:
            name = f"w{depth}"
            self.emit(indent, f"{name} = 0")
            more = f" and ({self.condition()})" if self.random.random() < 0.4 else ""
            self.emit(indent, f"while {name} < {self.pick('n', '4', 'len(a)')}{more}:")
            self.emit(indent + 1, f"{name} += {self.pick('1', '1', '2')}")
            self.indices.append(name)
            self.round(indent + 1, depth)
            self.indices.pop()
        self.names, self.over_held = known, within

    def program(self) -> str:
        self.emit(0, "def main(a, b, m, n, x, k, l, o, r):")
        self.emit(1, "log = []")
        self.emit(1, self.pick("c, d = [], []", "c, d = [1, 2, 3], []", "c = d = [0.5, n]", "c, d = l[:4], [(1, x), (2, x)]"))
        self.emit(1, "p = q = row = None")
        if self.has_text:
            self.emit(1, f"w, y, z = {self.pick('TEXT', 'TEXT[:n]', 'WIDE', 'WIDE[:n]', 'WIDE[:5]')}, 'a', '\u4e16'")
        self.emit(1, "h = Box()")
        self.emit(1, f"held = {self.pick('iter(range(n))', 'iter(range(n))', 'iter(l)', 'iter(a)', 'iter(b)', 'enumerate(l)')}")
        self.emit(1, f"s = {self.pick('0', '0.0', 'x', 'k', '1', 'a[0]', 'np.float64(1.0)', 'True')}")
        self.emit(1, f"t = {self.pick('0', '1.0', 'n', 'x', *(('0j', '1.5-2j', 'np.complex128(1-1j)') if self.is_complex else ()))}")
        self.emit(1, f"h.v, h.a, h.l = {self.pick('x', 't', '0.5', '3')}, a, l")
        for _ in range(self.random.randint(1, 2)):
            self.loop(1, 0)
            if self.has_comprehensions and self.random.random() < 0.5:
                self.emit(1, self.statement_of_comprehension())
        self.emit(1, "return s, t, log, p, p is q, q is row, row, held, h.v, c, d, c is d" + (", y, z, y is z" if self.has_text else ""))
        return HEADER + "\n".join(self.lines) + "\n"


def is_complex(seed: int) -> bool:
    return seed % 5 == 4


def arguments(seed: int, call: int) -> tuple[Any, ...]:
    """The same kinds in most calls of a program, other values in each."""
    kinds, values = random.Random(seed), random.Random(seed * 1000 + call)
    if call == 3:
        kinds = random.Random(seed + 7)
    made = np.random.default_rng(seed * 1000 + call)

    def array(*shape: int) -> np.ndarray:
        dtype = np.dtype(kinds.choice((*DTYPES, "c16", "c16", "c16", "c8") if is_complex(seed) else DTYPES))
        wide = tuple(2 * s for s in shape)
        raw = made.integers(-4, 9, wide) if dtype.kind == "i" else made.integers(0, 9, wide) if dtype.kind == "u" else made.normal(size=wide)
        full = raw.astype(dtype)
        if dtype.kind == "c":
            full = full + 1j * full[::-1]
        if dtype.kind == "f" and values.random() < 0.15:
            full.ravel()[:: values.randint(2, 5)] = values.choice((np.inf, np.nan, -np.inf, 0.0, 1e30))
        layout = kinds.choice(("C", "C", "C", "F", "step", "back", "readonly"))
        if layout == "step":
            return full[tuple(slice(None, None, 2) for _ in shape)]
        part = full[tuple(slice(0, s) for s in shape)]
        if layout == "back":
            return part[::-1]
        result = np.array(part, order="F" if layout == "F" else "C")
        result.flags.writeable = not (layout == "readonly" and call % 2)
        return result

    n = values.choice((6, 5, 7, 6, 0, 1, 30))
    a = array(max(n, 2))
    b = a if kinds.random() < 0.1 else a[1:] if kinds.random() < 0.1 else array(max(n, 2))
    m = array(max(n, 2), max(n, 2) + 1)
    x = kinds.choice((1.5, 2, True, 0.1, np.float64(0.5), np.float32(1.25), np.int64(3), np.int32(2), 2**70, None if call == 2 else -1.0))
    if is_complex(seed) and kinds.random() < 0.6:
        x = kinds.choice((1.5 - 0.5j, np.complex128(0.5 + 2j), np.complex64(1 + 1j), -0.0 + 1j))
    number = kinds.choice((float, int, float, float, lambda v: bool(v > 0), lambda v: int(v) * 2**40, str))
    if number is str and n > 10:
        number = float  # strings that double in each round
    items = [number(v) for v in made.integers(-4, 9, max(n, 2)) * kinds.choice((1, 0.5))]
    if kinds.random() < 0.2 and call:
        items[-1] = None
    boxes = random.Random(seed + call // 3)
    kind = boxes.choice((Box, Box, Slots, Watched))
    o = kind(boxes.choice((0, 0.5, 1.5, 2, np.float64(0.5), 2**62, "p")), boxes.choice((1, 0.25)))
    other = o if boxes.random() < 0.2 else boxes.choice((Box, kind))(boxes.choice((0, 0.5)), 2.0)
    return a, b, m, n, x, values.choice((0, 1, 2, -1, 3)), items, o, other
