"""Programs whose callbacks come back into marked functions, or change what these work on while they are captured or run.

Each defines `calls()`, which yields calls one by one, and `log`, which its callbacks write; `mark` marks a function or leaves it.
"""

from __future__ import annotations

PROGRAMS: dict[str, str] = {
    "an __array_finalize__ that calls the function again": """
class Sub(np.ndarray):

    def __array_finalize__(self, of):
        global depth, scale
        if depth < 2:
            depth += 1
            scale += 1
            log.append(shown(f(np.arange(3.0))))
            depth -= 1
depth, scale = (0, 1)

@mark
def f(x):
    y = x * scale
    z = y[1:] + scale
    return (z, scale)

def calls():
    for k in range(6):
        yield (lambda: f(np.arange(4.0).view(Sub) if k % 2 else np.arange(4.0)))
""",
    "a key whose __eq__ changes the dict and the globals": """
class Key:

    def __init__(self, n):
        self.n = n

    def __repr__(self):
        return f'Key({self.n})'

    def __hash__(self):
        return 7

    def __eq__(self, other):
        global scale
        scale += 1
        log.append(('eq', self.n, getattr(other, 'n', other), len(d)))
        if scale % 3 == 0:
            d[scale] = scale
        return isinstance(other, Key) and self.n == other.n
scale, d = (1, {})
d[Key(0)] = 10.0
d[Key(1)] = 20.0

@mark
def f(x, k):
    y = x * scale
    v = d[k]
    return (y * v + scale, len(d))

def calls():
    for n in (0, 1, 1, 0, 2, 1):
        yield (lambda: f(np.arange(3.0), Key(n)))
""",
    "a module whose __getattr__ counts": """
import types
mod = types.ModuleType('mod')

def get(name):
    log.append(name)
    if name == 'gone':
        raise AttributeError(name)
    if len(log) % 4 == 0:
        mod.kept = len(log)
    return float(len(log))
mod.__getattr__ = get

@mark
def f(x):
    return (x * mod.value + mod.kept, hasattr(mod, 'gone'))

def calls():
    for _ in range(8):
        yield (lambda: f(np.arange(3.0)))
""",
    "a metaclass whose __instancecheck__ calls the function": """
class Meta(type):

    def __instancecheck__(cls, o):
        global scale
        scale += 1
        if scale % 2:
            items.append(scale)
        if len(log) < 10:
            log.append(scale)
            log.append(shown(f(np.ones(2), None)))
        return scale % 3 == 0

class A(metaclass=Meta):
    pass
scale, items = (0, [])

@mark
def f(x, o):
    n = len(items)
    y = x + scale + n
    if o is not None and isinstance(o, A):
        y = y * 2
    return (y + scale, len(items))

def calls():
    for k in range(8):
        yield (lambda: f(np.ones(3), k if k % 2 else 's'))
""",
    "a weak reference's callback empties the list of a loop": """
import weakref

class Node:
    pass

@mark
def f(items, x):
    total = 0.0
    for i in range(len(items)):
        node = items[i]
        total += node.v
        items[i] = None
        node = None
        total += len(items)
    return (total, x * total)

def make(at):
    items = [Node() for _ in range(20)]
    for i, n in enumerate(items):
        n.v = float(i)
    refs.append(weakref.ref(items[at], lambda r: (log.append('gone'), items.__delitem__(slice(at + 1, None)))))
    del n
    return items
refs = []

def calls():
    for at in (19, 3, 0, 10):
        yield (lambda: f(make(at), np.arange(3.0)))
""",
    "a finalizer in a loop calls the function": """
class Node:

    def __init__(self, v):
        self.v = v

    def __del__(self):
        global total_of_ends
        total_of_ends += self.v
        if self.v > 5:
            log.append(shown(f([Node(1.0), Node(2.0)])))
total_of_ends = 0.0

@mark
def f(items):
    t = 0.0
    while items:
        n = items.pop()
        t = t * 1.5 + n.v + total_of_ends
        n = None
    return (t, total_of_ends)

def calls():
    for _ in range(4):
        yield (lambda: f([Node(float(i)) for i in range(10)]))
""",
    "a collection's callback calls the function and replaces what it refers to": """
import gc

def by_gc(phase, info):
    global scale
    if phase == 'stop' and armed:
        scale += 1
        f.__defaults__ = (float(scale),)
        log.append(shown(f(np.ones(2))))
armed, scale = (False, 0)
gc.callbacks.append(by_gc)

@mark
def f(x, k=1.0):
    y = x * k
    collect(y)
    return (y + k, scale)

def collect(y):
    global armed
    armed = not armed
    gc.collect()
    armed = False

def calls():
    gc.disable()
    for _ in range(6):
        yield (lambda: f(np.ones(3)))
""",
    "an index that resizes and reshapes what it indexes": """
class I:

    def __init__(self, x, how):
        self.x, self.how = (x, how)

    def __index__(self):
        x = self.x
        log.append(self.how)
        if self.how == 'shape':
            x.shape = (2, 3)
        elif self.how == 'dtype':
            x.dtype = np.int64
        elif self.how == 'flags':
            x.flags.writeable = False
        elif self.how == 'resize':
            x.resize((2,), refcheck=False)
        elif self.how == 'fill':
            x.fill(7)
        return 1

@mark
def f(x, i):
    y = x * 2
    s = x[i]
    x[0] = 5
    return (y, s + 1, x * 3, x.shape)

def calls():
    for _ in range(3):
        for how in ('shape', 'dtype', 'flags', 'resize', 'fill', 'none'):

            def one():
                x = np.arange(6.0)
                return f(x, I(x, how))
            yield one
""",
    "an operator that changes the class of an object": """
class A:
    k = 2.0

    def m(self, x):
        return x * self.k

class B:
    k = 3.0

    def m(self, x):
        return x + self.k

    @property
    def v(self):
        return 9.0

class Change:

    def __radd__(self, other):
        o.__class__ = B if type(o) is A else A
        o.v_ = 1
        return other
    __array_ufunc__ = None
o = A()
o.v = 4.0

@mark
def f(x, c):
    y = o.m(x)
    v = o.v
    y = y + c
    return (o.m(y), o.k, o.v, v)

def calls():
    for k in range(8):
        yield (lambda: f(np.arange(3.0), Change() if k % 3 else 1.0))
""",
    "a callee that reads and writes its caller's variables": """
import sys, ctypes

def peek(name):
    frame = sys._getframe(1)
    log.append((name, shown(frame.f_locals.get(name)), sorted(frame.f_locals), frame.f_lineno - frame.f_code.co_firstlineno))

def poke(name, value):
    frame = sys._getframe(1)
    frame.f_locals[name] = value
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), 0)

@mark
def f(x):
    y = x * 2
    z = y + 1
    peek('y')
    poke('z', x - 100)
    w = z * 2
    peek('w')
    return (w, y)

def calls():
    for _ in range(4):
        yield (lambda: f(np.arange(3.0)))
""",
    "a callee replaces a function of NumPy and a builtin": """
import builtins

def swap(k):
    global saved
    if k == 1:
        np.sqrt = lambda x: x * 10
    elif k == 2:
        builtins.len = lambda x: 77
    elif k == 3:
        g.__code__ = h.__code__
    elif k == 4:
        cell.cell_contents = 50.0
    elif k == 5:
        del globals()['scale']

def restore():
    np.sqrt, builtins.len = (sqrt, length)
    g.__code__ = code
    cell.cell_contents = 2.0
    globals()['scale'] = 3.0

def make():
    inside = 2.0

    def f(x, k):
        y = np.sqrt(x) + len(x) + g(x) + inside + scale
        swap(k)
        return (y, np.sqrt(x) + len(x) + g(x) + inside, scale)
    return f

def g(x):
    return x * 2

def h(x):
    return x * 5
sqrt, length, code, scale = (np.sqrt, builtins.len, g.__code__, 3.0)
plain = make()
cell = plain.__closure__[0]
f = mark(plain)

def calls():
    for k in (0, 0, 1, 0, 2, 0, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0):

        def one():
            try:
                return f(np.arange(1.0, 4.0), k)
            finally:
                restore()
        yield one
""",
    "a generator that is closed, thrown into and dropped in the middle": """
@mark
def gen(x):
    y = x * 2
    try:
        for i in range(5):
            try:
                got = (yield (y + i))
                y = y + (got or 0)
            except ValueError as e:
                log.append(repr(e))
                y = y * 10
                yield y
    except GeneratorExit:
        log.append(('exit', shown(y)))
        raise
    finally:
        log.append(('finally', shown(y * 3)))
        y = None

def calls():

    def closed(n):
        g = gen(np.arange(3.0))
        out = [next(g) for _ in range(n)]
        g.close()
        return out

    def thrown(n):
        g = gen(np.arange(3.0))
        out = [next(g) for _ in range(n)]
        out.append(g.throw(ValueError(n)))
        out.append(g.send(2.0))
        del g
        return out

    def other():
        g = gen(np.arange(3.0))
        next(g)
        return g.throw(KeyError('k'))
    for _ in range(3):
        for n in (1, 3, 5):
            yield (lambda: closed(n))
            yield (lambda: thrown(n))
        yield other
""",
    "a generator that runs while it is asked": """
class Again:

    def __radd__(self, other):
        try:
            next(g)
        except ValueError as e:
            log.append(repr(e))
        return other * 2
    __array_ufunc__ = None

@mark
def gen(x, a):
    for i in range(4):
        x = x + a
        yield (x + i)

def calls():

    def one():
        global g
        g = gen(np.arange(3.0), Again())
        return list(g)
    for _ in range(3):
        yield one
""",
    "error callbacks of NumPy that call the function and write": """
def by_error(kind, flag):
    global count
    count += 1
    log.append((kind, flag, shown(shared)))
    shared[0] += 1
    if count % 2:
        log.append(shown(f(np.ones(3))))
count, shared = (0, np.zeros(2))
np.seterrcall(by_error)

@mark
def f(x):
    y = x / (x - 1)
    z = y + shared[0]
    return (z, np.log(x - 2) * shared[0])

def calls():
    for k in range(5):

        def one():
            with np.errstate(all='call'):
                return f(np.arange(4.0) + k % 2)
        yield one
""",
    "a warning's hook that calls the function and raises": """
import warnings

def show(message, category, filename, lineno, file=None, line=None):
    global n
    n += 1
    log.append((str(message), lineno))
    if n < 6:
        log.append(shown(f(np.ones(3) * n)))
    if n % 4 == 0:
        raise KeyError('hook')
n = 0
warnings.simplefilter('always')
warnings.showwarning = show

@mark
def f(x):
    y = x / (x - 1)
    z = np.sqrt(x - 3)
    return y + z + n

def calls():
    for k in range(6):
        yield (lambda: f(np.arange(4.0)))
""",
    "an iterator whose class changes while it is looped over": """
class It:

    def __init__(self):
        self.n = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        if self.n == 3:
            It.__next__ = other
        if self.n > 8:
            raise StopIteration
        return float(self.n)

def other(self):
    self.n += 2
    if self.n > 8:
        raise StopIteration
    return -float(self.n)
first = It.__next__

@mark
def f(x, it):
    for v in it:
        x = x * 0.5 + v
    return (x, it.n)

def calls():
    for _ in range(4):

        def one():
            It.__next__ = first
            return f(np.arange(3.0), It())
        yield one
""",
    "a descriptor that deletes what it describes": """
class D:

    def __get__(self, o, t):
        log.append('get')
        if 'k' not in vars(o):
            return 5.0
        del o.__dict__['k']
        if len(log) % 3 == 0:
            del A.d
        return 4.0

class A:
    pass

@mark
def f(x, o):
    return (x * o.d, hasattr(o, 'k'), x + o.d)

def calls():
    for k in range(8):

        def one():
            A.d = D()
            o = A()
            if k % 2:
                o.k = 1
            return f(np.arange(3.0), o)
        yield one
""",
    "exceptions keep their contexts": """
import sys

@mark
def inner(x, k):
    y = x * 2
    try:
        return y[k] + 1
    finally:
        log.append(repr(sys.exc_info()[1]))

@mark
def f(x, k):
    try:
        return inner(x, k)
    except IndexError as e:
        y = x + 1
        try:
            return y[k + 1]
        except IndexError as e2:
            log.append((e2.__context__ is e, e2.__cause__, e2.__traceback__.tb_lineno - f_line))
            raise KeyError(k) from e
f_line = 0

def chain(e):
    out = []
    while e is not None:
        out.append((type(e).__name__, str(e), [t[2] for t in __import__('traceback').extract_tb(e.__traceback__)]))
        e = e.__context__
    return out

def calls():
    for k in (1, 9, 2, 10, 9, 9):

        def one():
            try:
                return f(np.arange(3.0), k)
            except KeyError as e:
                return chain(e)
        yield one
""",
    "a coroutine that is cancelled": """
import asyncio

@mark
async def f(x, n):
    y = x * 2
    try:
        for i in range(n):
            y = y + i
            await asyncio.sleep(0)
        return y
    except asyncio.CancelledError:
        log.append(shown(y))
        y = y * 100
        raise
    finally:
        log.append(('end', shown(y + 1)))

async def main(n, after):
    task = asyncio.ensure_future(f(np.arange(3.0), n))
    for _ in range(after):
        await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return 'cancelled'

def calls():
    for _ in range(3):
        for n, after in ((5, 2), (5, 4), (2, 9)):
            yield (lambda: asyncio.run(main(n, after)))
""",
    "__getattribute__ that replaces itself": """
class A:
    k = 1.0

    def __getattribute__(self, name):
        log.append(name)
        if len(log) == 4:
            del A.__getattribute__
        return 10.0

@mark
def f(x, o):
    return x * o.k + o.other if hasattr(o, 'other') else x - o.k

def calls():
    o = A()
    for _ in range(8):
        yield (lambda: f(np.arange(3.0), o))
""",
    "a sort key and a comparison that empty the list": """
class V:

    def __init__(self, v):
        self.v = v

    def __lt__(self, o):
        log.append((self.v, o.v))
        items.clear() if len(log) % 5 == 4 else None
        return self.v < o.v

@mark
def f(items, x):
    y = x * len(items)
    items.sort()
    return (y + len(items), [i.v for i in items])

def calls():

    def one():
        global items
        items = [V(3), V(1), V(2), V(0)]
        return f(items, np.arange(3.0))
    for _ in range(5):
        yield one
""",
    "a set that changes while it is looped over": """
class H:

    def __init__(self, v):
        self.v = v

    def __hash__(self):
        return 3

    def __eq__(self, o):
        if len(log) < 30:
            log.append((self.v, o.v))
        if len(log) == 7:
            s.add(H(99))
        return self.v == o.v

@mark
def f(x):
    total = 0.0
    for h in s:
        total += h.v
        if H(1) in s:
            total += 1
    return (x * total, len(s))

def calls():

    def one():
        global s
        s = set()
        for v in range(4):
            s.add(H(v))
        return f(np.arange(3.0))
    for _ in range(5):
        yield one
""",
    "the recursion limit is lowered under the function": """
import sys

@mark
def f(x, n):
    if n == 0:
        return x
    y = x + n
    low(n)
    return f(y, n - 1) * 2

def low(n):
    if n == 5:
        depth = 0
        fr = sys._getframe()
        while fr:
            depth += 1
            fr = fr.f_back
        try:
            sys.setrecursionlimit(depth + 8)
        except RecursionError as e:
            log.append('low')

def calls():
    for n in (3, 20, 20, 3, 20):

        def one():
            try:
                return f(np.arange(3.0), n)
            except RecursionError as e:
                return 'RecursionError'
            finally:
                sys.setrecursionlimit(1000)
        yield one
""",
    "an array whose base is freed by a callback": """
class Drop:

    def __index__(self):
        holder.clear()
        log.append('drop')
        return 0

@mark
def f(holder, i):
    v = holder[0][2:]
    y = v * 2
    k = range(5)[i]
    return (v + k, y, len(holder))

def calls():
    global holder
    for _ in range(5):

        def one():
            global holder
            holder = [np.arange(100000.0)]
            a, b, n = f(holder, Drop())
            return (a[:3], b[-3:], n)
        yield one
""",
    "context variables and generators": """
import contextvars
var = contextvars.ContextVar('var', default=1.0)

@mark
def f(x):
    y = x * var.get()
    token = var.set(var.get() + 1)
    z = y + var.get()
    if z[0] > 5:
        var.reset(token)
    return (y, z, var.get())

def calls():
    for k in range(6):
        yield (lambda: contextvars.copy_context().run(f, np.arange(3.0) + k))
        yield (lambda: f(np.arange(3.0)))
""",
    "an in-place operator that gives something else": """
class R:

    def __init__(self, n):
        self.n = n

    def __iadd__(self, o):
        items.append(self.n)
        return np.asarray(o) * self.n if self.n % 2 else self

    def __getitem__(self, i):
        log.append(i)
        return self

    def __setitem__(self, i, v):
        log.append((i, shown(v) if isinstance(v, np.ndarray) else 'R'))
items = []

@mark
def f(x, r):
    r += x
    y = x * 2
    q = R(3)
    q[len(items)] += y
    return (r if isinstance(r, np.ndarray) else r.n, len(items), y)

def calls():
    for k in range(6):
        yield (lambda: f(np.arange(3.0), R(k)))
""",
}
