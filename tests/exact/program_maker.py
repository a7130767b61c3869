"""Random NumPy programs. A program is grown by running it: each expression is evaluated as it is made, and what comes next is chosen to fit
its dtype and shape, so that most statements compute something; a few that raise are kept in a `try`.

test_random.py runs them.
"""

from __future__ import annotations

import random
import re
import warnings
from typing import Any, Callable

import numpy as np

Made = tuple[str, Any]  # the text of an expression and its value here

FLOAT_DTYPES = ["float64", "float64", "float64", "float32", "float32", "float16"]
DTYPES = [*FLOAT_DTYPES, "int64", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool", "complex128", "complex64"]
SHAPES = [(4, 3), (5,), (5,), (1,), (2, 1), (17,), (33,), (3, 3), (0,), (), (2, 3, 4), (1, 5), (3, 0), (130,), (40, 7)]
LAYOUTS = ["plain", "plain", "plain", "plain", "fortran", "strided", "reversed", "cut", "permuted", "broadcast", "read-only", "misaligned"]

UNARY = ["negative", "positive", "absolute", "sign", "square", "reciprocal", "sqrt", "cbrt", "floor", "ceil", "rint", "trunc", "exp", "exp2", "expm1",
         "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh",
         "arctanh", "isnan", "isinf", "isfinite", "invert", "logical_not", "deg2rad", "degrees", "conjugate", "fabs", "spacing"]  # fmt: skip
BINARY = ["add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "power", "arctan2", "hypot", "logaddexp",
          "logaddexp2", "nextafter", "heaviside", "gcd", "lcm", "minimum", "maximum", "equal", "not_equal", "less", "less_equal", "greater",
          "greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "logical_and", "logical_or",
          "logical_xor", "float_power", "ldexp", "copysign"]  # fmt: skip
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^", "<<", ">>"]
REDUCTIONS = ["sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "ptp", "argmin", "argmax", "cumsum", "cumprod", "median",
              "count_nonzero", "nansum", "nanmean", "nanmax", "nanmin", "nanstd", "nanprod", "average", "nanargmax", "nanmedian"]  # fmt: skip
METHODS = {"sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "argmin", "argmax", "cumsum", "cumprod"}
ERRSTATES = ["all='ignore'", "all='raise'", "over='raise'", "divide='ignore', invalid='raise'", "under='warn'", "all='warn'", "divide='raise'",
             "invalid='ignore'", "all='call', call=lambda kind, flags: box.append(kind)"]  # fmt: skip
# About operators whose result tells one NaN's sign or payload from another's, which NumPy itself leaves to an element's position.
TELLS_NANS = {"copysign", "spacing", "nextafter"}


# A loop may double what it makes.
LARGEST = 2500


def too_large(value: Any) -> bool:
    return (is_array(value) and (value.size > LARGEST or value.ndim > 4)) or (isinstance(value, int) and abs(value) > 2**64)


def has_nan(value: Any) -> bool:
    array = np.asarray(value)
    return array.dtype.kind in "fc" and bool(np.isnan(array).any())


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def fits(a: Any, b: Any) -> bool:
    try:
        return np.broadcast_shapes(np.shape(a), np.shape(b)) is not None
    except ValueError:
        return False


# NumPy 2.4 itself falls over unsigned numbers compared with a negative one under `where`.
CRASHES = re.compile(r"np\.(greater|less|equal|not_equal)\w*\(.*-\d.*where=")
# With an output of 4 or 8 elements' stride, NumPy 2.4's loops for AVX2 compute these wrongly: docs/usage.md.
WRONG_IN_PLACES = {"negative", "isfinite"}


class Maker:
    """One program: `source`, and `arguments(variant)`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.argument_plans = [(n, self.pick(DTYPES), self.pick(SHAPES), self.pick(LAYOUTS), self.chance(0.4)) for n in "abc"]
        self.shared = self.chance(0.2)  # c is a view of a's memory
        self.scope: dict[str, Any] = {"np": np, "helper": helper, "halve": halve, "COUNT": 3, "TABLE": {"scale": 1.5}}
        self.scope.update(zip(("a", "b", "c", "k", "n", "box"), self.arguments(0)))
        self.names = ["a", "b", "c"]
        self.lines: list[str] = []
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for _ in range(self.random.randint(2, 9)):
                self.statement(1)
        result = ", ".join([*self.names, "box"])
        self.source = "def program(a, b, c, k, n, box):\n" + "\n".join(self.lines) + f"\n    return {result}\n"
        del self.scope

    # ---- chances

    def pick(self, items: Any) -> Any:
        return items[self.random.randrange(len(items))]

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    # ---- arguments

    def arguments(self, variant: int) -> tuple:
        """Fresh arguments; another variant has other lengths and values."""
        rng = np.random.default_rng([self.seed, variant])
        with np.errstate(all="ignore"):
            made = [make_array(rng, d, vary(s, variant), layout, special) for _, d, s, layout, special in self.argument_plans]
        if self.shared and made[0].ndim and made[0].shape[0] > 1:
            made[2] = made[0][1:] if self.seed % 2 else made[0][::-1]
        return (*made, 0.75, 3 + variant, [made[0], 2])

    # ---- trying

    def value(self, text: str) -> tuple[bool, Any]:
        if CRASHES.search(text):
            return False, "ends the process"
        try:
            found = eval(text, self.scope)
        except Exception as error:
            return False, error
        return not too_large(found), found

    def made(self, text: str) -> Made | None:
        ok, found = self.value(text)
        return (text, found) if ok else None

    # ---- expressions

    def variable(self, wanted: Callable[[Any], bool] = lambda v: True) -> Made | None:
        names = [n for n in self.names if wanted(self.scope[n])]
        return (name := self.pick(names), self.scope[name]) if names else None

    def array(self, depth: int = 1) -> Made:
        for _ in range(6):
            found = self.expression(depth)
            if is_array(found[1]):
                return found
        return self.variable(is_array) or ("np.ones(3)", np.ones(3))

    def number(self) -> Made:
        text = self.pick(["2", "0.5", "-1", "k", "n", "True", "np.float32(1.5)", "1e300", "np.int64(3)", "0", "3.0", "-0.0", "np.float64(k)",
                          "COUNT", "TABLE['scale']", "1j", "np.uint8(200)", "len(box)", "100"])  # fmt: skip
        return text, eval(text, self.scope)

    def partner(self, x: Any, depth: int) -> Made:
        """An operand that broadcasts with x."""
        if self.chance(0.3):
            return self.number()
        for _ in range(4):
            y = self.expression(depth)
            if fits(x, y[1]):
                return y
        return self.number()

    def expression(self, depth: int) -> Made:
        if depth <= 0:
            return self.variable() or self.number()
        for _ in range(5):
            make = self.pick(EXPRESSIONS)
            text = make(self, depth)
            found = self.made(text) if text else None
            if found is not None and isinstance(found[1], (np.ndarray, np.generic, int, float, complex)):
                return found
        return self.variable() or self.number()

    def axis(self, x: Any, several: bool = True) -> str:
        ndim = np.ndim(x)
        choices = ["None"] if ndim == 0 else ["None", "0", "-1", str(ndim - 1)]
        if ndim >= 2 and several:
            choices += ["(0, 1)", "(-1, 0)", "()"]
        return self.pick(choices)

    def key(self, x: np.ndarray) -> str:
        """An index of x."""
        parts = []
        for length in x.shape[: self.random.randint(0, x.ndim)]:
            ints = [0, -1, length // 2 if length else 0]
            kind = self.random.random()
            if kind < 0.22:
                parts.append(str(self.pick(ints)))
            elif kind < 0.75:
                parts.append(self.pick([":", "1:", ":-1", "::2", "::-1", "1:-1", ":n", "-2:", "::-2", "n:", "1:2", "len(box):",
                                        "int((a != 0).sum()) // 3:int((a != 0).sum())", "np.argmax(b) // 2:np.argmax(b)"]))  # fmt: skip
            elif kind < 0.85:
                parts.append(self.pick(["[0, -1]", "np.array([0, 0])", "np.arange(2) % 2", "np.array([[0], [-1]])", "[0]", "np.array([-1, 0], 'i4')"]))
            elif kind < 0.92:
                parts.append("np.array([False, True])[np.arange(%d) %% 2]" % length)
            else:
                parts.append("None")
        if self.chance(0.15):
            parts.insert(self.random.randint(0, len(parts)), "...")
        if self.chance(0.1):
            parts.append("None")
        return ", ".join(parts) or "..."

    def target(self, shape: tuple, kinds: str = "fiubc") -> str | None:
        """A place that an array of this shape can be written to: for out=."""
        found = self.variable(lambda v: is_array(v) and v.shape == shape and v.flags.writeable and v.dtype.kind in kinds)
        pick = self.random.random()
        if found and pick < 0.6:
            return found[0]
        longer = self.variable(lambda v: is_array(v) and v.ndim == 1 and len(shape) == 1 and v.size == shape[0] + 1 and v.flags.writeable)
        if longer:
            return f"{longer[0]}[1:]" if pick < 0.8 else f"{longer[0]}[:-1]"
        return f"np.zeros({shape}, '{self.pick(['f8', 'f4', 'i8', '?', 'c16', 'f2'])}')"

    def mask(self, shape: tuple) -> str:
        found = self.variable(lambda v: is_array(v) and v.shape == shape)
        if found and self.chance(0.8):
            return self.pick([f"{found[0]} > 0", f"{found[0]} != 0", f"~({found[0]} == {found[0]})", f"{found[0]} < k"])
        return self.pick(["True", "np.bool_(True)", "[True]", f"np.ones({shape}, bool)"])

    def ufunc_keywords(self, result: Any, out: bool = True) -> str:
        """Some of out=, where=, dtype=, casting=, for a result like this one."""
        words = ""
        if self.chance(0.5):
            return words
        if out and is_array(result) and self.chance(0.6):
            place = self.target(result.shape)
            words += self.pick([f", out={place}", f", {place}", f", out=({place},)"])
            if self.chance(0.4):
                words += f", where={self.mask(result.shape)}"
        if self.chance(0.3):
            words += f", dtype={self.pick(['np.float64', 'np.float32', repr('f8'), 'float', 'np.int64', repr('f2'), 'complex', 'bool'])}"
        if self.chance(0.2):
            words += f", casting={self.pick(['unsafe', 'same_kind', 'safe', 'no'])!r}"
        return words

    # ---- statements

    def add(self, depth: int, lines: list[str], keep_errors: bool = True) -> bool:
        """Runs the lines; keeps them if they ran, and some of those that raised, in a `try`."""
        text = "\n".join(lines)
        indent = "    " * depth
        try:
            exec(text, self.scope)
        except Exception:
            if not keep_errors or not self.chance(0.1):
                return False
            lines = ["try:", *["    " + line for line in lines], "except Exception as error:", "    box.append(str(error))"]
        for n in self.names:
            if too_large(self.scope[n]):
                self.scope[n] = self.scope["a"]
                lines = [*lines, f"{n} = a"]
        self.lines += [indent + line for line in lines]
        return True

    def assignment(self, depth: int) -> list[str]:
        text, value = self.expression(self.random.randint(1, 3))
        if self.chance(0.55) and len(self.names) < 7 and depth == 1:
            name = "defgh"[len(self.names) - 3]
            if self.add(depth, [f"{name} = {text}"], keep_errors=False):
                self.names.append(name)
            return []
        return [f"{self.pick(self.names)} = {text}"]

    def statement(self, depth: int) -> None:
        pick = self.random.random()
        if pick < 0.30:
            lines = self.assignment(depth)
            if lines:
                self.add(depth, lines)
        elif pick < 0.82:
            text = self.pick(STATEMENTS)(self)
            if text:
                self.add(depth, [text])
        elif depth < 3:
            self.block(depth)

    def grows(self, body: str) -> bool:
        """Runs the body of a loop again."""
        for _ in range(3):
            try:
                exec(body, self.scope)
            except Exception:
                return False
            if any(too_large(self.scope[n]) for n in self.names):
                return True
        return False

    def block(self, depth: int) -> None:
        head = self.pick(["if {test}:", "for i in range({count}):", "with np.errstate({state}):", "with np.errstate({state}):", "try:"])
        x = self.variable(is_array) or ("a", self.scope["a"])
        y = self.number()
        test = self.pick([f"np.any({x[0]} > 1)", f"{x[0]}.sum() > {y[0]}", "len(box) > 2", f"{x[0]}.ndim == 1", "n > 2", f"({x[0]} == {x[0]}).all()"])
        line = head.format(test=test, count=self.pick(["2", "n", "COUNT"]), state=self.pick(ERRSTATES))
        before = len(self.lines)
        self.lines.append("    " * depth + line)
        self.scope["i"] = 1
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth + 1)
        if len(self.lines) == before + 1:
            self.lines.append("    " * (depth + 1) + "pass")
        if line.startswith("for") and self.grows("\n".join(text[4 * (depth + 1) :] for text in self.lines[before + 1 :])):
            del self.lines[before:]
            return
        if line == "try:":
            self.lines += ["    " * depth + "except (ValueError, TypeError, FloatingPointError, IndexError) as error:",
                           "    " * (depth + 1) + "box.append(type(error).__name__ + str(error))"]  # fmt: skip
        elif line.startswith("if") and self.chance(0.3):
            self.lines.append("    " * depth + "else:")
            at = len(self.lines)
            self.statement(depth + 1)
            if len(self.lines) == at:
                self.lines.append("    " * (depth + 1) + "box.append(0)")


# ---- what an expression may be; None: not with these operands


def unary_call(m: Maker, depth: int) -> str | None:
    x = m.expression(depth - 1)
    name = m.pick(UNARY)
    if name in TELLS_NANS and has_nan(x[1]):
        return None
    return f"np.{name}({x[0]}{m.ufunc_keywords(x[1], out=name not in WRONG_IN_PLACES)})"


def binary_call(m: Maker, depth: int) -> str | None:
    x = m.expression(depth - 1)
    y = m.partner(x[1], depth - 1)
    name = m.pick(BINARY)
    if name in TELLS_NANS and (has_nan(x[1]) or has_nan(y[1])):
        return None
    if m.chance(0.3):
        x, y = y, x
    plain = m.made(f"np.{name}({x[0]}, {y[0]})")
    if not plain:
        return None
    return f"np.{name}({x[0]}, {y[0]}{m.ufunc_keywords(plain[1])})"


def operator(m: Maker, depth: int) -> str | None:
    x = m.expression(depth - 1)
    y = m.partner(x[1], depth - 1)
    if m.chance(0.3):
        x, y = y, x
    sign = m.pick(OPERATORS)
    if sign in ("**", "<<") and isinstance(x[1], int) and isinstance(y[1], int):
        return None
    return f"({x[0]} {sign} {y[0]})"


def unary_operator(m: Maker, depth: int) -> str:
    return f"({m.pick(['-', '+', '~', 'abs'])}({m.expression(depth - 1)[0]}))"


def reduction(m: Maker, depth: int) -> str:
    x = m.array(depth - 1)
    name = m.pick(REDUCTIONS)
    words = ""
    one_axis = name in ("argmin", "argmax", "cumsum", "cumprod", "nanargmax")
    if m.chance(0.7):
        words += f", axis={m.axis(x[1], not one_axis)}"
    if m.chance(0.25):
        words += f", keepdims={m.pick(['True', 'False'])}"
    if m.chance(0.12) and name in ("sum", "prod", "mean", "var", "std", "cumsum", "cumprod", "nansum"):
        words += f", dtype={m.pick(['np.float64', 'np.float32', 'np.int64', 'float', repr('f2'), 'complex'])}"
    if m.chance(0.1) and name in ("sum", "prod", "min", "max", "nansum"):
        words += f", initial={m.pick(['0', '1', '2.5', '-1'])}"
    if m.chance(0.12) and name in ("sum", "prod", "mean", "any", "all", "min", "max", "var"):
        words += f", where={m.mask(x[1].shape)}"
    if m.chance(0.1) and name in ("var", "std"):
        words += f", ddof={m.pick(['1', '0', 'n'])}"
    if name in METHODS and m.chance(0.5):
        text = f"{x[0]}.{name}({words[2:]})"
    else:
        text = f"np.{name}({x[0]}{words})"
    if m.chance(0.12):
        plain = m.made(text)
        if plain and is_array(plain[1]):
            text = f"{text[:-1]}{', ' if text[-2] != '(' else ''}out={m.target(plain[1].shape)})"
    return text


def ufunc_method(m: Maker, depth: int) -> str:
    x = m.array(depth - 1)
    name = m.pick(["add", "multiply", "maximum", "minimum", "logical_or", "logical_and", "bitwise_xor", "subtract", "divide", "hypot", "fmax"])
    how = m.pick(["reduce", "reduce", "accumulate", "outer", "reduceat"])
    if how == "outer":
        return f"np.{name}.outer({x[0]}, {m.expression(depth - 1)[0]})"
    if how == "reduceat":
        return f"np.{name}.reduceat({x[0]}, [0, {max(len(x[1]) - 1, 0) if x[1].ndim else 0}, 0], axis={m.axis(x[1], False)})"
    words = f", axis={m.axis(x[1], how == 'reduce')}" if m.chance(0.6) else ""
    if how == "reduce" and m.chance(0.3):
        words += m.pick([", keepdims=True", ", initial=0", ", dtype='f8'", ", dtype=np.float32"])
    return f"np.{name}.{how}({x[0]}{words})"


def indexed(m: Maker, depth: int) -> str:
    x = m.array(depth - 1)
    if m.chance(0.15):
        return f"{x[0]}[{m.mask(x[1].shape)}]"
    return f"{x[0]}[{m.key(x[1])}]"


SHAPED = [
    "{x}.T", "{x}.copy()", "{x}.copy('F')", "{x}.ravel()", "{x}.reshape(-1)", "{x}.reshape(-1, 1)", "{x}.reshape((1, -1))", "np.ravel({x}, order='F')",
    "np.flip({x})", "np.flip({x}, {a})", "np.roll({x}, 1)", "np.roll({x}, {k}, axis={a})", "np.expand_dims({x}, 0)", "np.squeeze({x})", "np.atleast_2d({x})",
    "np.moveaxis({x}, 0, -1)", "np.swapaxes({x}, 0, -1)", "np.transpose({x})", "np.tile({x}, 2)", "np.tile({x}, (2, 1))", "np.repeat({x}, 2)",
    "np.repeat({x}, 2, axis={a})", "np.pad({x}, 1)", "np.pad({x}, 1, mode='edge')", "np.pad({x}, (1, 0), mode='wrap')", "np.diff({x})",
    "np.diff({x}, axis={a})", "np.concatenate(({x}, {x}), axis={a})", "np.stack([{x}, {x}])", "np.stack([{x}, {x}], axis=-1)", "np.hstack(({x}, {x}))",
    "np.vstack(({x}, {x}))", "np.array([{x}, {x}])", "np.triu({x})", "np.tril({x}, -1)", "np.rot90({x})", "np.broadcast_to({x}, (2,) + {x}.shape)",
    "np.split({x}, 1)[0]", "np.array_split({x}, 2)[0]", "np.asarray({x})", "np.ascontiguousarray({x})", "np.asarray({x}, dtype='f4')",
    "{x}.astype('f4')", "{x}.astype('i4')", "{x}.astype('f2')", "{x}.astype(float)", "{x}.astype('c8')", "{x}.astype(bool)", "{x}.astype('u1')",
    "{x}.astype('i8', order='F')", "{x}.astype({x}.dtype, copy=False)", "np.zeros_like({x})", "np.full_like({x}, 3)", "np.ones({x}.shape)",
    "(np.empty_like({x}) * 0 + 1 if {x}.dtype.kind in 'iub' else {x})", "np.sort({x})", "np.sort({x}, axis=None)", "np.argsort({x}, axis=None, kind='stable')",
    "np.cumsum({x})", "np.nan_to_num({x})", "np.clip({x}, -1, 1)", "np.clip({x}, 0, None)", "np.round({x}, 1)", "{x}.round()", "np.median({x})",
    "np.percentile({x}, 30)", "np.trace({x})", "np.diagonal({x})", "np.diag({x})", "np.unique({x})", "np.bincount(np.abs({x}.astype('u1')))",
    "np.gradient({x})", "np.take({x}, [0, 0])", "np.take({x}, 0, axis={a})", "np.interp({x}, [0.0, 1.0, 2.0], [1.0, 4.0, 9.0])", "np.searchsorted([0, 1, 2], {x})",
    "np.digitize({x}, [0.0, 1.0])", "np.nonzero({x})[0]", "np.flatnonzero({x})", "np.argwhere({x})", "np.sum({x} * 2, axis={a})", "{x}.real", "{x}.imag",
    "{x}.size", "{x}.shape[0]", "float({x}.sum())", "int(np.argmax({x}))", "{x}.item()", "len({x})", "np.linalg.norm({x})", "np.isclose({x}, 1)",
    "np.where({x} > 0)[0]", "np.sign({x}) * {x}", "np.exp({x}) / np.exp({x}).sum()", "({x} - {x}.mean()) / 2", "np.meshgrid({x}, {x})[0]",
    "np.linspace(0, 1, 4) + {x}", "np.arange(n) * {x}", "np.eye(n)", "halve({x})", "{x}.view()", "{x}.flatten()", "np.apply_along_axis(np.sum, 0, {x})",
    "np.nan_to_num({x}, nan=1.0)", "np.histogram({x}, bins=3)[0]", "np.divmod({x}, 2)[0]", "np.modf({x})[1]", "np.frexp({x})[0]", "np.divmod({x}, {x})[1]",
    "np.unique({x}, return_counts=True)[1]", "np.fft.fft({x})", "np.fft.rfft({x})", "np.convolve({x}, [1.0, 2.0])", "np.ediff1d({x})", "np.trapezoid({x})",
    "np.einsum('i->', {x})", "np.einsum('ij->ji', {x})", "np.cov({x})", "np.packbits({x} > 0)", "np.lexsort(({x}, {x}))", "np.partition({x}, 1)",
]  # fmt: skip


def shaped(m: Maker, depth: int) -> str:
    x = m.array(depth - 1)
    return m.pick(SHAPED).format(x=x[0], a=m.axis(x[1], False), k=m.pick(["1", "-2", "n"]))


PAIRED = [
    "np.where({x} > {y}, {x}, {y})", "np.where({x} != 0, {x}, {n})", "np.concatenate(({x}, {y}))", "np.concatenate(({x}, {y}), axis=None)", "np.vstack(({x}, {y}))",
    "np.outer({x}, {y})", "{x} @ {y}", "np.dot({x}, {y})", "np.matmul({x}, {y})", "np.inner({x}, {y})", "np.vdot({x}, {y})", "np.tensordot({x}, {y}, axes=1)",
    "np.kron({x}, {y})", "np.cross({x}, {y})", "np.select([{x} > {y}], [{x}], default=0)", "np.allclose({x}, {y})", "np.array_equal({x}, {y})",
    "np.isin({x}, {y})", "np.append({x}, {y})", "np.array([{x}, {y}])", "np.column_stack(({x}, {y}))", "np.broadcast_arrays({x}, {y})[0]", "helper({x}, {y})",
    "helper({x}, y={n})", "np.einsum('i,i->', {x}, {y})", "np.einsum('ij,jk', {x}, {y})", "np.choose({x} > 0, [{x}, {y}])", "np.average({x}, weights={y})",
    "np.convolve({x}, {y}, 'same')", "np.correlate({x}, {y})", "np.minimum({x}, {y}).max()", "np.clip({x}, {y}, {n})", "np.searchsorted(np.sort({x}), {y})",
    "np.union1d({x}, {y})", "np.linalg.solve({x}, {y})", "np.polyval({x}, {y})", "np.hypot({x}, {y}) + {n}", "np.intersect1d({x}, {y})", "np.extract({x} > 0, {y})",
    "(lambda u, v: u * v)({x}, {y})", "sum([{x}, {y}])", "max(len({x}), 2) * {y}", "np.isclose({x}, {y}, equal_nan=True)", "{x} if {y} == {n} else {y}",
]  # fmt: skip


def paired(m: Maker, depth: int) -> str:
    x = m.array(depth - 1)
    y = m.partner(x[1], depth - 1)
    return m.pick(PAIRED).format(x=x[0], y=y[0], n=m.number()[0])


EXPRESSIONS = [unary_call, binary_call, binary_call, operator, operator, operator, unary_operator, reduction, reduction, ufunc_method, indexed, indexed,
               shaped, shaped, shaped, paired, lambda m, depth: (m.variable() or m.number())[0]]  # fmt: skip


# ---- and a statement


def written(m: Maker) -> Made | None:
    return m.variable(lambda v: is_array(v) and v.flags.writeable)


def update(m: Maker) -> str | None:
    if not (x := written(m) if m.chance(0.9) else m.variable()):
        return None
    y = m.partner(x[1], 2)
    sign = m.pick(["+", "-", "*", "/", "//", "%", "**", "&", "|", "<<"] if is_array(x[1]) else ["+", "-", "*"])
    # Where integers to a negative power raise, NumPy leaves in the array what its buffer held before.
    return f"{x[0]} {sign}= {f'abs({y[0]})' if sign == '**' else y[0]}"


def item_update(m: Maker) -> str | None:
    if not (x := written(m)):
        return None
    key = m.key(x[1]) if m.chance(0.8) else m.mask(x[1].shape)
    part = m.made(f"{x[0]}[{key}]")
    if not part:
        return None
    y = m.partner(part[1], 2)
    return f"{x[0]}[{key}] {m.pick(['', '', '', '+', '-', '*', '//'])}= {y[0]}"


def view_statement(m: Maker) -> str | None:
    if not (x := m.variable(lambda v: is_array(v) and v.ndim >= 1)):
        return None
    to = m.pick([n for n in m.names if n not in "abc"] or ["c"])
    return f"{to} = {x[0]}[{m.pick(['1:', ':-1', '::-1', '::2', '...', 'None', '-2:'])}]"


def shift(m: Maker) -> str | None:
    """Overlapping reads and writes."""
    if not (x := m.variable(lambda v: is_array(v) and v.ndim >= 1 and v.flags.writeable and len(v) > 2)):
        return None
    v = x[0]
    return m.pick([f"{v}[1:] = {v}[:-1]", f"{v}[:-1] += {v}[1:]", f"{v}[:] = {v}[::-1]", f"np.add({v}[1:], {v}[:-1], out={v}[1:])", f"{v}[1:-1] = ({v}[:-2] + {v}[2:]) / 2",
                   f"np.multiply({v}[:-1], 2, out={v}[1:])", f"{v} += {v}.T", f"np.exp({v}[1:], out={v}[:-1])", f"{v}[::-1] -= {v}", f"np.copyto({v}[1:], {v}[:-1])",
                   f"np.sqrt({v}, out={v})", f"np.maximum({v}, {v}[::-1], {v})", f"np.cumsum({v}, axis=0, out={v})", f"np.logical_not({v}, out={v})"])  # fmt: skip


def call_statement(m: Maker) -> str | None:
    if not (x := written(m)):
        return None
    v = x[0]
    y, n = m.partner(x[1], 1)[0], m.number()[0]
    return m.pick([f"{v}.fill({n})", f"{v}.sort()", f"{v}.sort(axis=0)", f"np.copyto({v}, {y}, casting='unsafe')", f"np.copyto({v}, {y}, where={m.mask(x[1].shape)})",
                   f"np.put({v}, [0, -1], {n})", f"np.putmask({v}, {v} > 0, {n})", f"np.add.at({v}, [0, 0, -1], {n})", f"np.subtract.at({v}, np.array([0, 1]), {y})",
                   f"np.place({v}, {v} < 0, [1, 2])", f"np.fill_diagonal({v}, {n})", f"{v}.flat[0] = {n}", f"{v}.flags.writeable = False",
                   f"np.divide({v}, {y}, out={v}, where={v} != 0)", f"{v}.shape = {v}.shape[::-1]", f"np.clip({v}, -1, 1, out={v})", f"np.take({v}, [0], out={v}[:1])",
                   f"np.random.default_rng(n).shuffle({v})", f"{v}.partition(0)", f"{v}.resize({v}.shape)", f"np.negative({v}, out={v}, where={m.mask(x[1].shape)})"])  # fmt: skip


NOTES = [
    "box.append({x})", "box[0] = {x}", "box += [{x}]", "box.append(repr({v}.dtype))", "box.append({v}.shape)", "box.append({v}.strides)", "print(end='')",
    "assert {v} is not None", "box.append({v}.flags.c_contiguous)", "box.append(np.random.default_rng(n).normal(size={v}.shape))", "box.append({v}.tolist())",
    "box.append(type({x}).__name__)", "box.extend(divmod({x}, 2))", "box.extend(np.modf({v}))", "box.append([{x}, {v}])", "box.append({v}.base is None)",
    "box.append(np.shares_memory({v}, a))", "box.append([e for e in {v}])", "box.append(str({v}))", "box.append(halve({x}))", "box.append(hasattr({v}, 'T'))",
    "box.extend(np.unique({v}, return_inverse=True))", "box.append(np.may_share_memory({v}, b))", "box.append(id({v}) == id(a))", "box.append(bool({x}))",
]  # fmt: skip


def note(m: Maker) -> str:
    x = m.expression(2)
    return m.pick(NOTES).format(x=x[0], v=(m.variable(is_array) or x)[0])


STATEMENTS = [update, update, update, item_update, item_update, item_update, item_update, view_statement, shift, shift, call_statement, call_statement, note]


# ---- arguments


def vary(shape: tuple, variant: int) -> tuple:
    return tuple(length + 2 * variant if length > 2 else length for length in shape)


def make_array(rng: np.random.Generator, dtype: str, shape: tuple, layout: str, special: bool) -> np.ndarray:
    x = values(rng, dtype, int(np.prod(shape)), special).reshape(shape)
    if layout == "fortran":
        return np.asfortranarray(x)
    if layout == "read-only":
        x.flags.writeable = False
        return x
    if layout == "misaligned":
        raw = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(shape)
        raw[...] = x
        return raw
    if x.ndim == 0:
        return x
    if layout == "strided":
        wide = np.zeros((*shape[:-1], shape[-1] * 2 + 40), dtype)[..., 20 : 20 + 2 * shape[-1] : 2]
    elif layout == "reversed":
        wide = np.zeros((*shape[:-1], shape[-1] + 40), dtype)[..., 20 : 20 + shape[-1]][..., ::-1]
    elif layout == "cut":
        wide = np.zeros(tuple(n + 2 for n in shape), dtype)[tuple(slice(1, n + 1) for n in shape)]
    elif layout == "permuted":
        wide = np.zeros((*shape[1:], shape[0]), dtype).transpose(len(shape) - 1, *range(len(shape) - 1))
    elif layout == "broadcast":
        return np.broadcast_to(x[:1], shape) if shape[0] else x
    else:
        return x
    wide[...] = x
    return wide


def values(rng: np.random.Generator, dtype: str, count: int, special: bool) -> np.ndarray:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if kind in "iu":
        info = np.iinfo(dtype)
        found = rng.integers(0 if kind == "u" else -9, 20, count).astype(dtype)
        extremes = np.array([0, 1, info.min, info.max, info.max - 1], dtype)
    elif kind == "c":
        return (values(rng, "f8", count, special) + 1j * np.nan_to_num(values(rng, "f8", count, False))).astype(dtype)
    else:
        info = np.finfo(dtype)
        found = rng.normal(0, 3, count).astype(dtype)
        extremes = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, info.tiny / 4, info.max, -info.max, 1.0, -1.0], dtype)
    if special and count:
        at = rng.random(count) < 0.15
        found[at] = extremes[rng.integers(0, len(extremes), int(at.sum()))]
    return found


def helper(x, y=2.0):
    z = x * 0.5
    return z + y


def halve(x):
    def inner(y):
        return y / 2

    return inner(x)
