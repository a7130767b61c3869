"""Forms: classes that answer for themselves, their names, operators of objects beside arrays, operator's getters."""

import enum
import operator

import numpy as np

from forms_support import form, x23


class Shade(enum.Enum):
    RED = 1
    BLUE = 2
    ROT = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


Access(3)  # the first use of a combination makes it, in code that is no form


class Counting(type):
    def __call__(cls, *args, **keywords):
        made = super().__call__(*args, **keywords)
        made.number = len(cls)
        return made

    def __len__(cls):
        return 3

    def __iter__(cls):
        return iter([1.0, 2.0])

    def __contains__(cls, item):
        return item == 3

    def __getitem__(cls, item):
        return item * 2


class Counted(metaclass=Counting):
    def __init__(self, w=2.0):
        self.w = w


class Renamed:
    __name__ = "own"


class First:
    """Operators that are asked before an array's."""

    __array_ufunc__ = None
    __hash__ = None

    def __add__(self, other):
        return "add", other * 2.0

    def __iadd__(self, other):
        return "iadd", other + 1.0

    def __lt__(self, other):
        return "lt", other + 2.0

    def __eq__(self, other):
        return "eq", other - 1.0


@form(args=lambda: (x23(), 2, "BLUE"))
def enums_by_value_and_name(x, value, name):
    made = Shade(value)
    both = Access.READ | Access.WRITE
    members = [each.name for each in Shade], len(Shade), Shade.BLUE in Shade, Shade.ROT is Shade.RED
    return x * made.value, made is Shade[name], Access(3) is both, both & Access.READ, members


@form(outside=True, args=lambda: (x23(), 5))
def enums_without_the_value(x, value):
    y = x * 2.0
    return y * Shade(value).value


@form(breaks="FJ003", graphs=2)
def methods_of_a_metaclass(x):
    y = x * 2.0
    made = Counted(3.0)
    return y * made.w * made.number, len(Counted), 3 in Counted, 4 in Counted, [*Counted], Counted[x]


@form(args=lambda: (x23(), Counted, First, int, np.ndarray))
def names_of_classes(x, a, b, c, d):
    names = [f"{each.__module__}.{each.__qualname__}/{each.__name__}" for each in (a, b, c, d)]
    return x * len(names[0]), names, type(x).__name__


@form(breaks="FJ009", graphs=2)
def name_of_a_class_with_its_own(x):
    y = x * 2.0
    return y + len(Renamed.__name__)


@form()
def class_of_values(x):
    made = [x.__class__, x.sum().__class__, x.shape.__class__, (1).__class__, [].__class__, None.__class__, len.__class__]
    return x * 2.0, made


@form()
def operators_asked_before_the_array(x):
    first = First()
    second = first
    second += x
    return first + x, second, first < x, first == x


@form()
def parts_of_numbers(x):
    z = 3 + 4j
    return x * z.real + z.imag, z.conjugate(), (2.5).imag, True.real, (5).denominator


SECOND = operator.itemgetter(1)
SHAPES = operator.attrgetter("shape", "T.shape")
SUMS = operator.methodcaller("sum", 0)


@form()
def getters(x):
    rows = sorted([(2, "b"), (1, "z"), (3, "a")], key=operator.itemgetter(1))
    both = operator.itemgetter(0, 2)([x, rows, x + 1.0])
    flat = operator.methodcaller("sum", 0, keepdims=True)(x)
    return x * rows[0][0], both, SECOND([x, x * 2.0]), SHAPES(x), SUMS(x), flat * 2.0, operator.attrgetter("ndim")(x)


@form(breaks="FJ003 FJ002", graphs=2)
def getters_that_are_returned(x):
    get = operator.itemgetter(0)
    return type(get), get([x * 2.0]) + 1.0


@form(breaks="FJ002", graphs=2, args=lambda: (x23(), operator.itemgetter(0)))
def getters_from_outside(x, get):
    return get([x * 2.0]) + 1.0


@form(args=lambda: (x23(),))
def getters_that_raise(x):
    try:
        return SECOND([x])
    except IndexError as error:
        return x * 2.0, str(error)
