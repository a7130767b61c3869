"""Stress modes: what each makes happen, and that small programs are still equal to eager in everything under each."""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import sys
import warnings

import framejit
import numpy as np
import pytest
from exact import same, test_programs
from framejit._reporting._verify import UNBOUND, Prediction

MODES = ["rewrite", "break=1", "break=4", "guards", "interp", "verify", "rewrite,break=3,guards,interp"]
PROGRAMS = [
    name for name, f in vars(test_programs).items() if name.startswith("test_") and not inspect.signature(f).parameters
]


@pytest.fixture(autouse=True)
def warnings_are_shown_as_before():
    before = warnings._showwarnmsg  # predictions count there
    yield
    gc.collect()
    assert warnings._showwarnmsg is before


@pytest.fixture
def stress(monkeypatch):
    """Sets config.stress for functions marked in the test."""
    monkeypatch.setattr(framejit.config, "strict", True)
    yield lambda text: setattr(framejit.config, "stress", text)
    framejit.config.stress = ""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_under_stress(program, mode, stress, monkeypatch):
    def check(function, make_args, graphs=None, **options):
        return same.assert_same(function, make_args, calls=6, **options)

    monkeypatch.setattr(test_programs, "captured", check)
    stress(mode)
    before = framejit.stats()["frames_marked"]
    getattr(test_programs, program)()
    assert framejit.stats()["frames_marked"] > before


def counted(call, name):
    before = framejit.stats()[name]
    call()
    return framejit.stats()[name] - before


def numbers(a, b):
    pairs = [a, b]
    pairs.append(a + b)
    return {"sum": pairs[-1], "all": pairs}


def test_rewrite_runs_frames_without_arrays(stress):
    plain = same.assert_same(numbers, lambda: (2, 3))
    assert not plain._report()["spliced"] or not plain.cache_entries()
    stress("rewrite")
    marked = same.assert_same(numbers, lambda: (2, 3))
    assert marked._report()["spliced"]
    assert [entry["kind"] for entry in marked.cache_entries()] == ["region"]
    assert counted(lambda: marked(2, 3), "frames_captured") == 1
    assert sum(entry["hits"] for entry in marked.cache_entries()) == 4
    first = framejit.jit(numbers)
    assert counted(lambda: first(2, 3), "frames_captured") == 1


def chain(x):
    y = x * 2.0 + 1.0
    z = np.sqrt(y) - x
    return z * y


@pytest.mark.parametrize("n", [2, 4, 9])
def test_break_ends_graphs(n, stress):
    x = np.linspace(0.0, 1.0, 7)
    assert framejit.explain(chain)(x).breaks == []
    stress(f"break={n}")
    marked = same.assert_same(chain, lambda: (x.copy(),))
    breaks = marked._report()["breaks"]
    assert {b["id"] for b in breaks} == {"FJ020"}
    instructions = [entry["instructions"] for entry in marked._report()["entries"]]
    assert len(instructions) >= 2
    assert max(instructions) <= n


def test_break_is_left_out_of_whole_graphs(stress):
    stress("break=2")
    marked = framejit.jit(chain, fullgraph=True)
    assert np.array_equal(marked(np.ones(3)), chain(np.ones(3)))
    assert marked.graphs().count("graph @") == 1


def scaled(x, n, table):
    return x * n + table["shift"]


def test_guards_fail_once_each(stress):
    args = np.ones(5), 3, {"shift": 2.0}
    stress("guards")
    marked = framejit.jit(scaled)
    failures = [counted(lambda: same.same_call(scaled, marked, args), "guard_failures") for _ in range(40)]
    assert sum(failures) >= len(framejit.explain(scaled)(*args).guards)
    assert set(failures[1:5]) == {1}  # one for each call
    assert failures[-1] == 0  # each has failed
    assert len(marked.cache_entries()) == 1  # the entry whose guard was let fail is replaced
    assert counted(lambda: marked(*args), "frames_captured") == 1


def test_guards_fail_once_whatever_they_expect(stress):
    def function(x, n):
        return x * n.bit_length()

    stress("guards")
    marked = framejit.jit(function)
    counts = [counted(lambda: same.same_call(function, marked, (np.ones(5), n)), "recompiles") for n in range(100, 200)]
    assert 0 < sum(counts) < 50 and sum(counts[50:]) == 0


def test_interp_runs_no_kernel(stress):
    x = np.linspace(0.0, 1.0, 7)

    def function(a, out):
        out += np.sin(a) * 2
        return out.reshape(7, 1) + a, a.sum()

    stress("interp")
    marked = same.assert_same(function, lambda: (x.copy(), np.zeros(7)))
    calls = lambda: marked(x, np.zeros(7))  # noqa: E731
    assert counted(calls, "kernel_calls") == 0
    assert counted(calls, "frames_captured") == 1
    stress("")
    marked = same.assert_same(function, lambda: (x.copy(), np.zeros(7)))
    assert counted(calls, "kernel_calls") > 0


@pytest.mark.parametrize("values", [[1.0, 0.0], [np.inf, 1.0]])
def test_interp_takes_writes_back_where_numpy_warns(values, stress):
    def function(a, out):
        out += 1
        out /= a * 0
        return out

    stress("interp")
    same.assert_same(function, lambda: (np.array(values), np.ones(2)))


def test_interp_keeps_flags_that_a_numpy_loop_clears(stress):
    def function(x, m, out):
        for i in range(2):
            out[i] = m[i]
            np.tanh(m[i] / x)
        return np.tanh(m[0] / x)

    stress("interp")
    same.assert_same(function, lambda: (0, np.array([1.0, 2.0]), np.zeros(2)))


def test_mark_takes_stress():
    def function(a, b):
        return [a, b, a + b]

    with framejit.mark(function, stress="rewrite, guards") as handle:
        assert handle.settings["stress"] == "rewrite,guards"
        assert counted(lambda: [function(1, 2) for _ in range(8)], "guard_failures") > 0
        assert framejit._core.code_report(function.__code__)["spliced"]
    with framejit.mark(function):
        assert counted(lambda: [function(1, 2) for _ in range(8)], "guard_failures") == 0


@pytest.mark.parametrize("value", ["fast", "break", "break=0", "break=N", "break=-1", "guards;interp", "rewrite,x"])
def test_wrong_values(value):
    for use in (
        lambda: framejit.mark(chain, stress=value),
        lambda: setattr(framejit.config, "stress", value),
    ):
        with pytest.raises(ValueError, match="'stress' must be a comma list of.*'rewrite'.*but got") as raised:
            use()
        assert repr(value.split(",")[-1]) in str(raised.value)
    with pytest.raises(TypeError, match="'stress'.*3 of type int"):
        framejit.mark(chain, stress=3)
    assert framejit.config.stress == ""


def effects(x, log, model):
    y = x * 2.0
    log.append(y)
    log[0] = 7
    log.append(y)
    model["w"] = y
    model["w"] = y + 1
    y = y + 0  # frees an array, whose address may be used anew
    x += y
    a, b = y, y[1:]
    for i in range(3):
        y = y * 0.5 + i
    return a, b, (y, 3), [a, a]


def test_verify_predicts_and_lets_the_bytecode_run(stress):
    stress("verify")
    make_args = lambda: (np.linspace(0.0, 1.0, 5), [1, 2], {"k": 1})  # noqa: E731
    marked = same.assert_same(effects, make_args, calls=6)
    entries = marked._report()["entries"]
    assert entries
    assert sum(entry["hits"] for entry in entries) >= 6
    before = framejit.stats()["kernel_calls"]
    marked(*make_args())
    assert framejit.stats()["kernel_calls"] > before


def test_verify_leaves_runs_that_warn_to_the_bytecode(stress):
    def function(a, out):
        out += 1
        out /= a
        return out

    stress("verify")
    marked = same.assert_same(function, lambda: (np.array([1.0, 0.0]), np.zeros(2)))
    predicted = framejit.stats()["kernel_calls"]
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert marked(np.array([2.0, 0.0]), np.zeros(2)).tolist() == [0.5, np.inf]
    assert framejit.stats()["kernel_calls"] > predicted  # it was predicted all the same


CUBE = np.linspace(0.1, 3.0, 50)


def contracted(x, scale):
    y = x * scale + CUBE
    return y - 1


@pytest.fixture
def predicts_wrongly(monkeypatch):
    """Wrong predictions count as internal errors, which other tests have none of."""
    monkeypatch.setattr(framejit.config, "strict", False)
    yield
    framejit.reset()


def test_verify_prints_a_reproducer(capsys, predicts_wrongly):
    x = np.linspace(0.3, 7.0, 50)
    args = x, 1.1
    with framejit.mark(contracted, jit_level="O1", stress="verify"):  # O1 contracts to FMA: bits differ
        before = framejit.stats()["internal_errors"]
        results = [contracted(*args) for _ in range(2)]
        assert framejit.stats()["internal_errors"] > before
    assert all(np.array_equal(result, contracted(*args)) for result in results)  # what ran is the bytecode
    text = capsys.readouterr().err
    program = text[text.rindex("# framejit predicted") :]
    assert "predicted lines" in program
    assert "of contracted() otherwise" in program
    assert "# " + "  stack[0]" in program or "variable" in program
    # It runs by itself, and shows the same.
    program = program.replace("stress='verify'", "stress='verify', jit_level='O1'")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "# framejit predicted lines" in done.stderr


def test_verify_writes_reproducers(tmp_path, capsys, monkeypatch, predicts_wrongly):
    monkeypatch.setattr(framejit.config, "repro_dir", str(tmp_path / "repros"))
    with framejit.mark(contracted, jit_level="O1", stress="verify"):
        contracted(np.linspace(0.3, 7.0, 50), 1.1)
    assert capsys.readouterr().err == ""
    files = list((tmp_path / "repros").iterdir())
    assert [file.suffix for file in files] == [".py"] * len(files)
    assert files
    compile(files[0].read_text(), files[0].name, "exec")


class Same:
    """What a prediction says of the objects of a frame, without a frame."""

    def __init__(self, before, **record):
        def f(a, b):
            return a, b

        nothing = {"locals": [], "stack": [], "written": [], "effects": [], "existing": []}
        rest = {"code": f.__code__, "globals": {}, "first_line": 1, "last_line": 2, "frame": 0, "returns": False}
        self.prediction = Prediction({**nothing, **rest, **record}, before)

    def differences(self, after, stack=()):
        return self.prediction.differences(list(after), list(stack))


def test_differences_between_prediction_and_reality():
    x, log, held = np.arange(3.0), [1], {"k": 1}
    one = Same([x, 3])
    assert one.differences([x, 3]) == []
    assert "there before" in one.differences([x.copy(), 3])[0]
    assert "variable 'b': predicted 3, found 4" in one.differences([x, 4])[0]
    assert "predicted 3, found True" in one.differences([x, True])[0]

    y = x * 2
    fresh = Same([x, UNBOUND], locals=[(1, y)], stack=[y, [y, x[1:]]], existing=[id(x)])
    z = x * 2
    assert fresh.differences([x, z], [z, [z, x[1:]]]) == []
    assert "is elsewhere too" in fresh.differences([x, z], [z, [z.copy(), x[1:]]])[0]
    assert "view of another array" in fresh.differences([x, z], [z, [z, x.copy()[1:]]])[0]
    assert "predicted array([0., 2., 4.])" in fresh.differences([x, z + 1], [z, [z, x[1:]]])[0]
    assert "stack: 2 values predicted, 1 found" in fresh.differences([x, z], [z])[0]
    assert "with strides" in fresh.differences([x, z[::-1]], [z[::-1], [z[::-1], x[1:]]])[0]
    assert "predicted a new ndarray, found <not bound>" in fresh.differences([x, UNBOUND], [z, [z, x[1:]]])[0]

    effects_ = Same([log, held], effects=[(4, log, UNBOUND, UNBOUND, [5]), (3, held, "k", 2, [])], existing=[id(log)])
    assert len(effects_.differences([log, held])) == 2
    log.append(5)
    held["k"] = 2
    assert effects_.differences([log, held]) == []

    warned = Same([x, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("unseen", UserWarning, stacklevel=1)
    assert warned.differences([x, 1]) == []
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        warnings.warn("seen", UserWarning, stacklevel=1)
    assert warned.differences([x, 1]) == ["warnings: none predicted, 1 given"]

    written = Same([x, 1], written=[x])
    x += 1
    assert "written in place" in written.differences([x, 1])[0]
