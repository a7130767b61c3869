"""What calls gain is measured by calls that run as plain Python now and then, which change no result."""

from __future__ import annotations

import gc

import framejit as fj
import numpy as np
import pytest
from ext.ext_support import same
from framejit import _core
from framejit._reporting._gain import program_text

pytestmark = pytest.mark.capture

X = np.linspace(1.0, 2.0, 8)
MS = 1_000_000


class Clock:
    """Calls take what the test says."""

    def __init__(self) -> None:
        self.now = 0
        self.takes = {"start": 0, "compiled": 1 * MS, "bytecode": 3 * MS}

    def __call__(self, what: str) -> int:
        self.now += self.takes[what]
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "off")
    clock = Clock()
    _core.set_clock(clock)
    yield clock
    _core.set_clock(None)


@pytest.fixture
def measuring():
    _core.set_measuring(True)
    yield
    _core.set_measuring(False)


def affine(x):
    return x * 2.0 + 1.0


def with_break(x):
    y = x * 2.0
    gc.isenabled()
    return y + 1.0


def elements(x):
    squares = {}
    for i in range(len(x)):
        squares[i] = x[i] ** 2
    return squares


def gain_of(marked):
    return marked._report()["gain"]


@pytest.mark.parametrize("function", [affine, with_break])
def test_calls_run_as_plain_python_now_and_then(clock, measuring, function):
    marked = fj.jit(function)
    before = fj.stats()
    for _ in range(100):
        same(function(X), marked(X))
    gain = gain_of(marked)
    rounds = gain["compiling_calls"] + gain["calls"] + gain["samples"]
    assert rounds == 100 and gain["compiling_calls"] <= 4
    assert 4 <= gain["samples"] <= 10
    assert gain["ns"] == gain["calls"] * MS and gain["plain_ns"] == gain["compared_calls"] * 3 * MS
    assert gain["counted"] == gain["compared_calls"] == gain["calls"]
    after = fj.stats()
    assert after["frames_marked"] - before["frames_marked"] == 100
    assert after["frames_captured"] - before["frames_captured"] == 100 - gain["samples"]


def test_samples_take_no_more_time_than_compiled_calls(clock, measuring):
    clock.takes.update(bytecode=1000 * MS)
    marked = fj.jit(affine)
    for _ in range(900):
        marked(X)
    assert gain_of(marked)["samples"] == 1


def test_sizes_are_told_apart(clock, measuring):
    marked = fj.jit(affine, dynamic=True)
    few, many = np.ones(4), np.ones(4000)
    marked(few)
    for x, time in ((few, 1), (many, 10)):
        clock.takes.update(compiled=time * MS, bytecode=2 * time * MS)
        for _ in range(30):
            same(affine(x), marked(x))
    gain = gain_of(marked)
    assert gain["plain_ns"] == 2 * gain["ns"]


def test_functions_that_are_not_measured_have_no_gain(clock):
    marked = fj.jit(affine)
    for _ in range(30):
        marked(X)
    assert "gain" not in marked._report()


@pytest.mark.parametrize(
    ("options", "why"),
    [({"jit_level": "O1"}, "at O1"), ({"fullgraph": True}, "fullgraph=True"), ({"infer_boost": "on"}, "settings")],
)
def test_other_results_are_never_sampled(clock, measuring, options, why):
    marked = fj.jit(affine, **options)
    for _ in range(50):
        marked(X)
    gain = gain_of(marked)
    assert gain["samples"] == 0 and gain["calls"] >= 49
    assert why in gain["why_unmeasured"]


def test_plain_calls_call_plain_functions(clock, measuring):
    inner = fj.jit(affine)
    exact = fj.jit(affine, jit_level="O1")

    def outer(x):
        gc.isenabled()
        y = inner(x)
        gc.isenabled()
        return y + exact(x)

    marked = fj.jit(outer)
    for _ in range(60):
        same(affine(X) * 2.0, marked(X))
    assert gain_of(marked)["samples"] >= 4


def test_calls_within_a_measured_call_count_once(clock, measuring):
    inner = fj.jit(with_break)

    def outer(x):
        gc.isenabled()
        return inner(x)

    marked = fj.jit(outer)
    for _ in range(50):
        same(with_break(X), marked(X))
    assert gain_of(marked)["calls_others"] and not gain_of(inner)["calls_others"]
    for _ in range(10):
        inner(X)
    assert 10 <= gain_of(inner)["counted"] < gain_of(inner)["compared_calls"]


def test_recursive_calls_are_part_of_the_outer_call(clock, measuring):
    def function(x, n):
        gc.isenabled()
        return x * 2.0 if n == 0 else marked(x, n - 1) + x

    marked = fj.jit(function)
    for _ in range(40):
        same(X * 2.0 + X + X + X, marked(X, 3))
    gain = gain_of(marked)
    assert gain["calls"] + gain["samples"] + gain["compiling_calls"] == 40


def test_calls_that_raise_are_not_counted(clock, measuring):
    def function(x, k):
        return x * 2.0 / np.ones(k)

    marked = fj.jit(function)
    for call in range(60):
        same(function(X, 8), marked(X, 8))
        with pytest.raises(ValueError):
            marked(X, 9)
    gain = gain_of(marked)
    assert gain["calls"] + gain["samples"] + gain["compiling_calls"] <= 61


def test_generators_are_not_measured(clock, measuring):
    @fj.jit
    def function(x, n):
        for _ in range(n):
            yield x * 2.0

    for _ in range(20):
        for y in function(X, 3):
            same(X * 2.0, y)
    assert "gain" not in function._report()


def test_code_marked_in_place_is_measured(clock, measuring):
    def function(x):
        y = x * 2.0
        gc.isenabled()
        return y + 1.0

    before = fj.stats()
    with fj.mark(function):
        for _ in range(100):
            same(affine(X), function(X))
        gain = _core.code_report(function.__code__)["gain"]
    after = fj.stats()
    assert gain["samples"] >= 4 and gain["plain_ns"] == 3 * gain["ns"]
    assert after["frames_captured"] - before["frames_captured"] == 100 - gain["samples"]


def test_a_new_code_object_is_measured_too(clock, measuring):
    def function(x):
        return x * 2.0

    marked = fj.jit(function)
    marked(X)
    function.__code__ = affine.__code__
    for _ in range(20):
        same(affine(X), marked(X))
    assert gain_of(marked)["samples"] >= 2


# What explain says.


def explained(function, *args, calls, **options):
    call = fj.explain(function, **options)
    for _ in range(calls):
        report = call(*args)
    return report


def test_one_call_says_how_to_measure(clock):
    report = explained(affine, X, calls=1)
    assert "call it again to measure what is gained" in str(report).splitlines()[0]
    assert report.own.gain["calls"] == 0 and report.own.gain["compiling_calls"] == 1


@pytest.mark.parametrize(
    ("bytecode", "text"),
    [
        (3 * MS, "saved 10 ms of 15 ms in 5 calls"),
        (MS // 2, "lost 2.5 ms: 5 calls took 5 ms, plain Python would have taken 2.5 ms"),
        (MS, "nothing was saved in 5 calls, which took 5 ms"),
    ],
)
def test_explain_tells_the_gain(clock, bytecode, text):
    clock.takes.update(bytecode=bytecode)
    report = explained(affine, X, calls=8)
    for shown in (str(report), report._repr_html_(), report.to_dict()["summary"]):
        assert text in shown


def test_explain_at_o1_says_that_nothing_is_measured(clock):
    report = explained(affine, X, calls=8, jit_level="O1")
    assert "no gain is measured at O1" in str(report).splitlines()[0]


def test_a_call_with_other_arguments_still_shows_what_is_compiled_for_them(clock):
    for function in (affine, with_break):
        call = fj.explain(function)
        for x in (np.ones(5), np.ones(5), np.ones(6), np.ones(6, "i4"), np.ones((2, 3))):
            report = call(x)
        assert len({record["new_entry"] for record in report.recompiles}) == 3


def test_a_loop_that_is_not_compiled_says_why(clock):
    call = fj.explain(elements)
    before = fj.stats()["frames_captured"]
    for _ in range(3):
        report = call(np.linspace(0.0, 1.0, 2000))
    assert report.entries == [] and fj.stats()["frames_captured"] == before
    reason = (
        "not compiled: a loop over single values that is not compiled: an assignment to an item of something that is not an array; "
        "use numbers and elements of arrays only, or operations on whole arrays"
    )
    assert str(report).startswith(f"elements(): {reason}; ")
    assert len(str(report).splitlines()) < 10
    for shown in (str(report), report._repr_html_()):
        assert reason[1:] in shown and "saved" not in shown  # begins a sentence in one of them
    assert 'class="in"' not in report._repr_html_()


def test_what_is_left_to_the_interpreter_is_not_shown_as_compiled(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "measure")
    clock = Clock()
    clock.takes.update(compiled=5 * MS, bytecode=MS)
    _core.set_clock(clock)
    try:
        report = explained(affine, X, calls=300)
    finally:
        _core.set_clock(None)
    assert report.own.why_not_compiled == "left to the interpreter: it was measured to be slower than plain Python"
    assert report.own.captured_lines() == set()


# The summary of a program.


def summary(*functions):
    from framejit._reporting._collect import function_report

    unsampled = "called too seldom to measure what is gained"
    return program_text([function_report(f._report(), unsampled) for f in functions], 80 * MS)


def test_summary(clock, measuring):
    fast, slow, seldom = fj.jit(affine), fj.jit(with_break), fj.jit(lambda x: x * 3.0)
    assert summary(fast) == "nothing was measured; compiling took 80 ms"
    seldom(X)
    assert summary(seldom) == "called too seldom to measure what is gained; compiling took 80 ms"
    for _ in range(20):
        fast(X)
    text = summary(fast)
    assert text.startswith("saved ") and text.endswith(" in 1 function; compiling took 80 ms")
    clock.takes.update(compiled=20 * MS, bytecode=10 * MS)
    for _ in range(20):
        slow(X)
    seldom(np.ones(3))
    text = summary(fast, slow, seldom)
    assert text.startswith("lost ") and "2 functions took" in text and "with_break() lost" in text
    assert "not measured: test_summary.<locals>.<lambda>() (" in text


# Functions that are called once.


def looped(x, n, seen):
    for i in range(n):
        x = x * 0.5 + 1.0
        seen.append(id(i) % 1)
    return x


def test_rounds_of_a_loop_are_compared_in_one_call(clock):
    seen = []
    report = explained(looped, X, 300, seen, calls=1)
    same(looped(X, 300, []), report.result)
    assert len(seen) == 300
    gain = report.own.gain
    assert 4 <= gain["samples"] <= 20 and gain["compared_calls"] == 0
    assert 250 <= gain["compared_rounds"] + gain["samples"] <= 300
    assert gain["rounds_plain_ns"] == 3 * gain["compared_rounds_ns"] == 3 * MS * gain["compared_rounds"]
    assert f"in {gain['compared_rounds']} rounds of loops" in str(report)
    assert gain["counted"] == gain["compared_rounds"]


def test_rounds_at_o1_are_not_sampled(clock):
    gain = explained(looped, X, 300, [], calls=1, jit_level="O1").own.gain
    assert gain["samples"] == 0


def test_rounds_that_are_left_in_the_middle(clock):
    def function(x, n, seen):
        for _ in range(3):
            for i in range(n):
                x = x * 0.5 + 1.0
                seen.append(id(i) % 1)
                if i % 7 == 3:
                    continue
                if i == n - 3:
                    break
                if i == 90:
                    raise ValueError(seen)
                x = x + np.sqrt(x)
                seen.append(id(x) % 1)
            x = x * 2.0
        return x

    call = fj.explain(function)
    for n in (1, 5, 40, 60, 200):
        ours, theirs = [], []
        report = call(X, n, theirs)
        if n > 90:
            assert isinstance(report.error, ValueError)
            continue
        same(function(X, n, ours), report.result)
        assert ours == theirs


@pytest.mark.parametrize("warm_up", [1 * MS, 1000 * MS])
def test_calls_that_take_longer_than_a_round_are_not_part_of_it(clock, measuring, warm_up):
    """The loop may have been left without notice."""
    inner = fj.jit(with_break)  # not inlined

    def function(x, n):
        for _ in range(n):
            x = x * 0.5 + 1.0
            x = inner(x)
        return x

    def plain(x, n):
        for _ in range(n):
            x = with_break(x * 0.5 + 1.0)
        return x

    clock.takes.update(compiled=warm_up)
    inner(X)
    inner(X)
    clock.takes.update(compiled=1 * MS)
    marked = fj.jit(function)
    same(plain(X, 40), marked(X, 40))
    gain = gain_of(inner)
    assert (gain_of(marked)["samples"] > 0) == (warm_up == 1 * MS)
    assert (gain["compiling_calls"] + gain["calls"] + gain["samples"] == 42) == (warm_up > 1 * MS)
