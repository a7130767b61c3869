"""``fullgraph=True`` for each row of MindSpore's page on the syntax of graph mode: one graph with eager's results, or a documented error."""

from __future__ import annotations

import math  # noqa: F401  the rows name it

import numpy as np
import pytest

import framejit as fj
from framejit import Parameter, Tensor, mutable, nn, ops  # noqa: F401  the rows name them

pytestmark = pytest.mark.capture

x = Tensor(np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32))
y = Tensor(np.array([[2.0, 1.0, -3.0], [0.25, 2.0, 5.0]], np.float32))
n = Tensor(np.array([3, 5, 7], np.int32))
flag = Tensor(True)


class Point:
    scale = 2

    def __init__(self, value):
        self.value = value

    def scaled(self, by=1):
        return self.value * self.scale * by


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor(np.ones((2, 3), np.float32)), name="weight")
        self.layers = nn.CellList([nn.ReLU(), nn.Tanh()])
        self.count = 0
        self.names = {"first": 1.0, "second": 2.0}

    def construct(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * self.weight + self.names["second"]


class Sub(Net):
    def construct(self, x):
        return super().construct(x) + 1


net, sub, point = Net(), Sub(), Point(3.0)
images = nn.CellList([nn.Conv2d(1, 1, 3, weight_init="ones"), nn.MaxPool2d(2, 1, pad_mode="same")])

# Expressions of x, y, n, flag: data types, operators, indices, comprehensions, functions of Python.
EXPRESSIONS = """
x + 1; x + 1.5; x + True; x * (2 + 3 * 4); x + len("text"); x * float("1.5"); (x, "text"); f"{x.shape}"; "a" + "b", x; "a{}".format(1), x
[x, y][1] + x; (x, (y, 1))[1][0] + x; {"a": x, "b": y}["b"] * x; {"a": x, "b": {"c": y}}["b"]["c"] + x; [1, 2] + [3], x; (1, 2) * 2, x
[x, 1, "a"]; (x, [y, (1, 2)]); {"a": x, 1: y}; [x, y][::-1]; (x, y)[-1]; [[1, 2], [3, 4]][1][0] * x; x.shape[0] * x; x.dtype, x; x.ndim * x
{"a": x}.get("b", y) + x; list({"a": x, "b": y}.values())[0] + x; list({"a": 1}.keys()), x; "a" in {"a": 1}, x; dict(a=x)["a"] + y
Point(x).scaled(); Point(x).scaled(by=3) + y; point.scaled() * x; point.value * x; Point.scale * x; net(x); sub(x); net.weight * x; net.layers[0](x)
+x; -x; ~flag; ~n; not flag; not (1 > 2), x; x - y; x * y; x / y; x // y; x % y; x ** 2; x @ y.T; n & 1; n | 4; n ^ 2; n << 1; n >> 1; 2 ** 3 * x; 7 // 2 * x; 7 % 3 * x
x == y; x != y; x > y; x >= 1; x < y; x <= 2.5; 1 < 2 < 3, x; x.shape == (2, 3), x; 1 is None, x; x is not None, x; x.shape[0] in (1, 2), x; 4 not in [1, 2], x
True and x; 0 or x; flag and x; x if flag else y; x if x.shape[0] == 2 else y; (x if x.sum() > 0 else y) * 2; (1 if x.ndim == 1 else 2) * x; (lambda a: a * 2)(x)
x[0]; x[-1]; x[0, 1]; x[:, 1]; x[0:1]; x[::2]; x[..., 0]; x[None]; x[:, ::-1]; x[[1, 0]]; x[Tensor([1, 0])]; x[x > 1]; x[1:, :2]; n[n > 3]; x[0][1]
[i * x for i in range(3)]; [i for i in range(5) if i % 2], x; {k: v * x for k, v in {"a": 1, "b": 2}.items()}; tuple([x * i for i in (1, 2)]); sum(x * i for i in range(3)); [a * b for a in (x, y) for b in (1, 2)]
int(2.7) * x; float(2) * x; bool(0), x; str(12), x; tuple([1, 2]), x; list((1, 2)), x; dict([("a", x)]); len([1, 2]) * x; len(x) * x; len(n); isinstance(x, Tensor), x; isinstance(1, (int, str)), x
getattr(point, "value") * x; getattr(point, "missing", 2) * x; hasattr(point, "value"), x; all([1, True]), x; any((0, 0)), x; round(2.567, 1) * x; max(1, 2) * x; max([3, 4]) * x; min(1.5, 2) * x; sum([1, 2, 3]) * x
sum((x, y)); abs(-2) * x; abs(x); list(map(lambda a: a * 2, (x, y))); list(zip((x, y), (1, 2))); [i * a for i, a in enumerate((x, y))]; list(range(1, 7, 2)), x; pow(2, 3) * x; pow(x, 2); list(filter(lambda a: a > 1, [1, 2, 3])), x
type(1), x; type(x), x; list(reversed([1, 2])), x; sorted([3, 1, 2]), x; divmod(7, 2), x; chr(97), x; list(iter([x, y]))[1]; next(iter((x, y))); math.sqrt(4.0) * x; math.pi * x; isinstance(net, nn.Cell), x
ops.add(x, y); ops.relu(x).sum(); x.sum(axis=1).mean(); x.astype(fj.float16); ops.Add()(x, y); mutable([x, y])[0] * 2; Tensor([1, 2]) + n[:2]; x * np.float32(2) + np.int64(1); x.shape; x.size * x; x.reshape(-1); ops.zeros((2, 3)) + x
np.array([1, 2, 3]), x; Tensor(np.ones((2, 3), np.float32)) * x; np.sqrt(4.0) * x
"""

# Bodies of functions: statements.
STATEMENTS = {
    "assign": "a = x * 2\nb, (c, d) = a, (y, 1)\nreturn b + c * d",
    "assign several": "a = b = x * 2\nreturn a + b",
    "starred": "first, *rest = x, y, x\nreturn first + rest[-1]",
    "augmented": "a = x * 1\na += y\na -= 1\na *= 2\na /= 3\na **= 2\nreturn a",
    "assign items of a list": "items = [1, x, 3]\nitems[0] = y\nitems.append(4)\nreturn items[0] + items[1]",
    "assign items of a dict": "items = {'a': x}\nitems['b'] = y\nreturn items['a'] + items['b']",
    "assign items of a Tensor": "a = x * 1\na[0] = y[1]\na[1, 2] = 5\na[:, 0] *= 2\nreturn a",
    "methods of lists": "items = [x]\nitems.extend([y, x])\nitems.insert(0, y)\nitems.pop()\nitems.reverse()\nreturn items",
    "attribute of an object": "p = Point(x)\np.value = y\nreturn p.scaled()",
    "attribute of a cell": "net.count = net.count * 0 + 3\nreturn x * net.count",
    "attribute that is a Parameter": "net.weight = x * 1\nreturn net.weight + 1",
    "annotation": "a: int = 2\nreturn x * a",
    "delete": "a = [x, y]\ndel a[0]\nreturn a[0]",
    "pass": "pass\nreturn x",
    "return nothing": "a = x * 2\nreturn",
    "return a branch": "if x.shape[0] > 1:\n    return x\nreturn y",
    "assert": "assert x.ndim == 2, 'two'\nreturn x * 2",
    "raise": "if x.ndim != 2:\n    raise ValueError('two')\nreturn x * 2",
    "if on a number": "if x.shape[0] == 2:\n    a = x\nelse:\n    a = y\nreturn a * 2",
    "if on a Tensor": "if x.sum() > 100:\n    a = x * 2\nelif y.sum() > 0:\n    a = y * 3\nelse:\n    a = x\nreturn a",
    "if on a Tensor, with returns": "if x.sum() > 100:\n    return x * 2\nreturn x - y",
    "if with both": "if flag and x.sum() < 100 or y.sum() > 0:\n    return x * 2\nreturn x - y",
    "nested if": "a = x\nif x.sum() > 0:\n    if y.sum() > 100:\n        a = y\n    else:\n        a = a + 1\nreturn a",
    "layers on sides": "a = x.reshape((1, 1, 2, 3))\nif x.sum() > 100:\n    a = images[0](a)\nelif y.sum() > 0:\n    a = images[1](images[0](a))\nelse:\n    a = a * 2\nreturn a",
    "layers in a loop": "a = x.reshape((1, 1, 2, 3))\nfor _ in range(2):\n    if a.sum() < 2:\n        continue\n    else:\n        a = images[0](a)\nreturn a",
    "for over a range": "a = x * 0\nfor i in range(3):\n    a = a + i * y\nreturn a",
    "for over a tuple": "a = x * 0\nfor t in (x, y):\n    a = a + t\nreturn a",
    "for over a dict": "a = x * 0\nfor k in {'a': 1, 'b': 2}:\n    a = a + len(k)\nreturn a",
    "for over a Tensor": "a = y[0]\nfor row in x:\n    a = a + row\nreturn a",
    "for over zip and enumerate": "a = x * 0\nfor i, (s, t) in enumerate(zip((x, y), (1, 2))):\n    a = a + s * t * i\nreturn a",
    "break and continue": "a = x * 0\nfor i in range(10):\n    if i == 1:\n        continue\n    if i == 4:\n        break\n    a = a + i\nreturn a",
    "for and else": "a = x\nfor i in range(2):\n    a = a + i\nelse:\n    a = a * 2\nreturn a",
    "while on a number": "i = 0\na = x\nwhile i < 3:\n    a = a + y\n    i += 1\nreturn a",
    "while on a Tensor": "i = Tensor(0)\na = x\nwhile i < 3:\n    a = a + y\n    i = i + 1\nreturn a",
    "while on a Tensor, with break": "i = Tensor(0)\na = x\nwhile i < 10:\n    a = a + y\n    i = i + 1\n    if a.sum() > 20:\n        break\nreturn a",
    "if within for": "a = x\nfor i in range(3):\n    if a.sum() > 8:\n        a = a - y\n    else:\n        a = a + y\nreturn a",
    "function": "def f(a, b=2, *rest, c=1, **named):\n    return a * b + c + sum(rest) + len(named)\nreturn f(x, 3, 1, 2, c=5, d=7)",
    "closure": "scale = 3\ndef f(a):\n    return a * scale\nreturn f(x)",
    "nonlocal": "count = 1\ndef f(a):\n    nonlocal count\n    count = count + 1\n    return a * count\nreturn f(x) + f(y)",
    "recursion": "def f(a, k):\n    return a if k == 0 else f(a + 1, k - 1)\nreturn f(x, 3)",
    "lambda": "f = lambda a, b=2: a * b\nreturn f(x) + f(y, b=3)",
    "partial": "import functools\nreturn functools.partial(ops.add, x)(y)",
    "with": "import contextlib\nwith contextlib.nullcontext(y) as other:\n    a = x + other\nreturn a",
    "try without an exception": "try:\n    a = x * 2\nfinally:\n    b = y\nreturn a + b",
    "try with an exception": "try:\n    raise ValueError('a')\nexcept ValueError:\n    a = x * 3\nreturn a",
    "named expression": "if (k := x.shape[0]) > 1:\n    return x * k\nreturn y",
    "match": "match x.shape[0]:\n    case 2:\n        return x * 2\n    case _:\n        return y",
    "generator": "def f():\n    yield x\n    yield y\nreturn sum(f())",
    "grad": "return ops.grad(lambda a: (a * a * y).sum())(x)",
    "value_and_grad": "return fj.value_and_grad(lambda a: (a * a).sum())(x)",
    "vmap": "return ops.vmap(lambda a: a * 2 + 1)(x)",
    "HyperMap": "return ops.HyperMap(lambda a: a * 2)((x, [y]))",
    "walk": "total = x.sum() * 0\nfor value in net.names.values():\n    total = total + value\nreturn total",
    "an index that is True": "a = x * 1\na[True] = y\nb = x * 1\nb[True] = 3\nreturn x[True], a, b",
    "print": "print('x', x, f'{y} of {x.shape}')\nreturn x * 2",
    "strings from a Tensor": "return str(x), f'{x * 2!r}'",
    "a function that a Tensor chooses": "return (ops.relu, ops.tanh, ops.exp)[y.argmax() % 3](x)",
    "in place": "a = x * 1\nops.assign_add(a, y)\na.add_(1)\nreturn a",
}

# What no graph can hold: the number of the reason. The rows run without `fullgraph`.
BREAKS = {
    "an index that is False": ("return x[False]", "FJ003"),
    "a new Parameter": ("return Parameter(x, name='p') * 2", "FJ002"),
    "a new cell": ("return nn.ReLU()(x)", "FJ0"),
    "print to a file": ("import sys\nprint(x.shape, file=sys.stdout)\nreturn x * 2", "FJ010"),
    "numbers from a Tensor": ("return x * x.sum().asnumpy()", "FJ003"),
    "a class": ("class Local:\n    scale = 2\nreturn x * Local.scale", "FJ0"),
    "globals": ("global counter\ncounter = len(str(id(x)))\nreturn x * 2", "FJ0"),
    "a file": ("with open('/dev/null') as file:\n    text = file.read()\nreturn x * len(text)", "FJ0"),
}


def function(body):
    scope = {**globals()}
    exec("def f(x, y, n, flag):\n" + "\n".join("    " + line for line in body.split("\n")), scope)
    return scope["f"]


def leaves(out):
    if isinstance(out, dict):
        return [leaf for key, one in out.items() for leaf in (key, *leaves(one))]
    return [leaf for one in out for leaf in leaves(one)] if isinstance(out, (tuple, list)) else [out]


def assert_alike(found, expected):
    assert type(found) is type(expected) or isinstance(found, Tensor) and isinstance(expected, Tensor)
    found, expected = leaves(found), leaves(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        if isinstance(other, (Tensor, np.ndarray)):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        else:
            assert type(one) is type(other) and one == other


ROWS = {text.strip(): "return " + text.strip() for line in EXPRESSIONS.strip().split("\n") for text in line.split("; ")}


@pytest.mark.parametrize("row", [*ROWS, *STATEMENTS])
def test_captured(row):
    f = function(ROWS.get(row) or STATEMENTS[row])
    expected = f(x, y, n, flag)
    marked = fj.jit(f, fullgraph=True)
    for _ in range(2):
        assert_alike(marked(x, y, n, flag), expected)


@pytest.mark.parametrize("row", BREAKS)
def test_not_captured(row):
    body, reason = BREAKS[row]
    f = function(body)
    expected = f(x, y, n, flag)
    with pytest.raises(fj.GraphBreakError, match=reason):
        fj.jit(f, fullgraph=True)(x, y, n, flag)
    assert_alike(fj.jit(f)(x, y, n, flag), expected)
