"""complex64 and complex128 in compiled loops: equal to eager NumPy on both instruction sets, and fused."""

from __future__ import annotations

import numpy as np
import pytest

import framejit
from exact.same import assert_same
from exact.shapes import SHAPE_CLASSES, roomy, special_values

DTYPES = ["complex64", "complex128"]
ERRSTATES = [None, {"all": "ignore"}, {"all": "raise"}]


@pytest.fixture(params=["avx2", "avx512"], autouse=True)
def isa(request):
    before = framejit.config.cpu
    framejit.config.cpu = request.param
    yield request.param
    framejit.config.cpu = before


def some(dtype, n, seed=0):
    """Numbers that set no flag in ordinary arithmetic."""
    rng = np.random.default_rng(seed)
    return (rng.uniform(0.5, 2, n) + 1j * rng.uniform(-2, 2, n)).astype(dtype)


def special_pairs(dtype):
    """Every two numbers whose parts are special, as two arrays."""
    info = np.finfo(dtype)
    parts = np.array([0.0, -0.0, 1.5, -2, np.inf, -np.inf, np.nan, info.tiny / 4, info.max, -info.max], info.dtype)
    numbers = np.empty((len(parts), len(parts)), dtype)
    numbers.real, numbers.imag = parts[:, None], parts
    numbers = numbers.ravel()
    return np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))


def graph_of(function, *args):
    """The text of the one graph that a call is compiled to."""
    report = framejit.explain(function)(*args)
    assert not report.breaks, report
    (graph,) = report.graphs
    return str(graph)


def compiled_whole(function, make, errstate=None):
    """Equal, in one graph without a library call, all in kernels."""
    marked = assert_same(function, make, errstate)
    report = framejit.explain(marked)(*make())
    assert not report.breaks, report
    assert len(report.graphs) == 1
    assert "library_call" not in str(report) and "numpy_loop" not in str(report), report


UNARY = {
    "arithmetic": lambda z: (-z, +z, z.conj(), np.conjugate(z), np.square(z), z**2, np.reciprocal(z), abs(z), np.abs(z)),
    "predicates": lambda z: (np.isnan(z), np.isinf(z), np.isfinite(z), np.logical_not(z), z == z, z != z.conj(), z.astype(bool)),
    "parts": lambda z: (z.real, z.imag, z.real + z.imag, np.real(z), np.imag(z) * 2, np.conj(z.imag)),
    "loops": lambda z: (np.exp(z), np.sqrt(z), np.log(z), np.sin(z), np.sign(z), z**0.5, np.angle(z), z**1.5),
    "copies": lambda z: (z.copy(), z[::-1].copy(), z[1:], z[::2] + 1, np.where(np.isnan(z), 0, z), np.full(3, z[1]), np.zeros_like(z), np.ones_like(z)),
    "casts": lambda z: (z.astype(np.complex64), z.astype(np.complex128), z.real.astype(z.dtype)),
    "moves": lambda z: (np.concatenate([z, z]), np.stack([z, -z]), z[np.array([2, 0, 1])], z[np.isfinite(z)], np.roll(z, 2), z.reshape(1, -1).T),
    "reductions": lambda z: (z.sum(), z.mean(), np.any(z), np.all(z), z.prod(), np.cumsum(z), z.max(), np.count_nonzero(z)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("errstate", ERRSTATES, ids=str)
def test_every_special_number(name, dtype, errstate):
    numbers = special_pairs(dtype)[1][:100]
    for n in (100, 3):
        assert_same(UNARY[name], lambda: (numbers[::-1][:n].copy(),), errstate, calls=2)
        assert_same(UNARY[name], lambda: (some(dtype, n),), errstate, calls=2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("errstate", ERRSTATES, ids=str)
def test_every_pair_of_special_numbers(dtype, errstate):
    functions = [
        lambda x, y: (x + y, x - y),
        lambda x, y: x * y,
        lambda x, y: x / y,
        lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y),
        lambda x, y: (np.minimum(x, y), np.maximum(x, y), np.fmin(x, y), np.fmax(x, y)),
        lambda x, y: (np.logical_and(x, y), np.logical_or(x, y), np.logical_xor(x, y), np.where(x == y, x, y)),
    ]
    for function in functions:
        assert_same(function, lambda: special_pairs(dtype), errstate, calls=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_quotients(dtype):
    rng = np.random.default_rng(5)

    def make():
        numbers = [(rng.standard_normal((2, 5000)) * 10.0 ** rng.integers(-8, 8, (2, 5000))) for _ in range(2)]
        return tuple((x[0] + 1j * x[1]).astype(dtype) for x in numbers)

    args = make()
    assert_same(lambda x, y: (x / y, 1 / y, np.reciprocal(x), abs(x), x * y, y * x, x * x), lambda: tuple(a.copy() for a in args))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape_class", SHAPE_CLASSES)
def test_expression(dtype, shape_class):
    """Layouts, tails, overlaps, with and without special numbers."""
    def function(x, y, z):
        return x * y + z, abs(x - y), x / (z + 3), np.where(x.real > 0, y, z), x * 2, x + 1j, y.imag * x

    for seed in range(2):
        rng = np.random.default_rng(seed)
        fill = (lambda n: special_values(rng, dtype, n)) if seed else (lambda n: some(dtype, n))
        args = SHAPE_CLASSES[shape_class](fill, 3)
        assert_same(function, lambda: args, {"all": "ignore"}, calls=2)
        assert_same(function, lambda: args, calls=2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("other", ["bool", "int8", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128"])
def test_other_dtypes(dtype, other):
    def function(x, y):
        return x + y, y * x, x / (y + 1), x - y, x == y, np.where(x == y, x, y), y.astype(x.dtype), np.concatenate([x, y])

    assert_same(function, lambda: (some(dtype, 21), (np.arange(21) % 5).astype(other)), calls=2)


NUMBERS = [2, 2.0, True, 1j, 1.5 - 2j, 1e300, 1e300j, np.float32(1.5), np.float64(0.1), np.complex64(1 + 2j), np.complex128(0.1 + 1j), np.int64(3), complex("nan")]


@pytest.mark.parametrize("dtype", [*DTYPES, "float32", "float64", "int32"])
@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_numbers(dtype, number):
    """As constants of the function and as arguments."""
    def with_constant(x):
        return x + number, number * x, x - number, x / number, x == number, np.where(x == x, x, number)

    def with_argument(x, y):
        return x + y, y * x, x - y, x / y, x == y, np.where(x == x, x, y)

    x = (some("complex128", 19).real * 7).astype(dtype) if np.dtype(dtype).kind != "c" else some(dtype, 19)
    for errstate in (None, {"all": "ignore"}):
        assert_same(with_constant, lambda: (x.copy(),), errstate, calls=2)
        assert_same(with_argument, lambda: (x.copy(), number), errstate, calls=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place_and_out(dtype):
    def in_place(x, y):
        x += y
        x *= y
        x -= 1j
        x /= y
        x **= 2
        x *= 2
        x[1::2] = y[1::2]
        x[0] = 3
        return x

    def out(x, y):
        np.multiply(x, y, out=x)
        np.add(x, 1, out=y)
        np.square(x, out=x)
        np.abs(y, out=x.real)
        x.imag[:] = y.real
        np.conjugate(x, out=x)
        np.divide(x, y, out=x, where=y.real > 1)
        y.fill(2 + 1j)
        return x

    def overlapping(x, y):
        np.multiply(x[1:], y[1:], out=x[:-1])
        x[1:] *= x[:-1]
        x[::2] **= 2
        np.square(y[::2], out=y[::2])
        np.multiply(y[::2], x[::2], out=y[::2])
        return x, y

    for function in (in_place, out, overlapping):
        for errstate in (None, {"all": "raise"}):
            assert_same(function, lambda: tuple(roomy(lambda n: some(dtype, n, seed), 35) for seed in (0, 1)), errstate)
            assert_same(function, lambda: tuple(roomy(lambda n: x[:n].copy(), 200) for x in special_pairs(dtype)), errstate, calls=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_are_views(dtype):
    def function(z):
        re, im = z.real, z.imag
        re *= 2
        im[...] = re + 1
        return re, im, z.base is None, z.real.base is z

    assert_same(function, lambda: (some(dtype, 9),))
    assert_same(lambda z: (z.real, z.imag, z.T.real, z[1:, ::-1].imag), lambda: (some(dtype, 12).reshape(3, 4),))
    assert_same(lambda z: ((z * z).real, (z * z.conj()).imag + 1), lambda: (some(dtype, 12),))


@pytest.mark.parametrize("dtype", DTYPES)
def test_scalars_of_numpy(dtype):
    """Their arithmetic is not the arrays'."""
    def function(x, z):
        s = x[1]
        return s * x, s + s, s * s, abs(s), s.real, s.imag, s.conj(), s / s, -s, s == s, z[()] * s, np.abs(s), np.multiply(s, s), s.item(), complex(s)

    assert_same(function, lambda: (some(dtype, 5), np.array(1 - 2j, dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_numpy_warns_of(dtype):
    def cast(z):
        return z.astype(np.float64)

    def store(z):
        x = np.zeros(z.shape)
        x[...] = z
        return x

    for function in (cast, store):
        assert_same(function, lambda: (some(dtype, 7),))


def test_python_complex():
    def function(x, a, b):
        return x * a + b, x * (a * b), a + b, abs(a), a.real * x, np.array([a, b, 1]), np.full(3, a), complex(1, 2) * x

    for dtype in ("float32", "float64", *DTYPES):
        assert_same(function, lambda: (np.arange(1, 6).astype(dtype), 1.5 + 2j, -1j))


def test_is_compiled_whole():
    z, c = some("complex128", 1000), some("complex128", 1000, 1)

    def mandelbrot(z, c):
        return np.where(np.abs(z) < 2, z * z + c, z)

    for dtype in DTYPES:
        if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # the absolute values of older ones are the C library's where there is no AVX-512
            compiled_whole(mandelbrot, lambda: (z.astype(dtype), c.astype(dtype)))
        compiled_whole(lambda a, b: (a * b + 1j) / (b - 2.5) - a.conj(), lambda: (z.astype(dtype), c.astype(dtype)))
    assert graph_of(mandelbrot, z, c) == """graph @mandelbrot(%z: c128[1000], %c: c128[1000]) {
  %2 = absolute %z : f64[1000]
  %3 = constant {value=2} : f64[]
  %4 = less %2, %3 : bool[1000]
  %5 = multiply %z, %z : c128[1000]
  %6 = add %5, %c : c128[1000]
  %7 = where %4, %6, %z : c128[1000]
  return %7
}
"""


@pytest.mark.parametrize("dtype", DTYPES)
def test_varying_lengths(dtype):
    marked = framejit.jit(lambda x, y: (x * y + 1, abs(x)))
    for n in (4, 9, 33, 100, 1000, 100_000):
        x, y = some(dtype, n), some(dtype, n, 1)
        for expected, actual in zip((x * y + 1, abs(x)), marked(x, y)):
            assert expected.tobytes() == actual.tobytes()


SUMS = {
    "all": lambda z: (z.sum(), z.mean(), np.add.reduce(z.ravel())),
    "last axis": lambda z: (z.sum(axis=-1), z.mean(axis=-1)),
    "first axis": lambda z: (z.sum(axis=0), z.mean(axis=0, keepdims=True)),
    "of an expression": lambda z: (np.sum(z * z.conj()), np.sum(z + 1, axis=0), (z * 2).mean(axis=-1), np.sum(np.exp(z), axis=-1), np.sum(abs(z))),
    "of a view": lambda z: (z[::-1].sum(axis=-1), z.T.sum(axis=0), z[..., ::2].sum(), z.real.sum(axis=0)),
    "variance": lambda z: (z.var(), np.std(z), z.var(axis=-1, ddof=1), np.std(z, axis=0, keepdims=True)),
    "variance of a view": lambda z: (z[::-1].var(axis=-1), z.T.std(axis=0), (z[..., ::2] * 2).var()),
    "in another dtype": lambda z: (z.sum(dtype=np.complex128), z.real.sum(dtype=z.dtype)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SUMS)
def test_sums(name, dtype):
    """In NumPy's order, along any axis."""
    rng = np.random.default_rng(3)
    for shape in [(1,), (3,), (4,), (7,), (9,), (64,), (65,), (200,), (8200,), (20_001,), (5, 3), (3, 100), (100, 3), (130, 70), (4, 5, 6), (40, 1, 30), (2, 0)]:
        z = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
        assert_same(SUMS[name], lambda: (z.copy(),), calls=2)
    z = special_pairs(dtype)[1][:100].reshape(4, 25)
    for errstate in ERRSTATES:
        assert_same(SUMS[name], lambda: (z.copy(),), errstate, calls=2)


def test_sums_are_compiled_whole():
    for dtype in DTYPES:
        z = some(dtype, 600).reshape(20, 30)
        compiled_whole(lambda z: (np.sum(z * z.conj()), z.sum(axis=0), z.mean(axis=1), z.var(), z.std(axis=0)), lambda: (z.copy(),))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_with_large_temporaries(dtype):
    """NumPy changes the places of the operands where it can write into the second one."""
    def function(x, y, s):
        t = x + 1
        return x * (y + 1), (x - 1) * (y + 1), t * (x + y), (x + y) * t, s * (x - y), x * np.conj(y), t * t

    for n in (100, 16_383, 16_384, 40_000):
        assert_same(function, lambda: (some(dtype, n), some(dtype, n, 1), 0.3 - 1.7j), calls=2)
    assert_same(lambda x: np.sum(x * x.conj()), lambda: (some(dtype, 50_000),))


def test_more_values_than_registers():
    def f(y, w, x, rate):
        half, more = y * 0.5, w * rate + w * 0.5 * 0.5
        low, scaled = half - rate, (half - rate) * rate
        lower, again = low - rate, y * 0.5
        sums = scaled + lower * 2.0, more + 2, more * rate + more * 0.25, y * rate * 0.5 + 1
        last = (sums[2] + 1) * rate + x
        return (*sums, half, more, low, lower, again, last, last * 0.0 + 1.0, last + 4, x - -1.25, x - sums[0], x - 0.25)

    for dtype in ("complex128", "complex64"):
        for count in (7, 8, 12, 31, 64):
            y = (np.arange(count) + 1 + 100j * np.arange(count)).astype(dtype)
            w, x = y + np.float32(0.5), y[::-1].copy()
            with np.errstate(all="ignore"):
                expected, got = f(y, w, x, 2.0), framejit.jit(f)(y, w, x, 2.0)
            assert [e.tobytes() == g.tobytes() for e, g in zip(expected, got)].count(False) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_signs_of_not_a_number_in_products(dtype):
    def f(z, infinite):
        return z * infinite, z * infinite * 0.5, (z * infinite) * (z * infinite), (z * infinite) ** 2

    z = some(dtype, 37)
    with np.errstate(all="ignore"):
        for infinite in (np.inf, complex(0, np.inf), complex(np.inf, -np.inf), complex(1, np.nan)):
            expected, got = f(z, infinite), framejit.jit(f)(z, infinite)
            assert [e.tobytes() == g.tobytes() for e, g in zip(expected, got)].count(False) == 0


def over_itself(a, b):
    a *= b
    return a


def over_the_other(a, b):
    return np.multiply(a, b, out=b)


def squared_in_place(a, b):
    return np.square(a, out=a)


def powers(a, b):
    c = a[:1].reshape(())
    c **= 2
    return c, np.square(b.sum()), np.square(b[0]), np.square(b[:1])


def chosen_in_place(a, b):
    a[a.real > 0] *= b[:1]
    return a


def of_unlike_ranks(a, b):
    return a[None] * b, np.multiply.outer(a, b), np.multiply.outer(a, a) + b, a[:1, None] * b[None, :1]


def under_a_mask(a, b):
    mask = b.real < 1
    return np.multiply(a, b, out=np.zeros_like(a), where=mask), np.square(a[:1], out=np.zeros_like(b), where=mask)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("function", [over_itself, over_the_other, squared_in_place, powers, chosen_in_place, of_unlike_ranks, under_a_mask], ids=lambda f: f.__name__)
def test_one_element_over_itself(function, dtype):
    """NumPy multiplies a single element that is written over itself, or that an iterator goes over, by a loop of its own."""
    random = np.random.default_rng(8)
    for n in (1, 2, 1, 3):
        for _ in range(12):
            a, b = ((random.normal(size=n) + 1j * random.normal(size=n)).astype(dtype) for _ in range(2))
            assert_same(function, lambda a=a, b=b: (a.copy(), b.copy()), calls=2)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_exponents_known_at_run_time(dtype):
    """np.square, np.reciprocal and np.sqrt stand for powers of 2, -1 and 0.5, whose bits differ."""
    z = some("c16", 33) if dtype[0] == "c" else some("c16", 33).real
    z = z.astype(dtype)

    def in_place(x, p):
        x **= int(p.sum())
        return x

    for exponents in ((0.7, 0.3, 0.5, -1, 3, 2, 1, -1.0), (3, 4, 2, -1, 5, 10**400)):
        power = framejit.jit(lambda x, p: x**p)
        for p in exponents:
            for _ in range(2):
                try:
                    expected = (z**p).tobytes()
                except OverflowError as error:
                    with pytest.raises(OverflowError, match=str(error)):
                        power(z, p)
                else:
                    assert power(z, p).tobytes() == expected, p
    for p in ([1, 2], [1, 1], [1, -2], [0.25, 0.25], [3.0, 0.0]):
        p = np.array(p)
        assert_same(lambda x, p: (x ** int(p.sum()), x ** float(p.sum()), x ** len(p)), lambda p=p: (z, p), calls=2)
        assert_same(in_place, lambda p=p: (z.copy(), p), calls=2)


def test_products_of_a_single_number():
    """NumPy multiplies it by BLAS where it is read-only, by a loop of its own where not."""
    for function in (np.convolve, np.correlate):
        for x in (np.array([np.inf + 4.5j]), np.array([0.1 + 0.3j], np.complex64)):
            for other in ([1.0, 2.0], x * 0.7):
                marked = framejit.jit(lambda x, other=other, function=function: function(-x, other, "full"))
                with np.errstate(all="ignore"):
                    expected, found = function(-x, other, "full"), marked(x)
                assert expected.tobytes() == found.tobytes(), (function, x, other)
    report = framejit.explain(framejit.jit(lambda x: np.convolve(x * 2, x), fullgraph=True))(np.array([1j, 2.0]))
    assert len(report.graphs) == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_chains(dtype):
    """Rounds of a loop in one kernel, each of which needs the one before."""

    def escapes(z, c, n):
        for i in range(24):
            inside = abs(z) < 2.0
            z = np.where(inside, z * z + c, z)
            n = np.where(inside, i, n)
        return z, n

    for n in (0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 70):
        assert_same(escapes, lambda n=n: (some(dtype, n), some(dtype, n, 1) - 1, np.zeros(n, "i8")), calls=2)
        assert_same(escapes, lambda n=n: (some(dtype, n), some(dtype, 1, 1)[0], np.zeros(n, "i4")), calls=2)
