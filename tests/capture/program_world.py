"""What every random program begins with: classes, functions and generators of the kinds that functions use."""

# ruff: noqa: F401
import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator
import sys
import warnings

import numpy as np

COUNT = 1
SCALE = 1.5
FLAG = True
NAMES = ["a", "bb", "ccc"]
TABLE = {"a": 1.0, "b": 2}
LOG = []


class Problem(Exception):
    def __init__(self, text, code=0):
        super().__init__(text)
        self.code = code


class Model:
    rate = 2.0
    kinds = ("p", "q")

    def __init__(self, w, n=1):
        self.w = w
        self.n = n
        self.log = []

    def step(self, x, k=1.0):
        self.n += 1
        self.w = self.w * self.rate + x * k
        return self.w + self.n

    @property
    def half(self):
        return self.w * 0.5

    @half.setter
    def half(self, value):
        self.w = value + self.w

    @classmethod
    def of(cls, w):
        return cls(w * cls.rate)

    @staticmethod
    def twice(x):
        return x * 2.0

    def __call__(self, x):
        return x - self.w

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, error, tb):
        self.log.append("out" if kind is None else "error")
        return self.n % 4 == 0

    def __add__(self, other):
        return Model(self.w + (other.w if isinstance(other, Model) else other), self.n)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.w[i]

    def __eq__(self, other):
        return isinstance(other, Model) and self.n == other.n

    def __iter__(self):
        yield self.w
        yield self.w * 0.5


class Deep(Model):
    def __init__(self, w, n=2):
        super().__init__(w, n)
        self.extra = w + 1.0

    def step(self, x, k=2.0):
        return super().step(x, k) * 0.5 + self.extra

    def __getattr__(self, name):
        if name == "ghost":
            return 3.0
        raise AttributeError(name)


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a, b=1.0):
        self.a = a
        self.b = b


@contextlib.contextmanager
def noted(log, name):
    log.append("in " + name)
    try:
        yield len(log)
    except KeyError:
        log.append("key")
    finally:
        log.append("out")


def rows(x, n):
    for i in range(n):
        yield x * i + 1.0
    return n


def careful(x, n, log):
    try:
        for i in range(n):
            yield x - i
    finally:
        log.append(n)


def relay(x, n):
    got = yield from rows(x, n)
    yield x * got


Pair = collections.namedtuple("Pair", "a b", defaults=(2,))


class Color(enum.Enum):
    RED = 1
    BLUE = "b"

    @property
    def weight(self):
        return 0.5 if self is Color.RED else 2.0


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


@dataclasses.dataclass
class Point:
    a: object
    b: object = 1.5
    tags: list = dataclasses.field(default_factory=list)

    def moved(self, by):
        return dataclasses.replace(self, a=self.a + by)


class Handle:
    """Is heard when it goes."""

    def __init__(self, name, x=None):
        self.name = name
        self.x = x

    def __hash__(self):  # sets of these have one order
        return hash(self.name)

    def __repr__(self):
        return self.name

    def __del__(self):
        LOG.append("del " + self.name)


class Key:
    def __init__(self, k):
        self.k = k

    def __hash__(self):
        LOG.append("hash")
        return hash(self.k)

    def __eq__(self, other):
        LOG.append("eq")
        return isinstance(other, Key) and self.k == other.k


class Limited:
    """A descriptor that stores under another name."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name, 1.0)

    def __set__(self, instance, value):
        if isinstance(value, int) and value > 90:
            raise ValueError(value)
        setattr(instance, self.name, value)


class Described:
    level = Limited()

    def __init__(self, level):
        self.level = level

    def __setattr__(self, name, value):
        LOG.append(name)
        object.__setattr__(self, name, value)


def echo(x):
    got = 1.0
    while True:
        try:
            got = yield x * got
            if got is None:
                return x
        except KeyError as err:
            LOG.append(str(err))
            got = 0.5
        finally:
            LOG.append("echo")


def counter(start):
    def count(by=1):
        nonlocal start
        start += by
        return start

    return count


COUNTER = counter(1)


def times(k):
    def decorate(function):
        @functools.wraps(function)
        def inner(*args, **named):
            return function(*args, **named) * k

        return inner

    return decorate


@times(2.0)
def shifted(x, by=1.0):
    return x + by


@functools.lru_cache(maxsize=4)
def cached(n):
    LOG.append("cached")
    return n * 2


@functools.singledispatch
def told(x):
    return 1.0


@told.register
def _(x: int):
    return x * 2.0


class Ready:
    def __await__(self):
        yield 1
        return 2.0


async def later(x):
    k = await Ready()
    return x * k


async def ticks(n):
    for i in range(n):
        await Ready()
        yield i


class Lock:
    async def __aenter__(self):
        await Ready()
        LOG.append("lock")
        return 3.0

    async def __aexit__(self, kind, error, tb):
        LOG.append("free" if kind is None else kind.__name__)
        return kind is KeyError


HALF = functools.partial(shifted, by=0.5)
BASE = functools.partial(math.pow, 2.0)


def fails(k):
    if k == 1:
        raise KeyError("k1")
    if k == 2:
        raise ValueError("k", k)
    if k == 3:
        raise Problem("p", code=k)
    return k
