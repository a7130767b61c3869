"""What test_sizes.py runs in processes of their own: functions with sizes near and beyond 64 bits.

A case is a function, arguments for which it is compiled, and arguments for which plain NumPy ends at once, with an error or a view.
"""

from __future__ import annotations

import faulthandler
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

import framejit as fj
import numpy as np
from framejit import ops

BIG = 2**62
MEMORY = 3 << 30  # bytes that a case may have
SECONDS = 5


def like(*shape: int, dtype: Any = "f8") -> np.ndarray:
    """An array of any shape over one element."""
    return np.broadcast_to(np.ones((), dtype), shape)


def filled(a: np.ndarray) -> np.ndarray:
    a[...] = 2.0
    return a


def added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a += b
    return a


X = np.arange(16.0)

# By name: the function, two sets of small arguments, sets of large ones.
CASES: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {
    # Sizes from ints.
    "zeros": (lambda n: np.zeros(n), [(3,), (4,)], [(BIG,), (2**61,), (2**61 + 4,), (2**63 - 1,), (2**64,), (-1,)]),
    "two results": (lambda x, n: (filled(np.empty(n)), x + 1), [(X, 3), (X, 4)], [(X, 2**61 + 4), (X, BIG)]),
    "ones": (lambda n: np.ones((n, 2)), [(3,), (4,)], [(BIG,), (2**60,), (2**59,)]),
    "full": (lambda n: np.full((2, n), 1.5), [(3,), (4,)], [(BIG,), (2**60 + 1,)]),
    "square": (lambda n: np.zeros((n, n)), [(3,), (4,)], [(2**32,), (2**31,), (3037000500,)]),
    "cube of bytes": (lambda n: np.ones((n, n, n), "i1"), [(3,), (4,)], [(2**22,), (2**21,), (2**32,)]),
    "product of ints": (lambda n, m: np.zeros(n * m), [(3, 2), (4, 3)], [(2**31, 2**31), (2**32, 2**32), (2**33, 2**31)]),
    "sum of ints": (lambda n, m: np.zeros(n + m), [(3, 2), (4, 3)], [(BIG, BIG), (2**63 - 1, 1), (2**61, 2**61)]),
    "empty with a huge axis": (lambda n: np.zeros((0, n)).sum(), [(3,), (4,)], [(BIG,), (2**60,), (2**63 - 1,)]),
    "empty that casts": (lambda n: np.zeros((n, 0), "i1").astype("c16"), [(3,), (4,)], [(2**59,), (2**58,), (BIG,)]),
    "zeros_like": (lambda x, n: np.zeros_like(x, shape=(n, 2)), [(X, 3), (X, 4)], [(X, BIG), (X, 2**60)]),
    "fused sum": (lambda n: (np.zeros((n, n)) + 1.0).sum(), [(3,), (4,)], [(2**32,), (2**24,)]),
    "arange": (lambda n: np.arange(n), [(3,), (4,)], [(BIG,), (2**60,), (2**63 - 1,)]),
    "arange to": (lambda a, b: np.arange(a, b), [(3, 9), (4, 7)], [(-BIG, BIG), (-(2**63), 2**63 - 1), (2**63 - 4, 2**63 - 1)]),
    "arange by": (lambda n: np.arange(5, 15, n), [(3,), (2,)], [(2**63 - 1,), (-(2**63),), (BIG,)]),
    "arange down": (lambda n: np.arange(15, 5, -n), [(3,), (2,)], [(2**63 - 1,), (2**63,)]),
    "linspace": (lambda n: np.linspace(0.0, 1.0, n), [(3,), (4,)], [(BIG,), (2**60,)]),
    "eye": (lambda n: np.eye(n), [(3,), (4,)], [(2**32,), (2**31,)]),
    "repeat": (lambda x, n: np.repeat(x, n), [(X, 3), (X, 4)], [(X, 2**57), (X, 2**50)]),  # NumPy's own product of more than 2**63 wraps
    "tile": (lambda x, n: np.tile(x, n), [(X, 3), (X, 4)], [(X, 2**60), (X, BIG), (X, 2**58)]),
    "tile twice": (lambda x, n: np.tile(x, (n, n)), [(X, 3), (X, 4)], [(X, 2**32), (X, 2**30)]),
    "pad": (lambda x, n: np.pad(x, n), [(X, 3), (X, 4)], [(X, BIG), (X, 2**60), (X, 2**63 - 1)]),
    "roll": (lambda x, n: np.roll(x, n), [(X, 3), (X, 4)], [(X, 2**63 - 1), (X, -(2**63)), (X, 2**64)]),
    "reshape": (lambda x, n: x.reshape(n, 4), [(X, 4)], [(X, BIG + 4), (X, 2**63 - 1), (X, -(2**63))]),
    "reshape in three": (lambda x, n, m: x.reshape(n, m, 2), [(X, 4, 2), (X, 2, 4)], [(X, 2**32, 2**31), (X, 2**61 + 1, 8)]),
    "reshape by -1": (lambda x, n: x.reshape(n, -1), [(X, 4), (X, 2)], [(X, BIG), (X, 2**63 - 1)]),
    "broadcast_to": (lambda x, n: np.broadcast_to(x, (n, 16)), [(X, 3), (X, 4)], [(X, 2**59), (X, 2**55), (X, BIG), (X, 2**63 - 1)]),
    "use of broadcast_to": (lambda x, n: np.broadcast_to(x, (n, 16)) + 1, [(X, 3), (X, 4)], [(X, 2**56), (X, 2**55), (X, BIG)]),
    "as_strided": (
        lambda x, n: np.lib.stride_tricks.as_strided(x, (n,), (0,)),
        [(X, 3), (X, 4)],
        [(X, BIG), (X, 2**60 - 1), (X, 2**63 - 1)],
    ),
    "slices": (lambda x, n: (x[:n], x[n:], x[::n], x[-n:]), [(X, 3), (X, 4)], [(X, 2**63 - 1), (X, BIG), (X, -(2**63) + 1), (X, 2**64)]),
    "slices backwards": (lambda x, n: (x[n::-1], x[::-n]), [(X, 3), (X, 4)], [(X, 2**63 - 1), (X, 2**63), (X, BIG)]),
    "item": (lambda x, n: x[n], [(X, 3), (X, 4)], [(X, BIG), (X, 2**63 - 1), (X, -(2**63))]),
    "diagonal": (lambda x, n: x.reshape(4, 4).diagonal(n), [(X, 1), (X, 2)], [(X, 2**63 - 1), (X, -(2**63))]),
    "tri": (lambda n: np.tri(n), [(3,), (4,)], [(2**32,), (2**31,)]),
    # Sizes from shapes.
    "outer sum": (lambda a, b: a + b, [(X.reshape(16, 1), X.reshape(1, 16)), (X.reshape(16, 1), X[None, :4])], [(like(2**59, 1), like(1, 32)), (like(2**59, 1), like(1, 16)), (like(2**40, 1), like(1, 2**10))]),
    "with itself": (lambda a: a[None, :] + a[:, None], [(X,), (X[:4],)], [(like(2**32),), (like(2**31),), (like(2**28),)]),
    "with itself, summed": (lambda a: (a[None, :] + a[:, None]).sum(), [(X,), (X[:4],)], [(like(2**32),), (like(2**31),), (like(2**28),)]),
    "bytes with themselves": (lambda a: (a[None, :] + a[:, None]).max(), [(X.astype("i1"),), (X[:4].astype("i1"),)], [(like(2**32, dtype="i1"),), (like(2**31, dtype="i1"),)]),
    "add.outer": (lambda a: np.add.outer(a, a), [(X,), (X[:4],)], [(like(2**32),), (like(2**31),)]),
    "multiply.outer": (lambda a: np.multiply.outer(a, a), [(X,), (X[:4],)], [(like(2**32),), (like(2**31),)]),
    "np.outer": (lambda a: np.outer(a, a), [(X,), (X[:4],)], [(like(2**32),)]),
    "kron": (lambda a, b: np.kron(a, b), [(X, X), (X[:4], X)], [(like(2**32), X), (like(2**58), X), (like(2**40), like(2**20))]),
    "astype": (lambda a: a.astype("f8"), [(X.astype("i1"),), (X[:4].astype("i1"),)], [(like(BIG, dtype="i1"),), (like(2**60, dtype="i1"),), (like(2**50, dtype="i1"),)]),
    "wider": (lambda a: a + 1.5, [(X.astype("i1"),), (X[:4].astype("i1"),)], [(like(BIG, dtype="i1"),), (like(2**60, dtype="i1"),)]),
    "complex": (lambda a: a * 1j, [(X,), (X[:4],)], [(like(2**59),), (like(2**60 - 1),), (like(2**50),)]),
    "roots": (lambda a: np.sqrt(np.abs(a)) - a, [(X,), (X[:4],)], [(like(2**59),), (like(2**60 - 1),)]),
    "compared": (lambda a: np.where(a > 0, a, 2.0), [(X,), (X[:4],)], [(like(2**59),), (like(2**50),)]),
    "diff": (lambda a: np.diff(a), [(X,), (X[:4],)], [(like(2**60 - 1),), (like(2**50),)]),
    "diff of bools": (lambda a: np.diff(a), [(X > 3,), (X[:4] > 3,)], [(like(BIG, dtype="?"),)]),
    "cumsum": (lambda a: np.cumsum(a), [(X,), (X[:4],)], [(like(2**60 - 1),), (like(2**50),)]),
    "cumsum of bytes": (lambda a: np.cumsum(a), [(X.astype("i1"),), (X[:4].astype("i1"),)], [(like(BIG, dtype="i1"),), (like(2**50, dtype="i1"),)]),
    "concatenate": (lambda a, b: np.concatenate((a, b)), [(X, X), (X[:4], X)], [(like(2**59), like(2**59)), (like(2**60 - 1), like(2**60 - 1)), (X, like(2**60 - 1))]),
    "concatenate bytes": (lambda a: np.concatenate((a, a, a)), [(X.astype("i1"),), (X[:4].astype("i1"),)], [(like(BIG, dtype="i1"),)]),
    "stack": (lambda a: np.stack((a, a)), [(X,), (X[:4],)], [(like(2**59),), (like(2**60 - 1),)]),
    "vstack": (lambda a: np.vstack((a, a, a)), [(X,), (X[:4],)], [(like(2**59),), (like(2**60 - 1),)]),
    "repeat by axis": (lambda a: np.repeat(a, 8, axis=0), [(X,), (X[:4],)], [(like(2**59),), (like(2**50),)]),
    "tile of many": (lambda a: np.tile(a, 16), [(X,), (X[:4],)], [(like(2**59),), (like(2**50),)]),
    "pad of many": (lambda a: np.pad(a, 4), [(X,), (X[:4],)], [(like(2**60 - 1),), (like(2**50),)]),
    "copies": (lambda a: (a.copy(), a.ravel()), [(X,), (X[:4],)], [(like(2**60 - 1),), (like(2**50),)]),
    "transposed copy": (lambda a: a.T.reshape(-1), [(X.reshape(4, 4),), (X.reshape(2, 8),)], [(np.broadcast_to(X[:2, None], (2, 2**58)),)]),
    "views": (lambda a: (a[::2], a[None], a[:, None], a.T, a[1:], a.reshape(2, -1)), [(X,), (X[:4],)], [(like(BIG, dtype="i1"),), (like(2**59),)]),
    "expand_dims": (lambda a: np.expand_dims(a, 0), [(X,), (X[:4],)], [(like(BIG, dtype="i1"),), (like(2**59),)]),
    "meshgrid": (lambda a: np.meshgrid(a, a)[0].shape, [(X,), (X[:4],)], [(like(2**32),)]),
    "shape of a view": (lambda a: a[:, None].shape, [(X,), (X[:4],)], [(like(BIG, dtype="i1"),)]),
    "size and bytes": (lambda a: (a.size, a.nbytes), [(X,), (X[:4],)], [(like(BIG, dtype="i1"),), (like(2**60 - 1),)]),
    "size and one": (lambda a: np.zeros(a.size + 1), [(X,), (X[:4],)], [(like(2**63 - 1, dtype="i1"),), (like(2**60 - 1),)]),
    "zeros of its shape": (lambda a: np.zeros(a.shape), [(X,), (X[:4],)], [(like(BIG, dtype="i1"),), (like(2**50, dtype="i1"),)]),
    "rows of columns": (lambda a: a + a.T, [(X.reshape(4, 4),), (X[:4].reshape(2, 2),)], [(like(2**30, 2**29),)]),
    "product of matrices": (lambda a, b: a @ b, [(X.reshape(16, 1), X.reshape(1, 16)), (X.reshape(16, 1), X[None, :4])], [(like(2**31, 1), like(1, 2**30))]),
    "an empty result": (lambda a: a + 1.0, [(like(0, 3),), (like(0, 4),)], [(like(0, 2**60 - 1),)]),
    "an empty result, wider": (lambda a: a * 1j, [(like(0, 3),), (like(0, 4),)], [(like(0, 2**60 - 1),), (like(0, 2**59),)]),
    "mean of an empty cast": (lambda a: a.astype("c16").sum(), [(like(0, 3),), (like(0, 4),)], [(like(0, 2**59),)]),
    "in place": (lambda a, b: added(a.copy(), b), [(X, X), (X[:4], X[:4])], [(X, like(2**55, 16))]),
}  # fmt: skip


def described(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(described(one) for one in value)
    if isinstance(value, fj.Tensor):
        return "Tensor", described(value.asnumpy())
    if not isinstance(value, np.ndarray):
        return type(value).__name__, repr(value)
    elements = value.tobytes() if value.size < 1000 else value[(0,) * value.ndim].tobytes()
    return value.dtype, value.shape, value.strides, value.flags.writeable, value.base is None, elements


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What comes out, or what is raised, within its time."""
    signal.alarm(SECONDS)
    try:
        return described(function(*args))
    except Exception as error:
        return type(error), str(error)
    finally:
        signal.alarm(0)


def differences(name: str) -> list[str]:
    function, small, large = CASES[name]
    compiled = fj.jit(function)
    calls = [(compiled, args) for args in (*small, *small)]
    for args in large:
        # As the first call; after calls with other sizes, for which sizes are symbols; and compiled again for what did not fit.
        calls += [(fj.jit(function), args), (compiled, args), (compiled, args), (compiled, small[0])]
    out = []
    for call, args in calls:
        expected, found = outcome(function, args), outcome(call, args)
        if expected != found:
            shown = [getattr(one, "shape", one) for one in args]
            out.append(f"{name}{shown}: {found} instead of {expected}")
    return out


# Tensors: what is too large is an error that says so. By name: a call, and a word of the error.
X4 = fj.Tensor(np.ones((1, 1, 4, 4), np.float32))
W3 = fj.Tensor(np.ones((1, 1, 3, 3), np.float32))
TENSORS: dict[str, tuple[Callable[[], Any], str]] = {
    "broadcast_to": (lambda: ops.broadcast_to(fj.Tensor(np.float32(1)), (2**31, 2**31)), "shape"),
    "broadcast_to, too many": (lambda: ops.broadcast_to(fj.Tensor(np.float32(1)), (2**62, 4)), "shape"),
    "one_hot": (lambda: ops.one_hot(fj.Tensor([0, 1]), 2**62), "depth"),
    "one_hot, largest": (lambda: ops.one_hot(fj.Tensor([0, 1]), 2**63 - 1), "depth"),
    "topk": (lambda: ops.topk(fj.Tensor([1.0, 2.0]), 2**62), "'k'"),
    "interpolate": (lambda: ops.interpolate(X4, size=(2**40, 2**40)), "size"),
    "interpolate, largest": (lambda: ops.interpolate(X4, size=(2**63 - 1, 2), mode="bilinear"), "size"),
    "interpolate by a factor": (lambda: ops.interpolate(X4, scale_factor=2.0**60, recompute_scale_factor=True), "scale_factor"),
    "randn": (lambda: ops.randn(2**61), "shape"),
    "randn of two": (lambda: ops.randn(2**32, 2**32), "shape"),
    "rand": (lambda: ops.rand(2**61), "shape"),
    "randint": (lambda: ops.randint(0, 9, (2**61,)), "shape"),
    "normal": (lambda: ops.normal((2**61,), 0.0, 1.0), "shape"),
    "normal, largest": (lambda: ops.normal((2**63 - 1,), 0.0, 1.0), "shape"),
    "padding": (lambda: ops.conv2d(X4, W3, pad_mode="pad", padding=2**61), "padding"),
    "padding of int32": (lambda: ops.conv2d(X4, W3, pad_mode="pad", padding=2**31 - 1), "padding"),
    "padding and stride": (lambda: ops.conv2d(X4, W3, pad_mode="pad", padding=2**30, stride=2**30), "padding"),
    "stride": (lambda: ops.conv2d(X4, W3, stride=2**62), "stride"),
    "dilation": (lambda: ops.conv2d(X4, W3, dilation=2**62), "dilation"),
    "dilation that wraps": (lambda: ops.conv2d(X4, W3, dilation=2**63 - 1), "dilation"),
    "dilation of int32": (lambda: ops.conv2d(X4, W3, dilation=2**31 - 1), "do not fit"),
    "max_pool2d": (lambda: ops.max_pool2d(X4, 2, stride=2**62), "2**31"),
    "full": (lambda: ops.full((2**62,), 1.0), "too big"),
    "zeros": (lambda: ops.zeros((2**32, 2**32)), "too big"),
    "arange": (lambda: ops.arange(2**62), "too big"),
    "tile": (lambda: ops.tile(fj.Tensor([1.0, 2.0]), (2**62,)), "too big"),
}  # fmt: skip


def tensor_faults(name: str) -> list[str]:
    call, word = TENSORS[name]
    out = []
    for run in (call, fj.jit(call)):
        found = outcome(run, ())
        if found[0] not in (ValueError, MemoryError) or word not in found[1]:
            out.append(f"{name}: {found}, instead of an error with {word!r}")
    return out


def main(kind: str, names: list[str]) -> None:
    faulthandler.enable()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name in names:
        print(f"# {name}", flush=True)
        for line in differences(name) if kind == "arrays" else tensor_faults(name):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
