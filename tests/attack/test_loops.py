"""Compiled loops: overlapping memory, endless searches and recursions, lists and dicts that others change, numbers and texts at their limits."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj
from attack.attack_support import run

pytestmark = [pytest.mark.capture, pytest.mark.filterwarnings("ignore")]
N = 200


def forward(a, b):
    for i in range(len(a)):
        b[i] = a[i] * 2.0 + 1.0


def backward(a, b):
    for i in range(len(a) - 1, -1, -1):
        b[i] = a[i] * 2.0 + 1.0


def twice(a, b):
    for i in range(len(a) // 2):
        b[i] = a[i] + 1.0
        a[2 * i] = b[i] * 0.5 + a[i]


def nested(a, b):
    for i in range(0, len(a) - 8, 4):
        s = 0.0
        for j in range(8):
            s += a[i + j] * 0.25
        b[i] = s


def numbers(count):
    return np.arange(count + 0.0) / 7


class Sevens(list):
    def __getitem__(self, i):
        return 7.0


MEMORY = {
    **{f"{k} behind": lambda k=k: (lambda a: (a[:N], a[k : k + N]))(numbers(N + 40)) for k in (0, 1, 2, 3, 4, 7, 8, 9, 16, 33)},
    **{f"{k} before": lambda k=k: (lambda a: (a[k : k + N], a[:N]))(numbers(N + 40)) for k in (1, 2, 4, 5, 8, 31)},
    "every other": lambda: (lambda a: (a[::2], a[1::2]))(numbers(2 * N)),
    "turned": lambda: (lambda a: (a[::-1], a))(numbers(N)),
    "one number": lambda: (np.broadcast_to(np.float64(2), (N,)), numbers(N)),
    "odd address": lambda: (lambda a: (a[: 8 * N].view("f8"), a[1 : 8 * N + 1].view("f8")))(np.full(8 * N + 8, 64, "u1")),
    "as ints": lambda: (lambda a: (a, a.view("i8")))(numbers(N)),
    "as halves": lambda: (lambda a: (a.view("f4")[:N], a))(numbers(N)),
    "read-only": lambda: (numbers(N), np.frombuffer(bytes(8 * N))),
    "swapped": lambda: (numbers(N).astype(">f8"), np.zeros(N, ">f8")),
    "shorter": lambda: (numbers(N), np.zeros(N // 2)),
    "masked": lambda: (np.ma.masked_array(numbers(N), np.arange(N) % 3 == 0), np.zeros(N)),
    "list itself": lambda: (lambda a: (a, a))(numbers(N).tolist()),
    "list that lies": lambda: (Sevens(numbers(N).tolist()), [0.0] * N),
    "list of all kinds": lambda: ([1, 2.5, True, np.float32(3), np.int8(4)] * (N // 5), [0.0] * N),
    "list with None": lambda: ([1.0, 2.0, None] * (N // 3), [0.0] * N),
}


def outcome(function, arguments):
    with np.errstate(all="ignore"):
        try:
            result = function(*arguments)
        except Exception as error:
            result = type(error), str(error)
    return repr(result), [each.tobytes() if isinstance(each, np.ndarray) else repr(each) for each in arguments]


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("function", [forward, backward, twice, nested])
def test_memory(kernels_of_loops, function, memory):
    make = MEMORY[memory]
    marked = fj.jit(function)
    for _ in range(4):
        assert outcome(marked, make()) == outcome(function, make())


@pytest.fixture(params=["avx2", "avx512"])
def kernels_of_loops(request, monkeypatch):
    monkeypatch.setattr(fj.config, "cpu", request.param)


def quotients(xs, ys):
    return [(x // y, x % y) for x in xs for y in ys]


def shifts(xs, ys):
    return [(x << y, x >> y, ~x, -x, abs(x)) for x in xs for y in ys]


def powers(xs, ys):
    total = 0
    for x in xs:
        for y in ys:
            total += x**y
    return total


def wholes(xs, ys):
    found = []
    for x in xs:
        found.append(int(x))
    return found, ys


INTS = [-(2**63), 2**63 - 1, -7, 7, 0, 2**62, -1, 2**70]
FLOATS = [0.0, -0.0, 1.5, -2.5, 1e18, 9.3e18, -9.3e18, 1e300, 5e-324, float("inf"), float("nan")]


@pytest.mark.parametrize("by", [*INTS, *FLOATS, True, 63, 64, 65, 200])
@pytest.mark.parametrize("function", [quotients, shifts, powers, wholes])
def test_numbers_at_their_limits(function, by):
    if function is powers and isinstance(by, int) and abs(by) > 300:
        pytest.skip("a result that no memory holds")
    marked = fj.jit(function)
    for xs in ([1, 2, 3] * 8, INTS * 3, [0.5, 2.0] * 10, [*[1.0] * 20, by], np.array([1, -7, 2**62] * 8), np.array([1.5, -2.5] * 9)):
        for _ in range(3):
            assert outcome(marked, (xs, [by])) == outcome(function, (xs, [by])), (xs, by)


def test_ranges_beyond_64_bits():
    def f(numbers):
        n = 0
        for i in numbers:
            n += 1
            if n > 5:
                break
        return n, i

    marked = fj.jit(f)
    top = 2**63
    for bounds in ((10**30, 10**30 + 99), (top - 3, top + 10), (-top, top), (-top - 5, -top + 5), (2**62, -(2**62), -(2**61)),
                   (0, 2**64, top - 1), (5, 5), (top - 1, top - 4, -1)):  # fmt: skip
        for _ in range(3):
            assert outcome(marked, (range(*bounds),)) == outcome(f, (range(*bounds),))


def test_texts_at_their_limits():
    def weight(text):
        n = 0
        for c in text:
            if c == "a" or ord(c) > 0xD7FF:
                n += ord(c)
        return n

    def search(text, wanted):
        i = 0
        while i < len(text) and text[i] != wanted:
            i += 1
        return i

    weighs, searches = fj.jit(weight), fj.jit(search)
    for text in ("abc" * 99, "\ud800a\udfff" * 99, "\U0010ffff" * 300, "é" * 300, "", "\0" * 500):
        for _ in range(3):
            assert weighs(text) == weight(text)
            for wanted in ("a", "\udfff", "z", "", "ab", "\0"):
                assert searches(text, wanted) == search(text, wanted)


START = "import framejit as fj, numpy as np, signal, sys, threading, time\n"
PROGRAMS = {
    "an endless search": """
@fj.jit
def f(a, x):
    k = 0
    while a[k & 7] < x: k += 1
    return k
for _ in range(3): assert f(np.arange(8.0), 5.0) == 5
signal.setitimer(signal.ITIMER_REAL, 0.5)
start = time.monotonic()
try: f(np.zeros(8), 1.0)
except Stop: assert time.monotonic() - start < 5
""",
    "an endless walk over a list": """
@fj.jit
def f(items):
    i = 0
    while items[i] >= 0: i = items[i]
    return i
for _ in range(3): f([1, 2, -1])
signal.setitimer(signal.ITIMER_REAL, 0.5)
try: f([1, 2, 0] * 10)
except Stop: pass
""",
    "an endless recursion": """
@fj.jit
def up(n): return up(n + 1) + 1
@fj.jit
def down(n): return 0 if n == 0 else down(n - 1) + 1
for n in (10, 100, 500): assert down(n) == n
for f, n in ((up, 0), (down, 10**7), (down, -1)):
    try: f(n)
    except RecursionError: continue
    raise SystemExit("no RecursionError")
def run():
    for n in (10, 100, 900):
        try: found.append(down(n) == n)
        except RecursionError: found.append(True)
found = []
threading.stack_size(65536)
thread = threading.Thread(target=run)
thread.start(); thread.join()
assert found == [True] * 3
""",
    "containers that another thread changes": """
sys.setswitchinterval(1e-6)
@fj.jit
def by_index(l):
    s = 0
    for i in range(len(l)): s += l[i]
    return s
@fj.jit
def in_place(l):
    for i in range(len(l)): l[i] = l[i] + 1
@fj.jit
def by_key(d):
    s = 0
    for k in d: s += d[k]
    return s
def change():
    while not stop:
        l.append(2.5); l[:] = [1] * 5000; l.clear(); l.extend([1] * 4000); l.append(None); l.pop()
        d.clear(); d.update({i: i for i in range(300)})
l, d, stop = [1] * 5000, {i: i for i in range(300)}, []
for f, x in ((by_index, [1] * 99), (in_place, [1] * 99), (by_key, {i: i for i in range(99)})):
    for _ in range(3): f(x)
thread = threading.Thread(target=change)
thread.start()
end = time.monotonic() + 1.5
while time.monotonic() < end:
    for f, x in ((by_index, l), (in_place, l), (by_key, d)):
        try: f(x)
        except (IndexError, TypeError, RuntimeError, KeyError): pass
stop.append(1); thread.join()
""",
    "forks while threads are in loops": """
import os
@fj.jit
def f(a):
    out = np.zeros(len(a))
    for i in range(len(a)):
        s = 0.0
        for j in range(50): s += a[i] * j
        out[i] = s
    return out
a = np.arange(5000.0)
expected = f(a).copy(); f(a)
stop = []
threads = [threading.Thread(target=lambda: [f(a) for _ in iter(lambda: bool(stop), True)]) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(4):
    child = os.fork()
    if child == 0: os._exit(0 if np.array_equal(f(a), expected) else 3)
    assert os.waitpid(child, 0)[1] == 0
stop.append(1)
for thread in threads: thread.join()
""",
    "collections that lengthen a list": """
import gc
def lengthen(phase, info):
    if phase == "start" and held and len(held[0]) < 5000: held[0].append(99)
def f(l, n):
    out = []
    for i in range(n): out.append([i, l[i % 3]])
    return out
held, marked = [], fj.jit(f)
gc.callbacks.append(lengthen); gc.set_threshold(1, 1, 1)
for function in (f, marked, marked, marked):
    l = [1, 2, 3]
    held[:] = [l]
    found = function(l, 300)
    assert len(found) == 300 and found[-1] == [299, 3]
""",
    "lists for which there is no memory": """
import resource
@fj.jit
def squares(n):
    l = []
    for i in range(n): l.append(i * i)
    return l
@fj.jit
def rows(n):
    return len([[0.0] * 100 for _ in range(n)])
for f in (squares, rows): f(100); f(1000); f(1000)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
for f in (squares, rows):
    try: f(10**8)
    except MemoryError: continue
    raise SystemExit("no MemoryError")
assert squares(10)[-1] == 81 and rows(3) == 3
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    handler = "class Stop(Exception): pass\ndef handle(*_): raise Stop\nsignal.signal(signal.SIGALRM, handle)\n"
    run(START + handler + PROGRAMS[name])
