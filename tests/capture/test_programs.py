"""Programs run plainly and captured, several times over, while the world around them changes: results and state are equal."""

import copy

import numpy as np
import pytest

import framejit as fj

X = np.arange(6.0).reshape(2, 3)


def same(a, b):
    """Equal in type, value and shape, all the way down."""
    assert type(a) is type(b), (type(a), type(b))
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and a.strides == b.strides
        assert a.tobytes() == b.tobytes()
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for k in a:
            same(a[k], b[k])
    elif isinstance(a, Model):
        same(vars(a), vars(b))
    elif callable(a):
        pass
    else:
        assert a == b or (a != a and b != b)


class Model:
    rate = 2.0

    def __init__(self):
        self.w = X * 0.5
        self.n = 1
        self.log = []

    def step(self, x):
        self.w = self.w * self.rate + self.n
        self.n += 1
        self.log.append(self.w)
        return np.tanh(self.w) + x

    @property
    def half(self):
        return self.w * 0.5


def loop_with_print(x, out):
    for i in range(4):
        x = x * 0.5 + i
        out.append(len(str(i)))
        print(end="")
    return x


def branch_on_value(x, limit):
    n = 0
    while True:
        x = x * 2.0 + 1.0
        n += 1
        if x.sum() > limit:
            break
        if n > 20:
            return None
    return x, n


def early_return(xs, k):
    for i, x in enumerate(xs):
        y = x * k
        if i == 1 and float(y.sum()) > 3.0:
            return y, i
    return y, -1


def closures(x, k):
    total = x * 0.0

    def add(y, scale=k):
        nonlocal total
        total = total + y * scale
        return total

    for i in range(3):
        add(x + i)
    return total, [add(x) for _ in range(2)]


def tries(x, k):
    out = []
    try:
        y = x * k
        out.append(y)
        z = y[5]
        out.append(z)
    except IndexError as e:
        out.append(str(e))
    finally:
        out.append(x + 1)
    return out


def in_place(x, k):
    x += k
    x[0] *= 2.0
    v = x[:, 1:]
    v -= 1.0
    return v, x


class Shelf(Model):
    """Special methods that change the object, and one that raises."""

    def __len__(self):
        self.n += 1
        return self.n

    def __getitem__(self, key):
        self.w = self.w + key
        return self.w * key

    def __iter__(self):
        for i in range(3):
            self.n += i
            yield self.w * i


def special_methods(m, x, key):
    y = m[key] + len(m)
    for w in m:
        y = y + w * len(m)
    return y + m[key + 1] * x, m


def containers(x, d, xs):
    d["y"] = x * 2
    d.setdefault("z", x + 1)
    xs[0] = d["y"] + d["z"]
    xs.append(xs[0] * 2)
    last = xs.pop()
    a, *rest = xs
    return {"a": a, "last": last, "rest": rest}, d.get("none", 3)


def generators(xs, k):
    return sum(x * k for x in xs), [x + 1 for x in xs], {i: x * i for i, x in enumerate(xs)}, max(1, k)


def model_steps(m, x):
    y = m.step(x)
    y = m.step(y)
    return y * m.half, m


def floats(x, a, b):
    c = a * b - 1.0
    d = -c if c < 0 else c
    return x * d + abs(c) / 2.0, c, float(x.sum()) * 2.0


def while_ints(x, n):
    i = 0
    while i < n:
        x = x + i
        i += 2
    return x, i


def nested_loops(x, n):
    for i in range(n):
        for j in range(i):
            x = x + i * j
            if j == 2:
                break
        else:
            x = x * 2.0
            continue
        x = x - 1.0
    return x


def long_loop(x, n):
    for i in range(n):
        x = x * 0.5 + 1.0
        y = x * x
    return x, y, i


def yields(x, k):
    for i in range(3):
        x = x * k + i
        yield x


def run_generator(x, k):
    return list(yields(x, k))


class Loud(Model):
    def step(self, x):
        return super().step(x) + sum(w * 2 for w in [x, self.w]) + (3.0 if any(i > 1 for i in range(3)) else 0.0)


def gen(x, log):
    for i in range(3):
        log.append(i)
        yield x * i


def consumes(x, log):
    for y in gen(x, log):
        log.append(y)
        x = x + y
    for y in gen(x, log):
        print(end="")
        x = x - y
    return x, log


CASES = [
    (special_methods, [(Shelf(), X, 1), (Shelf(), X, 2), (Shelf(), X + 1, 1)]),
    (consumes, [(X, []), (X + 1, [1])]),
    (loop_with_print, [(X, []), (X + 1, [1])]),
    (branch_on_value, [(X, 100.0), (X, 1e9), (X * 0, 5.0)]),
    (early_return, [([X, X + 1], 2.0), ([X, X * 0], 2.0), ([X], 1.0)]),
    (closures, [(X, 2.0), (X, 3), (X[:1], 2.0)]),
    (tries, [(X, 2.0), (np.arange(12.0).reshape(6, 2), 2.0)]),
    (in_place, [(X, 2.0), (X, 3.0), (np.ones((4, 5)), 1.0)]),
    (containers, [(X, {}, [X]), (X, {"z": X}, [X, 1.0]), (X, {"a": 1}, [2.0])]),
    (generators, [([X, X + 1], 2.0), ([X], 2), ([X, X, X], 3.0)]),
    (model_steps, [(Model(), X), (Model(), X + 1), (Loud(), X)]),
    (floats, [(X, 2.0, 3.0), (X, 0.1, 0.2), (X, 1e200, 1e200), (X, float("nan"), 1.0)]),
    (while_ints, [(X, n) for n in range(6)]),
    (nested_loops, [(X, n) for n in (0, 3, 5)]),
    (long_loop, [(X, 3), (X, 500), (X, 500)]),
    (run_generator, [(X, 2.0), (X, 3.0)]),
    (yields, [(X, 2.0)]),
]


@pytest.mark.filterwarnings("error::framejit.RecompileLimitWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("function, calls", CASES, ids=[c[0].__name__ for c in CASES])
def test_program(function, calls):
    fj.reset()
    marked = fj.jit(function, capture_mode="bytecode")
    for args in list(calls) * 3:
        ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
        got, wanted = marked(*ours), function(*theirs)
        if hasattr(wanted, "__next__"):
            got, wanted = list(got), list(wanted)
        same(got, wanted)
        same(ours, theirs)
    assert fj.stats()["internal_errors"] == 0


SCALE = 2.0
TABLE = [X]


def helper(x, k=1.5):
    return x * k + SCALE


def uses_the_world(x):
    return helper(x) + TABLE[-1]


def test_the_world_changes_between_calls(monkeypatch):
    marked = fj.jit(uses_the_world, capture_mode="bytecode")

    def check():
        for _ in range(2):
            same(marked(X), uses_the_world(X))

    check()
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    check()
    monkeypatch.setattr(helper, "__defaults__", (7.0,))
    check()
    monkeypatch.setattr(helper, "__code__", (lambda x, k=1: x - k).__code__)
    check()
    TABLE.append(X * 3)
    check()
    TABLE.pop()
    monkeypatch.setitem(globals(), "helper", lambda x: x + 100)
    check()
    monkeypatch.setitem(globals(), "len", max)
    check()


def method_user(m, x):
    return m.step(x), m.half


def test_classes_change_between_calls(monkeypatch):
    marked = fj.jit(method_user, capture_mode="bytecode")

    def check(change=lambda m: None):
        for _ in range(2):
            a, b = Model(), Model()
            change(a)
            change(b)
            same(marked(a, X), method_user(b, X))
            same(a, b)

    check()
    monkeypatch.setattr(Model, "rate", 3.0)
    check()
    check(lambda m: setattr(m, "rate", 4.0))
    check(lambda m: setattr(m, "step", lambda x: x * 2))
    monkeypatch.setattr(Model, "step", lambda self, x: self.w - x)
    check()
    monkeypatch.setattr(Model, "half", property(lambda self: self.w * 0.25))
    check()


def aliases(x, a, b):
    a.append(x + 1)
    y = b[-1] * 2
    return y, a is b


def test_aliasing_changes_between_calls():
    marked = fj.jit(aliases, capture_mode="bytecode")
    for shared in (False, True, False, True):
        ours, theirs = [X], [X]
        same(marked(X, ours, ours if shared else [X]), aliases(X, theirs, theirs if shared else [X]))
        same(ours, theirs)


def overlapping(x, y):
    x += y
    return x * y


def test_overlap_changes_between_calls():
    marked = fj.jit(overlapping, capture_mode="bytecode")
    for shift in (None, 0, 1, None, 2):
        a, b = np.arange(8.0), np.arange(8.0)
        if shift is None:
            same(marked(a, a.copy()), overlapping(b, b.copy()))
        else:
            same(marked(a[: 6 - shift], a[shift:6]), overlapping(b[: 6 - shift], b[shift:6]))
        same(a, b)


def test_steering():
    def asks(x):
        y = x + 1
        fj.graph_break("here")
        return y * 2

    fj.graph_break()  # the name is in the module from now on
    fj.is_compiling()
    breaks = [b for b in fj.explain(fj.jit(asks, capture_mode="bytecode"))(X).breaks]
    assert any("here" in str(b) for b in breaks)
