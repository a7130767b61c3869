"""Random calls of the functions and methods of Tensors, operators, items and writes: captured they give what they give eagerly, bits, dtypes,
shapes, views and errors, and so do their gradients. Arguments are chosen by the names of parameters, wrong ones too.

FRAMEJIT_TEST_PROGRAMS=N runs N programs of each kind; FRAMEJIT_TEST_SEED=S begins at seed S.
"""

from __future__ import annotations

import inspect
import os
import random
import warnings

import framejit as fj
import framejit.numpy as mnp
import numpy as np
import pytest
from framejit import Tensor, mint, ops

pytestmark = pytest.mark.capture
COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "160"))
FIRST = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))

DTYPES = [*["float32"] * 6, "float16", "float64", "bfloat16", "int32", "int32", "int64", "int8", "int16", "uint8", "bool_", "complex64", "complex128"]
SHAPES = [(), (1,), (3,), (3,), (2, 3), (2, 3), (1, 3), (2, 1), (0,), (0, 3), (2, 0), (2, 3, 4), (1, 3, 1), (3, 3), (4, 3, 3), (2, 2, 3, 3)]
FLOATS = ("float32", "float64", "float16")

# By the name of the parameter: what it may be. T: a Tensor; I: a Tensor of indices; A: an axis, or several.
WORDS = {
    "T": "input x y other self tensor input_x x1 x2 A B b weight target logits labels output vec vec1 vec2 mat1 mat2 values a src condition mask updates v q",
    "I": "indices index segment_ids",
    "A": "axis dim dims axes",
    "D": "source destination dim0 dim1 dim2 axis1 axis2 start_dim end_dim",
    "True|False": "keepdim keep_dims keepdims unbiased descending largest sorted upper right return_inverse return_counts equal_nan exclusive reverse periodic",
    "0|1|2|3|-1|2": "n k offset diagonal chunks depth ddof correction num_segments shifts repeats decimals sections indices_or_sections split_size_or_sections",
    "0|1|5|-1|2.5": "start end step stop ord steps minlength bins",
    "0.5|1|2|0|-1|3": "alpha beta eps p margin lambd value fill_value threshold negative_slope rtol atol delta min_val max_val min max low high nan",
    "(2, 3)|(3,)|(-1,)|()|6|(1, 3, 2)": "shape size newshape",
    "1|2|3|(2, 2)": "kernel_size stride padding output_size",
    "fj.float32|fj.int32|fj.int8|fj.float16|fj.bool_|fj.complex64": "dtype type",
    "'mean'|'sum'|'none'": "reduction",
    "'floor'|'trunc'|None": "rounding_mode",
}
CHOICES = {name: kind for kind, names in WORDS.items() for name in names.split()}
RANDOM = "rand|normal|uniform|laplace|gamma|multinomial|dropout|bernoulli|cauchy|exponential|shuffle|sampl|rrelu|poisson|choice|empty|seed|rng"
NOT_HERE = "grad|vjp|jvp|vmap|jac|jet|deriv|hook|register|dlpack|constexpr|add_flags|print|assign|data_ptr|partial|scan|loop"

ITEMS = "0 1 -1 2 None ... : 1: ::2 ::-1 :-1 True [0,1] [True,False] [-1] 0:0 (0,1) a>0 5 [] 1.0 [[0,1],[1,0]]".split()
BINARY = "+ - * / // % ** == != < <= > >= & | ^ << >> @".split()
UNARY = ["-{}", "~{}", "abs({})", "len({})", "bool({})", "int({})", "float({})", "divmod({}, 2)", "sum({})", "list({})", "{}.T", "str({})", "{}.tolist()", "{}.strides", "[*{}]"]
NUMBERS = ["2", "1.5", "True", "-1", "0", "300", "2**40", "1e10", "2j", "-3", "float('nan')"]
VIEWS = "[0] [...,0] .reshape(-1) .T [None] [1:] [::2] .copy() .flatten() .squeeze() .swapaxes(0,-1) .unsqueeze(0) .astype(fj.float32) .chunk(2)[0]".split()
IN_PLACE = "add_({}) sub_({}) mul_({}) div_({}) zero_() fill_({}) copy_({}) clamp_(0,1) exp_() abs_() floor_() neg_() pow_({}) remainder_({})".split()


class Writer:
    """Writes one program, and chooses its arguments."""

    def __init__(self, seed):
        self.pick, self.args = random.Random(seed), {}

    def tensor(self, shape=None, dtype=None):
        pick = self.pick
        if self.args and pick.random() < 0.25 or len(self.args) > 6:
            return pick.choice(list(self.args))
        before = next(iter(self.args.values()), None)
        if shape is None:
            shape = pick.choice(SHAPES)
            if before and pick.random() < 0.6:
                own = before[1]
                shape = pick.choice([own, own, own, own[1:], tuple(n if pick.random() < 0.6 else 1 for n in own)])
        if dtype is None:
            dtype = before[0] if before and pick.random() < 0.6 else pick.choice(DTYPES)
        name = "abcdefgh"[len(self.args)]
        self.args[name] = dtype, shape, pick.randrange(1000)
        return name

    def axis(self, several):
        n = max(len(next(iter(self.args.values()))[1]), 1) if self.args else 2
        one = self.pick.choice([*range(-n, n), *range(-n, n), n])
        return repr(self.pick.choice([None, one, one, one, tuple(self.pick.sample(range(n), self.pick.randint(0, n)))] if several else [one]))

    def argument(self, parameter):
        kind = CHOICES.get(parameter.name)
        if kind == "I":
            return self.tensor(self.pick.choice([(2,), (3,), ()]), self.pick.choice(["int32", "int64"]))
        if kind in ("A", "D"):
            return self.axis(kind == "A")
        if parameter.name in ("tensors", "inputs"):
            return f"({self.tensor()}, {self.tensor()})"
        if kind is None or kind == "T":
            return self.tensor() if self.pick.random() < 0.85 else self.pick.choice(NUMBERS)
        return self.pick.choice(kind.split("|"))

    def call(self, path, function, is_method):
        text, by_name = [], False
        if is_method:
            path = f"{self.tensor()}.{path}"
        for parameter in list(inspect.signature(function).parameters.values())[is_method:]:
            optional = parameter.default is not parameter.empty
            if parameter.kind is parameter.VAR_KEYWORD or optional and self.pick.random() < 0.55:
                by_name = True
            elif parameter.kind is parameter.VAR_POSITIONAL:
                text += [] if by_name else [self.tensor() if not is_method else self.axis(False)]
            else:
                by_name = by_name or parameter.kind is parameter.KEYWORD_ONLY
                text.append(f"{parameter.name}=" * by_name + self.argument(parameter))
        return f"return {path}({', '.join(text)})"

    def item(self, count=3):
        names = [*ITEMS, self.tensor(self.pick.choice([(2,), (3,), ()]), "int64"), self.tensor(None, "bool_")]
        return ", ".join(self.pick.choice(names) for _ in range(self.pick.choice([1, 1, 2, count])))

    def operators(self):
        a = self.tensor()
        kind = self.pick.random()
        if kind < 0.5:
            sides = [a, self.pick.choice([self.tensor(), self.pick.choice(NUMBERS)])]
            self.pick.shuffle(sides)
            return f"return {sides[0]} {self.pick.choice(BINARY)} {sides[1]}"
        return f"return {self.pick.choice(UNARY).format(a)}" if kind < 0.65 else f"return {a}[{self.item()}]"

    def writes(self):
        pick = self.pick
        names, lines = [self.tensor(pick.choice([(3,), (2, 3), (2, 3, 4), (), (0, 3)]))], []
        for _ in range(pick.randint(1, 4)):
            v = pick.choice(names)
            value = pick.choice([self.tensor(), *NUMBERS, "[1, 2, 3]", v, f"{v}[::-1]"])
            kind = pick.randrange(8)
            if kind < 3:
                lines.append(f"{v}[{self.item(2)}] {pick.choice(['', '', '+', '*', '//'])}= {value}")
            elif kind < 5:
                lines.append(f"{v} {pick.choice(BINARY[:7])}= {value}")
            elif kind < 7:
                names.append("uvwz"[len(names) - 1])
                lines.append(f"{names[-1]} = {v}{pick.choice(VIEWS)}")
            else:
                lines.append(f"{v}.{pick.choice(IN_PLACE).format(value)}")
        return "\n    ".join([*lines, f"return {', '.join(dict.fromkeys([*self.args, *names]))},"])


def functions(kind):
    """(path, function, whether it is a method) of what is called."""
    homes = {"ops": [("ops.", ops)], "mint": [("mint.", mint), ("mint.nn.functional.", mint.nn.functional)], "numpy": [("mnp.", mnp)], "methods": [("", Tensor)]}
    left_out = [*RANDOM.split("|"), *NOT_HERE.split("|")]
    for prefix, home in homes[kind]:
        for name in sorted(dir(home)):
            function = getattr(home, name)
            if name.startswith("_") or inspect.isclass(function) or not callable(function) or any(part in name for part in left_out):
                continue
            if kind == "methods" and isinstance(inspect.getattr_static(Tensor, name), (staticmethod, classmethod)):
                continue
            try:
                inspect.signature(function)
            except (TypeError, ValueError):
                continue
            yield prefix + name, function, kind == "methods"


def made(dtype, shape, seed):
    numbers = np.random.default_rng(seed)
    values = np.round(numbers.normal(size=shape) * 2, seed % 3)
    if dtype == "uint8" or seed % 5 == 0:
        values = np.abs(values)
    if values.size and dtype in FLOATS and seed % 9 == 0:
        values.flat[0] = np.nan if seed % 2 else -np.inf
    return Tensor(values).astype(getattr(fj, dtype))


def plain(value):
    if isinstance(value, Tensor):
        return type(value).__name__, str(value.dtype), value.shape, value.astype(fj.float32 if str(value.dtype) == "BFloat16" else value.dtype).asnumpy().tobytes()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return type(value).__name__, "" if " at 0x" in repr(value) else repr(value)


def outcome(call, args):
    fj.set_seed(1)
    given = [made(*one) for one in args.values()]
    try:
        return plain(call(*given)), plain(given)
    except Exception as error:  # noqa: BLE001
        return type(error), str(error), plain(given)


def check(seed, body, args):
    source = f"def f({', '.join(args)}):\n    {body}\n"
    scope = {"fj": fj, "ops": ops, "mint": mint, "mnp": mnp, "np": np}
    exec(compile(source, f"<program {seed}>", "exec"), scope)
    f = scope["f"]
    eager, captured = outcome(f, args), fj.jit(f)
    for found in (outcome(captured, args), outcome(captured, args)):
        assert found == eager, f"seed {seed}: {args}\n{source}"
    whole = outcome(fj.jit(f, fullgraph=True), args)
    is_break = isinstance(whole[0], type) and issubclass(whole[0], fj.GraphBreakError)
    assert is_break or whole == eager, f"seed {seed}, fullgraph: {args}\n{source}"
    wanted = tuple(at for at, (dtype, *_) in enumerate(args.values()) if dtype in FLOATS)
    if wanted and body.startswith("return") and not isinstance(eager[0], type):
        total = lambda *given: _total(f(*given))  # noqa: E731
        gradient = outcome(fj.grad(total, wanted), args)
        with fj.stance("force_eager"):
            taped = outcome(fj.grad(total, wanted), args)
        if not isinstance(gradient[0], type) and not isinstance(taped[0], type):
            assert _near(taped[0], gradient[0]), f"seed {seed}, gradient: {args}\n{source}"


def _total(value):
    if isinstance(value, (tuple, list)):
        return sum([_total(item) for item in value], Tensor(0.0))
    if not isinstance(value, Tensor) or str(value.dtype) not in ("Float16", "Float32", "Float64"):
        return Tensor(0.0)
    return (value.astype(fj.float32) * 1.5).sum()


def _near(x, y):
    """Equal, but for rounding: a tape adds in another order."""
    if x[0] == "tuple":
        return len(x[1]) == len(y[1]) and all(map(_near, x[1], y[1]))
    dtype = x[1].lower()
    a, b = (np.frombuffer(one[3], dtype).astype(np.float64) for one in (x, y))
    tolerance = 1e-2 if dtype == "float16" else 1e-4
    return x[:3] == y[:3] and np.allclose(a, b, rtol=tolerance, atol=tolerance * max(1, np.abs(b[np.isfinite(b)]).max(initial=0)), equal_nan=True)


@pytest.mark.parametrize("kind", ["ops", "mint", "numpy", "methods"])
def test_calls(kind):
    known = list(functions(kind))
    assert len(known) > 150
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FIRST, FIRST + COUNT):
            writer = Writer(seed)
            check(seed, writer.call(*writer.pick.choice(known)), writer.args)


@pytest.mark.parametrize("kind", ["operators", "writes"])
def test_operators(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FIRST, FIRST + COUNT):
            writer = Writer(seed)
            check(seed, getattr(writer, kind)(), writer.args)
