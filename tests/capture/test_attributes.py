"""Attributes of instances, classes and modules: looked up as the interpreter does, without running anything."""

import collections
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest

import framejit as fj
from capture_support import capture

X = np.arange(6.0).reshape(2, 3)


class Base:
    rate = 2.0

    def step(self, x):
        return x * self.rate


class Model(Base):
    def __init__(self, w=X):
        self.w = w
        self.n = 3


def test_instance_before_class():
    def f(m):
        return m.w * m.rate

    m = Model()
    c = capture(f, m)
    assert c.guard("'rate' not in m.__dict__") and c.guard("not hasattr(type(m), 'w')")
    m.rate = 5.0
    c = capture(f, m)
    assert not c.guard("'rate' not in m.__dict__") and c.guard("type(m).rate is 2.0")


def test_method_is_guarded_on_type_and_instance():
    def f(m, x):
        return m.step(x)

    c = capture(f, Model(), X)
    assert c.guard("'step' not in m.__dict__") and c.guard("type(m).step is Base.step") and c.guard("m.step.__code__")


def test_instance_attribute_shadows_a_method():
    def f(m, x):
        return m.step(x)

    m = Model()
    m.step = lambda x: x + 1
    assert capture(f, m, X).ops[-1] == "add"


def test_capture_does_not_make_the_dict_of_an_instance():
    import gc

    def f(m):
        return m.w * m.n

    m = Model()
    before = any(type(r) is dict and r.get("n") == 3 and "w" in r for r in gc.get_referents(m))
    assert capture(f, m).returns
    assert before == any(type(r) is dict and r.get("n") == 3 and "w" in r for r in gc.get_referents(m))


def test_stores_are_effects_and_seen_later():
    def f(m, x):
        m.w = x + 1
        m.n += 1
        return m.w * m.n

    c = capture(f, Model(), X)
    assert c.effects == ["<m>.w = array 1", "<m>.n = 4"] and "{value=4}" in c.graph


def test_two_objects_of_one_type_stay_apart():
    def f(a, b, x):
        a.w = x
        return b.w + 1

    c = capture(f, Model(), Model(X + 1), X)
    assert c.guard("a is not b")
    m = Model()
    c = capture(f, m, m, X)
    assert c.guard("b is a") and c.inputs == ["x"]


def test_getattr_hooks_are_followed():
    class Dynamic:
        def __init__(self):
            self.w = X

        def __getattr__(self, name):
            raise AssertionError("must not run")

    class Always:
        def __getattribute__(self, name):
            raise AssertionError("must not run")

    def found(o, x):
        return x * o.w

    def missing(o, x):
        y = x + 1
        return y * o.v

    assert capture(found, Dynamic(), X).returns
    c = capture(missing, Dynamic(), X)
    assert c.codes == ["FJ014"] and c.exit_op == "LoadFast"
    assert capture(missing, Always(), X).codes == ["FJ009"]


def test_an_object_that_can_be_called_is_not_asked():
    asked = []

    class Callable:
        def __call__(self, x):
            return x * 2

        def __getattr__(self, name):
            asked.append(name)
            raise AttributeError(name)

    class Property:
        __call__ = Callable.__call__

        @property
        def __name__(self):
            asked.append("__name__")
            return "sort"

    def f(call, x):
        return call(x)

    for call in (Callable(), Property(), types.MethodType(Callable(), X)):
        capture(f, call, X)
        assert not asked


def test_names_of_a_class_that_are_no_str_are_not_asked():
    class Name:
        def __hash__(self):
            return hash("rate")

        def __eq__(self, other):
            asked.append(other)
            return False

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        odd = type("Odd", (Base,), {Name(): 1})
    asked = []

    def of_class(c, x):
        return x * c.rate

    for owner in (odd, odd()):
        asked.clear()
        c = capture(of_class, owner, X)
        assert c.codes == ["FJ009"] and not asked


def test_what_was_stored_is_read_as_the_class_says():
    class Always:
        def __getattribute__(self, name):
            return 42.0 if name == "w" else object.__getattribute__(self, name)

    def by_name(o, x):
        o.w = x + 1
        return o.w

    def by_function(o, x):
        setattr(o, "w", x + 1)  # noqa: B010
        return getattr(o, "w")  # noqa: B009

    for f in (by_name, by_function):
        assert capture(f, Always(), X).codes == ["FJ009"]


def test_setters_are_followed():
    class Checked:
        def __setattr__(self, name, value):
            raise AssertionError("must not run")

    class Slotted:
        __slots__ = ("w",)

    class Property:
        @property
        def w(self):
            return X

        @w.setter
        def w(self, value):
            raise AssertionError("must not run")

    def f(o, x):
        y = x + 1
        o.w = y
        return y

    for cls in (Checked, Property):
        c = capture(f, cls(), X)
        assert c.codes == ["FJ014"] and c.exit_op == "LoadFast" and c.locals == {"y": "array 0"}
    c = capture(f, Slotted(), X)
    assert c.returns and c.effects == ["<o>.w = array 0"]


def test_slots_are_read():
    class Slotted:
        __slots__ = ("w",)

    def f(o):
        return o.w * 2

    o = Slotted()
    o.w = X
    assert capture(f, o).inputs == ["o.w"]


def test_class_attributes():
    class Config:
        DT = 0.5

        @staticmethod
        def twice(x):
            return x * 2

    def f(x):
        return Config.twice(x) * Config.DT

    c = capture(f, X)
    assert c.returns and "Config.DT" in c.inputs


def test_module_globals_read_and_written():
    module = types.ModuleType("settings")
    module.scale = 2.0

    def f(x):
        module.scale = module.scale * 2
        return x * module.scale

    c = capture(f, X)
    assert c.returns and c.effects == ["global scale = 4.0"] and c.guard("settings.scale == 2.0")
    varied = capture(f, X, capture_options={"varied": ("settings.scale",)})
    assert varied.returns and varied.effects in (["global scale = float 1"], ["global scale = float 0"])


def test_nested_objects():
    class Layer:
        def __init__(self, w):
            self.w = w
            self.act = np.tanh

        def __call__(self, x):
            return self.act(x * self.w)

    class Net:
        def __init__(self):
            self.layers = [Layer(X), Layer(X + 1)]

        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    def f(net, x):
        return net(x)

    c = capture(f, Net(), X)
    assert c.returns and c.ops == ["multiply", "tanh"] * 2
    assert c.guard("len(net.layers) == 2") and "net.layers[1].w" in c.inputs


def test_missing_attribute_is_left():
    def f(m, x):
        y = x + 1
        return y * m.nothing

    assert capture(f, Model(), X).codes == ["FJ006"]


def test_enum_and_dataclass_values():
    import dataclasses

    @dataclasses.dataclass
    class Params:
        a: float = 2.0
        n: int = 3
        name: str = "euler"

    def f(p, x):
        if p.name == "euler":
            return x * p.a + p.n
        return x

    c = capture(f, Params(), X)
    assert c.returns and c.guard("p.n == 3") and c.guard("p.name == 'euler'") and "p.a" in c.inputs


def test_a_store_asks_for_a_dict_of_the_instances_own():
    def f(a, b, x):
        a.w = x * 2.0
        return b.w

    def shared():
        a, b = Model(), Model()
        b.__dict__ = a.__dict__
        return a, b

    c = capture(f, Model(), Model(), X)
    assert c.guard("a.__dict__ is not shared") and not c.guard("b.__dict__ is not shared")
    assert "several owners" in str(capture(f, *shared(), X).breaks)
    jitted = fj.jit(f, capture_mode="bytecode")
    for a, b in ((Model(), Model()), shared(), (Model(), Model())):
        result = jitted(a, b, X)
        assert result is b.w and np.array_equal(a.w, X * 2.0)
    assert [entry["kind"] for entry in jitted.cache_entries()].count("function") == 1


K = 1.0


def test_stores_into_a_dict_of_attributes_or_variables_are_seen():
    def attribute(d, m, x):
        d["n"] = 5.0
        return x * m.n

    def variable(d, m, x):
        d["K"] = d["K"] + 1.0
        return x * K

    def after(d, m, x):
        global K
        K = 7.0
        return x * d["K"]

    def world(kind):
        m = Model()
        return {"own": {"K": 1.0}, "attributes": m.__dict__, "variables": globals()}[kind], m

    for function in (attribute, variable, after):
        for first in ("own", "attributes", "variables"):
            jitted = fj.jit(function, capture_mode="bytecode")
            for kind in (first, "own", "attributes", "variables", "own"):
                answers = []
                for each in (function, jitted):
                    globals()["K"] = 1.0
                    globals().pop("n", None)
                    d, m = world(kind)
                    d["K"] = 1.0
                    answers.append(each(d, m, X))
                assert np.array_equal(*answers), (function, first, kind)
    globals().pop("n", None)
    c = capture(variable, {"K": 1.0}, Model(), X)
    assert c.guard("d is not globals()")


def test_a_dict_of_attributes_may_be_a_subclass():
    def f(m, x):
        return x * m.rate

    before, jitted = fj.stats(), fj.jit(f, capture_mode="bytecode")
    for held in (dict, collections.OrderedDict, lambda **names: collections.defaultdict(float, **names)):
        m = Model()
        m.__dict__ = held(rate=3.0)
        assert np.array_equal(jitted(m, X), X * 3.0)
    assert fj.stats()["graph_breaks"] == before["graph_breaks"]
    assert fj.stats()["internal_errors"] == before["internal_errors"]


def add_item(m, d, x):
    d.update(n=5.0)
    return x * m.n


def drop_item(m, d, x):
    d.pop("n")
    return x * getattr(m, "n", 9.0)


def empty(m, d, x):
    d.clear()
    return x + 1.0, hasattr(m, "n")


def drop_attribute(m, d, x):
    del m.n
    return x + 1.0, "n" in d


def read_items(m, d, x):
    m.n = 4.0
    return x * d.get("n", 0.0), len(d), list(d)


def store_in_a_loop(m, d, x):
    for i in range(50):
        m.n = m.n + i
    return x * m.n, d["n"]


@pytest.mark.parametrize("first", ["own", "shared"])
@pytest.mark.parametrize("function", [add_item, drop_item, empty, drop_attribute, read_items, store_in_a_loop])
def test_a_dict_argument_may_hold_the_attributes(function, first):
    def outcome(called, kind):
        m = Model()
        d = m.__dict__ if kind == "shared" else {"n": 3}
        return repr((called(m, d, X), vars(m), d))

    jitted = fj.jit(function, capture_mode="bytecode")
    for kind in (first, "own", "shared", "own", "shared"):
        assert outcome(jitted, kind) == outcome(function, kind), kind


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_hasattr_of_an_array_asks_its_properties(shape):
    def has(x):
        return hasattr(x, "mT"), hasattr(x, "nope"), hasattr(x, "shape"), x + 1.0

    def outcome(function):
        try:
            return repr(function(np.ones(shape)))
        except ValueError as error:
            return type(error), str(error)

    marked = fj.jit(has)
    assert outcome(marked) == outcome(has) == outcome(marked)


SUBMODULES = """
import numpy as np
import framejit as fj

def f(x):
    return np.fft.rfft(x).real.sum() + len(np.ma.__name__) + np.polynomial.polynomial.polyval(x, [1.0, 2.0])

report = fj.explain(f)(np.ones(100))
assert not [record for record in report.breaks if record["id"] == "FJ009"], report
"""


def test_submodules_of_numpy_are_imported_when_they_are_used():
    """NumPy imports some of them when they are first asked for, as the function would do."""
    done = subprocess.run([sys.executable, "-c", SUBMODULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
