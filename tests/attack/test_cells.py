"""Random programs of Cells: they change themselves, print, raise, ask for gradients and have hooks. Marked in each way they give what the unmarked
Cell gives: bits, dtypes, state, Parameters, output, exceptions with their lines, warnings.

FRAMEJIT_TEST_PROGRAMS=N runs N programs; FRAMEJIT_TEST_SEED=S begins at seed S.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import random
import traceback
import warnings

import framejit as fj
import numpy as np
import pytest
from framejit import Parameter, Tensor, mint, nn, ops

pytestmark = pytest.mark.capture
COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "80"))
FIRST = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))

NUMBERS = """
x = x + {n} | x = {n} - x | x = x * {n} | x = x / {m} | x = x // {m} | x = x % {m} | x = x ** 2 | x = x * {f} + {n} | x = x + {big} | x = x + True | x = (x > {n})
x = ~(x > 0) + x | x = x >= self.w | x = x + np.float32({f}) | x = x + np.arange(3).astype(np.float32) | x = x.astype(fj.{dtype}) | x = x.astype(fj.float32)
"""
MEMORY = """
x += {n} | x *= {n} | x -= self.w | x[{k}] = {n} | x[..., 0] = {n} | y = x[0]; y += {n}; x = x + y | y = x.reshape(-1); y[{k}] = {n}; x = x + y.reshape(x.shape)
y = x.copy(); y[0] += {n}; x = y | x = (x.T @ x).sum() + x | self.buffer[{k}] = x.sum().astype(fj.float32) | x = ops.cat((x, x))[:2] | x = x[:, {k}:] + x[:, :1]
"""
STATE = """
self.count += 1 | self.log.append(x.shape) | self.last = x | self.d['n'] = self.d.get('n', 0) + 1 | self.w += {f} | self.w = self.w * {f} | self.steps += 1
ops.assign(self.w, self.w + x.mean().astype(fj.float32)) | self.inner.w = self.inner.w + 1 | x = x + getattr(self, 'extra', 3); self.extra = {n} | del self.d['n']
x = x + self.count + len(self.log) | self.w.requires_grad = not self.w.requires_grad | self.set_train(not self.training); x = x + int(self.training) | x = self.note(x) + x
"""
FLOW = """
x = x * 2 if x.sum() > {f} else x - 1 | x = x + self.w if (x > {n}).any() else x | x = x + self.count if self.count % 2 else x | x = x + (x if flag else 1) * scale
x = x + kw.get('bias', {n}) | x = x + other if other is not None else x | x = self.list[int((x.sum() > 0).astype(fj.int32)) % 2](x) | x = sum([x, x], {n})
a, *b = (x, x + 1, {n}); x = a + b[-1] | z = [x * i for i in range({k})]; x = x + (z[-1] if z else 0) | self.log.extend([float(row.sum()) for row in x])
"""
CELLS = """
x = self.inner(x, scale={n}) | x = self.shared(x) | x = self.custom(x) | x = self.chain(x.astype(fj.float32)) | x = self.norm(x.astype(fj.float32)) | x = self.drop(x.astype(fj.float32))
x = x + fj.grad(lambda t: (t * t * {f}).sum())(x.astype(fj.float32)) | x = x + fj.grad(fj.grad(lambda t: (t ** 3).sum()))(x.astype(fj.float32)) | x = x + fj.grad(self.custom)(x.astype(fj.float32))
v, g = fj.value_and_grad(self.inner, 0, self.inner.trainable_params())(x.astype(fj.float32)); x = x + g[0]; self.log.append(len(g[1]))
"""
OUTSIDE = """
print('x', x.shape, self.count) | print(x, self.w) | print(f'{{float(x.sum()):.3f}} {{x.dtype}}') | x = Tensor(x.asnumpy() + 1) | x = x.reshape((5, 5, 5)) | x = x.nothing | raise KeyError(self.count)
assert self.count < {k}, 'count' | x = x + ops.zeros((7, 7, 7, 5))
"""
KINDS = [[one.strip() for line in kind.strip().split("\n") for one in line.split(" | ")] for kind in (NUMBERS, MEMORY, STATE, FLOW, CELLS, OUTSIDE)]
HOOKS = [
    *["pass"] * 4,
    "self.inner.register_forward_hook(lambda c, i, o: o + 1)",
    "self.inner.register_forward_pre_hook(lambda c, i: (i[0] * 2, *i[1:]))",
    "self.inner.register_forward_hook(lambda c, i, o: self.log.append(o.shape))",
    "self.custom.register_backward_hook(lambda c, gi, go: (gi[0] * 2,))",
    "self.inner.w.register_hook(lambda g: g * 2)",
]

PROGRAM = """
class Inner(nn.Cell):
    def __init__(self, name):
        super().__init__()
        self.w = Parameter(Tensor(np.float32([0.5, -1.0, 2.0])), name=name)
        self.calls = 0
    def construct(self, x, scale=1):
        self.calls += 1
        return x * self.w * scale
class Custom(nn.Cell):
    def construct(self, x):
        return x * x + 1
    def bprop(self, x, out, dout):
        return (dout * 3 + out,)
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(np.float32([1.0, 2.0, 3.0])), name="w")
        self.steps = Parameter(Tensor(0, fj.int32), name="steps", requires_grad=False)
        self.inner, self.shared, self.custom = Inner("inner"), Inner("shared"), Custom()
        self.shared.w = self.w
        self.list = nn.CellList([Inner("first"), Inner("second")])
        self.chain, self.norm, self.drop = nn.SequentialCell(nn.ReLU(), nn.Tanh()), nn.LayerNorm((3,)), nn.Dropout(p=0.5)
        self.count, self.log, self.d, self.last, self.buffer = 0, [], {}, None, Tensor(np.zeros(4, np.float32))
        HOOK
    def note(self, x):
        self.log.append("note")
        return x.sum()
    MARK
    def construct(self, x, flag=True, *, scale=1, other=None, **kw):
        BODY
        return x
"""


def program(seed):
    """The source of a program, with MARK where the decorator goes."""
    pick = random.Random(seed)
    lines = []
    for _ in range(pick.randint(2, 9)):
        statement = pick.choice(pick.choice(KINDS)).format(
            n=pick.choice(["1", "2", "0.5", "-1", "0", "1.5"]),
            m=pick.choice(["2", "3", "0.7"]),
            f=pick.choice(["0.5", "1.25", "-3.0", "10.0"]),
            k=pick.randint(0, 3),
            big=pick.choice(["300", "1e10", "70000", "2**40"]),
            dtype=pick.choice(["int32", "float16", "float64", "int8", "bool_", "int64", "uint8"]),
        )
        lines += statement.split("; ")
    return PROGRAM.replace("BODY", "\n        ".join(lines)).replace("HOOK", pick.choice(HOOKS))


def plain(value):
    if isinstance(value, Tensor):
        return type(value).__name__, str(value.dtype), value.shape, value.asnumpy().tobytes()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else (type(value).__name__, repr(value))


def outcome(source, name, mode, call_of):
    """Everything that four calls leave behind."""
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    scope = {"fj": fj, "nn": nn, "ops": ops, "mint": mint, "np": np, "Tensor": Tensor, "Parameter": Parameter, "__name__": "program"}
    exec(compile(source, name, "exec"), scope)
    fj.set_seed(5)
    numbers = np.random.default_rng(7)
    found = []
    before = fj.get_context("mode")
    with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        net = scope["Net"]()
        call = call_of(net)
        fj.set_context(mode=mode)
        try:
            for round_, keywords in enumerate(({}, {"scale": 2}, {"other": Tensor(np.float32([1, 2, 3])), "bias": 2.5}, {"scale": 1.5})):
                x = numbers.integers(-3, 9, (2, 3)).astype(np.int32) if round_ == 2 else (numbers.normal(size=(2, 3)) * 3).astype(np.float32)
                args = (Tensor(x), round_ % 2 == 0)
                try:
                    found.append(plain(call(*args, **keywords)))
                except Exception as error:  # noqa: BLE001
                    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
                    found.append((type(error), str(error), lines))
                found.append(plain(args[0]))
        finally:
            fj.set_context(mode=before)
            linecache.cache.pop(name, None)
    state = {key: plain(vars(net).get(key)) for key in ("count", "log", "d", "last", "buffer", "extra", "training")}
    parameters = {p.name: (plain(p), p.requires_grad) for p in net.get_parameters()}
    calls = [cell.calls for _, cell in net.cells_and_names() if hasattr(cell, "calls")]
    told = [(one.category, str(one.message), one.lineno) for one in warned if one.filename == name]
    return {"results": found, "state": state, "parameters": parameters, "calls": calls, "printed": printed.getvalue(), "warnings": told}


WAYS = {
    "ast": ("@fj.jit", fj.PYNATIVE_MODE, lambda net: net),
    "bytecode": ('@fj.jit(capture_mode="bytecode")', fj.PYNATIVE_MODE, lambda net: net),
    "jit": ("", fj.PYNATIVE_MODE, fj.jit),
    "graph mode": ("", fj.GRAPH_MODE, lambda net: net),
}


@pytest.mark.parametrize("block", range(8))
def test_random_programs(block):
    each = max(1, COUNT // 8)
    for seed in range(FIRST + block * each, FIRST + (block + 1) * each):
        source = program(seed)
        expected = outcome(source.replace("MARK", ""), f"<program {seed}>", fj.PYNATIVE_MODE, lambda net: net)
        for way, (mark, mode, call_of) in WAYS.items():
            found = outcome(source.replace("MARK", mark), f"<program {seed}>", mode, call_of)
            assert found == expected, f"seed {seed}, {way}:\n{source}"
