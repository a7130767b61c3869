"""Guards remember where an attribute was found: whatever happens to the class or the instance shows in the next call."""

import itertools

import framejit
import numpy as np
import pytest

X = np.arange(4.0)


class Plain:
    def __init__(self, **values):
        for name, value in values.items():
            setattr(self, name, value)


def used(functions, *args, times=3):
    """Call both functions several times, check that they agree, and return the outcome."""
    plain, marked = functions
    for _ in range(times):
        expected = outcome(plain, *args)
        assert outcome(marked, *args) == expected
    return expected


def outcome(function, *args):
    try:
        return function(*args).tolist()
    except Exception as error:
        return type(error), str(error)


@pytest.fixture
def marked():
    def added(holder, x):
        return x + holder.w

    return added, framejit.jit(added)


def new_class(**body):
    return type("Fresh", (Plain,), body)


ORDERS = list(itertools.permutations(["w", "a", "b"]))


def test_instances_of_one_class_with_other_orders(marked):
    cls = new_class()
    for order in ORDERS * 2:
        holder = cls(**{name: float(ord(name)) for name in order})
        assert used(marked, holder, X) == (X + float(ord("w"))).tolist()


@pytest.mark.parametrize(
    "change",
    [
        lambda cls, holder: setattr(cls, "w", 100.0),  # hidden by the instance's own
        lambda cls, holder: setattr(cls, "w", property(lambda self: 7.0)),
        lambda cls, holder: (delattr(holder, "w"), setattr(cls, "w", 100.0)),
        lambda cls, holder: delattr(holder, "w"),
        lambda cls, holder: holder.__dict__.update(w=8.0),
        lambda cls, holder: holder.__dict__.pop("w"),
        lambda cls, holder: setattr(holder, "__dict__", {"w": 9.0}),
        lambda cls, holder: setattr(holder, "__class__", new_class(w=property(lambda self: 3.0))),
        lambda cls, holder: (holder.__dict__.clear(), setattr(holder, "z", 1.0), setattr(holder, "w", 2.0)),
        lambda cls, holder: setattr(cls, "__getattribute__", lambda self, name: 5.0),
        lambda cls, holder: (delattr(holder, "w"), setattr(cls, "__getattr__", lambda self, name: 6.0)),
        lambda cls, holder: (delattr(holder, "w"), setattr(Plain, "w", 11.0)),
    ],
)
def test_changes_show(marked, change):
    cls = new_class()
    holder, other = cls(a=1.0, w=2.0), cls(w=3.0)
    try:
        used(marked, holder, X)
        used(marked, other, X)
        change(cls, holder)
        used(marked, holder, X)
        used(marked, other, X)
    finally:
        if "w" in vars(Plain):
            del Plain.w


def test_the_class_has_a_default(marked):
    cls = new_class(w=1.5)
    holder = cls()
    assert used(marked, holder, X) == (X + 1.5).tolist()
    cls.w = 2.5
    assert used(marked, holder, X) == (X + 2.5).tolist()
    holder.w = 3.5
    assert used(marked, holder, X) == (X + 3.5).tolist()
    del holder.w
    assert used(marked, holder, X) == (X + 2.5).tolist()
    del cls.w
    assert used(marked, holder, X)[0] is AttributeError


def test_slots_and_classes(marked):
    slotted = type("Slotted", (), {"__slots__": ("w",)})
    first, second = slotted(), slotted()
    first.w, second.w = 1.0, np.ones(4)
    assert used(marked, first, X) == (X + 1.0).tolist()
    assert used(marked, second, X) == (X + 1.0).tolist()
    del first.w
    assert used(marked, first, X)[0] is AttributeError
    holder = new_class(w=4.0)
    assert used(marked, holder, X) == (X + 4.0).tolist()
    holder.w = 5.0
    assert used(marked, holder, X) == (X + 5.0).tolist()


def test_calls_are_compiled_after_changes(marked):
    """The capture is used again where only the position of the attribute differs."""
    cls = new_class()
    _, compiled = marked
    for order in ORDERS:
        holder = cls(**{name: 2.0 for name in order})
        for _ in range(3):
            compiled(holder, X)
    assert not compiled._report()["recompiles"]
