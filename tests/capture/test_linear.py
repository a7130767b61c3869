"""The work of capture grows no faster than the program, and ends: `capture_steps` counts it, whatever the machine does."""

import random
import signal
import textwrap
import time
import types

import numpy as np
import pytest

import framejit

X = np.arange(6.0).reshape(2, 3)


def made(source, **names):
    """The function f of a source text, in a module of its own."""
    world = dict(names, np=np)
    exec(compile(textwrap.dedent(source), "<program>", "exec"), world)
    return world["f"]


def lines(text, count, end):
    """A function of many lines: `text` with i put in, and the line that returns."""
    return "def f(x):\n" + "".join(f"    {text.format(i=i)}\n" for i in range(count)) + f"    return {end}\n"


class Point:
    def __init__(self, q):
        self.q = q
        self.p = None


class Place(Point):
    pass


def fixed(source):
    return lambda n: (made(source), n)


# By name: what makes a function and its argument of size n. Each is a program that somebody writes.
PROGRAMS = {
    "count words": lambda n: (
        made("def f(t):\n d = {}\n for w in t.split(): d[w] = d.get(w, 0) + 1\n return d"),
        " ".join(f"w{i * 7 % (n // 3)}" for i in range(n)),
    ),
    "upper case": lambda n: (
        made("def f(t):\n out = []\n for w in t.split(): out.append(w.upper())\n return out"),
        " ".join(f"w{i}" for i in range(n)),
    ),
    "letters": lambda n: (made("def f(t):\n return [c for c in t if c != 'a']"), "abc" * n),
    "numbers as text": fixed("def f(n):\n out = []\n for i in range(n): out.append(str(i))\n return out"),
    "formatted lines": fixed("def f(n):\n return '\\n'.join([f'{i}:{i * 2}' for i in range(n)])"),
    "growing text": fixed("def f(n):\n s = ''\n for i in range(n): s += str(i)\n return s"),
    "logistic map": fixed(
        "def f(n):\n out = []; x = 0.3\n for i in range(n):\n  x = 3.7 * x * (1 - x); out.append(x)\n return out"
    ),
    "pop the last": fixed("def f(n):\n a = list(range(n)); s = 0\n while a: s += a.pop()\n return s"),
    "pop the first": fixed("def f(n):\n a = list(range(n)); s = 0\n while a: s += a.pop(0)\n return s"),
    "insert at the front": fixed("def f(n):\n a = []\n for i in range(n): a.insert(0, i)\n return a"),
    "stack of work": fixed(
        "def f(n):\n a = [0]; s = 0\n while a:\n  v = a.pop(); s += v\n  if v < n: a.append(v + 1)\n return s"
    ),
    "lists added": fixed("def f(n):\n a = []\n for i in range(n): a = a + [i]\n return a"),
    "tuples added": fixed("def f(n):\n a = ()\n for i in range(n): a = a + (i,)\n return a"),
    "slices": fixed("def f(n):\n a = list(range(n)); s = 0\n while a:\n  s += a[0]; a = a[1:]\n return s"),
    "in a list": fixed("def f(n):\n a = []\n for i in range(n):\n  if i % 100 not in a: a.append(i % 100)\n return a"),
    "sorted": fixed("def f(n):\n a = [i * 37 % n for i in range(n)]\n a.sort()\n return a"),
    "bubble sort": lambda n: (
        made(
            """
            def f(n):
                a = [(i * 37) % n for i in range(n)]
                for i in range(n):
                    for j in range(n - 1 - i):
                        if a[j] > a[j + 1]: a[j], a[j + 1] = a[j + 1], a[j]
                return a
            """
        ),
        int(n**0.5) + 2,
    ),
    "delete keys": fixed("def f(n):\n d = {i: i for i in range(n)}\n for i in range(n): del d[i]\n return d"),
    "dict of lists": fixed(
        "def f(n):\n d = {}\n for i in range(n): d.setdefault(i % 50, []).append(i)\n return d"
    ),
    "dict of dicts": fixed("def f(n):\n d = {}\n for i in range(n): d[i] = {'a': i, 'b': [i]}\n return len(d)"),
    "set": fixed("def f(n):\n s = set()\n for i in range(n): s.add(i * 7 % n)\n return len(s)"),
    "nested lists": fixed("def f(n):\n a = []\n for i in range(n): a = [a]\n return len(a)"),
    "objects": fixed(
        """
        class P:
            def __init__(self, x): self.x = x
        def f(n):
            ps = [P(i) for i in range(n)]
            return sum(p.x for p in ps)
        """
    ),
    "linked objects": fixed(
        """
        class N:
            def __init__(self, v, n): self.v = v; self.n = n
        def f(n):
            h = None
            for i in range(n): h = N(i, h)
            s = 0
            while h: s += h.v; h = h.n
            return s
        """
    ),
    "attribute": fixed(
        "class P: pass\np = P()\ndef f(n):\n p.c = 0\n for i in range(n): p.c += 1\n return p.c"
    ),
    "global": fixed("c = 0\ndef f(n):\n global c\n c = 0\n for i in range(n): c += 1\n return c"),
    "generator": fixed("def f(n):\n def g():\n  for i in range(n): yield i\n return sum(g())"),
    "many generators": fixed(
        "def f(n):\n def g(i):\n  yield i\n gs = [g(i) for i in range(n)]\n return sum(next(x) for x in gs)"
    ),
    "closures": fixed(
        "def f(n):\n fs = []\n for i in range(n):\n  def g(j=i): return j\n  fs.append(g)\n return sum(g() for g in fs)"
    ),
    "exceptions": fixed(
        """
        def f(n):
            c = 0
            for i in range(n):
                try:
                    if i % 2: raise ValueError(i)
                except ValueError: c += 1
            return c
        """
    ),
    "recursion": lambda n: (made("def f(n): return n if n < 2 else f(n - 1) + f(n - 2)"), n.bit_length()),
    "list of ints": lambda n: (made("def f(a):\n s = 0\n for v in a: s += v\n return s"), list(range(n))),
    "list of floats": lambda n: (made("def f(a):\n s = 0.0\n for v in a: s += v\n return s"), [i + 0.5 for i in range(n)]),
    "list written": lambda n: (
        made("def f(a):\n for i in range(len(a)): a[i] = a[i] + 1\n return a"), list(range(n))
    ),
    "list of arrays": lambda n: (
        made("def f(a):\n s = 0\n for x in a: s = s + x\n return s"), [np.full(3, float(i)) for i in range(n)]
    ),
    "arrays written": lambda n: (
        made("def f(a):\n for x in a: x += 1\n return a"), [np.full(3, float(i)) for i in range(n)]
    ),
    "attributes of instances": lambda n: (
        made("def f(a):\n for o in a: o.p = o.q + 1\n return [o.p for o in a]"),
        [(Point if i % 2 else Place)(np.full(3, float(i))) for i in range(n)],
    ),
    "lists appended to": lambda n: (
        made("def f(a):\n for v in a: v.append(v[0] + 1)\n return a"), [[np.full(3, float(i))] for i in range(n)]
    ),
    "dicts stored into": lambda n: (
        made("def f(a):\n for d in a: d['y'] = d['x'] + 1\n return a"), [{"x": np.full(3, float(i))} for i in range(n)]
    ),
    "many attributes": lambda n: (
        made(
            "def f(o):\n" + "".join(f"    o.b{i} = o.a{i} + 1\n" for i in range(n)) + "    return vars(o)"
        ),
        types.SimpleNamespace(**{f"a{i}": np.full(3, float(i)) for i in range(n)}),
    ),
    "many globals": lambda n: (
        made(lines("x = x + g{i}", n, "x"), **{f"g{i}": np.full((2, 3), float(i)) for i in range(n)}), X
    ),
    "many functions": lambda n: (
        made("".join(f"def g{i}(x): return x + {i}\n" for i in range(n)) + lines("x = g{i}(x)", n, "x")), X
    ),
    "dict of ints": lambda n: (made("def f(a):\n s = 0\n for k, v in a.items(): s += v\n return s"), {i: i for i in range(n)}),
    "elements": lambda n: (made("def f(x):\n s = 0.0\n for i in range(len(x)): s += x[i] ** 2\n return s"), np.ones(n)),
    "elements in a dict": lambda n: (
        made("def f(x):\n d = {}\n for i in range(len(x)): d[i] = x[i] ** 2\n return d"),
        np.ones(n),
    ),
    "elements written": lambda n: (
        made("def f(x):\n out = np.zeros(len(x))\n for i in range(1, len(x)): out[i] = out[i - 1] + x[i]\n return out"),
        np.ones(n),
    ),
    "many lines": lambda n: (made(lines("x = x + {i}", n, "x")), X),
    "many locals": lambda n: (made(lines("a{i} = x + {i}", n, f"a{n - 1}")), X),
    "many ints": lambda n: (made(lines("a{i} = x + {i}", n, f"a{n - 1}")), 1),
    "many breaks": lambda n: (made(lines("x = x + {i}; h()", n, "x"), h=lambda: open("/dev/null").close()), X),
    "long list display": lambda n: (made("def f(x): return [" + "x, " * n + "]"), 1),
    "long dict display": lambda n: (made("def f(x): return {" + "".join(f"{i}: x, " for i in range(n)) + "}"), 1),
    "deep nesting": lambda n: (
        made(
            "def f(n):\n" + "".join("    " * (i + 1) + f"if n > {i}:\n" for i in range(min(n // 40, 90)))
            + "    " * (min(n // 40, 90) + 1) + "n = 0\n    return n"
        ),
        n,
    ),
}
SIZES = (100, 200, 400, 800, 1600)


def steps(name, n):
    """Work of capture in the first call of the program."""
    f, argument = PROGRAMS[name](n)
    before = framejit.stats()["capture_steps"]
    framejit.jit(f)(argument)
    return framejit.stats()["capture_steps"] - before


@pytest.mark.parametrize("name", PROGRAMS)
def test_capture_is_linear(name):
    work = [steps(name, n) for n in SIZES]
    assert 0 < work[0]
    for smaller, larger in zip(work, work[1:]):
        # Twice the program is twice the work; what a capture has to do before it is given up comes at any size.
        assert larger <= 2.3 * smaller + 6000, work


def guards(name, n):
    """How many guards the entries have after the first call of the program."""
    f, argument = PROGRAMS[name](n)
    marked = framejit.jit(f)
    marked(argument)
    return sum(len(entry["guards"]) for entry in marked.cache_entries())


@pytest.mark.parametrize("name", PROGRAMS)
def test_guards_are_linear(name):
    count = [guards(name, n) for n in SIZES[:3]]
    for smaller, larger in zip(count, count[1:]):
        assert larger <= 2.1 * smaller + 20, count


def test_one_guard_keeps_all_changed_objects_apart():
    f, points = PROGRAMS["attributes of instances"](20)
    marked = framejit.jit(f)
    for _ in range(2):
        assert np.array_equal(marked(points), [p.q + 1 for p in points])
    (entry,) = marked.cache_entries()
    apart = [g for g in entry["guards"] if " from " in g]
    assert sorted(apart) == [
        "a[0], a[2], a[4] and 7 more are distinct from one another",
        "a[1], a[3], a[5] and 7 more are distinct from one another",
    ]
    # Two that are one now are no error: the other guard's entry is used no more.
    points[19] = points[3]
    assert np.array_equal(marked(points), [p.q + 1 for p in points])
    assert len(marked.cache_entries()) == 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_the_interpreter(name):
    f, argument = PROGRAMS[name](60)
    g, same_argument = PROGRAMS[name](60)
    np.testing.assert_equal(framejit.jit(f)(argument), g(same_argument))


def test_loops_over_single_values_are_left_after_some_thousand_instructions():
    f, x = PROGRAMS["elements in a dict"](1000000)
    before = framejit.stats()["capture_steps"]
    explained = framejit.explain(f)(x)
    assert framejit.stats()["capture_steps"] - before < 20000
    assert [b["id"] for b in explained.breaks] == ["FJ024"]
    assert explained.breaks[0]["line"] == 3
    assert "an assignment to an item of something that is not an array" in explained.breaks[0]["detail"]


def test_one_instruction_that_opens_many_lists_is_given_up():
    f = made("""
def f(rows):
    return [sum(column) for column in zip(*rows)]
""")
    rows = [list(range(60)) for _ in range(2000)]
    before = framejit.stats()["capture_steps"]
    assert framejit.jit(f)(rows) == f(rows)
    assert framejit.stats()["capture_steps"] - before < 15000


def test_loops_over_single_values_are_captured_without_unrolling():
    f, x = PROGRAMS["elements"](1000000)
    before = framejit.stats()["capture_steps"]
    explained = framejit.explain(f)(x)
    assert framejit.stats()["capture_steps"] - before < 1000
    assert [e["kind"] for e in explained.entries] == ["loop"] and not explained.breaks


def test_reads_of_elements_do_not_extend_a_capture():
    f = made("""
def f(x):
    i = 0
    while i < 100000:
        i += int(x[i]) + 1
    return i
""")
    x = np.zeros(200000)
    before = framejit.stats()["capture_steps"]
    assert framejit.jit(f)(x) == f(x)
    assert framejit.stats()["capture_steps"] - before < 20000


@pytest.mark.parametrize("value", ["len(text.split())", "len(text.upper())", "text.count('a')", "len(text.encode())"])
def test_methods_of_long_texts_are_left_to_the_interpreter(value):
    f = made(f"def f(x, text):\n    return x + {value}")
    x = np.ones(3)
    for length, long in ((100, False), (20000, True)):
        text = "ab " * (length // 3)
        explained = framejit.explain(f)(x, text)
        assert np.array_equal(explained.result, f(x, text))
        assert ("a method of a long text" in [b["detail"] for b in explained.breaks]) == long


def test_a_deep_recursion_is_no_graph_without_end(monkeypatch):
    f = made("""
def f(x):
    if len(x) == 1:
        return x * 2.0
    half = len(x) // 2
    return np.concatenate([f(x[:half]) + 1.0, f(x[half:]) - 1.0])
""")
    marked = framejit.jit(f)
    x = np.arange(512.0)
    monkeypatch.setattr(framejit.config, "instruction_limit", 2000)
    assert np.array_equal(marked(x), f(x))
    sizes = [graph.count("\n") for graph in marked.graphs().split("graph @")[1:]]
    assert 0 < max(sizes) < 2000 // 4 + 100


def test_a_time_limit_ends_capture():
    f, text = PROGRAMS["count words"](1500)
    limit = framejit.config.capture_time_limit
    framejit.config.capture_time_limit = 1
    try:
        explained = framejit.explain(f)(text)
    finally:
        framejit.config.capture_time_limit = limit
    assert explained.breaks
    assert {b["id"] for b in explained.breaks} <= {"FJ023", "FJ024"}


class Alarm(Exception):
    """What the handler of the test's signal raises."""


def test_a_signal_ends_capture_and_compilation():
    def handler(number, frame):
        raise Alarm

    n = 12000
    before = framejit.stats()["capture_steps"]
    start = time.perf_counter()
    assert framejit.jit(PROGRAMS["many lines"](n)[0], fullgraph=True)(X).shape == X.shape
    whole, duration = framejit.stats()["capture_steps"] - before, time.perf_counter() - start
    random.seed(7)
    cut, old = 0, signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(12):
            function, _ = PROGRAMS["many lines"](n)
            marked = framejit.jit(function, fullgraph=True)
            before = framejit.stats()["capture_steps"]
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.02, 0.6) * duration)
                marked(X)
                time.sleep(60)  # until the alarm comes
            except Alarm:
                cut += framejit.stats()["capture_steps"] - before < whole
            # It was no answer: the next call captures.
            assert np.array_equal(marked(X), function(X))
            assert len(marked.cache_entries()) == 1
    finally:
        signal.signal(signal.SIGALRM, old)
    assert cut > 0
