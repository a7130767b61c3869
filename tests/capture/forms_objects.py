"""Forms: methods, attributes, descriptors, classes and what is made of them, functions and their arguments."""

import collections
import dataclasses
import enum
import functools
import operator
import sys
import typing

import numpy as np

from forms_support import form, x23


class Base:
    rate = 2.0
    names: typing.ClassVar[list] = ["a", "b"]

    def __init__(self, w):
        self.w = w
        self.n = 1

    def scaled(self, x):
        return x * self.rate + self.w

    @property
    def half(self):
        return self.w * 0.5

    @half.setter
    def half(self, value):
        self.w = value * 2.0

    @classmethod
    def of(cls, w):
        return cls(w * cls.rate)

    @staticmethod
    def twice(x):
        return x * 2.0

    def __call__(self, x):
        return x + self.w

    def __add__(self, other):
        return Base(self.w + (other.w if isinstance(other, Base) else other))

    def __radd__(self, other):
        return Base(other + self.w)

    def __mul__(self, other):
        return self.w * other

    def __neg__(self):
        return Base(-self.w)

    def __getitem__(self, i):
        return self.w[i]

    def __setitem__(self, i, value):
        self.w[i] = value

    def __len__(self):
        return len(self.w)

    def __contains__(self, item):
        return item == self.n

    def __eq__(self, other):
        return isinstance(other, Base) and self.n == other.n

    def __lt__(self, other):
        return self.n < other.n

    __hash__ = None

    def __bool__(self):
        return self.n > 0

    def __iter__(self):
        return iter([self.w, self.w + 1.0])


class Derived(Base):
    def __init__(self, w, k):
        super().__init__(w)
        self.k = k

    def scaled(self, x):
        return super().scaled(x) * self.k


class Both(Derived):
    def scaled(self, x):
        return super(Derived, self).scaled(x) + 1.0


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Clamped:
    """A data descriptor in Python."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name)

    def __set__(self, instance, value):
        setattr(instance, self.name, value)


class Described:
    level = Clamped()

    def __init__(self, level):
        self.level = level


class Dynamic:
    def __init__(self, w):
        self.w = w

    def __getattr__(self, name):
        if name.startswith("no"):
            raise AttributeError(name)
        return len(name)


class Careful:
    def __init__(self, w):
        object.__setattr__(self, "w", w)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 2)


class Lazy:
    def __init__(self, w):
        self.w = w

    @functools.cached_property
    def total(self):
        return self.w * 3.0


@dataclasses.dataclass
class Point:
    x: object
    y: object = 1.0


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object
    y: float = 2.0


@dataclasses.dataclass(slots=True)
class SlottedPoint:
    x: object
    y: object = dataclasses.field(default_factory=list)


Pair = collections.namedtuple("Pair", "a b")


class Typed(typing.NamedTuple):
    a: object
    b: float = 3.0


class Weighted(Pair):
    __slots__ = ()

    def __new__(cls, a, b=4.0):
        return Pair.__new__(cls, a * 2.0, b)

    def __add__(self, other):
        return Weighted(self.a + other.a, self.b)

    @property
    def total(self):
        return self.a * self.b


class Noted(Pair):
    note = 0.5

    def noted(self):
        return self.a * self.note


class Backwards(tuple):
    def __iter__(self):
        return iter(self[::-1])

    def __len__(self):
        return 7


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


BASE = Base(x23())
COUNT = 0
REGISTRY: dict = {}


def made():
    return x23(), Base(x23())


@form(args=made)
def method(x, b):
    return b.scaled(x) + 1.0


@form(args=made)
def bound_method_kept(x, b):
    f = b.scaled
    return f(x) * 2.0, f


@form(args=lambda: (x23(), Derived(x23(), 3.0)))
def super_method(x, b):
    return b.scaled(x) + 1.0


@form(args=lambda: (x23(), Both(x23(), 3.0)))
def super_of_two_arguments(x, b):
    return b.scaled(x) + 1.0


@form(args=made)
def property_read(x, b):
    return x + b.half


@form(args=made)
def property_written(x, b):
    b.half = x * 2.0
    return b.w + 1.0


@form(args=made)
def class_and_static_methods(x, b):
    return b.twice(x) + Base.twice(x) * b.rate


@form()
def classmethod_makes(x):
    b = Base.of(x * 2.0)
    return b.w + b.n


@form()
def instance_made_inside(x):
    b = Base(x * 2.0)
    b.extra = x + 1.0
    return b.scaled(x) + b.extra


@form()
def instance_made_and_returned(x):
    b = Derived(x * 2.0, 3.0)
    b.n += 1
    return b, b.w + 1.0


@form(args=made)
def callable_object(x, b):
    return b(x) * 2.0


@form(args=made)
def operators_of_objects(x, b):
    return (b + 1.0).w + (2.0 + b).w + b * x + (-b).w


@form(args=made)
def items_of_objects(x, b):
    b[0] = x[0] * 2.0
    return b[1] + x[0], len(b)


@form(args=made)
def comparisons_of_objects(x, b):
    y = x * 2.0 if b == b else x
    y = y + 1.0 if b < Base(x) else y * 3.0
    if b and 1 in b:
        y = y - 1.0
    return y


@form(args=made)
def iteration_over_object(x, b):
    for w in b:
        x = x + w
    return x


@form(args=lambda: (x23(), Slotted(x23())))
def slots(x, s):
    s.b = x * 2.0
    return s.a + s.b


@form(args=lambda: (x23(), Described(x23())))
def descriptor_in_python(x, d):
    y = d.level * 2.0
    d.level = y + x
    return d.level - 1.0


@form(args=lambda: (x23(), Dynamic(x23())))
def getattr_hook(x, d):
    return x * d.three + d.w


@form(args=lambda: (x23(), Careful(x23())))
def setattr_hook(x, c):
    c.w = x + 1.0
    return c.w * 2.0


@form(graphs=0, outside=True, args=lambda: (x23(), Lazy(x23())))
def cached_property(x, lazy):
    return x + lazy.total + lazy.total


@form(args=made)
def attribute_deleted(x, b):
    b.extra = x * 2.0
    del b.extra
    return x + b.n, hasattr(b, "extra")


@form(args=made)
def augmented_attribute(x, b):
    b.n += 2
    b.w += x
    b.w *= 2.0
    return b.w - b.n


@form()
def class_attribute(x):
    return x * Base.rate + len(Base.names)


@form(breaks="FJ010")
def class_attribute_written(x):
    y = x + 1.0
    Base.level = 3.0
    return y * Base.level


@form()
def dataclass_made(x):
    p = Point(x * 2.0)
    p.y = p.x + p.y
    return p.y - 1.0


@form()
def dataclass_returned(x):
    return Point(x * 2.0, y=x + 1.0)


@form()
def dataclass_frozen(x):
    p = Frozen(x * 2.0)
    return p.x * p.y


@form()
def dataclass_slots(x):
    p = SlottedPoint(x * 2.0)
    p.y.append(x)
    return p.x + 1.0, p.y


@form()
def dataclass_replaced(x):
    p = dataclasses.replace(Point(x * 2.0), y=2.0)
    return p.x * p.y


@form()
def namedtuple_made(x):
    p = Pair(x * 2.0, 3.0)
    a, b = p
    return p.a * b + a, p


@form(args=lambda: (x23(), Pair(x23(), 2.0)))
def namedtuple_read(x, p):
    a, b = p
    return x * p.b + p[0] + a * b, len(p)


@form()
def typed_namedtuple(x):
    t = Typed(x + 1.0)
    return t.a * t.b


@form()
def namedtuple_replaced(x):
    p = Pair(x * 2.0, 3.0)._replace(b=x)
    return p.a + p.b


@form(args=lambda: (x23(), Weighted(x23()), Noted(x23(), 1.0)))
def namedtuple_subclasses(x, w, n):
    v = w + Weighted(x)
    return v, v.total, n.noted(), Noted(x, w), v is w, type(v) is Weighted


@form(args=lambda: (x23(), Pair(1, 2), Pair(1, 3)))
def namedtuple_as_tuple(x, p, q):
    told = (p == q, p < q, p != q, p == (1, 2), (1, 3) == q, (1, 3) <= p, 2 in p, bool(p), isinstance(p, tuple), type(p) is Pair)
    return x * p.b, told, p + (3,), (0,) + p, p + q, p * 2, 2 * p, list(p), tuple(p), p[:], p[::-1], [i for i in p], max(p), sum(q)


@form(args=lambda: (x23(), Backwards((1, 2, 3))))
def tuple_class_of_its_own(x, t):
    return x * t[0], list(t), len(t), 2 in t, Backwards((x, 1)), tuple.__new__(Backwards, [x])


@form(args=lambda: (x23(), Typed(x23())))
def namedtuple_is_one_object(x, t):
    p = Pair(t, [x])
    p.b.append(p.a.a + t.b)
    return p, p, p.a is t, [p], Pair._make(p), p._asdict(), Pair._fields


@form(args=lambda: (x23(), Pair(2.0, x23())))
def namedtuple_matched(x, p):
    match p:
        case Pair(a=1.0, b=b):
            return b
        case Pair(3.0):
            return x
        case Pair(a, b):
            return a * b + x
    return None


class Marked(int):
    __match_args__ = ("real",)


@form(breaks="FJ009 FJ009", args=lambda: (x23(), Marked(3)))
def int_class_matched(x, n):
    match n:
        case Marked(2):
            return x
        case Marked(3):
            return x * 2.0
    return None


def plain(a, b=0.0, *rest):
    return a - b


@form(args=lambda: (x23(), Pair(x23(), 2.0)))
def namedtuple_spread(x, p):
    return plain(*p), plain(*p, x), (*p, x), {**p._asdict()}


@form(args=lambda: (x23(), Pair(1, 2)))
def namedtuple_methods(x, p):
    find = p.index
    return x * p.count(2), p.index(1), find(2), Pair("a", "a").count("a"), find.__self__ is p


@form(args=lambda: (x23(), Pair(1, 2)))
def namedtuple_method_raises(x, p):
    try:
        return p.index(7)
    except ValueError as error:
        return x * 2.0, str(error)


@form(breaks="FJ006", args=lambda: (x23(), Pair(x23(), 2.0)))
def namedtuple_index_out_of_range(x, p):
    return x * 2.0 + p[5]


@form(breaks="FJ009", args=lambda: (x23(), Pair(x23(), 2.0)))
def namedtuple_field_set(x, p):
    y = x * 2.0
    p.a = y


@form(breaks="FJ006")
def namedtuple_argument_missing(x):
    return Pair(x * 2.0)


@form(breaks="FJ008", args=lambda: (x23(), Color.RED))
def enums(x, c):
    if c is Color.RED:
        x = x * 2.0
    if c == Color.BLUE:
        x = x * 3.0
    return x + c.value + Number.TWO


@form(args=lambda: (x23(), Color.BLUE))
def enum_members(x, c):
    y = x * c.value
    if c in (Color.RED, Color.BLUE) and c is not Color.RED and c == Color.BLUE:
        y = y + len(c.name)
    return y, Color.RED, isinstance(c, Color), c


@form(breaks="FJ001", graphs=2)
def class_made_inside(x):
    y = x * 2.0

    class Local:
        def f(self, v):
            return v + y

    return Local().f(x) * 3.0


@form()
def closure_read(x):
    k = x * 2.0

    def f(v):
        return v + k

    return f(x) * 3.0


@form()
def closure_written(x):
    total = x * 0.0
    n = 0

    def add(v):
        nonlocal total, n
        total = total + v
        n += 1

    add(x)
    add(x * 2.0)
    return total, n


# Since 3.14 annotations are code, which can be made anew.
@form(breaks="" if sys.version_info >= (3, 14) else "FJ001")
def closure_returned(x):
    total = x * 2.0

    def get(scale=total, *, plus: float = 1.0) -> object:
        return total * scale + plus

    return get, get(x)


@form()
def lambdas(x):
    fs = [lambda v, k=k: v * k for k in range(3)]
    return sum(f(x) for f in fs)


@form()
def global_written(x):
    global COUNT
    COUNT += 1
    y = x * COUNT
    COUNT = 0
    return y + 1.0


@form()
def global_made_and_deleted(x):
    global FRESH
    FRESH = x * 2.0
    y = FRESH + 1.0
    del FRESH
    return y


@form("FJ002")
def global_dict_written(x):
    REGISTRY["x"] = x * 2.0
    y = REGISTRY["x"] + 1.0
    REGISTRY.clear()
    return y


def takes(a, /, b, *rest, c=2.0, **named):
    out = a * b + c
    for r in rest:
        out = out + r
    for value in named.values():
        out = out * value
    return out


@form()
def star_arguments(x):
    return takes(x, 2.0, x, 1.0, c=3.0, d=x, e=2.0)


@form()
def star_calls(x):
    args = (2.0, x)
    named = {"c": 1.0, "k": x}
    return takes(x, *args, *[1.0], **named, z=2.0)


@form(args=lambda: (x23(), 1.0, 2.0))
def star_parameters(x, *args, **named):
    for a in args:
        x = x * a
    return x + len(named)


def with_mutable_default(x, held=[]):
    held.append(1)
    return x * len(held)


@form(breaks="FJ008")
def mutable_default(x):
    y = with_mutable_default(x) + with_mutable_default(x)
    with_mutable_default.__defaults__[0].clear()
    return y


def doubled(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        return f(*args, **kwargs) * 2.0

    return inner


@doubled
def decorated_helper(x, k=1.0):
    return x + k


@form()
def decorated(x):
    return decorated_helper(x, k=3.0) + 1.0


def power(base, exponent, scale=1.0):
    return base**exponent * scale


SQUARE = functools.partial(power, exponent=2, scale=0.5)


@form()
def partial_global(x):
    return SQUARE(x) + SQUARE(x, scale=2.0)


@form()
def partial_inside(x):
    f = functools.partial(power, x, scale=3.0)
    return f(2) + 1.0


HALVED = functools.partial(SQUARE, scale=0.25)


@form(args=lambda: (x23(), functools.partial(power, exponent=3)))
def partial_given(x, p):
    return p(x) + HALVED(x) + p.keywords["exponent"], p.func is power, p.args


@form(breaks="FJ001", graphs=2)
def partial_returned(x):
    p = functools.partial(power, x * 2.0, exponent=2)
    return p() + 1.0, p


@form()
def partials_of_operators(x):
    add = functools.partial(operator.add, x)
    return sum(map(add, [1.0, x])) + functools.partial(np.add, x)(2.0)


@form()
def reduce(x):
    return functools.reduce(lambda a, b: a * b, [x, x + 1.0, 2.0]) + functools.reduce(power, [], x)


@functools.lru_cache(maxsize=None)
def table(n):
    return n * 2


table(3)  # is kept


@form()
def lru_cache(x):
    y = x + 1.0
    k = table(3)
    return y * k


@functools.singledispatch
def dispatched(x):
    return x * 2.0


@form(graphs=2, outside=True)
def singledispatch(x):
    return dispatched(x + 1.0) + 1.0


def factorial(x, n):
    return x if n <= 0 else factorial(x, n - 1) * n


@form()
def recursion(x):
    return factorial(x, 5) + 1.0


@form(breaks="FJ012", graphs=3)
def recursion_too_deep(x):
    y = factorial(x, 40)
    return y + 1.0


@form()
def recursive_inner(x):
    def down(v, n):
        return v if n == 0 else down(v * 2.0, n - 1)

    return down(x, 3)


@form(args=made)
def object_functions(x, b):
    y = x * 2.0
    if isinstance(b, (Derived, Base)) and issubclass(type(b), Base) and callable(b) and not callable(3):
        y = y + getattr(b, "n") + getattr(b, "none", 3)
    setattr(b, "n", 5)
    if hasattr(b, "w") and not hasattr(b, "zz"):
        y = y * b.n
    return y, type(b) is Base, type(x) is np.ndarray, b.__class__.__name__


class Stand:
    """Answers for another object."""

    def __init__(self, other):
        object.__setattr__(self, "other", other)

    def __getattribute__(self, name):
        return getattr(object.__getattribute__(self, "other"), name)


@form(breaks="FJ003", graphs=2, args=lambda: (x23(), Stand(Base(x23()))))
def object_that_stands_for_another(x, b):
    y = x * 2.0
    is_base = isinstance(b, Base)
    return y * 3.0, is_base


class NoIterator:
    def __iter__(self):
        return self


@form(breaks="FJ006 FJ008", graphs=2, args=lambda: (x23(), NoIterator()))
def iterator_without_next(x, b):
    y = x * 2.0
    try:
        iter(b)
    except TypeError as error:
        return y * 3.0, str(error)


class NegativeLength:
    def __len__(self):
        return -1


@form(breaks="FJ008 FJ008", graphs=2, args=lambda: (x23(), NegativeLength()))
def truth_of_a_negative_length(x, b):
    y = x * 2.0
    try:
        return y if b else x
    except ValueError as error:
        return y * 3.0, str(error)


HELD = [1.0]


@form(args=lambda: (x23(), HELD.append, HELD.append, HELD.pop))
def builtin_methods_are_compared(x, a, b, c):
    return x * 2.0, a == b, a != b, a == c, a != c, a == len, len != a, a == [].append, a is b, b is b


@form(breaks="FJ002 FJ009", graphs=2, args=made)
def instance_dict(x, b):
    y = x * 2.0
    return y * len(vars(b)) + b.__dict__["n"]


@form(breaks="FJ008", graphs=0)
def function_attributes(x):
    y = x * takes.__kwdefaults__["c"]
    return y, takes.__name__


@form()
def type_annotations(x):
    y: np.ndarray = x * 2.0
    z: "float"
    z = 3.0
    return typing.cast(np.ndarray, y) * z
