"""Errors of calls whose arguments fit none of the forms that MindSpore's methods and functions have."""

from __future__ import annotations

import inspect
import pickle

import framejit as fj
import numpy as np  # noqa: F401  the rows name it
import pytest
from framejit import Tensor, mint
from framejit._core import Explained
from framejit.ops import _signature_table, _signatures

pytestmark = pytest.mark.capture
X = Tensor([[1.0, 2.0], [3.0, 4.0]])

MAX = '''"Tensor.max()"
"Tensor.max(dim=<int>, keepdim=<bool>)"{0}
"Tensor.max(axis=<int,Tuple,None,List>, keepdims=<bool>, *, initial=<number,None>, where=<bool,Tensor>, return_indices=<bool>)"{0}'''

# The texts are those of MindSpore 2.10, where functions under jit raise them.
ERRORS = {
    "X.abs(1)": "abs() takes 0 positional arguments but 1 was given.",
    "X.exp(1, 2)": "exp() takes 0 positional arguments but 2 were given.",
    "X.greater()": "greater() missing 1 required argument",
    "X.abs(q=1)": "abs(): match failed because incorrect keyword name: q",
    "X.max(0, True, initial=[1])": "max(): argument 'initial' must be Number but got list of Any",
    "X.reshape(1, 1.1)": "reshape(): argument 'shape' (position 2) must be tuple of int, not float.",
    "X.reshape(1.1)": "reshape(): argument 'shape' (position 1) must be tuple of int, not float.",
    "X.cumsum('a')": "cumsum(): argument 'dim' (position 1) must be int, not string.",
    "X.std('a')": "std(): argument 'dim' (position 1) must be tuple of int, not string.",
    "X.transpose('a')": "transpose(): argument 'axes' (position 1) must be tuple of int, not string.",
    "Tensor.mean('1', '0')": "descriptor 'mean' for 'TensorPy' objects doesn't apply to a 'str' object",
    "X.max(1, [1])": 'Failed calling max with "max(int, list<int>)".\nThe valid calling should be:\n'
    + MAX.format("\n    match failed because invalid types: (int, list<int>)\n" + " " * 46 + "~" * 11),
    "X.max(a=1, b=2)": 'Failed calling max with "max(a=int, b=int)".\nThe valid calling should be:\n'
    + MAX.format("\n\tmax(): match failed because incorrect keyword name: a"),
    "X.clamp(1, [1], 1)": 'Failed calling clamp with "clamp(int, list<int>, int)".\nThe valid calling should be:\n'
    '"Tensor.clamp(min=<Tensor,None>, max=<Tensor,None>)"\n"Tensor.clamp(min=<number,None>, max=<number,None>)"',
    "X.roll(shifts=2, dims=1.1)": 'Failed calling roll with "roll(shifts=int, dims=float)".\nThe valid calling should be:\n'
    '"Tensor.roll(shifts=<int,Tuple,List>, dims=<int,Tuple,None,List>)"\n    match failed because invalid types: (shifts=int, dims=float)\n'
    + " " * 41
    + "~" * 24,
    "mint.add(X, 'a')": 'Failed calling add with "add(Tensor, string)".\nThe valid calling should be:\n'
    + "\n".join(
        f'"add(input=<number,Tensor>, other=<{other}>, *, alpha=<number>)"\n    match failed because invalid types: (Tensor, string)\n'
        + " " * 49
        + "~" * 8
        for other in ("number", "number,Tensor")
    ),
    "mint.clamp(X, 1, mn=2)": 'Failed calling clamp with "clamp(Tensor, int, mn=int)".\nThe valid calling should be:\n'
    + "\n".join(
        f'"clamp(input=<Tensor>, min=<{kind},None>, max=<{kind},None>)"\n\tclamp(): match failed because incorrect keyword name: mn'
        for kind in ("Tensor", "number")
    ),
}


@pytest.mark.parametrize("call", ERRORS)
def test_texts(call):
    """In the interpreter, compiled, and where the compiled function itself looks at the text."""
    run = eval(f"lambda X: {call}")

    def caught(x):
        try:
            return run(x)
        except TypeError as error:
            return str(error)

    for function in (run, fj.jit(run), fj.jit(run, fullgraph=False, dynamic=True)):
        for _ in range(3):
            with pytest.raises(TypeError) as raised:
                function(X)
            assert str(raised.value) == ERRORS[call] and raised.value.__cause__ is not None
    marked = fj.jit(caught)
    assert [marked(X) for _ in range(3)] == [ERRORS[call]] * 3


def test_types_of_arguments():
    with pytest.raises(TypeError, match=r'"max\(list<int, string, tuple<int, float>, list<>>, tuple<bool, None, Tensor, mstype>\)"'):
        X.max([1, "2", (1, 2.5), []], (True, None, X, fj.int32))
    with pytest.raises(TypeError, match=r"with \"add\(Tensor, <class 'object'>\)\""):
        X.add(X, object())


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("X.reshape(3)", ValueError),  # an argument that fits, of a wrong value
        ("X.sum(5)", ValueError),
        ("X.add(Tensor([1.0, 2.0, 3.0]))", ValueError),
        ("X.add(np.zeros(3))", ValueError),
        ("X.index_select(np.int64(9), Tensor([0]))", Exception),
    ],
)
def test_other_errors_stay(call, error):
    with pytest.raises(error) as raised:
        eval(call)
    assert "Failed calling" not in str(raised.value) and "must be" not in str(raised.value)


def test_what_is_no_exception_stays():
    def interrupted():
        raise KeyboardInterrupt

    explained = Explained(interrupted, lambda *args: ValueError("explained"), "m", "f")
    with pytest.raises(KeyboardInterrupt):
        explained()


def test_an_interrupted_explanation_is_an_interrupt():
    def told(*args):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Explained(lambda: {}[1], told, "m", "f")()


def test_an_explanation_that_fails_leaves_the_error():
    def fails(x, *, y=1):
        raise KeyError("own")

    def told(function, error, args, kwargs):
        assert function is fails and isinstance(error, KeyError) and args == (1,) and kwargs == {"y": 2} and error.__traceback__ is not None
        return {}["wrong"]

    for explain in (told, lambda *args: None):
        with pytest.raises(KeyError, match="own") as raised:
            Explained(fails, explain, "m", "f")(1, y=2)
        assert raised.traceback[-1].name == "fails"


def test_methods_look_like_functions():
    assert isinstance(Tensor.max, Explained) and Tensor.max.__name__ == "max" and Tensor.max.__doc__
    assert list(inspect.signature(Tensor.clamp).parameters) == ["input", "min", "max"]
    assert list(inspect.signature(X.clamp).parameters) == ["min", "max"]
    assert inspect.unwrap(Tensor.clamp) is Tensor.clamp.__wrapped__
    assert all(pickle.loads(pickle.dumps(one)) is one for one in (mint.clamp, mint.add, mint.nn.functional.gelu, Tensor.max))
    assert mint.clamp.__module__ == "framejit.mint" and Tensor.max.__qualname__ == "Tensor.max"


def test_compiled_functions_call_them():
    def f(x):
        return Tensor.add(x, x).clamp(0, 5).sum() + mint.clamp(x, 1, 2).max()

    marked, parameter = fj.jit(f, fullgraph=True), fj.Parameter(X, name="x")
    assert marked(X) == f(X) and marked(parameter) == f(X)
    (entry,) = {entry["kind"] for entry in marked.cache_entries()}
    assert entry == "function"


def test_they_are_marked_and_disabled_like_functions():
    with fj.mark(mint.clamp), pytest.raises(fj.GraphBreakError, match="disable"):
        fj.jit(lambda x: fj.disable(mint.clamp)(x, 1, 2), fullgraph=True)(X)
    assert isinstance(fj.jit(Tensor.exp), type(fj.jit(lambda x: x))) and fj.jit(X.add)(X).tolist() == (X * 2).tolist()
    assert fj.jit(Tensor.exp)(X).tolist() == fj.vmap(mint.exp)(X).tolist() == X.exp().tolist()
    assert fj.grad(mint.add, (0, 1))(X, X)[0].tolist() == [[1.0, 1.0]] * 2


def test_a_method_that_changes_is_seen():
    function = fj.jit(lambda x: x.absolute())
    before = Tensor.__dict__["absolute"]
    assert function(-X).asnumpy().tolist() == X.asnumpy().tolist()
    try:
        Tensor.absolute = lambda self: self * 3
        assert function(X).asnumpy().tolist() == (X * 3).asnumpy().tolist()
    finally:
        Tensor.absolute = before
    assert function(-X).asnumpy().tolist() == X.asnumpy().tolist()


def test_every_form_is_read():
    """The table's texts are those that the forms were read from, and each method that has forms has their errors."""
    for table in (_signature_table.METHODS, _signature_table.FUNCTIONS):
        for name, forms in _signatures._forms(table).items():
            for form in forms:
                told = [f"{one}=<{','.join(types)}>" for one, types in form.parameters.items()]
                if form.positional < len(told):
                    told.insert(form.positional, "*")
                assert f"({', '.join(told)})" == form.text, name
    methods = [name for name in _signatures._forms(_signature_table.METHODS) if hasattr(Tensor, name)]
    assert len(methods) > 150
    assert [name for name in methods if not isinstance(Tensor.__dict__[name], Explained)] == []
