"""Forms: loops, exceptions, with, match, generators, coroutines."""

import asyncio
import contextlib
import io
import itertools
import sys
import warnings

import numpy as np

from forms_support import form, x23


class Manager:
    def __init__(self, log, swallow=False):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, error, tb):
        self.log.append(kind and kind.__name__)
        return self.swallow


class Problem(Exception):
    def __init__(self, text, code=0):
        super().__init__(text)
        self.code = code


@contextlib.contextmanager
def logged(log, name):
    log.append("in " + name)
    try:
        yield name
    finally:
        log.append("out " + name)


def logs():
    return x23(), []


@form(breaks="FJ010", graphs=5)
def print_in_a_loop(x):
    x = x + 1.0
    for i in range(3):
        x = x * 2.0
        print(i)
        x = x + i
    return x - 1.0


@form(breaks="FJ010", graphs=2)
def print_in_order(x):
    y = x * 2.0
    print("before", y.sum())
    return y + 1.0


@form()
def while_loops(x):
    n = 0
    while n < 5:
        n += 1
        if n == 2:
            continue
        if n == 4:
            break
        x = x * n
    else:
        x = x * 100.0
    return x, n


@form()
def for_else(x):
    for i in range(3):
        if i == 7:
            break
        x = x + i
    else:
        x = x * 2.0
    return x


@form()
def walrus(x):
    if (n := len(x)) > 1 and (y := x * n) is not None:
        return y + n
    return x


@form()
def chained_comparisons(x):
    k = 2
    return x * 2.0 if 1 < k <= 2 < 3 else x


@form()
def ternaries(x):
    k = None
    y = x if k is None else x * 2.0
    return (y + 1.0) if y is x else y and x or x


@form()
def assertion_holds(x):
    assert x.shape == (2, 3), "shape"
    assert len(x)
    return x * 2.0


@form(breaks="FJ014")
def assertion_fails(x):
    y = x * 2.0
    assert y.shape == (3, 2), f"shape {y.shape}"
    return y


@form(args=logs)
def raise_and_catch(x, log):
    try:
        y = x * 2.0
        log.append(1)
        raise ValueError("no")
    except ValueError:
        log.append(2)
        y = x * 3.0
    return y + 1.0


@form(args=logs)
def raise_and_bind(x, log):
    try:
        raise Problem("bad", code=3)
    except (KeyError, Problem) as e:
        log.append(str(e))
        x = x * e.code
    return x + 1.0


@form(args=logs)
def raise_in_callee(x, log):
    def fails(v):
        if v > 0:
            raise KeyError(v)
        return v

    try:
        y = x * fails(1)
    except ValueError:
        y = x
    except LookupError as e:
        y = x * e.args[0]
    else:
        y = x * 100.0
    finally:
        log.append("finally")
    return y + 1.0


@form(args=logs)
def finally_on_return(x, log):
    try:
        return x * 2.0
    finally:
        log.append("done")


@form(args=logs)
def finally_in_loop(x, log):
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            x = x * 2.0
        finally:
            log.append(i)
    return x


@form()
def key_error_of_known_dict(x):
    d = {"a": 1.0}
    try:
        y = x * d["b"]
    except KeyError:
        y = x + d["a"]
    return y * 2.0


@form()
def index_error_of_known_list(x):
    items = [x, x + 1.0]
    total = x * 0.0
    i = 0
    while True:
        try:
            total = total + items[i]
        except IndexError:
            break
        i += 1
    return total


@form()
def stop_iteration(x):
    it = iter([x, x + 1.0])
    y = next(it) + next(it)
    try:
        y = y + next(it)
    except StopIteration:
        y = y * 2.0
    return y


@form(breaks="FJ008", args=lambda: (x23(), object()))
def attribute_error(x, o):
    try:
        k = o.missing
    except AttributeError:
        k = 2.0
    return x * k


@form()
def zero_division(x):
    try:
        k = 1 // 0
    except ZeroDivisionError:
        k = 4
    return x * k


@form(breaks="FJ002", graphs=3, args=lambda: (x23(), ("bad.py", 1, 2)))
def exceptions_that_check_their_arguments(x, args):
    y = x * 2.0
    for made, given in ((SyntaxError, ("bad", args)), (UnicodeDecodeError, ("bad",)), (KeyError, ("good",))):
        try:
            made(*given)
            y = y * 5.0
        except TypeError:
            y = y + 1.0
    return y


@form()
def value_error_of_int(x):
    try:
        k = int("nope")
    except ValueError:
        k = 4
    return x * k


@form()
def type_error_of_call(x):
    def f(a):
        return a

    try:
        y = f(x, x)
    except TypeError:
        y = x * 2.0
    return y + 1.0


@form(breaks="FJ014")
def raise_out(x):
    y = x * 2.0
    if len(y) == 2:
        raise Problem(f"shape {y.shape}", code=2)
    return y


@form(breaks="FJ014 FJ014")
def raise_from(x):
    y = x * 2.0
    try:
        raise KeyError("k")
    except KeyError as e:
        raise Problem("from") from e
    return y


@form(breaks="FJ014 FJ014", args=logs)
def raise_again(x, log):
    y = x * 2.0
    try:
        log.append(y)
        raise ValueError("once")
    except ValueError:
        log.append("seen")
        raise


@form(breaks="FJ006 FJ008", graphs=3)
def error_of_numpy(x):
    try:
        y = x + np.ones(7)
    except ValueError as e:
        y = x * len(str(e))
    return y + 1.0


# From 3.14 on ExceptionGroup.exceptions is plain.
@form(
    breaks=f"FJ014 FJ014 FJ002 FJ002 FJ002 FJ014{' FJ009' * (sys.version_info < (3, 14))} FJ014",
    graphs=3,
)
def exception_group(x):
    y = x * 2.0
    try:
        raise ExceptionGroup("two", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        y = y + len(group.exceptions)
    except* KeyError:
        y = y * 3.0
    return y


@form(breaks="FJ014 FJ014 FJ009 FJ008", args=logs)
def nested_try(x, log):
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            log.append("first")
            raise ValueError("outer")
        finally:
            log.append("finally")
    except ValueError as e:
        log.append(str(e.__context__))
        x = x * 2.0
    return x


@form(args=logs)
def with_manager(x, log):
    with Manager(log) as m:
        y = x * 2.0
    return y + len(m.log)


@form(args=logs)
def with_two_managers(x, log):
    with Manager(log), Manager(log) as m:
        y = x * 2.0
        m.log.append("body")
    return y + 1.0


@form(args=logs)
def with_that_swallows(x, log):
    with Manager(log, swallow=True):
        x = x * 2.0
        raise ValueError("gone")
    return x + 1.0


@form(args=logs)
def with_return_inside(x, log):
    with Manager(log):
        return x * 2.0


@form(args=logs)
def with_contextmanager(x, log):
    y = x * 2.0
    with logged(log, "a") as name:
        y = y + len(name)
        log.append("body")
    return y * 3.0


@form(graphs=2, outside=True, args=logs)
def with_exit_stack(x, log):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Manager(log))
        y = x * 2.0
    return y + 1.0


@form()
def with_nullcontext(x):
    with contextlib.nullcontext(3.0) as k:
        y = x * k
    return y + 1.0


@form()
def with_suppress(x):
    with contextlib.suppress(KeyError):
        x = x * 2.0
        raise KeyError(1)
    return x + 1.0


@form()
def with_errstate(x):
    y = x - 0.5
    with np.errstate(divide="ignore", invalid="raise"):
        y = 1.0 / y
    return y + 1.0


@form()
def match_values(x):
    k = 3
    match k:
        case 1 | 2:
            x = x * 2.0
        case 3 if len(x) == 2:
            x = x * 3.0
        case _:
            x = x * 4.0
    return x


@form()
def match_sequences(x):
    out = x
    for value in ([1, x], (1, 2, 3, 4), [], "text", ((1, 2), x)):
        match value:
            case [1, y]:
                out = out + y
            case [1, *rest]:
                out = out * len(rest)
            case []:
                out = out - 1.0
            case str():
                out = out + 3.0
            case [[a, b], y]:
                out = out + y * a * b
    return out


@form()
def match_mappings(x):
    out = x
    for value in ({"kind": "scale", "by": 2.0}, {"kind": "shift", "by": x, "more": 1}, {}, {"z": 1}):
        match value:
            case {"kind": "scale", "by": by}:
                out = out * by
            case {"kind": "shift", "by": by, **rest}:
                out = out + by * len(rest)
            case {"z": z}:
                out = out - z
            case {}:
                out = out + 1.0
    return out


class Shape:
    __match_args__ = ("w", "h")

    def __init__(self, w, h):
        self.w = w
        self.h = h


@form(args=lambda: (x23(), Shape(x23(), 2.0)))
def match_classes(x, s):
    match s:
        case Shape(w, h=3.0):
            return x
        case Shape(w, h):
            return x * h + w
    return x


@form()
def match_builtin_classes(x):
    out = x
    for value in (1, 2.0, "s", True, None, x):
        match value:
            case bool(b):
                out = out + b
            case int(n):
                out = out * n
            case float(f):
                out = out * f
            case str(s):
                out = out + len(s)
            case None:
                out = out - 1.0
            case np.ndarray():
                out = out + value
    return out


def counted(x, n):
    for i in range(n):
        yield x * i
    return x


def delegating(x):
    yield x
    last = yield from counted(x, 3)
    yield last * 2.0


def guarded(x, log):
    try:
        yield x
        yield x * 2.0
    except ValueError:
        log.append("value")
        yield x * 3.0
    finally:
        log.append("end")


def echo(x):
    while True:
        got = yield x
        if got is None:
            return x
        x = x * got


@form()
def generator_expression(x):
    return sum(x * i for i in range(3)) + max(i for i in (1, 2)) + any(i > 1 for i in range(3))


@form()
def generator_in_for(x):
    for y in counted(x, 3):
        x = x + y
    return x


@form()
def generator_to_list(x):
    return list(counted(x, 3)) + [*counted(x, 2)] + [(a, b) for a, b in zip(counted(x, 2), "ab")]


@form()
def generator_unpacked(x):
    a, b, *c = counted(x, 4)
    return a + b, c


@form()
def generator_broken_off(x):
    for i, y in enumerate(counted(x, 10)):
        x = x + y
        if i == 2:
            break
    return x


@form()
def generator_yield_from(x):
    out = x
    for y in delegating(x):
        out = out + y
    return out


@form(args=logs)
def generator_with_finally(x, log):
    out = x
    for y in guarded(x, log):
        out = out + y
    return out


@form()
def generator_send(x):
    g = echo(x)
    y = next(g)
    y = y + g.send(2.0)
    y = y + g.send(3.0)
    return y


@form(breaks="FJ013 FJ013 FJ003 FJ013 FJ008 FJ002 FJ008", graphs=2, args=logs)
def generator_throw(x, log):
    g = guarded(x, log)
    y = next(g)
    y = y + g.throw(ValueError("in"))
    g.close()
    return y


@form(breaks="FJ003 FJ003 FJ001", graphs=2)
def generator_kept(x):
    g = counted(x + 1.0, 3)
    y = next(g) + next(g)
    return y, g


@form(breaks="FJ013 FJ013", graphs=3)
def generator_itself(x):
    x = x * 2.0
    yield x
    for i in range(2):
        y = x * i + 1.0
        yield y
    return x


@form(breaks="FJ013 FJ013", graphs=2, args=logs)
def generator_itself_with_try(x, log):
    try:
        y = x * 2.0
        yield y
        y = y + 1.0
        yield y
    finally:
        log.append("end")


@form(breaks="FJ013 FJ013 FJ007 FJ013", graphs=2)
def generator_itself_delegates(x):
    y = x * 2.0
    yield y
    yield from counted(y, 2)
    y = y * 3.0
    yield y


class Ready:
    def __await__(self):
        yield
        return 2.0


@form(breaks="FJ013", graphs=2)
async def coroutine(x):
    y = x * 2.0
    k = await Ready()
    return y * k


class AsyncManager:
    async def __aenter__(self):
        return 3.0

    async def __aexit__(self, *args):
        return None


async def ticks(n):
    for i in range(n):
        yield i


# 3.14 looks __aexit__ and __aenter__ up one by one.
@form(breaks=" ".join(["FJ013"] * (9 if sys.version_info >= (3, 14) else 8)), graphs=5)
async def async_constructs(x):
    y = x * 2.0
    async with AsyncManager() as k:
        y = y * k + 1.0
    async for i in ticks(2):
        y = y * 2.0 + i
    return y + len([i async for i in ticks(3)])


@form(breaks="FJ013", graphs=2)
def runs_coroutine(x):
    async def inner(v):
        await asyncio.sleep(0)
        return v * 2.0

    y = x + 1.0
    z = asyncio.run(inner(y))
    return z * 3.0


@form(breaks="FJ002", graphs=2)
def warns(x):
    y = x * 2.0
    warnings.warn("careful", stacklevel=1)
    return y + 1.0


@form(breaks="FJ007", graphs=3, args=lambda: (x23(), iter([1.0, 2.0, 3.0])))
def iterator_from_outside(x, it):
    y = x + 1.0
    for k in it:
        y = y**k
        y = y + 1.0
    return y - 1.0


@form(breaks="FJ007", graphs=5, args=lambda: (x23(), io.StringIO("1\n22\n333\n")))
def file_lines(x, f):
    y = x + 1.0
    for line in f:
        n = len(line.strip())
        y = y * n
    return y - 1.0


@form(args=lambda: (x23(), {"a": 1.0, "b": 2.0}))
def dict_iteration(x, d):
    for k, v in d.items():
        x = x * v + len(k)
    for k in d:
        x = x + d[k]
    return x


@form()
def scopes(x):
    return [x * i + j for i in range(3) if i != 1 for j in range(2)], {i: x for i in range(2)}


class Twice:
    __match_args__ = ("a", "a")
    a = 1


@form(breaks="FJ006 FJ008 FJ006 FJ008", graphs=3)
def patterns_that_raise(x):
    y = x * 2.0
    try:
        match Twice():
            case Twice(b, c):
                y = y + 1.0
    except TypeError as error:
        y = y + len(str(error))
    try:
        match {"a": 1, "b": 2}:
            case {Twice.key: b, "a": c}:
                y = y + 2.0
    except ValueError as error:
        y = y + len(str(error))
    return y


Twice.key = "a"


@form(breaks="FJ014", graphs=2)
def except_of_what_is_no_exception(x):
    y = x * 2.0
    try:
        try:
            raise ValueError
        except (ValueError, 42):  # noqa: B030
            y = y + 1.0
    except TypeError:
        y = y + 2.0
    return y


@form(breaks="FJ006 FJ009 FJ008", graphs=2)
def traceback_that_is_none(x):
    y = x * 2.0
    try:
        ValueError().__traceback__ = 5
    except TypeError as error:
        y = y + len(str(error))
    return y


@form()
def keywords_of_c_functions(x):
    try:
        x = x + len(list(itertools.pairwise(iterable="abc")))
    except TypeError:
        x = x * 2.0
    return x + len(list(itertools.repeat(object=1, times=3)))
