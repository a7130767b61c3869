"""Forms: containers, numbers, strings, builtin functions, itertools, introspection."""

import collections
import datetime
import itertools
import math
import operator
import sys

import numpy as np

from forms_support import form, x23

WORDS = ["b", "a", "c"]


@form(args=lambda: (x23(), (1, "a"), [2, 3]))
def sequences_in_order(x, t, items):
    y = x + 1.0
    pairs = (1, (x, y)), (2, (y, x))
    told = pairs[0] < pairs[1], pairs[0] <= pairs[1], pairs[0] > pairs[1], pairs[0] >= pairs[1]
    same = (x, 1) <= (x, 1), (x, 1) < (x, 1), (1, x) < (1, x, y), [x, 2] > [x, 1], (x,) >= ()
    return y, told, same, t < (1, "b"), items > [2], [1, [2, x]] < [1, [3, y]], max([(1, x), (3, y), (2, x)])[0], (0.5, x) < (t[0], y)


@form(args=lambda: (x23(), (1, "a")))
def sequences_without_order(x, t):
    try:
        return t < (1, 2)
    except TypeError as error:
        return x * 2.0, str(error)


@form(breaks="FJ005")
def sequences_ordered_by_arrays(x):
    return (1, x) < (1, x + 1.0)


# From 3.12 on, ~ of a bool warns; up to 3.13, the compiler of Python computes ~True.
@form(breaks="FJ003" if sys.version_info >= (3, 12) else "", graphs=0 if sys.version_info >= (3, 14) else 1)
def inverted_truth_values(x):
    return x * ~True, ~(x.shape[0] == 2)


@form()
def set_made(x):
    s = {1, 2, 3}
    s.add(4)
    return x * len(s) if 2 in s and 7 not in s else x


@form()
def set_returned(x):
    s = {i % 3 for i in range(7)}
    s |= {9}
    return x * 2.0, s


@form()
def set_operations(x):
    a, b = {1, 2, 3}, {2, 3, 4}
    return x * len(a & b) + len(a | b) - len(a - b) + len(a ^ b), a <= b, a.isdisjoint(b)


@form()
def set_iterated(x):
    for i in sorted({3, 1, 2}):
        x = x * i
    return x


@form(args=lambda: (x23(), {"a", "b"}))
def set_given(x, s):
    s.add("c")
    return x * len(s) if "a" in s else x


@form(breaks="FJ003")
def frozensets(x):
    return x * len(frozenset([1, 2, 2])) if 2 in {1, 2} else x


@form()
def list_mutation(x):
    a = [x]
    a.append(x * 2.0)
    a.extend([x, 1.0])
    a.insert(0, 3.0)
    a += [4.0]
    last = a.pop()
    a[0] = last
    a.reverse()
    del a[0]
    return a, a[-1] * x


@form(args=lambda: (x23(), [3, 1, 2]))
def list_given(x, a):
    a.append(5)
    a.sort()
    a.remove(1)
    return x * a[0] + a.index(3) + a.count(2), a


@form()
def list_slices(x):
    a = [x, 1.0, 2.0, 3.0]
    a[1:3] = [5.0]
    del a[1:2]
    b = a[::-1]
    return b[0] * x, b, a * 2, [0] * 3


@form()
def list_sorted(x):
    a = [3, 1, 2]
    a.sort(reverse=True)
    b = sorted(WORDS)
    c = sorted([(2, "x"), (1, "y")], key=lambda p: p[0])
    return x * a[0], b, c, sorted(a, key=lambda v: -v)


@form()
def list_changed_while_iterating(x):
    a = [1.0, 2.0]
    for v in a:
        x = x + v
        if len(a) < 5:
            a.append(v * 2.0)
    return x, a


@form(breaks="FJ006")
def dict_changed_while_iterating(x):
    d = {"a": 1.0}
    y = x * 2.0
    for k in d:
        d[k + "b"] = y
    return y


@form()
def dict_mutation(x):
    d = {"a": x, **{"b": 1.0}}
    d["c"] = d["a"] * 2.0
    d.update(e=2.0)
    d.setdefault("f", []).append(x)
    del d["b"]
    d |= {"g": 1.0}
    y = d.pop("c") + d.get("zz", 2.0)
    return y, d, list(d), list(d.values()), list(d.items()), len(d), "e" in d


@form()
def dict_comprehensions(x):
    d = {k: x * i for i, k in enumerate("abc")}
    return {k: v for k, v in d.items() if k != "b"}, dict(zip("xy", (x, 1.0))), dict.fromkeys("ab", 0)


@form()
def dict_of_tuples(x):
    d = {(1, 2): x, (2, 3): 2.0, None: 1.0, 1.5: 3.0}
    return d[1, 2] * d[2, 3] + d[None] + d[1.5]


@form(breaks="FJ002")
def defaultdict(x):
    d = collections.defaultdict(list)
    d["a"].append(x * 2.0)
    return d["a"][0] + 1.0


# Since 3.12 its class can be looked into.
@form(breaks="FJ002 FJ009 FJ009 FJ008" if sys.version_info >= (3, 12) else "FJ002 FJ008 FJ008 FJ008", graphs=0)
def deque(x):
    q = collections.deque([x, 1.0])
    q.append(x * 2.0)
    return q.popleft() + q[-1]


@form()
def unpacking(x):
    a, (b, *c), d = x, (1.0, 2.0, 3.0), x[0]
    e, f = x
    a, b = b, a
    *g, h = [1, 2, 3]
    return a * b + sum(c), d + e * f, g, h


@form()
def tuples(x):
    t = (x, 1.0) + (2.0,)
    return t[0] * t[-1] + len(t * 2), t[1:], (1, 2) < (1, 3), (1, 2) == (1, 2), t.count(1.0) if 0 else 1


@form()
def slices(x):
    s = slice(0, 2)
    return x[:, s] * 2.0, x[..., ::2], x[::-1, None], x[s.start], s


@form()
def augmented_items(x):
    a = [x, 1]
    a[1] += 2
    a[0] += 1.0
    d = {"n": 1}
    d["n"] *= 5
    x[0, 1] *= 3.0
    x[1] -= x[0]
    return a, d, x * a[1]


@form()
def deletions(x):
    y = x * 2.0
    z = y
    del y
    a = [1, 2, 3]
    del a[0], a[-1]
    return z + a[0]


@form()
def big_integers(x):
    n = 2**100
    m = n // 3 + 1
    return x * float(m % 1000003), n, -m, n > m, m & 0xFFFF, hex(n)


@form()
def integers(x):
    n = 17
    return x * (n % 5) + n // 4 - (n << 2) + (n >> 1), n & 3, n | 8, n ^ 5, ~n, divmod(n, 5), pow(2, 10), -n % 5, abs(-n)


@form(args=lambda: (x23(), 3.7, 2))
def float_numbers(x, a, n):
    return x * a, a + n, a * n, a - 1, n - a, -a, a / 2, a // 1, a % 1, a**2, round(a), int(a), a > n, abs(-a)


@form()
def complex_numbers(x):
    c = 1 + 2j
    return x * c, c * c, c.real, c.imag, abs(c)


@form()
def math_functions(x):
    return x * math.sqrt(2.0) + math.pi * math.floor(2.7), math.prod([1, 2, 3]), math.gcd(12, 18), math.isclose(1.0, 1.0)


@form()
def strings(x):
    s = "a,b,c"
    parts = s.split(",")
    return x * len(parts), "-".join(parts), s.upper(), s[::2], s.replace(",", ""), "b" in s, s.find("c"), s + "!", s * 2


@form()
def formatting(x):
    n, name = 3, "k"
    return x * n, f"{name}={n:03d} {n!r} {name!s:>4}", "%s-%d" % (name, n), "{}:{:.2f}".format(name, 1.5), str(n), repr(name)


@form()
def formatting_of_arrays(x):
    y = x * 2.0
    text = f"{y.sum():.3f} {y.shape}"
    return y + 1.0, text


@form()
def bytes_values(x):
    b = b"abc"
    return x * len(b) + b[0], b + b"d", b == b"abc"


@form()
def functional(x):
    a = list(map(lambda v, k: v * k, [x, 1.0], (2.0, 3.0)))
    b = list(filter(None, [0, 1, 2]))
    c = list(filter(lambda v: v > 1, b))
    return a, b, c, list(reversed([1, 2])), list(enumerate(b, 1)), list(zip([1, 2], "ab")), min(3, 1), max([1, 5]), sum([x, x])


@form()
def functional_with_keys(x):
    return x * min([3, -4], key=abs), max("bb", "a", key=len), min([], default=7), sum([1, 2], start=x), any([0, 1]), all([])


@form()
def zip_strict(x):
    return [x * a + b for a, b in zip([1, 2], (3, 4), strict=True)]


@form()
def itertools_chain(x):
    for k in itertools.chain([1.0, 2.0], (3.0,)):
        x = x * k
    return x + sum(itertools.chain.from_iterable([[1], [2]]))


@form()
def itertools_islice(x):
    return [x * i for i in itertools.islice(itertools.count(2), 3)], list(itertools.islice([1, 2, 3, 4], 1, 4, 2))


@form()
def itertools_product(x):
    return sum(x * a + b for a, b in itertools.product((1, 2), (3, 4))), list(itertools.product("ab", repeat=2))


@form()
def itertools_accumulate(x):
    return list(itertools.accumulate([x, x, 1.0])), list(itertools.accumulate([1, 2, 3], operator.mul))


@form()
def itertools_more(x):
    return (
        list(itertools.zip_longest([1, 2], "a", fillvalue="-")),
        list(itertools.repeat(x * 2.0, 2)),
        list(itertools.combinations([1, 2, 3], 2)),
        list(itertools.permutations([1, 2])),
        list(itertools.pairwise([1, 2, 3])),
        list(itertools.starmap(pow, [(2, 3), (3, 2)])),
        list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(itertools.dropwhile(lambda v: v < 3, [1, 2, 3, 1])),
    )


@form()
def operator_functions(x):
    return operator.mul(x, 2.0) + operator.getitem([1, 2], 1), operator.itemgetter(0)([x]), operator.neg(3)


@form()
def imports_inside(x):
    import math as m
    from operator import add
    import os.path

    return add(x, m.pi) * len(os.path.sep)


@form(breaks="FJ002", graphs=2)
def evaluates(x):
    y = x * 2.0
    k = eval("1 + 1")
    return y + k


@form(breaks="FJ002", graphs=2)
def asks_for_locals(x):
    y = x * 2.0
    names = sorted(locals())
    return y + len(names), names


@form(breaks="FJ002 FJ008 FJ008")
def asks_for_the_frame(x):
    y = x * 2.0
    line = sys._getframe().f_lineno
    return y + 1.0, line, sorted(sys._getframe().f_locals)


@form(breaks="FJ002")
def asks_for_globals(x):
    return x * len(globals()["WORDS"])


@form(breaks="FJ002 FJ008")
def clock(x):
    y = x * 2.0
    t = datetime.datetime(2020, 1, 1).year
    return y + t


@form()
def identity(x):
    a = [1]
    b = a
    return x * 2.0, a is b, a is not [1], x is x, None is None


@form()
def array_in_container(x):
    a = [x * i for i in range(3)]
    return np.stack(a) + 1.0, np.array([1.0, 2.0]), np.concatenate((x, x))


@form()
def branch_on_array(x):
    y = x * 2.0
    if y.sum() > 3.0:
        y = y + 1.0
    else:
        y = y - 1.0
    return y * 3.0


@form()
def ranges(x):
    r = range(1, 10, 3)
    return x * r[1] + len(r), list(r), r.start, 4 in r, list(reversed(r)), list(range(0))


@form(breaks="FJ002")
def chr_ord(x):
    return x * ord("a"), chr(98), bin(5), oct(8), hex(255), bool([]), int("12"), float("1.5"), str(3), complex(1, 2), hash(3)


@form(args=lambda: (x23(), [x23()]))
def nested_containers(x, a):
    d = {"k": [x, {"z": (a, 1)}]}
    d["k"][1]["z"][0].append(x * 2.0)
    return d, a[1] + 1.0


@form(graphs=0, outside=True)
def star_in_displays(x):
    a = [1.0, 2.0]
    return [*a, x], (*a, 3.0), {*a}, {**{"a": 1}, "b": x}, print(*[], end="") if 0 else None


@form()
def ellipsis_and_none(x):
    y = x[..., 0]
    return y * 2.0, ..., None, NotImplemented


class Clears:
    """Its __eq__ empties a list."""

    def __init__(self, held):
        self.held = held

    def __eq__(self, other):
        self.held.clear()
        return NotImplemented

    __hash__ = None


@form(breaks="FJ008")
def equality_that_changes_lists(x):
    y = x * 2.0
    a, b, c = [], [], []
    a.append(Clears(a))
    b.append(Clears(b))
    c.append(Clears(c))
    return y + 1.0, a == [1], 1 in b, c.count(1), a, b, c


class Sized:
    def __init__(self, log):
        self.log = log

    def __iter__(self):
        self.log.append("iter")
        return iter([1, 2])

    def __len__(self):
        self.log.append("len")
        return 2


class Hinted:
    def __init__(self, log):
        self.log = log

    def __iter__(self):
        return iter((3,))

    def __length_hint__(self):
        self.log.append("hint")
        return 7


@form(breaks="FJ008")
def lengths_that_are_asked_for(x):
    log = []
    s, h = Sized(log), Hinted(log)
    a, b = s
    parts = [list(s), tuple(h), [*s, *h], sorted(s), max(*h, 1)]
    parts[0] += h
    parts[0].extend(s)
    parts[0][1:] = s
    return x * 2.0, log, parts, set(s), [v for v in h], a


@form()
def lists_that_grow_as_they_are_extended(x):
    a = [x, x]
    a.extend(len(a) for _ in range(3))
    a += (len(a) for _ in range(2))
    return a, x + 1.0


@form()
def tuples_that_are_made_anew(x):
    made = [part for _ in range(2) for part in ("abc".partition("b"), (1.5).as_integer_ratio())]
    return x * 2.0, made


@form(breaks="FJ006 FJ009", graphs=2)
def too_many_values_of_an_object(x):
    y = x * 2.0
    try:
        a, b = Clears.__mro__ and Three()
    except ValueError:
        y = y + len(Three.log)
    Three.log.clear()
    return y


class Three:
    log: list = []  # noqa: RUF012

    def __iter__(self):
        for i in range(5):
            self.log.append(i)
            yield i


INNER = slice(1, -1)
BLOCK = (slice(None, 1), ..., INNER)


@form(args=lambda: (x23(), slice(0, 2), slice(None, None, -1)))
def slices_from_outside(x, s, back):
    items = [1, 2, 3, 4]
    items[INNER] = [x, s]
    return x[:, INNER] * 2.0, x[BLOCK] + 1.0, x[s, back], items, "abcd"[s], (1, 2, 3)[back], s, s.start, [s, back]


@form(args=lambda: (x23(), slice(1, None)))
def items_stored_by_slices_from_outside(x, s):
    y = x + 1.0
    y[s, INNER] = 7.0
    y[:, s] += x[:, s]
    return y, s is s, isinstance(s, slice)
