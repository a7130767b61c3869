"""In-place statements whose floating-point flags fire: the warnings of eager NumPy, in its order, at its lines."""

from __future__ import annotations

import contextlib
import gc
import io
import linecache
import random
import types
import warnings

import numpy as np
import pytest

import framejit

from exact.same import assert_same_value

ACTIONS = ["default", "always", "once", "module", "ignore", "error"]
HUGE = {np.float32: np.float32(3e38), np.float64: np.float64(1.7e308)}


def own_show():
    """The function that writes warnings to stderr; pytest has put its list in its place."""
    home = warnings._showwarnmsg.__globals__  # of another module from 3.14 on
    own = [f for f in gc.get_objects() if isinstance(f, types.FunctionType) and f.__globals__ is home]
    return next(f for f in own if f.__name__ == "_showwarnmsg_impl")


OWN_SHOW = own_show()


def module_of(source: str, name: str) -> types.ModuleType:
    """A module with a file of its own, whose lines Python can show."""
    module = types.ModuleType(name)
    module.__file__ = f"<{name}>"
    linecache.cache[module.__file__] = (len(source), None, source.splitlines(True), module.__file__)
    exec(compile(source, module.__file__, "exec"), module.__dict__)
    return module


def run(function, args, action, errstate, record, calls=3, namespaces=()):
    """What some calls, one after the other, did and left."""
    for space in namespaces:
        space.pop("__warningregistry__", None)
    shown, errors, results = io.StringIO(), [], []
    with contextlib.redirect_stderr(shown), np.errstate(**errstate), warnings.catch_warnings(record=record) as caught:
        warnings.simplefilter(action)
        if not record:
            warnings._showwarnmsg_impl = OWN_SHOW
        for call in range(calls):
            try:
                results.append(function(*[a.copy() if call == 0 and isinstance(a, np.ndarray) else a for a in args]))
                results.append(function(*args))
            except Exception as error:
                errors.append((type(error), str(error), error.__traceback__.tb_next.tb_lineno))
    seen = [(w.category, str(w.message), w.filename, w.lineno, w.line) for w in caught or ()]
    registries = [
        {key: value for key, value in space.get("__warningregistry__", {}).items() if key != "version"}
        for space in namespaces
    ]
    return seen, shown.getvalue(), errors, registries, results


def check(function, make_args, action="always", errstate=None, record=True, namespaces=None, calls=3):
    """Marked like unmarked: state, results, warnings or the text on stderr, registries."""
    errstate = {"all": "warn"} if errstate is None else errstate
    namespaces = [function.__globals__] if namespaces is None else namespaces
    marked = framejit.jit(function)
    with np.errstate(all="ignore"):
        marked(*make_args())  # captured on data of the same kind
    internal = framejit.stats()["internal_errors"]
    eager_args, marked_args = make_args(), make_args()
    expected = run(function, eager_args, action, errstate, record, calls, namespaces)
    actual = run(marked, marked_args, action, errstate, record, calls, namespaces)
    for what, e, a in zip(["warnings", "stderr", "errors", "registries"], expected, actual):
        assert a == e, f"{what}: {a} for {e}"
    assert_same_value(expected[4], actual[4], "results")
    assert_same_value(list(eager_args), list(marked_args), "arguments")
    assert framejit.stats()["internal_errors"] == internal
    return marked


def attributed(marked) -> bool:
    """Is there a program that says whose flags were raised?"""
    return " flags 0" in marked.asm()


def scale_and_add(x, y, c):
    x *= c
    x += y


def arrays(dtype, size, multiply=False, add=False, at=None):
    """x, y, c of scale_and_add; which statement overflows, and in which element."""
    at = size // 2 if at is None else at
    x, y = np.ones(size, dtype), np.full(size, 2, dtype)
    if multiply:
        x[at] = HUGE[dtype]
    if add:
        x[size - 1 - at] = HUGE[dtype] / 2
        y[size - 1 - at] = HUGE[dtype] / 2
    return x, y, 1.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fires", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("record", [True, False])
def test_filters(dtype, fires, action, record):
    marked = check(scale_and_add, lambda: arrays(dtype, 5000, *fires), action, record=record)
    assert attributed(marked)


@pytest.mark.parametrize("over", ["ignore", "warn", "raise", "print"])
@pytest.mark.parametrize("invalid", ["ignore", "warn", "raise"])
def test_errstate(over, invalid):
    def make_args():
        x, y, c = arrays(np.float64, 3000, True, True)
        x[7], y[7] = np.inf, -np.inf
        return x, y, c

    check(scale_and_add, make_args, errstate={"over": over, "invalid": invalid})


def test_errstate_call_and_log():
    calls = []

    class Log:
        def write(self, text):
            calls.append(text)

    for handler, mode in [(lambda kind, flags: calls.append((kind, flags)), "call"), (Log(), "log")]:
        before = np.geterrcall()
        np.seterrcall(handler)
        try:
            for function in (scale_and_add, framejit.jit(scale_and_add)):
                with np.errstate(over=mode):
                    for _ in range(3):
                        function(*arrays(np.float64, 3000, True, True))
        finally:
            np.seterrcall(before)
        assert calls[: len(calls) // 2] == calls[len(calls) // 2 :] and len(calls) >= 12
        calls.clear()


@pytest.mark.parametrize("at", [0, 1, 251, 252, 253, 255, 256, 257, 639, 640, 641, 1343, 1344, 2687, 4999])
def test_single_tiles(at):
    check(scale_and_add, lambda: arrays(np.float32, 5000, True, True, at))


@pytest.mark.parametrize("every", [1, 100, 300, 2000])
@pytest.mark.parametrize("shape", [(5000,), (20, 250), (250, 20), (10, 500)])
def test_many_rows(every, shape):
    def make_args():
        x, y = np.ones((2, shape[0], *shape[1:]), np.float32)
        x.reshape(-1)[::every] = 3e38
        y.reshape(-1)[every // 2 :: every] = np.inf
        x.reshape(-1)[every // 2 :: 7 * every] = -np.inf
        wide = np.ones((*shape[:-1], shape[-1] + 3), np.float32)  # rows that do not follow each other
        wide[..., : shape[-1]] = x
        return wide[..., : shape[-1]], y, 1.9

    assert attributed(check(scale_and_add, make_args))


@pytest.mark.parametrize("size", [0, 1, 2, 31, 32, 33, 255, 256, 257, 511, 512, 513, 639, 640, 641, 671, 672, 673, 1343, 1344, 1345, 1376, 1377, 4097])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sizes(size, dtype):
    check(scale_and_add, lambda: arrays(dtype, size, size > 0, size > 0, at=size - 1))


def test_any_size():
    marked = framejit.jit(scale_and_add, dynamic=True)
    for size in (5000, 3000, 641, 1, 0, 2000, 100_000):
        for fires in ((0, 0), (1, 0), (0, 1), (1, 1)):
            fires = fires if size else (0, 0)
            for dtype in (np.float32, np.float64):
                eager_args, marked_args = arrays(dtype, size, *fires), arrays(dtype, size, *fires)
                expected = run(scale_and_add, eager_args, "always", {"all": "warn"}, True)
                assert run(marked, marked_args, "always", {"all": "warn"}, True)[:3] == expected[:3]
                assert_same_value(list(eager_args), list(marked_args))
    assert attributed(marked)


def test_flags_are_not_demoted():
    marked = framejit.jit(scale_and_add)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        marked(*arrays(np.float64, 3000))
        before = framejit.stats()["kernel_calls"]
        for _ in range(10):
            marked(*arrays(np.float64, 3000, True, True))
        assert framejit.stats()["kernel_calls"] >= before + 10
    assert len(caught) == 20


def several_kinds(x, y, z):
    x /= y
    z -= x
    np.sqrt(z, out=z)
    z *= 1e-300
    x *= x


def test_several_kinds():
    def make_args():
        x, y, z = np.ones(3000), np.ones(3000), np.full(3000, 4.0)
        x[5], y[5] = 0, 0
        y[6] = 0
        x[7] = 1e300
        z[9] = 1e-20
        return x, y, z

    for action in ACTIONS:
        assert attributed(check(several_kinds, make_args, action))


def mixed(x, y, c):
    scaled = y * 2
    x += scaled
    small = x * c
    x -= small
    return small, x > 1


def rounds(x, y, n):
    for _ in range(n):
        x *= 1.5
        x += y


def read_back(x, y, c):
    x *= c
    n = np.sqrt(y)
    y[...] = x
    y /= n
    return y


def broken_up(x, y, c):
    x *= c
    print(end="")
    x += y
    for _ in range(2):
        y -= x
        print(end="")
    y *= c


@pytest.mark.parametrize("function, last", [(broken_up, 2.0), (mixed, 3.0), (rounds, 4), (read_back, 2.0)])
@pytest.mark.parametrize("action", ["always", "default", "error"])
def test_programs(function, last, action):
    def make_args():
        x, y, _ = arrays(np.float64, 3000, True, True)
        y[11] = -1
        y[12] = 0
        return x, y, last

    check(function, make_args, action)


def reversed_in_place(x, y, c):
    x *= c
    x += x[::-1]


def shifted(x, y, c):
    x[1:] += x[:-1]
    x *= c


def same_array(x, y, c):
    x *= x
    x += x


def statistics(x, y, c):
    x *= c
    total = x.sum()
    x -= y
    return total


def largest(x, y, c):
    x *= c
    return x.max()


def other_dtype(x, y, c):
    x += y.astype(np.float64) * 1e200
    x *= c


def casts(x, y, c):
    y += x
    y *= c


def powers(x, y, c):
    x **= 2
    x += y
    y //= c
    y %= x


def numpy_functions(x, y, c):
    np.exp(x, out=x)
    np.multiply(x, c, x)
    np.add(x, y, out=(x,))
    np.log(y, out=y)


FUNCTIONS = [reversed_in_place, shifted, same_array, statistics, largest, other_dtype, casts, powers, numpy_functions]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("action", ["always", "error"])
def test_memory_and_kinds(function, dtype, action):
    def make_args():
        x, y, c = arrays(dtype, 2500, True, True)
        y[3], y[4], x[9] = 0, -1, 0
        return x, y, c

    check(function, make_args, action)


def integers(x, y, c):
    x //= y
    x += 5
    y %= x
    x -= c
    y //= x


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("action", ["always", "error"])
def test_integers(dtype, action):
    def make_args():
        x, y = np.full(2500, 7, dtype), np.full(2500, 3, dtype)
        y[1200] = 0
        x[1300] = np.iinfo(dtype).min
        y[1300] = np.array(-1).astype(dtype)
        return x, y, 7

    assert attributed(check(integers, make_args, action))


def test_unlike_dtypes():
    def make_args():
        x, y = np.ones(2500), np.ones(2500, np.float32)
        x[[3, 2000]] = 1e39
        y[7] = 3e38
        return x, y, 1.9

    for function in (casts, scale_and_add):
        check(function, make_args)


@pytest.mark.parametrize("layout", ["strided", "2-D", "transposed", "broadcast", "reversed"])
def test_layouts(layout):
    def make_args():
        x, y = np.ones((90, 80)), np.ones((90, 80))
        x[3, 4] = x[80, 70] = 1.7e308
        y[5, 6], x[5, 6] = 1e308, 9e307
        if layout == "strided":
            return x.reshape(-1)[::2], y.reshape(-1)[::2], 1.9
        if layout == "transposed":
            return x.T, y.T, 1.9
        if layout == "broadcast":
            return x, y[5], 1.9
        if layout == "reversed":
            return x[::-1], y, 1.9
        return x, y, 1.9

    check(scale_and_add, make_args)


def test_threads():
    before = framejit.config.num_threads
    framejit.config.num_threads = 2
    try:
        for at in (0, 150_000, 299_999):
            check(scale_and_add, lambda: arrays(np.float64, 300_000, True, True, at), calls=2)
    finally:
        framejit.config.num_threads = before


def test_python_float_that_overflows():
    """The number warns as it becomes a float32, before anything is written."""

    def make_args():
        x, y, _ = arrays(np.float32, 3000, True, True)
        return x, y, 1e300

    check(scale_and_add, make_args)
    check(scale_and_add, make_args, "error")


CALLEE = """
def scale(x, c):
    x *= c

def twice(x, y, c):
    scale(x, c)
    x += y
"""


@pytest.mark.parametrize("action", ["default", "always", "error"])
@pytest.mark.parametrize("record", [True, False])
def test_inlined_callees(action, record):
    other = module_of(CALLEE, "flags_other")

    def caller(x, y, c):
        x += y
        other.twice(x, y, c)
        x -= y

    check(
        caller,
        lambda: arrays(np.float64, 3000, True, True),
        action,
        record=record,
        namespaces=[globals(), other.__dict__],
    )


def test_nameless_globals():
    other = module_of(CALLEE, "flags_nameless")
    del other.__dict__["__name__"]
    for record in (True, False):
        check(
            other.twice, lambda: arrays(np.float64, 3000, True, True), "default", record=record, namespaces=[other.__dict__]
        )


def test_filters_that_look_at_text_module_and_line():
    line = scale_and_add.__code__.co_firstlineno + 1
    filters = [
        dict(action="error", message="overflow encountered in add"),
        dict(action="ignore", message="overflow encountered in multiply"),
        dict(action="error", category=DeprecationWarning),
        dict(action="always", module=__name__.replace(".", r"\.")),
        dict(action="ignore", lineno=line),
    ]
    marked = framejit.jit(scale_and_add)
    for chosen in filters:
        seen = []
        for function in (scale_and_add, marked, marked):
            x, y, c = arrays(np.float64, 3000, True, True)
            globals().pop("__warningregistry__", None)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("default")
                warnings.filterwarnings(**chosen)
                try:
                    function(x, y, c)
                except RuntimeWarning as error:
                    seen.append((str(error), x.tobytes()))
                    continue
            seen.append(([(str(w.message), w.lineno) for w in caught], x.tobytes()))
        assert seen[1] == seen[0] and seen[2] == seen[0], chosen


def test_replaced_showwarning_sees_the_state_of_its_statement():
    seen = []
    marked = framejit.jit(scale_and_add)
    marked(*arrays(np.float64, 3000))
    for function in (scale_and_add, marked):
        x, y, c = arrays(np.float64, 3000, True, True)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *rest: seen.append((str(message), x.tobytes()))
            function(x, y, c)
    assert len(seen) == 4 and seen[:2] == seen[2:]


def counts_what_was_recorded(x, y, c, log):
    before = len(log)
    x *= c
    middle = len(log)
    x += y
    return before, middle, len(log)


def within_recording(x, y, c):
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        x *= c
        first = len(log)
        x += y
        return first, len(log)


def test_the_log_is_looked_at():
    marked = framejit.jit(counts_what_was_recorded)
    inside = framejit.jit(within_recording)
    for _ in range(3):
        for function in (counts_what_was_recorded, marked):
            with warnings.catch_warnings(record=True) as log:
                warnings.simplefilter("always")
                assert function(*arrays(np.float64, 3000, True, True), log) == (0, 1, 2)
        for function in (within_recording, inside):
            assert function(*arrays(np.float64, 3000, True, True)) == (1, 2)


def reads_registry(x, y, c):
    x *= c
    return "__warningregistry__" in globals()


def changes_filters(x, y, c):
    x *= c
    warnings.filters.insert(0, ("ignore", None, RuntimeWarning, None, 0))
    x += y


@pytest.mark.parametrize("function", [reads_registry, changes_filters])
def test_the_state_of_warnings_is_looked_at(function):
    check(function, lambda: arrays(np.float64, 3000, True, True), "default", calls=1)


def test_stderr_that_fails():
    class Broken(io.StringIO):
        def write(self, text):
            raise ValueError("closed")

    closed = io.StringIO()
    closed.close()
    for plain in (scale_and_add, broken_up):
        marked = framejit.jit(plain)
        marked(*arrays(np.float64, 3000))
        for function in (plain, marked):
            for file in (Broken(), closed):
                x, y, c = arrays(np.float64, 3000, True)
                with contextlib.redirect_stderr(file), warnings.catch_warnings():
                    warnings.simplefilter("always")
                    warnings._showwarnmsg_impl = OWN_SHOW
                    with pytest.raises(ValueError, match="closed"):
                        function(x, y, c)


STATEMENTS = [
    "x *= c",
    "x += y",
    "y -= x",
    "x /= y",
    "y *= y",
    "x[1:] += y[:-1]",
    "x += x[::-1]",
    "np.multiply(x, y, out=x)",
    "np.sqrt(x, out=y)",
    "x **= 2",
    "z = x * y",
    "z -= c",
    "x %= y",
    "y //= c",
    "x[...] = z",
    "y[::2] = z[::2]",
    "np.exp(y, out=y)",
    "helper(x, y)",
    "z = np.where(x > y, x, z)",
    "x += 1",
    "y *= x.mean()",
    "z = x.astype(np.float32)",
]
EXTREMES = [0.0, -0.0, 1e-40, 1e-310, 3e38, 1.7e308, np.inf, -np.inf, np.nan, -1.0]


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    rng = random.Random(seed)
    body = [rng.choice(STATEMENTS) for _ in range(rng.randint(2, 6))]
    source = "import numpy as np\ndef helper(a, b):\n    a -= b\n    b += 1\ndef f(x, y, c):\n    z = x + 1\n"
    source += "".join(f"    {line}\n" for line in body) + "    return z\n"
    module = module_of(source, f"flags_random_{seed}")
    dtype = rng.choice([np.float32, np.float64])
    size = rng.choice([1, 33, 640, 641, 2000, 3001])
    spots = [(rng.randrange(2), rng.randrange(size), rng.choice(EXTREMES)) for _ in range(rng.randint(0, 3))]

    def make_args():
        with np.errstate(all="ignore"):
            both = np.full((2, size), [[1.5], [0.75]], dtype)
            for row, column, value in spots:
                both[row, column] = value
        return both[0].copy(), both[1].copy(), 1.25

    for action in ("always", rng.choice(ACTIONS)):
        check(module.f, make_args, action, record=rng.random() < 0.7, namespaces=[module.__dict__], calls=2)
