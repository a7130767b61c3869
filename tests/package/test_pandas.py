"""``engine=fj.jit`` gives what pandas gives with the Python function."""

from __future__ import annotations

import functools
import math
import warnings

import numpy as np
import pytest

import framejit as fj

pd = pytest.importorskip("pandas", minversion="3")
pytestmark = pytest.mark.capture

FLOATS = pd.Series(np.random.default_rng(0).normal(size=1000), index=np.arange(1000) * 2, name="floats")
WITH_GAPS = FLOATS.where(FLOATS < 1.5)
COUNTS = pd.Series(np.arange(-500, 500), name="counts")
FRAME = pd.DataFrame(
    np.random.default_rng(1).normal(size=(40, 3)), columns=list("abc"), index=pd.Index(range(40), name="row")
)
MIXED = FRAME.assign(d=np.arange(40), e="x")


def outcome(call):
    """What a call returns or raises, with its warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as error:
            result = type(error), str(error)
    return result, [(each.category, str(each.message)) for each in seen]


def assert_same(plain, compiled):
    (expected, warned), (found, warned_too) = outcome(plain), outcome(compiled)
    assert type(found) is type(expected)
    assert warned_too == warned
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected, check_exact=True, check_flags=True)
    elif isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(found, expected, check_exact=True, check_flags=True)
    else:
        assert found == expected


def norm(part):
    return np.sqrt((part * part).sum())


def scale(part, factor=2.0, *, offset=0.0):
    return part * factor + offset


def first_or_text(part):
    return "many" if part[0] > 0 else "few"


def fail_late(part):
    if part[0] > 2.0:
        raise ValueError("too large")
    return part[0]


def widen(part):
    return part.sum() if part[0] > 0 else part


def pair(part):
    return part[:2]


def whole(part):
    return int(part[0] * 10)


ENGINES = [fj.jit, fj.jit(), fj.jit(capture_mode="bytecode"), fj.jit(dynamic=True)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("axis", [0, 1, "index", "columns"])
@pytest.mark.parametrize("func", [norm, scale, first_or_text, fail_late, widen, pair, whole, np.sum, np.sqrt, len])
def test_apply_to_arrays(engine, axis, func):
    plain = lambda: FRAME.apply(func, axis=axis, raw=True)
    for _ in range(3):
        assert_same(plain, lambda: FRAME.apply(func, axis=axis, raw=True, engine=engine))


@pytest.mark.parametrize("frame", [FRAME, MIXED], ids=["floats", "mixed"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "func",
    [lambda c: c.max(), lambda c: c.iloc[0], lambda c: c * 2, lambda c: c + c.iloc[0], "max", ["max", "min"], np.max],
)
def test_apply_to_series(frame, axis, func):
    assert_same(lambda: frame.apply(func, axis=axis), lambda: frame.apply(func, axis=axis, engine=fj.jit))


def test_arguments():
    assert_same(
        lambda: FRAME.apply(scale, raw=True, args=(3.0,), offset=1.0),
        lambda: FRAME.apply(scale, raw=True, args=(3.0,), offset=1.0, engine=fj.jit),
    )
    assert_same(lambda: FLOATS.map(scale, factor=3.0), lambda: FLOATS.map(scale, factor=3.0, engine=fj.jit))
    assert_same(lambda: FRAME.apply(scale, args=(3.0,)), lambda: FRAME.apply(scale, args=(3.0,), engine=fj.jit))


def relu(x):
    return x if x > 0 else 0


def text(x):
    return f"{x:.3f}"


def none_if_small(x):
    return None if x < 0 else x


def divide(x):
    return 1 / (int(x) - 3)


def huge(x):
    return int(x) * 10**17 + 1


def gauss(x):
    return math.exp(-x * x) * 2.0


def root(x):
    return np.sqrt(x)


def positive(x):
    return x > 0


def numpy_positive(x):
    return np.bool_(x > 0)


def some(x):
    return True if x > 0 else 0.5


def list_of(x):
    return [x > 0]


def stamp(x):
    return pd.Timestamp(0) + pd.Timedelta(seconds=int(x))


def single(x):
    return np.float32(x)


MAPPED = [
    scale, relu, text, none_if_small, divide, huge, gauss, root, positive, numpy_positive, some, list_of, stamp, single, abs, str, math.floor, np.exp,
    functools.partial(scale, factor=3),
]  # fmt: skip
SERIES = {
    "floats": FLOATS,
    "gaps": WITH_GAPS,
    "counts": COUNTS,
    "bools": FLOATS > 0,
    "float32": FLOATS.astype("float32"),
    "uint8": COUNTS.astype("uint8"),
    "short": FLOATS[:7],
    "empty": FLOATS[:0],
    "text": pd.Series(["a", "bc", None]),
    "category": pd.Series([1, 2, 1], dtype="category"),
    "nullable": pd.Series([1, None, 3], dtype="Int64"),
    "time": pd.Series(pd.date_range("2020", periods=3)),
}


@pytest.mark.parametrize("na_action", [None, "ignore"])
@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("func", MAPPED)
def test_map(func, name, na_action):
    series = SERIES[name].copy()
    series.attrs["unit"] = "m"
    for _ in range(2):
        assert_same(
            lambda: series.map(func, na_action=na_action), lambda: series.map(func, na_action=na_action, engine=fj.jit)
        )


def test_map_subclass():
    class Own(pd.Series):
        @property
        def _constructor(self):
            return Own

    own = Own([1.0, 2.0])
    assert type(own.map(scale, engine=fj.jit)) is type(own.map(scale)) is Own


def test_map_calls_in_order_and_sees_a_copy():
    for engine in (None, fj.jit):
        series, calls = pd.Series(np.arange(300.0)), []

        def note(x):
            calls.append(x)
            series.iloc[-1] = -1.0
            return x

        result = series.map(note, engine=engine)
        assert calls == [float(i) for i in range(300)]
        assert result.iloc[-1] == 299.0


def test_loops_are_compiled():
    def square(x):
        return x * x + 0.5

    compiled = []
    for _ in range(2):
        fj.reset()
        FLOATS.map(square, engine=fj.jit)
        assert fj.stats()["kernel_calls"] == 1
        compiled.append(fj.stats()["compile_ns"] > 0)
    assert compiled == [True, False]


def test_lambda_of_a_repeated_line_is_compiled_once():
    fj.reset()
    for _ in range(5):
        FRAME.apply(lambda row: (row * row).sum(), axis=1, raw=True, engine=fj.jit)
    assert fj.stats()["kernels_compiled"] == 1
    results = [
        FRAME.apply(lambda row: row[0] * factor, axis=1, raw=True, engine=fj.jit).iloc[0] for factor in (2.0, 3.0)
    ]
    assert results == [FRAME.iloc[0, 0] * 2.0, FRAME.iloc[0, 0] * 3.0]


def test_options_of_jit_count():
    def exponential(row):
        return np.exp(row).sum()

    level = fj.jit(jit_level="O1")
    close = FRAME.apply(exponential, axis=1, raw=True, engine=level)
    np.testing.assert_allclose(close, FRAME.apply(exponential, axis=1, raw=True), rtol=1e-12)
    with pytest.raises(fj.GraphBreakError):
        FRAME.apply(lambda row: print(row, flush=True), axis=1, raw=True, engine=fj.jit(fullgraph=True))
    with pytest.raises(fj.GraphBreakError):
        FLOATS.map(lambda x: print(np.arange(3.0), flush=True), engine=fj.jit(fullgraph=True))


def test_methods_and_objects():
    class Model:
        def __init__(self):
            self.weight = 3.0

        def step(self, part):
            return part * self.weight

        def __call__(self, part):
            return part + self.weight

    model = Model()
    for func in (model.step, model):
        assert_same(lambda: FRAME.apply(func, raw=True), lambda: FRAME.apply(func, raw=True, engine=fj.jit))
        assert_same(lambda: FLOATS.map(func), lambda: FLOATS.map(func, engine=fj.jit))


def test_marked_functions_keep_their_arguments():
    marked = fj.jit(norm)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FRAME.apply(marked, axis=1, raw=True, engine=fj.jit(jit_level="O1"))
    assert len(marked.cache_entries()) == 1


def test_rolling_takes_a_marked_function():
    assert_same(
        lambda: FLOATS.rolling(5).apply(norm, raw=True), lambda: FLOATS.rolling(5).apply(fj.jit(norm), raw=True)
    )
