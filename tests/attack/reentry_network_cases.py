"""Programs whose callbacks come back into marked functions: of networks, Tensors, threads and what Python offers its tools.

See reentry_cases.py.
"""

from __future__ import annotations

PROGRAMS: dict[str, str] = {
    "a cell changes its children while it runs": """
from framejit import Parameter, Tensor, nn

class Net(nn.Cell):

    def __init__(self):
        super().__init__()
        self.a = nn.ReLU()
        self.w = Parameter(Tensor([1.0, -2.0, 3.0]), name='w')
        self.n = 0

    def construct(self, x):
        self.n += 1
        y = self.a(x * self.w)
        if self.n % 3 == 0:
            self.a = nn.Tanh()
            self.w.set_data(Tensor([5.0, 6.0, 7.0]) * self.n)
        elif self.n % 3 == 1:
            self.a = nn.ReLU()
        return y + self.a(x) + self.w
net = Net()
f = mark(lambda x: net(x))

def calls():
    for k in range(9):
        yield (lambda: f(Tensor([1.0, 2.0, -3.0]) * k).asnumpy())
""",
    "a hook of a cell calls the network and takes itself out": """
from framejit import Parameter, Tensor, nn

class Net(nn.Cell):

    def __init__(self):
        super().__init__()
        self.a = nn.ReLU()
        self.k = 2.0

    def construct(self, x):
        return self.a(x) * self.k
net = Net()

def hook(cell, inputs, output):
    log.append(shown(output.asnumpy()))
    net.k += 1
    if len(log) == 1:
        log.append(shown(net(inputs[0]).asnumpy()))
    if net.k > 7:
        handle.remove()
    return output + net.k
handle = net.a.register_forward_hook(hook)
f = mark(lambda x: net(x) + net.k)

def calls():
    for k in range(7):
        yield (lambda: f(Tensor([1.0, 2.0, -3.0]) * k).asnumpy())
""",
    "a hook of a gradient asks for a gradient": """
from framejit import Parameter, Tensor, nn

def hook(g):
    log.append(g.asnumpy().tolist())
    if len(log) < 4:
        log.append(fj.grad(inner)(g).asnumpy().tolist())
    return g * 3

def inner(x):
    y = x * x
    return (y * x).sum()

def outer(x):
    y = x * 2
    y.register_hook(hook)
    return inner(y)
f = mark(fj.grad(outer))

def calls():
    for k in range(5):
        yield (lambda: f(Tensor([1.0, 2.0, -3.0]) * k).asnumpy())
""",
    "a Parameter is written, renamed and deleted under a function": """
from framejit import Parameter, Tensor, nn

class Net(nn.Cell):

    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([1.0, 2.0]), name='w')

    def construct(self, x):
        return x * self.w
net = Net()

def change(k):
    if k == 1:
        net.w.set_data(Tensor([9.0, 8.0]))
    elif k == 2:
        net.w = Parameter(Tensor([3.0, 3.0]), name='v')
    elif k == 3:
        net.w[0] = 100.0
    elif k == 4:
        net.w.requires_grad = not net.w.requires_grad
    elif k == 5:
        del net.w

@mark
def f(x, k):
    y = net(x)
    change(k)
    return ((y + net(x)).asnumpy(), net.w.requires_grad, net.w.name)

def calls():
    for k in (0, 1, 0, 2, 0, 3, 4, 0, 0, 5, 0):
        yield (lambda: f(Tensor([1.0, 2.0]), k))
""",
    "attributes of Tensors that change and go": """
from framejit import Parameter, Tensor, nn
import gc, weakref

class Dies:

    def __init__(self, t):
        self.t = t

    def __del__(self):
        log.append('gone')
        kept.k += 1

    def __radd__(self, o):
        kept.__dict__.pop('sum', None)
        kept.k = 5.0
        return o
kept = Tensor([1.0, 2.0])
kept.k = 1.0

@mark
def f(x, d):
    y = x * x.k + x.sum()
    y = y.asnumpy() + d
    x.d = None
    return (y * x.k, hasattr(x, 'sum2'), sorted(x.__dict__))

def calls():
    for n in range(8):

        def one():
            kept.d = Dies(kept)
            if n % 2:
                kept.sum = lambda: 3.0
            return f(kept, Dies(None) if n % 3 else 1.0)
        yield one
""",
    "a Tensor's memory shared with NumPy is written by an operator": """
from framejit import Parameter, Tensor, nn

class W:

    def __radd__(self, o):
        shared[0] += 10
        return o
    __array_ufunc__ = None
shared = None

@mark
def f(t, w):
    global shared
    shared = t.asnumpy()
    y = t * 2
    z = shared + w
    u = t + 1
    return (y.asnumpy(), z, u.asnumpy())

def calls():
    for n in range(6):
        yield (lambda: f(Tensor([1.0, 2.0]), W() if n % 2 else 3.0))
""",
    "two threads swap globals that belong together": """
import threading, sys
sys.setswitchinterval(1e-05)
state = (1.0, 10.0)

@mark
def f(x):
    a, b = state
    y = x * a
    return y + b
stop = False

def flip():
    global state
    while not stop:
        state = (2.0, 20.0) if state[0] == 1.0 else (1.0, 10.0)

def calls():
    global stop
    t = threading.Thread(target=flip)
    t.start()
    allowed = {(11.0,), (22.0,)}
    found = set()
    x = np.ones(1)
    try:
        for _ in range(20000):
            found.add(tuple(f(x).tolist()))
    finally:
        stop = True
        t.join()
    assert found <= allowed, found
    yield (lambda: 'right')
""",
    "threads define, mark, call and drop functions": r"""
import threading, gc

def work(seed, out):
    for n in range(60):
        names = {'np': np, 'k': float(seed + n), 'fj': fj}
        exec('class C:\n    v = k\n    def m(self, x): return x * self.v + k\ndef f(x, o): return o.m(x) - np.sqrt(k)', names)
        f = mark(names['f'])
        o = names['C']()
        for _ in range(3):
            got = f(np.arange(3.0), o)
            want = np.arange(3.0) * names['k'] + names['k'] - np.sqrt(names['k'])
            if (got != want).any():
                out.append((seed, n))
        if n % 10 == 0:
            gc.collect()
        del f, o, names

def calls():
    wrong = []
    ts = [threading.Thread(target=work, args=(s * 100, wrong)) for s in range(3)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    yield (lambda: wrong)
""",
    "a trace function that jumps and writes variables": """
import sys

def f_(x, n):
    y = x * 2
    total = 0.0
    for i in range(n):
        total += y[i % 3]
        total *= 1.5
    z = y + total
    return z
f = mark(f_)
first = f_.__code__.co_firstlineno

def tracer(frame, event, arg):
    if frame.f_code.co_name != 'f_':
        return None

    def local(frame, event, arg):
        if event == 'line' and len(log) < 3 and (frame.f_lineno == first + 5):
            log.append(frame.f_locals['i'])
            frame.f_lineno = first + 4
        return local
    return local

def calls():
    for k in range(5):

        def one():
            if k % 2:
                sys.settrace(tracer)
            try:
                return f(np.arange(3.0), 6)
            finally:
                sys.settrace(None)
        yield one
""",
    "classes and functions that die are made again at the same address": """
import gc

def make(v):

    class C:
        w = v

        def m(self, x):
            return x * v
    return C()

@mark
def f(x, o):
    return o.m(x) + o.w

def calls():
    for n in range(40):

        def one():
            o = make(float(n))
            r = f(np.arange(3.0), o)
            del o
            if n % 3 == 0:
                gc.collect()
            return r
        yield one
""",
    "default arguments and closures that are changed by an argument's finalizer": """
class Dies:

    def __del__(self):
        f_.__defaults__ = (f_.__defaults__[0] + 1, None)
        log.append('gone')

def f_(x, k=1.0, d=None):
    y = x * k
    d = None
    return (y + k, g(x))

def g(x, k=[1.0]):
    k[0] += 1
    return x * k[0]
f = mark(f_)

def calls():
    for n in range(8):
        yield (lambda: f(np.arange(3.0), d=Dies()) if n % 2 else f(np.arange(3.0)))
""",
    "a deque, an array.array and a memoryview change size in a loop": """
import collections, array

class Grow:

    def __radd__(self, o):
        if len(d) < 12:
            d.append(o)
            a.append(int(o))
        return o + 1
    __array_ufunc__ = None

@mark
def f(g):
    t = 0
    for v in a:
        t = t + v + g
    for v in d:
        t = t + v + g
    return (t, len(a), len(d))

def calls():
    for n in range(4):

        def one():
            global d, a
            d, a = (collections.deque([1, 2, 3]), array.array('q', [1, 2, 3]))
            return f(Grow() if n % 2 else 2)
        yield one
""",
    "a subclass of int, str and float that lies in a loop": """
class I(int):

    def __add__(self, o):
        log.append('add')
        return 100

    def __radd__(self, o):
        log.append('radd')
        return I(int(self) + int(o))

    def __lt__(self, o):
        return True

    def __hash__(self):
        return 5

    def __index__(self):
        return 0

class F(float):

    def __mul__(self, o):
        log.append('mul')
        return -1.0

class S(str):

    def __eq__(self, o):
        log.append('eq')
        return True

    def __hash__(self):
        return hash('a')

@mark
def f(x, items, s):
    t = 0
    for v in items:
        t = t + v
        x = x * v
    return (t, x, {'a': 1}[s], s == 'zz', [1, 2, 3][items[-1]])

def calls():
    for n in range(6):
        yield (lambda: f(np.arange(3.0), [1, I(2), F(3.0), 2, I(1)] if n % 2 else [1, 2, 1], S('b' if n > 2 else 'a') if n % 3 else 'a'))
""",
    "pickles, copies and exec in the middle of a function": """
import copy, pickle

def mid(x):
    global f, k
    k += 1
    log.append(shown(pickle.loads(pickle.dumps(x)) + k))
    g = copy.copy(f)
    if k < 8:
        log.append(shown(g(np.ones(2))))
    exec('k = k + 0.5', globals())
    return x
k = 0

@mark
def f(x):
    y = x * k
    y = mid(y)
    return y + k

def calls():
    for n in range(6):
        yield (lambda: f(np.arange(3.0)))
""",
    "an enumeration, a property and slots that raise in the middle": """
import enum

class E(enum.Enum):
    A = 1
    B = 2

    @classmethod
    def _missing_(cls, v):
        log.append(v)
        return cls.A if v == 3 else None

class S:
    __slots__ = ('a', '__dict__')

    @property
    def p(self):
        log.append('p')
        if len(log) % 4 == 3:
            raise AttributeError('from p')
        return self.a

    def __getattr__(self, name):
        log.append(name)
        self.a = len(log)
        return 6.0

@mark
def f(x, v, s):
    e = E(v)
    return (x * e.value + s.p, s.a, e is E.A)

def calls():
    for n in range(10):
        yield (lambda: f(np.arange(3.0), n % 5, S()))
""",
    "a context manager that swallows and changes arrays": """
class C:

    def __init__(self, x, k):
        self.x, self.k = (x, k)

    def __enter__(self):
        self.x += 1
        return self

    def __exit__(self, *error):
        log.append((error[0] and error[0].__name__, shown(self.x)))
        self.x *= 2
        return self.k % 2 == 0

@mark
def f(x, k):
    y = x * 2
    with C(x, k) as c, C(y, k + 1):
        y = y + 1
        if k > 2:
            raise ValueError(k)
        z = y[k]
    return (x + y, k)

def calls():
    for n in range(8):
        yield (lambda: f(np.arange(3.0), n % 5))
""",
}
