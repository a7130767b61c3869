"""Programs that the splicing tests run plain and spliced. Each gives a value; what it prints and raises is compared as well."""

import contextlib


def loop_with_print(n):
    s = 0
    for i in range(n):
        if i % 3 == 0:
            continue
        if i > 20:
            print("big", i)
            break
        s += i * 2
    else:
        s = -s
    return s, i


def nested_loops(n):
    out = []
    i = 0
    while i < n:
        j = 0
        try:
            while True:
                j += 1
                if j > 4:
                    break
                if (i + j) % 3 == 0:
                    continue
                out.append((i, j))
        finally:
            out.append(i)
        i += 1
    else:
        out.append("done")
    return out


def try_except(values):
    log = []
    for v in values:
        try:
            log.append(10 // v)
        except ZeroDivisionError as e:
            log.append(str(e))
        except TypeError:
            log.append("type")
            try:
                log.append(v + 1)
            except TypeError as inner:
                log.append(type(inner.__context__).__name__)
        else:
            log.append("else")
        finally:
            log.append("finally")
    return log


@contextlib.contextmanager
def manager(log, name, swallow=False):
    log.append(("enter", name))
    try:
        yield name
    except KeyError:
        log.append(("error", name))
        if not swallow:
            raise
    finally:
        log.append(("exit", name))


def with_statements(keys):
    log = []
    table = {"a": 1}
    for key in keys:
        try:
            with manager(log, "outer"), manager(log, "inner", key == "b") as name:
                log.append((name, table[key]))
        except KeyError as e:
            log.append(repr(e))
    return log


def counter(n):
    total = 0
    for i in range(n):
        try:
            got = yield i
        except ValueError as e:
            got = len(str(e))
        if got is not None:
            total += got
    return total


def delegating(n):
    first = yield from counter(n)
    second = yield from counter(first)
    return first, second


def generators(n):
    out = []
    g = delegating(n)
    try:
        out.append(next(g))
        k = 0
        while True:
            k += 1
            if k % 3 == 0:
                out.append(g.throw(ValueError("x" * k)))
            else:
                out.append(g.send(k % 2))
            if k > 40:
                g.close()
                break
    except StopIteration as e:
        out.append(e.value)
    return out


def closures(n):
    acc = []

    def add(x, scale=2):
        nonlocal n
        n += 1
        acc.append(x * scale + n)
        return lambda y: x + y + n

    funcs = [add(i) for i in range(n)]
    table = {k: v(1) for k, v in zip("abcdef", funcs)}
    return acc, table, sorted(acc, key=lambda v: -v), {x % 3 for x in acc}


class Account:
    rate = 3

    def __init__(self, owner, *items, **extra):
        self.owner, *self.rest = owner, *items
        self.extra = extra
        self._total = sum(items)

    @property
    def total(self):
        return self._total * self.rate

    def __getitem__(self, i):
        return self.rest[i]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.seen = exc[0]
        return False


class Special(Account):
    def __init__(self, *args, **kw):
        super().__init__("special", *args, **kw)

    @property
    def total(self):
        return super().total + 1


def objects(n):
    a = Special(*range(n), key="v")
    with a as b:
        x = b.total if n else None
    a.rate, a.name = 5, f"{a.owner!r:>10}-{n:03d}"
    del a.extra
    return x, a.total, a.name, a[0] if n else (), a.seen, a[-1:] if n else a[5]


def matching(values):
    out = []
    for v in values:
        match v:
            case [x, y, *rest] if x:
                out.append((x, y, rest))
            case {"k": k, **others}:
                out.append((k, others))
            case Account(owner=o):
                out.append(o)
            case int() | float() as number:
                out.append(number)
            case _:
                out.append("other")
    return out


def unbound(flag):
    if flag:
        x = 1
    y = [k for k in range(3)]
    del y[0]
    return x, y


def deletes(n):
    x = list(range(n))
    y = x
    del x
    try:
        return x
    except UnboundLocalError as e:
        return str(e), y


def chained(a, b, c):
    assert a < b < c, (a, b, c)
    return a < b != c or (a and b), not a, a if b else c


def raises_deep(n):
    if n:
        return raises_deep(n - 1) + 1
    return [1, 2][n + 2]


def reraises(n):
    try:
        try:
            raises_deep(n)
        except IndexError as e:
            raise ValueError("outer") from e
        finally:
            print("cleanup")
    except* ValueError as group:
        print(group.exceptions[0])
        raise


def unpacking(x):
    (a, *b), c = x
    first, *middle, last = [*b, *c, a]
    return f(*middle, **{"k": last}), [first], {**{"z": 1}, "y": 2}


def f(*args, k=None):
    return args, k


def strings(n):
    s = ""
    for i in range(n):
        s += str(i)
    return s, f"{n:>{n + 3}}", s[1:3], s[::2]


def imports():
    import os.path as p
    from math import floor, pi

    return p.join("a", "b"), floor(pi)


def asynchronous(n):
    import asyncio

    async def numbers(k):
        for i in range(k):
            await asyncio.sleep(0)
            yield i

    async def work(k):
        out = []
        async for v in numbers(k):
            out.append(v)
        async with asyncio.Lock():
            out.extend([x async for x in numbers(2)])
        if k == 2:
            raise LookupError(k)
        return out

    async def main():
        return await asyncio.gather(*(work(k) for k in range(n)), return_exceptions=True)

    return [r if isinstance(r, list) else repr(r) for r in asyncio.run(main())]


def many_locals_and_jumps(x):
    # Long enough that jumps and constants need EXTENDED_ARG.
    a = b = c = d = 0
    for i in range(4):
        if x > i:
            a += 1000; b += 1001; c += 1002; d += 1003; a += 1004; b += 1005; c += 1006; d += 1007
            a += 1008; b += 1009; c += 1010; d += 1011; a += 1012; b += 1013; c += 1014; d += 1015
            a += 1016; b += 1017; c += 1018; d += 1019; a += 1020; b += 1021; c += 1022; d += 1023
            a += 1024; b += 1025; c += 1026; d += 1027; a += 1028; b += 1029; c += 1030; d += 1031
        else:
            a -= 1032; b -= 1033; c -= 1034; d -= 1035; a -= 1036; b -= 1037; c -= 1038; d -= 1039
            a -= 1040; b -= 1041; c -= 1042; d -= 1043; a -= 1044; b -= 1045; c -= 1046; d -= 1047
    return a, b, c, d


# (function, argument tuples)
PROGRAMS = [
    (loop_with_print, [(0,), (5,), (40,)]),
    (nested_loops, [(0,), (5,)]),
    (try_except, [([1, 0, "a", 3],), ([],), (None,)]),
    (with_statements, [("abc",), ("a",)]),
    (generators, [(2,), (5,), (0,)]),
    (closures, [(4,)]),
    (objects, [(3,), (0,)]),
    (matching, [([[1, 2, 3], {"k": 1, "z": 2}, Account("me"), 2.5, "s", [0]],)]),
    (unbound, [(True,), (False,)]),
    (deletes, [(3,)]),
    (chained, [(1, 2, 3), (3, 2, 1), (0, 1, 5)]),
    (raises_deep, [(0,), (3,)]),
    (reraises, [(0,), (2,)]),
    (unpacking, [(([1, 2, 3], [4, 5]),), (([], []),), (3,)]),
    (strings, [(0,), (12,)]),
    (imports, [()]),
    (asynchronous, [(4,)]),
    (many_locals_and_jumps, [(2,), (9,)]),
]
