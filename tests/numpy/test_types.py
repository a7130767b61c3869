"""What the frontend says a result is - dtype, shape, strides, array or scalar - equals what NumPy gives.

The programs run over random dtypes, shapes and memory layouts; a program that NumPy refuses must be a break.
"""

from __future__ import annotations

import itertools
import operator
import random
import warnings

import numpy as np
import pytest
from frontend import Refused, run

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
OPERATORS = "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift lt le eq ne gt ge".split()
INPLACE = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift".split()
NUMBERS = [True, 0, 1, 2, -1, 300, -1000, 2**40, 2**63, 2**70, 0.5, 1.5, 2.0, -1.0, 1e300, float("nan")]


def agrees(program, *args, **options) -> bool:
    """False where the frontend breaks; then nothing is claimed, but an operation that raises must break."""
    try:
        found, expected, _ = run(program, *args, **options)
    except Refused:
        return False
    assert found == expected, [(getattr(a, "dtype", a), getattr(a, "shape", ""), getattr(a, "strides", "")) for a in args]
    return True


def operand_forms(dtype: str):
    yield np.ones((3,), dtype)
    yield np.ones((), dtype)
    yield np.ones((), dtype)[()]


@pytest.mark.parametrize("name", OPERATORS + INPLACE)
def test_operator_dtypes(name: str) -> None:
    apply = getattr(operator, name)
    captured = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for a, b in itertools.product(DTYPES, DTYPES):
            for left, right in itertools.product(operand_forms(a), operand_forms(b)):
                captured += agrees(lambda np_, x, y: apply(x, y), left, right)
        for a, number in itertools.product(DTYPES, NUMBERS):
            for left in operand_forms(a):
                captured += agrees(lambda np_, x, y: apply(x, y), left, number)
                if type(number) is float:
                    captured += agrees(lambda np_, x, y: apply(x, y), left, number, numbers=True)
                if type(number) is int and abs(number) < 2**62:
                    captured += agrees(lambda np_, x, y: apply(x, y), left, number, numbers=True)
                if name in OPERATORS:
                    captured += agrees(lambda np_, x, y: apply(y, x), left, number)
    assert captured > 100


def random_array(rng: random.Random, dtype: str, rank: int | None = None, shape: tuple | None = None) -> np.ndarray:
    """Any layout: C, Fortran, permuted, strided, reversed, broadcast; lengths 0 and 1 are frequent."""
    if shape is None:
        rank = rng.randint(0, 3) if rank is None else rank
        shape = tuple(rng.choice([0, 1, 1, 2, 3, 4, 5]) for _ in range(rank))
    layout = rng.randrange(6) if shape else 0
    if layout == 1:
        return np.ones(shape, dtype, order="F")
    if layout == 2:
        order = rng.sample(range(len(shape)), len(shape))
        return np.ones([shape[i] for i in order], dtype).transpose(np.argsort(order))
    if layout == 3:
        return np.ones([2 * n + 1 for n in shape], dtype)[tuple(slice(0, 2 * n, 2) for n in shape)]
    if layout == 4:
        return np.ones(shape, dtype)[tuple(slice(None, None, rng.choice([1, -1])) for _ in shape)]
    if layout == 5:
        return np.broadcast_to(np.ones([1 if rng.random() < 0.3 else n for n in shape], dtype), shape)
    return np.ones(shape, dtype)


def broadcastable(rng: random.Random, shape: tuple) -> tuple:
    lengths = [1 if rng.random() < 0.3 else n for n in shape]
    while lengths and rng.random() < 0.3:
        lengths.pop(0)
    return tuple(lengths)


def ufunc_names() -> list[str]:
    names = [name for name in dir(np) if isinstance(getattr(np, name), np.ufunc)]
    return [name for name in names if getattr(np, name).nout == 1 and not getattr(np, name).signature]


@pytest.mark.parametrize("seed", range(10))
def test_ufuncs(seed: int) -> None:
    rng = random.Random(seed)
    captured = 0
    for name in ufunc_names():
        args = [random_array(rng, rng.choice(DTYPES)) for _ in range(getattr(np, name).nin)]
        args = [x[()] if x.ndim == 0 and rng.random() < 0.5 else x for x in args]
        if rng.random() < 0.2:
            args[rng.randrange(len(args))] = rng.choice([1, 2.5, True])
        captured += agrees(lambda np_, *a, name=name: getattr(np_, name)(*a), *args)
    assert captured > 20


LAYOUT_PROGRAMS = {
    "add": lambda np_, a, b: a + b,
    "chain": lambda np_, a, b: (a + b) * b - a,
    "where": lambda np_, a, b: np_.where(a > b, a, b),
    "iadd": lambda np_, a, b: operator.iadd(a, b),
    "clip": lambda np_, a, b: np_.clip(a, 0, 1),
    "clip_one": lambda np_, a, b: a.clip(None, 1),
    "clip_wide": lambda np_, a, b: np_.clip(a, -0.5, np.float64(1)),
    "negative": lambda np_, a, b: -a,
    "positive": lambda np_, a, b: +a,
    "abs": lambda np_, a, b: abs(a),
    "deg2rad": lambda np_, a, b: np_.deg2rad(a),
    "square": lambda np_, a, b: b**2,
    "out": lambda np_, a, b: np_.add(a, b, out=np_.zeros(a.shape)),
    "out twice": lambda np_, a, b: np_.multiply(a, 2, np_.add(a, b, out=np_.zeros(a.shape))),
}


@pytest.mark.parametrize("name", LAYOUT_PROGRAMS)
def test_layouts(name: str) -> None:
    rng = random.Random(name)
    captured = 0
    for _ in range(400):
        x = random_array(rng, rng.choice(["f8", "f4", "i4"]), rng.randint(1, 3))
        y = random_array(rng, rng.choice(["f8", "f4", "i4"]), shape=broadcastable(rng, x.shape))
        captured += agrees(LAYOUT_PROGRAMS[name], x, y)
    assert captured > 100


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "any", "all", "mean", "var", "std", "amin", "amax"])
def test_reductions(name: str) -> None:
    rng = random.Random(name)
    captured = 0
    for _ in range(400):
        x = random_array(rng, rng.choice(DTYPES))
        axis = rng.choice([None, None, 0, -1, 1, (0, 1), (0,), (2, 0), (0, 1, 2)])
        keep = rng.choice([{}, {}, {"keepdims": True}])
        captured += agrees(lambda np_, a: getattr(np_, name)(a, axis=axis, **keep), x)
        if not name.startswith("am"):
            captured += agrees(lambda np_, a: getattr(a, name)(axis, **keep), x)
    assert captured > 150


def random_key(rng: random.Random, rank: int):
    def part():
        kind = rng.randrange(10)
        if kind < 3:
            return rng.randint(-4, 4)
        if kind < 8:
            bounds = [None, 0, 1, 2, -1, -2, -7, 9]
            return slice(rng.choice(bounds), rng.choice(bounds), rng.choice([None, 1, 2, -1, -2, 3]))
        return None if kind == 8 else Ellipsis

    parts = tuple(part() for _ in range(rng.randint(0, rank + 1)))
    return parts[0] if len(parts) == 1 and rng.random() < 0.5 else parts


@pytest.mark.parametrize("seed", range(10))
def test_basic_indexing(seed: int) -> None:
    rng = random.Random(seed)

    def assign(np_, a):
        a[key] = 2
        return a

    for _ in range(300):
        x = random_array(rng, rng.choice(["f8", "f4", "i4", "?"]))
        key = random_key(rng, x.ndim)
        try:
            x[key]
        except IndexError:
            with pytest.raises(Refused):
                run(lambda np_, a: a[key], x)
            continue
        assert agrees(lambda np_, a: a[key], x)
        agrees(lambda np_, a: a[key] + 1, x)
        agrees(assign, x.copy())


@pytest.mark.parametrize("varied", [(), ("x.shape[0]",), ("x.shape[1]",), ("x.shape[0]", "x.shape[1]")])
def test_symbolic_shapes(varied: tuple) -> None:
    rng = random.Random(str(varied))
    captured = 0
    for _ in range(300):
        x = random_array(rng, "f8", 2)
        key = random_key(rng, 2)
        captured += agrees(lambda np_, a: a[key], x, varied=varied) if not raises(x, key) else 0
        captured += agrees(lambda np_, a: (a * 2 + a[0]).sum(axis=0), x, varied=varied)
        captured += agrees(lambda np_, a: a.reshape(-1), x, varied=varied)
        captured += agrees(lambda np_, a: a.T.reshape(a.shape), x, varied=varied)
        captured += agrees(lambda np_, a: np_.zeros(a.shape[0] + 1), x, varied=varied)
        captured += agrees(lambda np_, a: np_.arange(a.shape[1], 0, -2), x, varied=varied)
        captured += agrees(lambda np_, a: a.mean(axis=1, keepdims=True), x, varied=varied)
    assert captured > 500


def raises(x: np.ndarray, key) -> bool:
    try:
        x[key]
    except IndexError:
        return True
    return False


VIEW_PROGRAMS = {
    "reshape": lambda np_, a, s: a.reshape(s),
    "np.reshape": lambda np_, a, s: np_.reshape(a, s),
    "reshape*": lambda np_, a, s: a.reshape(*s),
    "ravel": lambda np_, a, s: a.ravel(),
    "np.ravel": lambda np_, a, s: np_.ravel(a),
    "flatten": lambda np_, a, s: a.flatten(),
    "T": lambda np_, a, s: a.T,
    "transpose": lambda np_, a, s: np_.transpose(a),
    "squeeze": lambda np_, a, s: np_.squeeze(a),
    "squeeze axis": lambda np_, a, s: a.squeeze(axis=-1),
    "swapaxes": lambda np_, a, s: np_.swapaxes(a, 0, -1),
    "expand_dims": lambda np_, a, s: np_.expand_dims(a, 1),
    "expand_dims 2": lambda np_, a, s: np_.expand_dims(a, (0, -1)),
    "broadcast_to": lambda np_, a, s: np_.broadcast_to(a, (4,) + a.shape),
    "copy": lambda np_, a, s: a.copy(),
    "np.copy": lambda np_, a, s: np_.copy(a),
    "np.array": lambda np_, a, s: np_.array(a),
    "np.asarray": lambda np_, a, s: np_.asarray(a),
    "ascontiguousarray": lambda np_, a, s: np_.ascontiguousarray(a),
    "astype": lambda np_, a, s: a.astype("f4"),
    "astype type": lambda np_, a, s: a.astype(np.int64),
    "astype no copy": lambda np_, a, s: a.astype(float, copy=False),
    "zeros_like": lambda np_, a, s: np_.zeros_like(a),
    "ones_like": lambda np_, a, s: np_.ones_like(a, dtype="i4"),
    "full_like": lambda np_, a, s: np_.full_like(a, 1),
    "attributes": lambda np_, a, s: (a.shape, a.ndim, a.size, a.nbytes, a.itemsize, a.dtype),
    "real": lambda np_, a, s: a.real,
    "float32": lambda np_, a, s: np_.float32(a),
    "bool_": lambda np_, a, s: np_.bool_(a),
}


@pytest.mark.parametrize("name", VIEW_PROGRAMS)
def test_views_and_copies(name: str) -> None:
    rng = random.Random(name)
    captured = 0
    for _ in range(200):
        x = random_array(rng, rng.choice(DTYPES))
        n = x.size
        shape = rng.choice([(-1,), (n,), (n, 1), (1, -1), x.shape[::-1], x.shape, (2, -1), (-1, 2), (1, *x.shape)])
        captured += agrees(VIEW_PROGRAMS[name], x, shape)
        if x.ndim == 0:
            captured += agrees(VIEW_PROGRAMS[name], x[()], shape)
    assert captured > 15


CREATED = """
np_.zeros(3)
np_.zeros((2, 3), dtype="f4")
np_.zeros(())
np_.ones((2, 0, 3))
np_.full((2, 2), 3)
np_.full(3, 2.5, dtype="f4")
np_.full(2, True)
np_.full((2,), np.float32(3))
np_.arange(5)
np_.arange(2, 9, 3)
np_.arange(9, 2, -3)
np_.arange(5, 2)
np_.arange(0.0, 1.0, 0.1)
np_.arange(3.0)
np_.arange(4, dtype=float)
np_.array(3.5)
np_.array(3)
np_.float64(3)
np_.float32(0.1)
np_.int8(3)
np_.int64(2.7)
np_.bool_(1)
np_.where(True, 1, 2)
np_.where(True, 1.0, 2)
np_.sqrt(2.0)
np_.sqrt(2)
np_.add(1, 2)
np_.exp(1.5)
np_.empty(3)
np_.array([1, 2, 3])
np_.array([[1, 2], [3, 4]])
np_.array((1.5, 2))
np_.array([np.float32(2), np.float32(3)])
np_.asarray([True, False])
np_.array([np_.sqrt(2.0), 1])
np_.array([1, True])
np_.array([1, 2.5, np.float32(1)])
""".strip().splitlines()


@pytest.mark.parametrize("text", CREATED)
def test_creation(text: str) -> None:
    program = eval("lambda np_: " + text)  # noqa: S307
    found, expected, _ = run(program)
    assert found == expected


@pytest.mark.parametrize("text", ["np_.zeros(-1)", "np_.int8(300)", "np_.uint8(-1)"])
def test_left_to_numpy(text: str) -> None:
    with pytest.raises(Refused):
        run(eval("lambda np_: " + text))  # noqa: S307
