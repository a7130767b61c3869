"""print() in functions that have to be one graph: it happens when the graph has run, in the order of the program."""

from __future__ import annotations

import builtins
import contextlib
import io
import sys

import framejit as fj
import numpy as np
import pytest
from capture_support import capture
from framejit import Parameter, Tensor, nn

pytestmark = pytest.mark.capture
WHOLE = {"fullgraph": True}
X = np.array([1.0, 2.5, -3.0])


def values(x, log, k):
    y = x * 2
    print("y is", y, y.shape, y.dtype, k, sep=" | ")
    y[0] = 7.0
    log.append(len(log))
    print((y, [x.sum(), k, None]), end=";\n", flush=False)
    print(f"{k} of {float(x[1]):.2f}", float(y.sum()), y.ndim == 1)
    print(f"{y}, {x!r:>40} and {y.sum():.3f}" + str(x), "%s %r" % (y, 3), "{} {}".format(x, k))
    print()
    return y


def of_a_helper(x, log, k):
    def tell(x, what):
        print(what, x)
        return x + 1

    for i in range(3):
        x = tell(x * i * k, f"round {i}")
    return x


def of_tensors(x, log, k):
    t = Tensor(x)
    u = t * k
    print(u, t.shape, u.dtype, f"{u} {t!r}", str(t))
    u += 1
    fj.ops.Print()("input:", u)
    return u


def run(function, *args):
    """What is printed, and what comes back."""
    log = []
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        out = function(args[0], log, *args[1:])
    return stream.getvalue(), np.asarray(out.asnumpy() if isinstance(out, Tensor) else out).tolist(), log


class Own:
    unit = "m"

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Own({self.value})"

    def __format__(self, how):
        return f"{self.value:{how}} {self.unit}"


class Named(Own):
    def __str__(self):
        return "<" + repr(self) + ">"


OWN, NAMED = Own(3.5), Named(-1)


def of_objects(x, log, k):
    made = Own(k)
    print(OWN, NAMED, made, f"{OWN} {OWN:.2f} {OWN!r:>12} {NAMED!s} {NAMED!r}", x)
    print(str(OWN) + repr(NAMED), format(made, "3d"), "".join((str(made), ";")))
    return x * k


WEIGHT = Parameter(Tensor(np.float32([1.0, 2.0])), name="weight")


def of_parameters(x, log, k):
    print(WEIGHT, f"{WEIGHT} {WEIGHT!r}", str(WEIGHT), WEIGHT + k, sep="|")
    return x * k


@pytest.mark.parametrize("mode", ["ast", "bytecode", "trace"])
@pytest.mark.parametrize("function", [values, of_a_helper, of_tensors, of_objects, of_parameters])
def test_what_is_printed(function, mode):
    marked = fj.jit(fullgraph=True, capture_mode=mode)(function)
    for k in (2, 2, 3, 1, 3):
        assert run(marked, X.copy(), k) == run(function, X.copy(), k)
        if k == 2:
            assert marked.graphs().count("graph @") == 1


def test_it_is_an_effect_among_others():
    c = capture(values, X, [], 2, capture_options=WHOLE)
    assert not c.codes
    kinds = [effect.partition("(")[0].rpartition(".")[2] for effect in c.effects]
    assert kinds == ["print", "extend", "print", "print", "print", "print"]
    assert c.effects[0].endswith("('sep',)") and c.effects[2].endswith("('end', 'flush')")


def test_without_fullgraph_it_is_a_break():
    assert capture(values, X, [], 2).codes == ["FJ010"]


def caught(x, log):
    y = x * 2
    try:
        print(y)
    except OSError:
        y = y + 1
    return y


class Counting:
    def __repr__(self):
        seen.append(self)
        return "counting"


COUNTING = Counting()


def of_an_object_that_counts(x, log):
    print(COUNTING, x)
    return x * 2


def into_a_file(x, log):
    print(x, file=sys.stderr)
    return x * 2


def at_once(x, log):
    print(x, flush=True)
    return x * 2


@pytest.mark.parametrize("function", [caught, of_an_object_that_counts, into_a_file, at_once])
def test_what_is_left_to_the_interpreter(function):
    assert "FJ010" in capture(function, X, [], capture_options=WHOLE).codes


class Loud(io.StringIO):
    def write(self, text):
        seen.append(scale)
        return super().write(text)


seen: list[object] = []
scale = 1.0


def scaled(x, log):
    global scale
    print(x)
    scale = scale + 1
    return x * scale


def test_streams_with_code_of_their_own(monkeypatch):
    # They may look at anything: where sys.stdout is one of them, the bytecode runs.
    marked = fj.jit(scaled, fullgraph=True)
    found = []
    for function in (scaled, marked):
        seen.clear()
        monkeypatch.setitem(globals(), "scale", 1.0)
        out = []
        for kind in (io.StringIO, Loud, io.StringIO, Loud):
            with contextlib.redirect_stdout(kind()) as stream:
                out.append((function(X, []).tolist(), stream.getvalue()))
        found.append((out, list(seen), scale))
    assert found[0][0] == found[1][0] and found[0][1] == found[1][1]


def test_a_replaced_write_is_called(monkeypatch):
    marked = fj.jit(scaled, fullgraph=True)
    marked(X, [])
    file = io.TextIOWrapper(io.BytesIO())
    written = []
    file.write = written.append
    monkeypatch.setattr(sys, "stdout", file)
    marked(X, [])
    assert "".join(written) == f"{X}\n"


def test_print_options_of_numpy():
    marked = fj.jit(values, fullgraph=True)
    run(marked, X.copy(), 2)
    for options in ({"precision": 1}, {"formatter": {"float": lambda v: f"<{v}>"}}):
        with np.printoptions(**options):
            assert run(marked, X.copy(), 2) == run(values, X.copy(), 2)


def test_print_may_be_another_function(monkeypatch):
    marked = fj.jit(values, fullgraph=True)
    assert run(marked, X.copy(), 2)[0].startswith("y is")
    calls = []
    monkeypatch.setattr(builtins, "print", lambda *args, **keywords: calls.append(len(args)))
    assert run(marked, X.copy(), 2)[0] == "" and calls == [5, 1, 3, 3, 0]


def test_an_error_of_the_stream():
    def f(x, log):
        log.append("before")
        print("first")
        log.append("between")
        print("second \N{SNOWMAN}")
        log.append("after")
        return x * 2

    marked = fj.jit(f, fullgraph=True)
    run(marked, X)
    found = []
    for function in (f, marked):
        log, buffer = [], io.BytesIO()
        stream = io.TextIOWrapper(buffer, "ascii", write_through=True)
        with contextlib.redirect_stdout(stream), pytest.raises(UnicodeEncodeError):
            function(X, log)
        found.append((log, buffer.getvalue()))
    assert found[0] == found[1] and found[0][0] == ["before", "between"]


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(np.float32([2.0, 3.0, 4.0])), name="w")

    def construct(self, x):
        y = x * self.w
        print("y", y, self.w)
        return (y * y).sum()


def test_in_gradients(capsys):
    # Functions whose gradients are asked for are whole without being asked to be.
    net = Net()
    x = Tensor(X.astype(np.float32))
    gradient = fj.grad(net, 0, net.trainable_params())
    step = fj.jit(lambda x: gradient(x))
    for _ in range(3):
        of_x, of_w = step(x)
        assert capsys.readouterr().out == f"y {x * net.w} {net.w}\n"
        np.testing.assert_array_equal(of_x.asnumpy(), (2 * x * net.w * net.w).asnumpy())
        np.testing.assert_array_equal(of_w[0].asnumpy() if isinstance(of_w, tuple) else of_w.asnumpy(), (2 * x * x * net.w).asnumpy())
    assert step.graphs().count("graph @") == 1


def test_classes_whose_texts_change(monkeypatch):
    marked = fj.jit(of_objects, fullgraph=True)
    assert run(marked, X, 2) == run(of_objects, X, 2)
    for name in ("__repr__", "__format__", "__str__"):
        monkeypatch.setattr(Own, name, lambda self, how="": f"{how} changed", raising=False)
        assert run(marked, X, 2) == run(of_objects, X, 2)
    monkeypatch.setattr(Own, "__str__", lambda self: 3)
    with pytest.raises(TypeError, match="__str__ returned non-string"):
        run(of_objects, X, 2)
    with pytest.raises((TypeError, fj.GraphBreakError)):
        run(marked, X, 2)


def of_the_argument(p, x):
    print(p, type(p).__name__, isinstance(p, Parameter))
    return ((p * x) if isinstance(p, Parameter) else p + x).sum()


@pytest.mark.parametrize("compiled", [True, False])
def test_an_argument_of_a_gradient_is_what_it_was(compiled, capsys):
    """A Parameter, not a Tensor with its elements."""
    x = Tensor(np.float32([3.0, 4.0]))
    with contextlib.nullcontext() if compiled else fj.stance("force_eager"):
        gradient = fj.grad(of_the_argument)(WEIGHT, x)
    assert capsys.readouterr().out == f"{WEIGHT} Parameter True\n"
    assert gradient.asnumpy().tolist() == [3.0, 4.0] and type(gradient) is Tensor
