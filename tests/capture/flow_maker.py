"""Random programs whose control flow goes by array values: branches, loops, early returns, effects on one side."""

from __future__ import annotations

import random

import numpy as np

ARRAYS = ("x", "y", "z")
SCALARS = ("s", "t")


class FlowMaker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0
        self.counters = 0
        # Some programs mostly move arrays between variables, others mostly leave loops and branches, or have a variable that is
        # of many kinds, or write into arrays where they stand, or choose elements.
        self.theme = self.random.choice(("", "", "moves", "exits", "kinds", "writes", "writes", "chooses", "chooses"))

    def program(self) -> str:
        self.lines = ["def main(x, y, s, n):", "    z = x * 0.5", "    t = y.max()", "    k = 0"]
        if self.theme == "kinds":
            self.put(1, "m = None")
        if self.theme == "writes":
            self.put(1, f"v = {self.view()}")
            self.put(1, "w = np.zeros(6)")
        if self.theme == "chooses":
            self.put(1, "c = y[y > 1.0]")
        self.block(1, self.random.randint(2, 5))
        if self.theme == "chooses" and self.random.random() < 0.6:
            self.put(1, f"return {self.pick('x, c', 'c.sum(), s, k', 'y, k, len(c)')}")
            return "\n".join(self.lines) + "\n"
        if self.theme == "kinds" and self.random.random() < 0.7:
            self.put(1, f"return {self.pick('x, m', 'm', 'x, y, z, m, k', 'm, s')}")
            return "\n".join(self.lines) + "\n"
        if self.theme == "writes" and self.random.random() < 0.7:
            self.put(1, f"return {self.pick('v, w', 'w, k', 'x, y, z, w', 'v.sum(), k', 'w + x, t')}")
            return "\n".join(self.lines) + "\n"
        results = ["x, y, z, s, t, k", "x, y, z, k", "x", "y, s", "(x, z), k", "z + t", "x, y"]
        self.put(1, f"return {self.random.choice(results[:3] if self.theme else results)}")
        return "\n".join(self.lines) + "\n"

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def number(self) -> str:
        return self.pick("0.5", "2.0", "1.25", "-1.0", "3", "0.1", "s", "t")

    def array(self) -> str:
        a, b = self.random.choice(ARRAYS), self.random.choice(ARRAYS)
        return self.pick(
            f"{a} * {self.number()}", f"{a} + {b}", f"{a} - {self.number()}", a, f"{a} * 0.5 + {b} * 0.25", f"np.abs({a})",
            f"np.sqrt({a})", f"np.where({a} > {b}, {a}, {b} * 0.5)", f"{a}[::-1] + 0.0", f"{a}.copy()", f"-{a}",
            f"np.minimum({a}, {b})", f"{a} / {b}", f"np.maximum({a}, {self.pick('0.5', '1.0')})",
        )

    def scalar(self) -> str:
        a = self.random.choice(ARRAYS)
        return self.pick(f"{a}.max().item()", f"int({a}.sum()) * 0.5", f"{a}.sum()", f"{a}.max()", f"{a}[1]", f"float({a}.sum())", "s * 0.5", "s + t", f"{a}.min() * 2.0", "t")

    def condition(self) -> str:
        a, b = self.random.choice(ARRAYS), self.random.choice(ARRAYS)
        simple = self.pick(
            f"{a}.sum() > {self.pick('0', '1.5', '-2.0', '10')}", f"{a}.max() < {b}.max()", f"{a}[0] > 0.3", f"s > {a}.min()",
            f"np.any({a} > 3)", f"({a} > -1).all()", f"{a}.sum()", f"t < {self.pick('1', '2.5')}", f"not {a}.min() > 0.1",
            f"bool({a}.max() > 1)",
        )
        if self.random.random() < 0.25:
            return f"{simple} {self.pick('and', 'or')} {self.condition()}"
        return simple

    def block(self, depth: int, count: int) -> None:
        for _ in range(count):
            self.statement(depth)

    def move(self, depth: int) -> None:
        a, b, c = self.random.sample(ARRAYS, 3)
        self.put(depth, self.pick(
            f"{a}, {b} = {b}, {a}", f"{a}, {b}, {c} = {b}, {c}, {a}", f"{a} = {b}", f"{a} = {b}", f"{a} = {b} = {self.array()}",
            f"{a}, {b} = {a} + {b}, {a}", f"{a}, {b} = {b}, {b}", "s, t = t, s", f"{a}, {c} = {c}.copy(), {a}",
        ))

    def view(self) -> str:
        a = self.random.choice(ARRAYS)
        return self.pick(f"{a}[1:5]", f"{a}[::-1]", f"{a}[::2]", f"{a}.reshape(2, 3)", f"{a}[:]", "w[2:]" if len(self.lines) > 5 else "y[3:]", a)

    def write(self, depth: int) -> None:
        a, b = self.random.choice((*ARRAYS, "w", "w")), self.random.choice((*ARRAYS, "w"))
        self.put(depth, self.pick(
            f"{a} += {self.pick('1.0', '0.5', b)}", f"{a} *= {self.pick('0.5', '-1.0')}", f"{a}[0] = {self.number()}", f"{a}[:] = {b}",
            f"{a}[1:] = {b}[:-1]", f"{a}[::2] = {b}[::-2]", f"{a}[2] = {b}.max()", f"{a}[{b} > 1.0] = {self.number()}",
            f"{a}[1:-1] = ({b}[2:] + {b}[:-2]) * 0.5", f"np.sqrt({b}, out={a})", f"v[0] = {self.number()}", "v += 0.25", "v *= 0.5",
            f"v = {self.view()}", f"t = {self.pick('v', 'w')}.sum()", f"s = {a}[1]", f"{a} = {b}", f"w = {b}.copy()", "w = np.zeros(6)",
        ))

    def choose(self, depth: int) -> None:
        a, b = self.random.choice((*ARRAYS, "c")), self.random.choice(ARRAYS)
        mask = self.pick(f"{a} > {self.pick('0', '0.5', 's')}", f"np.abs({a}) < 1", f"({a} > -1) & ({a} < 2)")
        self.put(depth, self.pick(
            f"c = {a}[{mask}]", f"c = {a}[{mask}] * 0.5", f"s = {a}[{mask}].sum()", f"k = k + len({a}[{mask}])", f"k += int(({mask}).sum())",
            f"d = {a}[{mask}]", "t = c.sum()", f"k = k + np.flatnonzero({mask}).size", f"t = {a}[np.nonzero({mask})].sum()",
            f"{b} = {b} + {a}[{mask}].sum()", "s = c.max() if len(c) else 0.0", f"s = {a}[{mask}].mean() if np.any({mask}) else 0.0",
            "c = c[c > 1]", f"{a}[{mask}] = {a}[{mask}] * 0.5", f"{b}[{b} > 1] = {self.number()}", f"s = float(np.sqrt({b}[{b} > 0.5]).sum())",
        ))
        if self.random.random() < 0.3:
            self.put(depth, f"if {self.pick('len(c) > 2', 'c.size', 'c.sum() > 1', 'k > 3')}:")
            self.put(depth + 1, self.pick("k = k + 1", f"{b} = {b} * 0.5", "s = c.sum()", f"s = {b}[{b} > 1].sum()", "c = c + 1.0"))

    def kind(self, depth: int) -> None:
        a = self.random.choice(ARRAYS)
        form = self.random.random()
        if form < 0.5:
            value = self.pick("None", "None", "'up'", "'down'", "2", "0.5", "k", "s", a, a, self.array(), self.scalar(), "m")
            if self.random.random() < 0.4:
                value = f"{value} if {self.condition()} else {self.pick('None', 'up', '3', 'm', a).replace('up', repr('up'))}"
            self.put(depth, f"m = {value}")
        elif form < 0.8:
            self.put(depth, f"if m {self.pick('is None', 'is not None', '== 2')}:" if self.random.random() < 0.6
                     else f"if isinstance(m, {self.pick('str', 'np.ndarray', 'float', 'int')}):")
            self.put(depth + 1, self.pick(f"{a} = {a} * 0.5", "m = None", "k = k + 1", f"m = {self.array()}", f"{a} = {a} + 1"))
        elif form < 0.9:
            self.put(depth, f"if isinstance(m, np.ndarray) {self.pick('and', 'or not')} {self.condition()}:")
            self.put(depth + 1, self.pick(f"m = {a}", "k = k + 1", f"m = {a}.max()"))
        else:
            self.put(depth, f"{a} = {a} * m if isinstance(m, (int, float, np.ndarray)) else {a} + 0.5")

    def leave(self, depth: int) -> None:
        self.put(depth, f"if {self.condition()}:")
        if self.random.random() < 0.3:
            depth += 1
            self.put(depth, f"if {self.condition()}:")
        ways = ["return x", "return y, k", "return x, y, z", "raise ValueError(k)", "raise KeyError(k)"]
        self.put(depth + 1, self.pick(*ways, *(["break", "continue"] * 3 if self.loops else ())))

    def statement(self, depth: int) -> None:
        kind = self.random.random()
        if self.theme and self.random.random() < 0.35:
            return {"moves": self.move, "exits": self.leave, "kinds": self.kind, "writes": self.write, "chooses": self.choose}[self.theme](depth)
        if depth < 4 and kind < 0.24:
            self.branch(depth)
        elif depth < 3 and kind < 0.36:
            self.while_loop(depth)
        elif depth < 3 and kind < 0.42:
            self.for_loop(depth)
        elif kind < 0.66:
            self.put(depth, f"{self.random.choice(ARRAYS)} = {self.array()}")
        elif kind < 0.78:
            self.put(depth, f"{self.random.choice(SCALARS)} = {self.scalar()}")
        elif kind < 0.84:
            self.put(depth, f"k = {self.pick('k + 1', 'k + 2', 'k * 2', 'k - 1', '7', 'k + int(x.max())', 'int(y.argmax())')}")
        elif kind < 0.87:
            self.put(depth, f"x, y = {self.pick('y, x', 'x + y, x', 'y, y')}")
        elif kind < 0.90:
            self.put(depth, self.pick("LOG.append(k)", "LOG.append(float(x[0]))", "STATE['n'] = k"))
        elif kind < 0.92:
            self.put(depth, self.pick("z = z.copy()", "x = x.copy()"))
            self.put(depth, self.pick("z += 1.0", "x *= 0.5", "z[0] = 2.0", "x[1:] = 0.25"))
        elif kind < 0.94:
            self.put(depth, f"if {self.condition()}:")
            self.put(depth + 1, self.pick("return x", "return y, k", "return x + 1", "return None", "raise ValueError(k)"))
        elif kind < 0.96:
            self.put(depth, f"y = y if {self.condition()} else {self.array()}")
        elif self.loops:
            self.put(depth, f"if {self.condition()}:")
            self.put(depth + 1, self.pick("break", "continue"))
        else:
            self.put(depth, f"t = {self.scalar()}")

    def branch(self, depth: int) -> None:
        self.put(depth, f"if {self.condition()}:")
        self.block(depth + 1, self.random.randint(1, 2))
        if self.random.random() < 0.3:
            self.put(depth, f"elif {self.condition()}:")
            self.block(depth + 1, 1)
        if self.random.random() < 0.6:
            self.put(depth, "else:")
            self.block(depth + 1, self.random.randint(1, 2))

    def while_loop(self, depth: int) -> None:
        # Each loop ends by a counter of its own at the latest, which `continue` cannot pass by.
        self.counters += 1
        c = f"c{self.counters}"
        self.put(depth, f"{c} = 0")
        form = self.random.random()
        self.loops += 1
        if form < 0.5:
            condition = f"({self.condition()}) and {c} < n" if self.random.random() < 0.7 else f"{c} < n"
            self.put(depth, f"while {condition}:")
            self.put(depth + 1, f"{c} += 1")
            self.block(depth + 1, self.random.randint(1, 3))
        elif form < 0.75:
            a = self.random.choice(ARRAYS)
            self.put(depth, f"{a} = np.abs({a}) + 1.0")
            self.put(depth, f"while {a}.max() < {self.pick('50.0', '9.0')}:")
            self.put(depth + 1, f"{a} = {a} * 1.5")
            if self.random.random() < 0.5:
                self.put(depth + 1, f"{self.pick(*(set(ARRAYS) - {a}))} = {a} + 0.5")
        else:
            self.put(depth, "while True:")
            self.put(depth + 1, f"{c} = {c} + 1")
            self.put(depth + 1, f"if {c} > n or {self.condition()}:")
            self.put(depth + 2, self.pick("break", "break", "return x, k"))
            self.block(depth + 1, self.random.randint(1, 2))
        self.loops -= 1

    def for_loop(self, depth: int) -> None:
        self.put(depth, self.pick("for i in range(3):", "for row in x.reshape(2, 3):", "for i in (1, 2):"))
        self.loops += 1
        self.block(depth + 1, self.random.randint(1, 2))
        self.loops -= 1


def arguments(seed: int, call: int) -> tuple:
    random_state = np.random.default_rng(seed * 31 + call)
    x = np.round(random_state.normal(size=6) * 2, 2)
    y = np.round(random_state.uniform(0.1, 3.0, size=6), 2)
    if call % 3 == 2:
        x = np.abs(x) + 0.5
    if seed % 7 == 0:
        x = x.astype(np.float32)
    return x, y, 1.5 if call < 3 else 0.25, (4, 4, 3, 5, 1)[call] if seed % 3 else 4
