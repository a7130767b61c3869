"""Every argument of jit and JitConfig: what is allowed, and the error for what is not."""

from __future__ import annotations

import functools
import inspect
import pickle
import pydoc
import re
import warnings

import framejit as fj
import numpy as np
import pytest


def f(a, b=2, *, c=3):
    """Doc of f."""
    return a * b + c


def says(error: pytest.ExceptionInfo[BaseException], *parts: str) -> None:
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize("value", ["foo", "AST", "", None, 1, ["ast"]])
def test_capture_mode(value):
    with pytest.raises(ValueError) as error:
        fj.jit(f, capture_mode=value)
    says(error, "'capture_mode'", repr(value), "['ast', 'bytecode', 'trace']")


@pytest.mark.parametrize("value", ["O3", "o0", "", None, 0, True])
def test_jit_level(value):
    with pytest.raises(ValueError) as error:
        fj.jit(jit_level=value)
    says(error, "'jit_level'", repr(value), "['O0', 'O1']")


def test_jit_level_o2_points_to_jit_config():
    with pytest.raises(ValueError) as error:
        fj.jit(f, jit_level="O2")
    says(error, "'jit_level'", "'O2'", "JitConfig")


@pytest.mark.parametrize("value", ["ge", "GPU", None, 3])
def test_backend(value):
    with pytest.raises(ValueError) as error:
        fj.jit(f, backend=value)
    says(error, "'backend'", repr(value), "['', 'ms_backend', 'GE']")


@pytest.mark.parametrize("value", [2, -1, "True", None, 1.0, np.True_])
def test_dynamic(value):
    with pytest.raises(TypeError) as error:
        fj.jit(f, dynamic=value)
    says(error, "'dynamic'", repr(value), type(value).__name__, "bool")


@pytest.mark.parametrize("value", [0, 1, "yes", None])
def test_fullgraph(value):
    with pytest.raises(TypeError) as error:
        fj.jit(f, fullgraph=value)
    says(error, "'fullgraph'", repr(value), type(value).__name__, "bool")


@pytest.mark.parametrize("value", [0, "on", None])
def test_disable_format_transform(value):
    with pytest.raises(TypeError) as error:
        fj.jit(f, disable_format_transform=value)
    says(error, "'disable_format_transform'", repr(value), "bool")


@pytest.mark.parametrize(("name", "allowed"), [("exec_order", "['bfs', 'dfs']"), ("infer_boost", "['on', 'off']")])
def test_choices(name, allowed):
    with pytest.raises(TypeError) as error:
        fj.jit(f, **{name: 1})
    says(error, f"'{name}'", "1", "int", allowed)
    with pytest.raises(ValueError) as error:
        fj.jit(f, **{name: "other"})
    says(error, f"'{name}'", "'other'", allowed)


@pytest.mark.parametrize(
    "value",
    [1, [("global", {})], {"global": 1}, {"session": {"num_threads": 2}}, {"session": {2: "2"}}, {3: {}}],
)
def test_ge_options_types(value):
    with pytest.raises(TypeError) as error:
        fj.jit(f, ge_options=value)
    says(error, "'ge_options")


@pytest.mark.parametrize(
    "value",
    [
        {"session": {"num_threads": "0"}},
        {"session": {"num_threads": "two"}},
        {"session": {"memory_limit": "much"}},
        {"global": {"deterministic": "ON"}},
    ],
)
def test_ge_options_values(value):
    for backend in ("", "GE"):
        with pytest.raises(ValueError) as error:
            fj.jit(f, backend=backend, ge_options=value)
        ((key, given),) = next(iter(value.values())).items()
        says(error, "'ge_options'", key, repr(given))


def test_unknown_options_give_one_warning_that_lists_the_known_ones():
    with pytest.warns(UserWarning) as caught:
        fj.jit(f, compile_once=True, mode="x")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    assert all(word in text for word in ("compile_once", "mode", "exec_order", "ge_options", "infer_boost"))


def test_a_misspelt_argument_gets_a_suggestion():
    with pytest.warns(UserWarning, match=r"Known are: capture_mode, jit_level, .*Did you mean fullgraph\?"):
        fj.jit(f, full_graph=True)


@pytest.mark.parametrize(
    ("name", "instead"),
    [("nopython", "fullgraph=True"), ("parallel", "config.num_threads"), ("fastmath", "jit_level='O1'")],
)
def test_arguments_of_other_compilers_say_what_to_write_instead(name, instead):
    with pytest.warns(UserWarning) as caught:
        fj.jit(f, **{name: True})
    assert len(caught) == 1
    text = str(caught[0].message)
    assert text.startswith(f"For 'jit', unknown options are ignored: {name}. Known are: ")
    assert re.search(rf" {name}: [^.]*{re.escape(instead)}", text)
    assert "Did you mean" not in text


def test_unknown_ge_keys_give_one_warning():
    with pytest.warns(UserWarning) as caught:
        fj.jit(f, ge_options={"session": {"ge.exec": "1"}, "other": {}})
    assert len(caught) == 1
    text = str(caught[0].message)
    assert all(word in text for word in ("session.ge.exec", "other", "num_threads", "memory_limit", "deterministic"))


def test_all_allowed_values_pass_silently():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mode in ("ast", "bytecode", "trace"):
            for level in ("O0", "O1"):
                for backend in ("", "ms_backend", "GE"):
                    for dynamic in (True, False, 0, 1):
                        decorate = fj.jit(capture_mode=mode, jit_level=level, backend=backend, dynamic=dynamic)
                        assert decorate(f)(2) == 7
        options = {"global": {"deterministic": "1"}, "session": {"num_threads": "1", "memory_limit": "1"}}
        compiled = fj.jit(
            f, disable_format_transform=True, exec_order="dfs", infer_boost="on", ge_options=options, fullgraph=False
        )
    assert compiled(1, c=4) == 6


def test_second_positional_argument():
    with pytest.raises(TypeError):
        fj.jit(f, "ast")


def test_trace_only_as_decorator():
    with pytest.raises(ValueError) as error:
        fj.jit(f, capture_mode="trace")
    says(error, "trace", "@jit(capture_mode='trace')")
    assert fj.jit(capture_mode="trace")(f)(1) == 5


def test_the_first_wrong_argument_is_named_before_the_function_is_looked_at():
    with pytest.raises(ValueError, match="capture_mode"):
        fj.jit(5, capture_mode="nothing")


@pytest.mark.parametrize("thing", [5, "text", len, int, functools.partial(f, 1), np.add, [f]])
def test_not_python_code_comes_back_with_a_warning(thing):
    with pytest.warns(UserWarning, match="returned unchanged") as caught:
        assert fj.jit(thing) is thing
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_partial_is_told_what_to_mark():
    with pytest.warns(UserWarning, match=r"returned unchanged\. Mark the function in it: partial\(jit\(function\)"):
        fj.jit(functools.partial(f, 1))


def test_marked_twice_warns_and_takes_the_new_arguments():
    once = fj.jit(f)
    with pytest.warns(UserWarning, match="already"):
        twice = fj.jit(once, jit_level="O1")
    assert twice.__wrapped__ is f
    assert twice(1) == 5


def test_metadata_is_kept():
    marked = fj.jit(f)
    assert marked is not f
    assert marked.__wrapped__ is f
    assert (marked.__name__, marked.__qualname__, marked.__doc__, marked.__module__) == (
        f.__name__,
        f.__qualname__,
        f.__doc__,
        f.__module__,
    )
    assert inspect.signature(marked) == inspect.signature(f)
    assert callable(marked)
    assert inspect.getsource(marked) == inspect.getsource(f)
    assert f"f{inspect.signature(f)}\n    Doc of f.\n" in pydoc.render_doc(marked, renderer=pydoc.plaintext)


def test_inspect_asks_for_the_type():
    """Functions of Python only have a file for it. If marked ones claimed to be of their type, cloudpickle would believe it too,
    and send the function without the mark.
    """
    marked = fj.jit(f)
    for other in (marked, functools.lru_cache(f), functools.partial(f)):
        assert not inspect.isfunction(other)
        with pytest.raises(TypeError, match="function.* was expected"):
            inspect.getfile(other)
    assert inspect.getfile(inspect.unwrap(marked)) == inspect.getfile(f) == __file__
    assert inspect.getsourcefile(inspect.unwrap(Thing.method)) == __file__


class Thing:
    """Every kind of method."""

    scale = 2

    @fj.jit
    def method(self, x):
        """Doc of method."""
        return x * self.scale

    @fj.jit(capture_mode="bytecode")
    def other(self, x):
        return x + self.scale

    @staticmethod
    @fj.jit
    def static(x):
        return x + 1

    @fj.jit
    @staticmethod
    def static_outside(x):
        return x + 2

    @classmethod
    @fj.jit
    def class_method(cls, x):
        return x + cls.scale

    @fj.jit
    @classmethod
    def class_outside(cls, x):
        return x - cls.scale

    def plain(self, x):
        return x * 3

    def __call__(self, x):
        return x - 1


def test_methods():
    thing = Thing()
    assert thing.method(4) == 8
    assert Thing.method(thing, 4) == 8
    assert thing.method.__self__ is thing
    assert thing.method.__doc__ == "Doc of method."
    assert thing.other(4) == 6
    assert (thing.static(4), Thing.static(4)) == (5, 5)
    assert (thing.static_outside(4), Thing.static_outside(4)) == (6, 6)
    assert (thing.class_method(4), Thing.class_method(4)) == (6, 6)
    assert (thing.class_outside(4), Thing.class_outside(4)) == (2, 2)


def test_bound_method_and_callable_object():
    thing = Thing()
    marked = fj.jit(thing.plain)
    assert marked(2) == 6
    assert marked.__self__ is thing
    assert fj.jit(thing)(2) == 1
    with pytest.warns(UserWarning, match="already"):
        assert fj.jit(thing.method)(2) == 4


def test_lambda_closure_exec():
    k = 3
    assert fj.jit(lambda x: x + k)(1) == 4
    scope: dict = {}
    exec("def g(x, *args, **kw):\n    return x, args, kw", scope)
    assert fj.jit(scope["g"])(1, 2, a=3) == (1, (2,), {"a": 3})


def test_errors_of_a_call_are_those_of_the_function():
    marked = fj.jit(f)
    with pytest.raises(TypeError) as expected:
        f()
    with pytest.raises(TypeError) as got:
        marked()
    assert str(got.value) == str(expected.value)


def test_generator_and_coroutine():
    @fj.jit
    def numbers(n):
        yield from range(n)

    @fj.jit
    async def later(x):
        return x + 1

    assert list(numbers(3)) == [0, 1, 2]
    with pytest.raises(StopIteration) as stop:
        later(1).send(None)
    assert stop.value.value == 2


@fj.jit
def by_reference(x):
    return x + 1


def test_pickle_by_reference():
    assert pickle.loads(pickle.dumps(by_reference)) is by_reference
    bound = pickle.loads(pickle.dumps(Thing().method))
    assert bound(3) == 6


def test_cloudpickle_by_value():
    cloudpickle = pytest.importorskip("cloudpickle")
    offset = 7
    marked = fj.jit(lambda x: x + offset, jit_level="O1")
    again = pickle.loads(cloudpickle.dumps(marked))
    assert again is not marked
    assert again(1) == 8
    assert again.__wrapped__(1) == 8


def test_ms_function_is_jit():
    assert fj.ms_function is fj.jit


def test_introspection_methods():
    marked = fj.jit(f)
    marked(1)
    assert isinstance(marked.cache_entries(), list)
    assert all(isinstance(text, str) for text in [*marked.graphs(), *marked.asm()])
    marked.cache_clear()
    assert marked.cache_entries() == []


@pytest.mark.parametrize("value", ["O3", None, 1, ""])
def test_jit_config_level(value):
    with pytest.raises(ValueError) as error:
        fj.JitConfig(jit_level=value)
    says(error, "'jit_level'", "['O0', 'O1', 'O2']", repr(value))


@pytest.mark.parametrize("value", ["SINK", None, True])
def test_jit_config_exc_mode(value):
    with pytest.raises(ValueError) as error:
        fj.JitConfig(exc_mode=value)
    says(error, "'exc_mode'", "['auto', 'sink', 'no_sink']", repr(value))


@pytest.mark.parametrize("value", ["strict", None, 0])
def test_jit_config_syntax_level(value):
    with pytest.raises(ValueError) as error:
        fj.JitConfig(jit_syntax_level=value)
    says(error, "'jit_syntax_level'", "'STRICT', 'COMPATIBLE', 'LAX', ''", repr(value))


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("infer_boost", "maybe", "['on', 'off']"),
        ("infer_boost", True, "['on', 'off']"),
        ("exec_order", "any", "['bfs', 'dfs']"),
        ("exec_order", None, "['bfs', 'dfs']"),
        ("disable_format_transform", 1, "bool"),
        ("ge_options", [], "dict"),
        ("ge_options", {"session": {"num_threads": 2}}, "str to str"),
        ("ge_options", {"session": {"num_threads": "0"}}, "number of threads"),
        ("debug_level", "debug", "['RELEASE', 'DEBUG']"),
        ("debug_level", [], "['RELEASE', 'DEBUG']"),
    ],
)
def test_jit_config_options(name, value, allowed):
    """Wrong types too, as for the fields."""
    with pytest.raises(ValueError) as error:
        fj.JitConfig(**{name: value})
    says(error, "For 'JitConfig'", f"'{name}", allowed)


def test_jit_config_takes_all_allowed_values():
    options = {"global": {"deterministic": "0"}, "session": {"num_threads": "2", "memory_limit": "64 MB"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for level in ("O0", "O1", "O2"):
            for mode in ("auto", "sink", "no_sink"):
                for syntax in ("STRICT", "COMPATIBLE", "LAX", ""):
                    config = fj.JitConfig(level, mode, syntax, infer_boost="on", exec_order="dfs", ge_options=options)
                    assert (config.jit_config_dict["jit_level"], config.jit_config_dict["exc_mode"]) == (level, mode)
        fj.JitConfig(disable_format_transform=True, debug_level="DEBUG", infer_boost="off", exec_order="bfs")


def test_jit_config_dict():
    assert fj.JitConfig().jit_config_dict == {"jit_level": "O1", "exc_mode": "auto", "jit_syntax_level": ""}
    config = fj.JitConfig("O2", "sink", "STRICT", anything=5)
    assert config.jit_config_dict == {
        "jit_level": "O2",
        "exc_mode": "sink",
        "jit_syntax_level": "STRICT",
        "anything": 5,
    }


def test_jit_signature():
    assert str(inspect.signature(fj.jit)).replace("'", "") == (
        "(function: Any = None, *, capture_mode: str = ast, jit_level: str = O0, dynamic: bool = False, "
        "fullgraph: bool = False, backend: str = , **options: Any) -> Any"
    )
