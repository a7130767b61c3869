"""a[indices] = values and a[mask] = values, in place: beside plain Python, with what the graph says, and what goes back."""

import warnings

import numpy as np
import pytest

import framejit as fj

RNG = np.random.default_rng(11)
DTYPES = "float64 float32 float16 int64 int32 int8 uint8 uint64 complex128 complex64 bool".split()
INDICES = "int64 int32 int16 int8 uint8 uint16 uint32 uint64".split()


def numbers(shape, dtype="float64"):
    """Numbers of the dtype; of integers small ones."""
    x = RNG.normal(size=shape) * 50
    if dtype == "bool":
        return x > 0
    return (x + 1j * RNG.normal(size=shape)).astype(dtype) if dtype.startswith("complex") else x.astype("int16").astype(dtype)


def outcome(function, args):
    """The result of the call, or its exception and the line; its warnings; and the arguments after the call."""
    args = [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            out = function(*args)
        except Exception as e:
            out = (type(e), str(e), e.__traceback__.tb_next.tb_lineno)
    parts = [np.asarray(p) for p in (out if isinstance(out, tuple) else (out,)) if not isinstance(p, type)]
    return [(p.dtype, p.shape, p.tobytes()) for p in [*parts, *args] if isinstance(p, np.ndarray)], [
        (w.category, str(w.message), w.lineno) for w in caught
    ]


def check(function, *args):
    """Compares two calls with plain ones; gives what explain() says."""
    compiled = fj.jit(function)
    for _ in range(2):
        assert outcome(compiled, args) == outcome(function, args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return fj.explain(function)(*[a.copy() if isinstance(a, np.ndarray) else a for a in args])
        except (IndexError, ValueError):
            return None


def by_indices(x, i, v):
    x[i] = v
    return x * 2


def by_rows_and_columns(x, i, j, v):
    x[i, j] = v
    return x * 2


def by_mask(x, m, v):
    x[m] = v
    return x * 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [0, 1, 7, 8, 65, 2047, 2048, 2049, 5000])
def test_lengths_and_dtypes(dtype, length):
    x, i = numbers(3000, dtype), RNG.integers(-3000, 3000, length)
    found = check(by_indices, x, i, numbers(length, dtype))
    assert found.breaks == [] and " = put " in str(found)
    assert " = put " in str(check(by_indices, x, i, x[5]))


@pytest.mark.parametrize("dtype", INDICES)
def test_dtypes_of_indices(dtype):
    limits = np.iinfo(dtype)
    i = RNG.integers(max(limits.min, -200), min(limits.max, 200), 300).astype(dtype)
    found = check(by_indices, numbers(200), i, numbers(300))
    assert (" = put " in str(found)) == (dtype != "uint64")  # which NumPy converts by its own rule


@pytest.mark.parametrize("dtype", ["float64", "uint8", "complex128"])
@pytest.mark.parametrize("form", ["whole", "transposed", "strided", "backwards"])
def test_layouts_of_what_is_written(dtype, form):
    whole = numbers((60, 40, 6), dtype)
    x = {"whole": whole, "transposed": whole.T, "strided": whole[::2, 1::3], "backwards": whole[::-1, :, ::-1]}[form]
    rows, columns = (RNG.integers(-n, n, 90) for n in x.shape[:2])

    def views(whole, i, j, v, w):
        x = {0: whole, 1: whole.T, 2: whole[::2, 1::3], 3: whole[::-1, :, ::-1]}[KIND]
        x[i] = v
        x[i, j] = w
        return x.sum()

    KIND = ["whole", "transposed", "strided", "backwards"].index(form)
    assert " = put " in str(check(views, whole, rows, columns, numbers((90, *x.shape[1:]), dtype), numbers((90, x.shape[2]), dtype)))


def test_the_last_of_several_values_for_an_item_stays():
    x, i, v = numbers(10), RNG.integers(0, 10, 5000), numbers(5000)
    assert " = put " in str(check(by_indices, x, i, v))
    check(by_indices, x, i[::-1], v)
    check(by_indices, x, i[::-1], v[::-1])
    check(by_rows_and_columns, numbers((4, 5)), RNG.integers(0, 4, 50)[::-1], RNG.integers(0, 5, 50)[::-1], numbers(50)[::-1])


def test_memory_that_is_shared():
    def of_itself(x, i):
        x[i] = x[: len(i)]
        return x

    def backwards(x, i):
        x[i] = x[::-1][: len(i)] + 0
        return x

    def indices_of_itself(i):
        i[i] = i * 2
        return i

    def mask_of_itself(m):
        m[m] = m[: m.sum()]
        return m

    i = RNG.permutation(50)
    for function in (of_itself, backwards):
        check(function, numbers(100), i)
    check(indices_of_itself, i)
    check(mask_of_itself, numbers(200) > 0)
    compiled = fj.jit(by_indices)
    for shares in (False, True):  # the second time, the values are a part of the array
        a, b = numbers(100), None
        b = a.copy()
        v, w = (a[3:53], b[3:53]) if shares else (numbers(50), None)
        assert compiled(a, i, v).tobytes() == by_indices(b, i, v if w is None else w).tobytes()
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98, 1.0])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "uint8", "complex128"])
def test_masks(share, dtype):
    for shape in ((70_001,), (300, 200), (40_000, 3)):
        for rank in range(1, len(shape) + 1):
            m = RNG.random(shape[:rank]) < share
            found = check(by_mask, numbers(shape, dtype), m, numbers((m.sum(), *shape[rank:]), dtype))
            # A value for a mask with one True may be meant for several: NumPy runs that.
            assert m.sum() == 1 or (found.breaks == [] and (not m.any() or " = put " in str(found)))


def test_masks_with_another_number_of_values():
    m = RNG.random(50_000) < 0.5
    for count in (m.sum() - 1, m.sum() + 1, 0, 2, 50_000):
        check(by_mask, numbers(50_000), m, numbers(count))
    check(by_mask, numbers(50_000), m[:-1], numbers(m.sum()))


def test_one_value_in_an_array_is_for_all_places():
    def by_places(x, m, v):
        x[np.nonzero(m)[0]] = v
        return x * 2

    m = RNG.random(50_000) < 0.5
    for mask in (m, np.arange(50_000) == 7):
        for function in (by_mask, by_places):
            assert " = put " not in str(check(function, numbers(50_000), mask, numbers(1)))


def test_out_of_bounds_leaves_all_to_the_interpreter():
    def after_others(x, y, i, v):
        y += 1.0
        y[i] = v
        x[i] = v
        return x.sum()

    for bad in (100, -101, 2**40, -(2**63)):
        for at in (0, 2047, 2048, 4999):
            i = RNG.integers(-100, 100, 5000)
            i[at] = bad
            check(by_indices, numbers(100), i, numbers(5000))
            check(after_others, numbers(100), numbers(200), i, numbers(5000))


def test_a_warning_behind_takes_the_items_back():
    def squares(x, i, v):
        x[i] = v
        x[i] = v + 1.0
        y = x * 1e200
        x[0] = 1.0
        return y * y

    found = check(squares, numbers(1000) * 1e100, RNG.integers(0, 1000, 3000), numbers(3000))
    assert str(found).count("write u8") == 2 and " = put " in str(found)


def test_conversion_of_values():
    i = RNG.integers(0, 100, 40)
    for dtype, values in (
        ("float32", numbers(40)),
        ("float32", np.full(40, 1e300)),
        ("float64", numbers(40, "float32")),
        ("float64", numbers(40, "int64")),
        ("int64", numbers(40) + 0.5),
        ("int8", np.full(40, 300)),
        ("int8", 300),
        ("uint8", -1),
        ("complex64", numbers(40)),
        ("float64", numbers(40, "complex128")),
        ("bool", numbers(40)),
        ("float64", True),
        ("int64", 2.5),
        ("float64", [1.0] * 40),
        ("float64", "7"),
        ("float64", None),
        ("float64", numbers(1)),
        ("float64", numbers((1, 40))),
        ("float64", numbers((40, 1))),
        ("float64", numbers(39)),
    ):
        check(by_indices, numbers(100, dtype), i, values)


def test_a_number_that_varies_needs_no_new_graph():
    def label(x, i, k):
        x[i] = k + 1
        return x * 2

    i, a, b = RNG.integers(0, 500, 30), np.zeros(500), np.zeros(500)
    compiled = fj.jit(label)
    for k in range(6):
        assert compiled(a, i, k).tobytes() == label(b, i, k).tobytes()
        assert a.tobytes() == b.tobytes()
    assert len(compiled.cache_entries()) == 2


def test_own_arrays_are_written_in_place():
    def own(i, v):
        x = np.zeros(1000)
        x[i] = v
        x[i] = x[i] + 1.0
        return x

    found = check(own, RNG.integers(0, 1000, 300), numbers(300))
    text = str(found)
    assert text.count(" = put ") == 2 and "temp" not in text.split("put\n", 1)[1].split("gather")[0]
    assert "undo" not in text and "write u8" not in text and text.count("loop copy") == 1  # the zeros


def test_gradients_are_as_before():
    def loss(x, i, v):
        y = x * 2.0
        y[i] = v * 3.0
        return (y * y).sum()

    x, i, v = numbers(50), np.array([3, 7, 3, -1]), numbers(4)
    gradient = fj.grad(loss, (0, 2))(x, i, v)
    kept = np.ones(50)
    kept[i] = 0
    assert np.allclose(gradient[0], 8 * x * kept)
    assert np.allclose(gradient[1], 18 * v * [0, 1, 1, 1])
