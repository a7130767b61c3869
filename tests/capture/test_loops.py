"""Loops that are compiled as loops: what is made of them, where they are left, and what the interpreter sees then."""

from __future__ import annotations

import gc
import math
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run
from loop_support import compiled, loops

pytestmark = pytest.mark.capture


def test_the_least_int_in_bounds():
    def far_below(x, n, low=-(2**63)):
        for i in range(n):
            if i + -(2**63) >= low + n:
                return i
            x[i] += 1.0
        return x[n + -(2**63)]

    assert len(loops(compiled(far_below, np.zeros(40), 40))) == 1


def test_variables_of_several_types_in_a_nest():
    def nearest(points, labels, centres):
        for i in range(points.shape[0]):
            best, least = 0, np.inf  # later an index and a NumPy scalar, which `total` is too
            for c in range(centres.shape[0]):
                total = 0.0
                for k in range(points.shape[1]):
                    total += (points[i, k] - centres[c, k]) ** 2
                if total < least:
                    best, least = c, total
            labels[i] = best
        return best, least, total, least is total

    rng = np.random.default_rng(1)
    marked = compiled(nearest, rng.normal(size=(50, 4)), np.zeros(50, np.int64), rng.normal(size=(5, 4)))
    (loop,) = loops(marked)
    assert loop["last_line"] - loop["first_line"] == 8



def total(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i] * x[i]
    return s


def test_a_loop_is_one_entry_with_its_graph_and_guards():
    marked = compiled(total, np.linspace(0.0, 1.0, 100))
    (entry,) = loops(marked)
    assert marked._report()["breaks"] == [] and len(marked._report()["entries"]) == 1
    assert (entry["first_line"], entry["last_line"]) == tuple(total.__code__.co_firstlineno + i for i in (2, 3))
    for part in ("load.f64", "mul", "check.finite", "poll", "# loop depth 1"):
        assert part in entry["graph"], entry["graph"]
    assert any("x.dtype" in g or "float64" in g for g in entry["guards"]), entry["guards"]
    assert [(e["why"], e["early"]) for e in entry["exits"]] == [("", False)]


def test_other_types_and_lengths():
    marked = compiled(total, np.linspace(0.0, 1.0, 100))
    recompiles = fj.stats()["recompiles"]
    for x in (np.linspace(0.0, 1.0, 300), np.linspace(0.0, 1.0, 50)):
        check_same(run(total, (x,)), run(marked, (x,)), "length")
    assert fj.stats()["recompiles"] == recompiles  # a length is no reason
    for x in (np.arange(100.0)[::2], np.arange(100, dtype="f4"), np.arange(100), np.arange(200.0)[::-2]):
        for _ in range(2):
            check_same(run(total, (x,)), run(marked, (x,)), str(x.dtype))
    assert len(loops(marked)) == 5


def test_reasons_why_a_loop_stays_bytecode():
    def words(x):
        seen = {}
        for i in range(len(x)):
            seen[i] = x[i] + 1.0
        return seen

    marked = compiled(words, np.arange(10000.0))
    (entry,) = marked._report()["breaks"]
    assert loops(marked) == [] and entry["id"] == "FJ024"
    assert entry["detail"] == "an assignment to an item of something that is not an array"
    assert entry["line"] == words.__code__.co_firstlineno + 2


def test_a_rare_path_leaves_the_loop_and_comes_back():
    def rare(x):
        s, seen = 0.0, {}
        for i in range(len(x)):
            if x[i] > 98.0:
                seen[i] = s
            s += x[i]
        return s, seen

    marked = compiled(rare, np.arange(100.0))
    exits = [e for entry in loops(marked) for e in entry["exits"]]
    left = [e["taken"] for e in exits if e["why"] == "an assignment to an item of something that is not an array"]
    assert sum(left) == 3 and sum(e["taken"] for e in exits if not e["early"]) == 3


@pytest.mark.parametrize("at", [0, 1, 31, 32, 33, 98, 99])
def test_an_index_error_has_the_state_of_its_round(at):
    def fill(out, n):
        last = -1
        for i in range(n):
            last = i
            out[i + 1] = i * 0.5
        return last

    compiled(fill, np.zeros(100 - at), 100)


def test_ints_beyond_64_bits():
    def powers(n):
        x, y = 1, 0
        for i in range(n):
            x = x * 3 + i
            y += x % 7
        return x, y

    marked = compiled(powers, 100)
    assert sum(e["taken"] for e in loops(marked)[0]["exits"] if e["early"]) > 0


def test_warnings_and_errors_of_divisions():
    def quotients(x, y):
        s = 0.0
        for i in range(len(x)):
            s += x[i] / y[i]
        return s

    def reciprocals(n):
        s = 0.0
        for i in range(n):
            s += 1.0 / (n - 5 - i)
        return s

    y = np.ones(100)
    y[[3, 50]] = 0.0
    compiled(quotients, np.ones(100), y)
    compiled(quotients, np.zeros(100), y)
    compiled(reciprocals, 60)


def test_an_error_state_that_minds_underflow_is_the_interpreters():
    def decay(x):
        s = 1e-300
        for i in range(len(x)):
            s = x[i] * 1e-300
        return s

    x = np.full(64, 1e-300)
    compiled(decay, x)
    with np.errstate(under="raise"):
        check_same(run(decay, (x,)), run(fj.jit(decay), (x,)), "under")


def test_an_iterator_that_others_hold_moves_on():
    def halves(n):
        numbers = iter(range(n))
        s = t = 0
        for i in numbers:
            s += i
            if i == n // 2:
                break
        rest = list(numbers)
        for i in numbers:
            t += i
        return s, t, rest, list(numbers)

    compiled(halves, 200)


def test_one_object_stays_one_object():
    def aliases(x):
        s = t = x[0]
        for i in range(len(x)):
            s = x[i] * 2.0
            t = s
        return s is t, s, t

    compiled(aliases, np.arange(1.0, 65.0))


def test_functions_that_may_give_their_argument_give_another_value():
    def of_ints(n):
        s = t = u = k = 0
        for i in range(n):
            k = i * 3 % 7 - 3
            t = abs(k)
            u = max(k, i, 5)
            s += t * 10 + u + k
        return s, t, u, k

    def of_elements(x):
        s = 0.0
        for i in range(len(x)):
            v = x[i]
            w = abs(v)
            m = min(v, x[0])
            n = max(float(v), 0.25)
            s += w - m + n
        return s, v, w, m, n

    compiled(of_ints, 60)
    compiled(of_elements, np.linspace(-3.0, 2.0, 60))


def test_arrays_that_overlap_are_read_and_written_in_order():
    def shifted(a, b):
        for i in range(len(b)):
            b[i] = a[i] + 1.0

    def both(make):
        expected, got = make(), make()
        shifted(*expected)
        for _ in range(2):
            got = make()
            fj.jit(shifted)(*got)
        assert got[0].tobytes() == expected[0].tobytes()

    def overlapping():
        x = np.zeros(200)
        return x[:-1], x[1:]

    both(overlapping)


def test_what_a_variable_held_goes_before_the_loop():
    class Held:
        pass

    def replaces(n, log):
        held = Held()
        weakref.finalize(held, log.append, n)
        s = 0
        for i in range(n):
            held = i
            if i == 1:
                log.append("round 1")
            s += held
        return s

    expected, got = [], []
    marked = fj.jit(replaces)
    for _ in range(3):
        assert replaces(100, expected) == marked(100, got)
    assert got == expected and got[:2] == [100, "round 1"]


def test_references_are_kept_as_they_were():
    def appended(out, x):
        for i in range(len(x)):
            out.append(x[i] * 2.5)
        return out

    marked = fj.jit(appended)
    x, out = np.arange(100.0).tolist(), []
    marked(out, x)
    counts = sys.getrefcount(out), sys.getrefcount(x), sys.getrefcount(x[50])
    for _ in range(20):
        marked([], x)
    gc.collect()
    assert (sys.getrefcount(out), sys.getrefcount(x), sys.getrefcount(x[50])) == counts
    plain = [sys.getrefcount(v) for v in appended([], x)]
    assert out == appended([], x) and [sys.getrefcount(v) for v in marked([], x)] == plain


def test_lists_share_no_number_that_another_holds():
    def doubles(numbers, kept):
        first = numbers[0]
        for i in range(len(numbers)):
            numbers[i] = numbers[i] * 2.0
        return first, kept

    def make():
        numbers = [1.5 * i + 0.25 for i in range(100)]
        return numbers, [numbers[0], numbers[99]]

    marked = fj.jit(doubles)
    for _ in range(3):
        check_same(run(doubles, make()), run(marked, make()), "doubles")


def test_numbers_of_lists_are_replaced_in_place_only_if_nobody_else_sees_them():
    def shifted(numbers, by, kept):
        for i in range(len(numbers)):
            kept[i % 7] = i
            numbers[i] = numbers[i] + by
        return numbers[3]

    def flipped(flags, kept):
        for i in range(len(flags)):
            flags[i] = not flags[i]
            kept[i % 7] = i
        return flags[3]

    def shared(values):
        # Half of the objects are in another list, too, and some are there twice.
        values[5] = values[4]
        return values, values[::2]

    ints = [0, 1, -1, 5, 256, 257, 1024, 1025, 1026, -1025, 10**6, -(10**6), 2**30 - 1, 2**30 - 2, -(2**30) + 1, 7, 2000]
    floats = [0.0, -0.0, 1.5, math.inf, math.nan, 1e300, 5e-324]
    marked = fj.jit(shifted)
    for _ in range(2):
        for values, steps in ((ints, (0, 1, -1, 1000, -1000, 10**6, -(10**6), 2**29, 2**40)), (floats, (0.0, 1.5, -1e300))):
            for by in steps:
                plain, plain_other = shared([v for v in values * 20])
                got, got_other = shared([v for v in values * 20])
                kept, got_kept = [0] * 7, [0] * 7
                if by == 0:  # objects of their own
                    plain, got = [v + by for v in plain], [v + by for v in got]
                a, b = shifted(plain, by, kept), marked(got, by, got_kept)
                assert repr((a, plain, plain_other, kept)) == repr((b, got, got_other, got_kept)), by
                assert [type(v) for v in got] == [type(v) for v in plain]
    # What is given to others keeps its value.
    numbers = [1000.5 + i for i in range(60)]
    held = numbers[10]
    marked(numbers, 1.0, [0] * 7)
    assert held == 1010.5 and numbers[10] == 1011.5
    # An object in two places of a list.
    one = float("1.25")
    twice = [one, one] * 30
    del one
    marked(twice, 1.0, [0] * 7)
    assert twice == [2.25] * 60
    flags = fj.jit(flipped)
    given = [i % 3 == 0 for i in range(100)]
    before = sys.getrefcount(True), sys.getrefcount(False)
    for _ in range(10):
        flags(given, [0] * 7)
    assert given == [i % 3 == 0 for i in range(100)]
    after = sys.getrefcount(True), sys.getrefcount(False)
    assert all(abs(x - y) < 50 for x, y in zip(before, after)), (before, after)
    assert loops(flags) and loops(marked)


def test_lists_of_numbers_are_read_and_written():
    def sieve(n):
        prime = [True] * (n + 1)
        prime[0] = prime[1] = False
        for i in range(2, n + 1):
            if prime[i]:
                for j in range(i * i, n + 1, i):
                    prime[j] = False
        return prime

    def sums(rows):
        out = []
        for row in rows:
            s = 0
            for v in row:
                s += v
            out.append(s)
        return out

    def mixed(numbers):
        s = 0.0
        for i in range(len(numbers)):
            s += numbers[i]
            numbers[i] = s
        return s

    assert loops(compiled(sieve, 200))
    over_lists = compiled(sums, [[i + j for j in range(40)] for i in range(50)])
    assert loops(over_lists)
    for odd in (2, True, None, 10**30, np.float64(1.5)):
        numbers = [0.5 * i for i in range(100)]
        numbers[70] = odd
        compiled(mixed, numbers)


def test_enumerate_and_zip():
    def weighted(x, w):
        s, last = 0.0, -1
        for i, v in enumerate(x):
            s += v * i
            last = i
        for v, k in zip(x, w):
            s += v * k
        for i, (v, k) in enumerate(zip(x, w), 5):
            s -= v * k * i
        return s, last, i

    def firsts(x, n):
        pairs, numbers = zip(x, range(n)), enumerate(x)
        for i, v in numbers:
            if v > 50.0:
                break
        for v, k in pairs:
            if k > 40:
                break
        return i, k, list(pairs), list(numbers)

    def inner(m):
        s = 0.0
        for row in m:
            for i, v in enumerate(row):
                for j, w in zip(range(i), row):
                    s += v * w - j
        return s

    x = np.arange(100.0)
    for w in (np.linspace(1.0, 2.0, 100), np.linspace(1.0, 2.0, 60), np.arange(100).tolist()):
        assert len(loops(compiled(weighted, x, w))) >= 3
    for n in (30, 60, 200):
        assert loops(compiled(firsts, x, n))
        assert loops(compiled(firsts, x.tolist(), n))
    assert loops(compiled(inner, np.linspace(0.0, 1.0, 400).reshape(10, 40)))


def test_an_iterator_that_two_names_hold():
    def pairs(it, other):
        s = 0
        for a, b in zip(it, other):
            s += a * 10 + b
        return s

    def nested(it):
        s = 0
        for a in it:
            for b in it:
                s += b
                if s % 7 == 6:
                    break
            s += 1000 + a
        return s

    def twice(x, n):
        s, it, other = 0, None, None
        for i in range(n):
            it = other = enumerate(x)
            for j, v in it:
                if j > 2 + i:
                    break
            for j, v in it:
                s += j
            for p, q in zip(enumerate(x), other):
                s += p[0] * q[1]
        return s, it is other

    def drained(it):
        s = 0
        for j, v in it:
            s += j * v
            if j > 2:
                return s, it
        return s, it

    def handed_on(x, n):
        s = 0
        for i in range(n):
            s, it = drained(enumerate(x))
            for j, v in it:
                s += j
        return s

    def fresh(of, same):
        it = iter(of)
        return it, it if same else iter(of)

    for of in (range(50), list(range(50)), np.arange(50)):
        marked = fj.jit(pairs)
        for same in (False, False, True, False, True):
            check_same(run(pairs, fresh(of, same)), run(marked, fresh(of, same)), f"{of}, {same}")
        assert loops(marked)
        for function in (pairs, nested):
            marked = fj.jit(function)
            for _ in range(3):
                args = lambda: fresh(of, True)[: 1 + (function is pairs)]  # noqa: E731
                check_same(run(function, args()), run(marked, args()), f"{function.__name__} of {of}")
        compiled(twice, of, 40)
        compiled(handed_on, of, 40)


def test_two_names_of_one_object():
    def tuples(x):
        pair = other = fresh = None
        for i in range(len(x)):
            pair = other = (i, x[i])
            fresh = (i, x[i])
            if i > 50:
                pair = ((other, 1), other)
        return pair is other, pair[0][0] is pair[1], fresh is other, pair[1] is other, pair

    def rows(m):
        row = other = None
        for row in m:
            other = row
            span = same = range(len(row))
            last = m[0]
        return row is other, span is same, last is m[0], row, span

    def numbers(x):
        for v in x:
            u = t = +v
        return u is v, u is t, v, u

    assert loops(compiled(tuples, np.arange(100.0)))
    assert loops(compiled(rows, np.arange(200.0).reshape(50, 4)))
    assert loops(compiled(numbers, np.arange(100.0)))


def test_a_range_that_ends_at_the_last_integer():
    def far(n):
        s, found = 0, {}
        for k in range(n):
            for i in range(k, 2**63 - 1, 3):
                s += i
                if i > 300:
                    break
                if i == 99:
                    found[k] = True
            for i in range(-k, -(2**63), -7):
                s += i
                if i < -700:
                    break
                if i == -105:
                    found[-k] = True
        return s, len(found)

    assert loops(compiled(far, 40))


def multiples(a, n, least):
    total = 0
    for i in range(least, n):
        for j in range(i * i, len(a), i):
            a[j] += i
            total ^= j
        for j in range(i, n, 3 * i - 2):
            total += j
    return total


@pytest.mark.parametrize("least", [1, 3, 0, -3, 2**61, True, np.int32(2)])
def test_ranges_of_a_step_that_varies(least):
    """One that is not positive has the interpreter's round, or its error."""
    n = 40 if least < 40 else 2**61 + 3
    marked = compiled(multiples, np.zeros(300, np.int64), n, least)
    early = [(e["why"], e["taken"]) for entry in loops(marked) for e in entry["exits"] if e["early"]]
    if 0 < least < 40:
        assert early == []
        (entry,) = loops(marked)
        # The version of the inner loop whose indices are known to be in bounds has no check in it.
        rounds = entry["graph"].split("# loop depth 2\n")[1:]
        assert any("store.i64" in block and "check" not in block for block in rounds), entry["graph"]


@pytest.mark.parametrize("dtype", ["f2", "c16", "u8", "O", "M8[s]", "U3", "f8,i4", ">f8", "g"])
def test_a_loop_over_elements_of_other_types(dtype):
    def seen(x, y):
        rounds, last, row = 0, y, None
        for v in x:
            rounds += 1
        for i, v in enumerate(x):
            rounds += i
        for w, v in zip(x, x):
            last = w
        for row in x.reshape(10, 10):
            rounds += 1
        return rounds, last, row

    x = np.arange(100).astype(dtype)
    compiled(seen, x, x[0])


class Holder:
    pass


def test_a_collection_lets_go_of_what_the_loop_found():
    def last_row(holder, n):
        pair = row = also = part = None
        for i in range(n):
            holder.box.total = i * 1.5
            pair = (i, n)
            row = holder.rows[i % 3]
            also = holder.more
            part = holder.matrix[i % 3]
        return pair, row, also, part

    def filled():
        holder = Holder()
        holder.rows = [[float(i)] * 50 for i in range(3)]
        holder.more = [0.5] * 50
        holder.matrix = np.ones((3, 50))
        holder.box = Holder()
        holder.box.total = 0.5
        return holder

    marked = fj.jit(last_row)
    marked(filled(), 100)
    assert loops(marked)
    for _ in range(20):
        holder = filled()

        def let_go(phase, info, rows=holder.rows, holder=holder):
            rows.clear()
            holder.more = holder.matrix = holder.box = None

        gc.collect()
        gc.callbacks.append(let_go)
        threshold = gc.get_threshold()
        gc.set_threshold(1)
        try:
            pair, row, also, part = marked(holder, 100)
        except (AttributeError, IndexError, TypeError):
            continue  # it was collected before the end, as from CPython 3.12 on
        finally:
            gc.set_threshold(*threshold)
            gc.callbacks.remove(let_go)
        others = [[9.0] * 50 for _ in range(20)], np.full((20, 150), 9.0)
        assert pair == (99, 100) and row == [0.0] * 50 and also == [0.5] * 50 and part.tolist() == [1.0] * 50
        del others


def test_numbers_outlive_calls_and_appends():
    def bisection(problems):
        roots = []
        for c in range(1, problems + 1):
            low, high = 0.0, 10.0
            while high - low > 1e-10:
                middle = (low + high) / 2
                if (math.exp(low) - c * low - 2.0) * (math.exp(middle) - c * middle - 2.0) <= 0:
                    high = middle
                else:
                    low = middle
            roots.append(low)
        return roots

    assert loops(compiled(bisection, 40))


class Stop(Exception):
    pass


def endless(n):
    s = 0
    for i in range(n):
        s = (s + i) % 1000003
    return s


def test_a_signal_ends_a_loop():
    def stop(number, frame):
        raise Stop

    marked = fj.jit(endless)
    marked(100)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Stop):
            marked(10**15)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_beside_a_loop():
    marked, ticks = fj.jit(endless), []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        marked(50_000_000)
    finally:
        done.set()
        thread.join()
    assert len(ticks) >= 3


@pytest.mark.parametrize("mode", ["ast", "bytecode", "trace"])
def test_modes_of_capture(mode):
    marked = compiled(total, np.linspace(0.0, 1.0, 200), capture_mode=mode)
    assert loops(marked)


def test_generators_closures_and_callees():
    scale = 3.0

    def inner(x, n):
        s = 0.0
        for i in range(n):
            s += x[i] * scale
        return s

    def outer(x):
        return inner(x, len(x)) + np.sum(x)

    def generated(x):
        for start in (0, 10):
            s = 0.0
            for i in range(start, len(x)):
                s += x[i]
            yield s

    compiled(outer, np.linspace(0.0, 1.0, 200))
    compiled(generated, np.linspace(0.0, 1.0, 200))
    assert loops(compiled(inner, np.linspace(0.0, 1.0, 200), 200))


def test_few_rounds_of_long_loops(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "measure")

    def sweeps(a, steps):
        for _ in range(steps):
            for i in range(1, len(a) - 1):
                a[i] = (a[i - 1] + a[i] + a[i + 1]) / 3.0
        return a

    assert loops(compiled(sweeps, np.linspace(0.0, 1.0, 100), 3))
    with fj.mark(sweeps):  # one of them is compiled, the outer one once it has had many rounds
        before = fj.stats()["frames_captured"]
        sweeps(np.linspace(0.0, 1.0, 100), 3)
        assert fj.stats()["frames_captured"] > before


def test_a_global_that_changes():
    world = {"RATE": 0.5}
    exec("def decays(n):\n    s = 1.0\n    for i in range(n):\n        s = s * RATE + i\n    return s", world)
    marked = fj.jit(world["decays"])
    for rate in (0.5, 0.25, 2, "no"):
        world["RATE"] = rate
        for _ in range(2):
            check_same(run(world["decays"], (100,)), run(marked, (100,)), f"RATE = {rate}")


@pytest.mark.parametrize("dtype", ["c8", "f2", "u8", "g", "M8[s]", "U3", "O"])
def test_arrays_of_types_without_a_form_in_loops(dtype):
    def repeated(x, values):
        y = x
        for value in values:
            y = y if y != x else value
        return y

    values = np.arange(80).astype(dtype)
    compiled(repeated, values[1], values)
    compiled(repeated, 1.5, values)


UFUNCS = sorted(name for name in dir(np) if isinstance(getattr(np, name), np.ufunc) and getattr(np, name).signature is None)


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.filterwarnings("ignore")
def test_ufuncs_of_numbers(name):
    ufunc = getattr(np, name)

    def of_one(x, y, out):
        for i in range(len(x)):
            for _ in range(2):
                out[i] = ufunc(x[i])
                s, t = ufunc(float(x[i])), ufunc(i + 1)
        return s, t

    def of_two(x, y, out):
        for i in range(len(x)):
            for _ in range(2):
                out[i] = ufunc(x[i], y[i])
                s, t = ufunc(float(x[i]), i), ufunc(2, y[i])
        return s, t

    if (ufunc.nin, ufunc.nout) not in ((1, 1), (2, 1)):
        pytest.skip("neither one nor two arguments, or several results")
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(size=40) * 3, rng.random(20), [0.0, -0.0, 1.0, 1e-3, 50.0, 700.0, np.inf, np.nan]])
    compiled(of_one if ufunc.nin == 1 else of_two, x, rng.permutation(x), np.zeros(len(x)))


def whole_numbers(values, n, divisor):
    total, odd, found = 0, 0, 0
    for value in values:
        quotient, rest = divmod(value, divisor)
        total += math.gcd(value, n) + math.isqrt(abs(value)) + value.bit_length() * 3 + (value % 1000).bit_count()
        total += quotient * 7 + rest + pow(rest % 5, 2)
        if value % 7 in (1, 2, n) or rest not in (0, 1):
            found += 1
        odd += value & 1
    return total, odd, found


@pytest.mark.parametrize("divisor", [7, -3, 1, 0])
def test_functions_of_ints(divisor):
    values = [0, 1, -1, 2, 15, 16, 17, 2**20 - 1, -(2**20), 99, 100, 10**6, 10**6 - 1] * 5
    compiled(whole_numbers, values, 12, divisor)

    def large(n, by):
        found = []
        for k in range(n):
            x = (by << 31) * (by << 30) + k - 3
            found.append(math.isqrt(x))
            found.append(x.bit_length() + (-x).bit_length())
            found.append(math.gcd(x, 6 - k))
        return found

    compiled(large, 40, 1)
    compiled(large, 40, 2)


def short_nest_with_a_dict(x):
    y = x * 2
    rows = []
    for i in range(2):
        for j in range(3):
            if i != j:
                rows.append({i: y[j]})
    return y + 1, rows


def test_short_nests_that_loops_have_no_form_for_stay_in_the_graph():
    """They go round by the rounds that leave the rest out."""
    marked = compiled(short_nest_with_a_dict, np.arange(6.0).reshape(3, 2))
    (entry,) = marked._report()["entries"]
    assert entry["kind"] == "function"
