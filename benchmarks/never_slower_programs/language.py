"""What else the language has: generators, closures, decorators, exceptions, itertools, exact numbers, dates."""

import contextlib
import datetime
import functools
import itertools
import operator
from decimal import Decimal
from fractions import Fraction

from never_slower_programs import Family

program = Family()


@program(lambda n: (n,), 5, 200, 15000, 90000)
def generator_pipeline(n):
    def numbers():
        i = 0
        while i < n:
            yield i
            i += 1

    squares = (v * v for v in numbers())
    odd = (v for v in squares if v % 2)
    return sum(odd)


@program(lambda n: (n,), 5, 200, 15000, 80000)
def generator_send(n):
    def average():
        total, count, mean = 0.0, 0, None
        while True:
            v = yield mean
            total += v
            count += 1
            mean = total / count

    g = average()
    next(g)
    out = []
    for i in range(n):
        out.append(g.send(float(i % 13)))
    return out


def chunks(values, size):
    it = iter(values)
    while chunk := list(itertools.islice(it, size)):
        yield chunk


@program(lambda n: (list(range(n)),), 7, 500, 40000, 250000)
def chunked(values):
    return [sum(c) - len(c) for c in chunks(values, 8)]


@program(lambda n: (n,), 5, 200, 15000, 90000)
def closure_counters(n):
    def counter(step):
        count = 0

        def tick():
            nonlocal count
            count += step
            return count

        return tick

    a, b = counter(1), counter(3)
    total = 0
    for i in range(n):
        total += a() if i % 2 else b()
    return total


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return function(*args, **kwargs)

    wrapper.calls = 0
    return wrapper


@program(lambda n: (n,), 5, 100, 8000, 50000)
def decorated_calls(n):
    @logged
    def scale(v, factor=2):
        return v * factor

    total = 0
    for i in range(n):
        total += scale(i) + scale(i, factor=3)
    return total, scale.calls


@program(lambda n: (list(range(1, n)),), 5, 300, 20000, 120000)
def reduce_and_map(values):
    product = functools.reduce(lambda a, b: a * b % 1000003, values, 1)
    total = functools.reduce(operator.add, map(lambda v: v * 2, filter(lambda v: v % 3, values)))
    return product, total


@program(lambda n: (n,), 5, 60, 5000, 30000)
def memoized(n):
    @functools.lru_cache(maxsize=None)
    def ways(k):
        if k < 2:
            return 1
        return (ways(k - 1) + ways(k - 2)) % 1000007

    return [ways(k) for k in range(n)], ways.cache_info().hits


@program(lambda n: (n,), 5, 200, 15000, 90000)
def partials(n):
    power = [functools.partial(pow, exp=e) for e in (1, 2, 3)]
    total = 0
    for i in range(n):
        total += power[i % 3](i)
    return total


@program(lambda n: (["12", "x", "7", "", "3.5", "-4"] * n,), 1, 10, 400, 3000)
def exceptions_as_control(texts):
    good, bad = 0, []
    for t in texts:
        try:
            good += int(t)
        except ValueError as error:
            bad.append(str(error)[:10])
        finally:
            good += 1
    return good, len(bad), bad[:3]


@program(lambda n: (n,), 5, 100, 8000, 50000)
def lookups_that_fail(n):
    table, missing = {i: i * i for i in range(0, 100, 3)}, 0
    total = 0
    for i in range(n):
        try:
            total += table[i % 100]
        except KeyError:
            missing += 1
        else:
            total -= 1
    return total, missing


@program(lambda n: (n,), 3, 20, 5000, 40000)
def itertools_products(n):
    pairs = [(a, b) for a, b in itertools.combinations(range(n % 97 + 5), 2) if (a + b) % 3 == 0]
    cycle = list(itertools.islice(itertools.cycle("abc"), n))
    joined = list(itertools.chain.from_iterable(zip(cycle, range(n))))
    return len(pairs), joined[-2:], list(itertools.takewhile(lambda v: v < 20, itertools.count(3, 4)))


@program(lambda n: (n,), 4, 60, 5000, 30000)
def decimals(n):
    total, rate = Decimal("0.00"), Decimal("1.0725")
    for i in range(1, n):
        total += (Decimal(i) / 4 * rate).quantize(Decimal("0.01"))
    return total


@program(lambda n: (n,), 4, 15, 400, 1500)
def fractions(n):
    total = Fraction(0)
    for i in range(1, n):
        total += Fraction(i % 7 + 1, i % 11 + 2)
    return total, total.limit_denominator(10)


@program(lambda n: (n,), 4, 60, 5000, 30000)
def dates(n):
    day, weekends, months = datetime.date(2020, 1, 1), 0, {}
    for _ in range(n):
        if day.weekday() >= 5:
            weekends += 1
        months[day.month] = months.get(day.month, 0) + 1
        day += datetime.timedelta(days=1)
    return weekends, months, day.isoformat()


@program(lambda n: ([("move", 3, 2), {"kind": "turn", "by": 4}, [5, 6], "stop", 7] * n,), 1, 20, 1500, 10000)
def matched(commands):
    seen = {"move": 0, "turn": 0, "pair": 0, "other": 0}
    for command in commands:
        match command:
            case ("move", x, y) if x < 10**9:
                seen["move"] += x * y
            case {"kind": "turn", "by": amount}:
                seen["turn"] += amount
            case [a, b]:
                seen["pair"] += a + b
            case _:
                seen["other"] += 1
    return seen


@program(lambda n: (list(range(n)),), 4, 60, 5000, 30000)
def star_arguments(values):
    def combine(first, *rest, scale=1, **named):
        return (first + sum(rest)) * scale + len(named)

    total = 0
    for v in values:
        total += combine(v, 1, 2, scale=2, x=v) + combine(*[v, v], **{"y": 1})
    return total


@program(lambda n: (n,), 4, 400, 6000, 15000)
def nested_loops_with_else(n):
    found = []
    for i in range(2, 2 + n // 10 + 3):
        for j in range(2, i):
            if i % j == 0:
                break
        else:
            found.append(i)
            continue
        if len(found) > 5000:
            break
    return found


@program(lambda n: (n,), 4, 60, 4000, 25000)
def suppressed(n):
    done = 0
    for i in range(n):
        with contextlib.suppress(ZeroDivisionError):
            done += 10 // (i % 4)
    return done


@program(lambda n: (bytes(i * 7 % 256 for i in range(n)),), 4, 100, 8000, 50000)
def checksum_of_bytes(data):
    a, b = 1, 0
    for byte in data:
        a = (a + byte) % 65521
        b = (b + a) % 65521
    out = bytearray()
    for k, byte in enumerate(data):
        out.append(byte ^ (k & 0xFF))
    return (b << 16) | a, bytes(out[:16])


@program(lambda n: (n,), 4, 50, 4000, 25000)
def sorting_network(n):
    rows = [((i * 7) % 11, str(i % 5), -i) for i in range(n)]
    rows.sort(key=operator.itemgetter(1, 0))
    rows.sort(key=lambda r: r[2], reverse=True)
    first = {}
    for a, b, c in rows:
        first.setdefault((a, b), c)
    return rows[:3], len(first)


@program(lambda n: (n,), 4, 80, 6000, 40000)
def chained_comparisons(n):
    kinds = [0, 0, 0]
    for i in range(n):
        v = (i * 37) % 101
        if 10 <= v < 30 or 70 < v <= 90:
            kinds[0] += 1
        elif not v % 2 and v is not None:
            kinds[1] += 1
        else:
            kinds[2] += 1
    return kinds, any(k == 0 for k in kinds), all(kinds)
