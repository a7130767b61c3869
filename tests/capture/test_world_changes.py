"""What a compiled function relied upon changes between two calls: each change is seen by the next call."""

from __future__ import annotations

import builtins
import types
from typing import Any, Callable

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run

pytestmark = pytest.mark.capture

X = np.arange(6.0).reshape(2, 3) + 0.5

MODULE = """
import numpy as np
import functools

SCALE = 2.0
COUNT = 3
ITEMS = [1.0, 2.0]
NESTED = {"k": [1.0, {"z": 2.0}]}
NAMES = {"p"}
OTHER = ITEMS


class Base:
    rate = 2.0

    def step(self, x):
        return x * self.rate

    @property
    def half(self):
        return self.w * 0.5


class Model(Base):
    def __init__(self, w):
        self.w = w

    def __add__(self, other):
        return self.w + other

    def __len__(self):
        return 2

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False


class Point:
    def __init__(self, a, b=1.0):
        self.a = a
        self.b = b


class Doubled(Model):
    def step(self, x):
        return super().step(x) * 2.0


class Failure(Exception):
    pass


class Narrow(Failure):
    pass


class Other(Exception):
    pass


def helper(x, k=2.0, *, shift=1.0):
    return x * k + shift


def numbers(x):
    yield x
    yield x * 2.0


def make(k):
    def inner(x):
        return x * k

    def change(value):
        nonlocal k
        k = value

    return inner, change


inner, change = make(2.0)
@functools.cache
def table(n):
    return n * COUNT


model = Model(3.0)
doubled = Doubled(4.0)
decorated = functools.wraps(helper)(lambda *args: helper(*args))
"""

# name: the body of f(x), and the changes, each made once, in order
TABLE: dict[str, tuple[str, list[str]]] = {
    "global number": ("return x * SCALE + COUNT", ["SCALE = 3.0", "COUNT = 4", "SCALE = 2", "COUNT = 2.5", "del SCALE"]),
    "global of another kind": ("return x * SCALE", ["SCALE = x0", "SCALE = np.float32(2)", "SCALE = [1.0, 2.0, 3.0]", "SCALE = True"]),
    "builtin shadowed": ("return x * len(ITEMS)", ["len = lambda v: 7", "del len"]),
    "builtin replaced": ("return x * abs(-2)", ["builtins.abs = lambda v: 9", "builtins.abs = real_abs"]),
    "cell": ("return inner(x)", ["change(5.0)", "change(x0)", "inner, change = make(7.0)"]),
    "defaults": ("return helper(x)", ["helper.__defaults__ = (4.0,)", "helper.__defaults__ = (4.0, )", "helper.__kwdefaults__ = {'shift': 9.0}",
                                      "helper.__kwdefaults__['shift'] = 8.0", "helper.__defaults__ = ()"]),
    "code": ("return helper(x)", ["helper.__code__ = (lambda x, k=1, *, shift=0: x - k).__code__"]),
    "function replaced": ("return helper(x)", ["helper = lambda x: x + 100", "helper = model.step", "helper = np.tanh"]),
    "generator replaced": ("return sum(numbers(x))", ["def numbers(x): yield x", "numbers = lambda x: [x, x, x]"]),
    "instance attribute": ("return x * model.w", ["model.w = 4.0", "model.w = x0", "del model.w"]),
    "class attribute": ("return x * model.rate", ["Base.rate = 5.0", "Model.rate = 6.0", "model.rate = 7.0", "del model.rate", "del Model.rate"]),
    "method": ("return model.step(x)", ["Base.step = lambda self, x: x - 1", "Model.step = lambda self, x: x - 2", "model.step = lambda x: x - 3",
                                        "del model.step", "del Model.step"]),
    "property": ("return x * model.half", ["model.w = 8.0", "Base.half = property(lambda self: 9.0)", "Model.half = 3.0", "model.half = 4.0"]),
    "hooks": ("return x * getattr(model, 'late', 1.0)", ["model.late = 2.0", "del model.late", "Base.late = 3.0", "del Base.late",
                                                         "Base.__getattr__ = lambda self, name: 4.0",
                                                         "Base.__getattribute__ = lambda self, name: 5.0"]),
    "attribute that was stored": ("model.w = x + 1\n    return model.w", ["Base.__getattribute__ = lambda self, name: 5.0"]),
    "class of an object": ("return model.step(x)", ["class Third(Base):\n    def step(self, x): return x * 11.0", "model.__class__ = Third"]),
    "bases": ("return model.step(x)", ["class Mixin:\n    def step(self, x): return x * 13.0", "Model.__bases__ = (Mixin, Base)"]),
    "bases of what is checked": ("return x * (2.0 if isinstance(model, Base) else 3.0) - issubclass(Doubled, Base)",
                                 ["class Mixin: pass", "Model.__bases__ = (Mixin,)", "Doubled.__bases__ = (Base,)", "Model.__bases__ = (Mixin, Base)"]),
    "bases behind super": ("return doubled.step(x)", ["class Mixin(Base):\n    def step(self, x): return x * 13.0", "Doubled.__bases__ = (Mixin,)",
                                                      "Doubled.__bases__ = (Model, Mixin)"]),
    "bases of an exception": ("try:\n        raise Narrow(1)\n    except Failure:\n        return x * 2.0\n    except Other:\n        return x * 3.0",
                              ["Narrow.__bases__ = (Other,)", "Narrow.__bases__ = (Failure,)", "class Third(Failure): pass", "Narrow.__bases__ = (Third,)",
                               "Third.__bases__ = (Other,)"]),
    "bases in a pattern": ("match model:\n        case Base():\n            return x * 2.0\n        case _:\n            return x * 3.0",
                           ["class Mixin: pass", "Model.__bases__ = (Mixin,)"]),
    "operator": ("return (model + x) * len(model)", ["Model.__add__ = lambda self, other: other * 2.0", "Model.__len__ = lambda self: 5",
                                                      "Model.__radd__ = lambda self, other: other", "del Model.__add__"]),
    "with": ("with model as m:\n        y = x * 2.0\n    return y, m is model", ["Model.__enter__ = lambda self: 3", "Model.__exit__ = lambda self, *args: print('out')"]),
    "constructor": ("p = Point(x)\n    return p.a * p.b", ["Point.__init__ = lambda self, a: self.__dict__.update(a=a, b=4.0)",
                                                            "Point.__init__.__defaults__ = (3.0,)", "Point.b = property(lambda self: 2.0)",
                                                            "Point.__setattr__ = lambda self, n, v: object.__setattr__(self, n, v * 2)",
                                                            "Point.__new__ = lambda cls, *args: model"]),
    "constructed class replaced": ("return Point(x, 2.0).a", ["Point = Model", "class Point:\n    def __init__(self, *args): self.a = 5.0"]),
    "exceptions": ("try:\n        raise Failure(1)\n    except caught:\n        return x * 2.0\n    except Exception:\n        return x * 3.0",
                   ["caught = KeyError", "caught = (KeyError, Failure)", "class Failure(KeyError): pass", "caught = LookupError"]),
    "length": ("return x * len(ITEMS) + sum(ITEMS)", ["ITEMS.append(3.0)", "ITEMS.pop(0)", "ITEMS.clear()", "ITEMS = (1.0, 2.0)"]),
    "items": ("return x * ITEMS[0] + ITEMS[-1]", ["ITEMS[0] = 5.0", "ITEMS[-1] = x0", "ITEMS.reverse()", "ITEMS[0] = 2"]),
    "nested containers": ("return x * NESTED['k'][1]['z']", ["NESTED['k'][1]['z'] = 5.0", "NESTED['k'].insert(0, 1.0)", "NESTED['k'] = (1, {'z': 7.0})",
                                                             "NESTED.clear()"]),
    "keys": ("return x * len([k for k in NESTED if 'q' in NESTED])", ["NESTED['q'] = 1", "NESTED[1] = 2", "del NESTED['q']"]),
    "set": ("return x * len(NAMES) if 'q' in NAMES else x + len([n for n in NAMES if n != 'p'])",
            ["NAMES.add('q')", "NAMES.add('r')", "NAMES.discard('q')", "NAMES = frozenset({'q'})", "NAMES = {1: 2}"]),
    "cached": ("return x * table(3)", ["COUNT = 7", "table.cache_clear()", "table = functools.cache(lambda n: -n)"]),
    "aliases": ("ITEMS.append(1.0)\n    return x * len(OTHER), OTHER is ITEMS", ["OTHER = [1.0]", "OTHER = ITEMS", "ITEMS = [2.0]"]),
    "attribute of np": ("return np.tanh(x) * np.pi", ["np.tanh = np.sin", "np.tanh = lambda v: v", "np.tanh = real_tanh", "np.pi = 3.0", "np.pi = real_pi"]),
    "module replaced": ("return np.tanh(x)", ["import types; np = types.SimpleNamespace(tanh=lambda v: v + 1.0)"]),
    "decorated": ("return decorated(x)", ["helper = lambda *args: x0", "decorated = helper"]),
    "check of a metaclass": ("return x * isinstance(x0, Checked) + issubclass(float, Checked)",
                             ["class Meta(type): pass\nclass Checked(metaclass=Meta): pass", "Meta.__instancecheck__ = lambda cls, o: True",
                              "Meta.__subclasscheck__ = lambda cls, o: True", "del Meta.__instancecheck__"]),
    "descriptor of a metaclass": ("return x * Tagged.tag",
                                  ["class Plain: pass\nclass Meta(type): tag = Plain()\nclass Tagged(metaclass=Meta): tag = 2.0",
                                   "Plain.__get__ = lambda self, cls, meta: 5.0", "Plain.__set__ = lambda self, cls, v: None", "del Plain.__set__",
                                   "Plain.__delete__ = lambda self, cls: None"]),
    "descriptor of a class": ("return x * model.tag",
                              ["class Plain: pass\nModel.tag = Plain()\nmodel.tag = 2.0", "Plain.__get__ = lambda self, o, cls: 5.0",
                               "Plain.__set__ = lambda self, o, v: None", "del Plain.__set__", "Plain.__delete__ = lambda self, o: None", "del Plain.__get__"]),
    "store through a descriptor of a class": ("model.tag = 7.0\n    return x * model.__dict__.get('tag', 1.0)",
                                              ["class Plain: pass\nModel.tag = Plain()\nmodel.tag = 2.0", "del model.tag; Plain.__set__ = lambda self, o, v: None",
                                               "del Plain.__set__"]),
    "class that an object tells": ("return x * (2.0 if isinstance(model, Point) else 3.0)", ["Model.__getattribute__ = lambda self, name: Point"]),
    "class through type": ("return x * (2.0 if isinstance(model, Base) else 3.0)", ["model.__class__ = type('Alien', (), {})"]),
}


@pytest.mark.filterwarnings("ignore::framejit.RecompileLimitWarning")
@pytest.mark.parametrize("name", TABLE)
def test_change_is_seen(name: str) -> None:
    body, changes = TABLE[name]
    source = f"{MODULE}\ncaught = Failure\n\ndef f(x):\n    {body}\n"
    code = compile(source, "<world>", "exec")
    real = (builtins.abs, np.tanh, np.pi)
    seen: list[list[Any]] = []
    try:
        for mark in (lambda f: f, lambda f: fj.jit(f, capture_mode="bytecode")):
            builtins.abs, np.tanh, np.pi = real
            seen.append(calls(code, mark, changes))
    finally:
        builtins.abs, np.tanh, np.pi = real
    for step, (plain, ours) in enumerate(zip(*seen, strict=True)):
        check_same(plain, ours, f"{name}, after {changes[step // 2 - 1] if step > 1 else 'nothing'!r}")
    assert len({repr(plain.outcome) for plain in seen[0]}) > 1, "no change is seen by the plain function"


def calls(code: types.CodeType, mark: Callable, changes: list[str]) -> list[Any]:
    """Two calls before and after each change, in a world of their own."""
    world: dict[str, Any] = {"__name__": "world"}
    exec(code, world)
    world |= {"x0": np.ones(3), "builtins": builtins, "real_abs": builtins.abs, "real_tanh": np.tanh, "real_pi": np.pi}
    f = mark(world["f"])
    seen = [run(f, (X,)), run(f, (X,))]
    for change in changes:
        exec(change, world)
        seen += [run(f, (X,)), run(f, (X,))]
    return seen
