"""NumPy's functions over the shape classes, in statements around which everything else is compiled: equal to eager NumPy."""

from __future__ import annotations

import tracemalloc
import zlib

import numpy as np
import pytest

import framejit
from exact.same import assert_same
from exact.shapes import SHAPE_CLASSES, special_values

DTYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64"]


def operands(dtype: str, shape_class: str, count: int, seed: int) -> tuple:
    rng = np.random.default_rng(zlib.crc32(f"{dtype}{shape_class}{seed}".encode()))
    return SHAPE_CLASSES[shape_class](lambda n: special_values(rng, dtype, n), count)


def make_function(text: str):
    scope: dict = {"np": np}
    exec(f"def function(x, y):\n    {text}\n", scope)
    return scope["function"]


SHAPES = [
    "return np.concatenate((x, y))", "return np.concatenate([x, y, x], axis=-1)", "return np.concatenate([x.T[:0], x.T[-1:]])", "return np.concatenate([x[-1:], x.T[:0]])", "return np.stack([x, y])",
    "return np.stack((x, y), axis=-1) + 1", "return np.hstack((x, y))", "return np.vstack((x, y))", "return np.column_stack((x, y))",
    "return np.dstack((x, y))", "return np.roll(x, 1)", "return np.roll(x, -3, axis=0)", "return np.roll(x, (1, 2), axis=(0, -1))",
    "return np.flip(x)", "return np.flip(x, axis=0) + y", "return np.flip(x, 0)", "return np.fliplr(x)", "return np.rot90(x)",
    "return np.moveaxis(x, 0, -1)", "return np.expand_dims(x, 0)", "return np.atleast_1d(x), np.atleast_2d(y)", "return np.tile(x, 2)",
    "return np.tile(x, (2, 1))", "return np.repeat(x, 3)", "return np.repeat(x, 2, axis=0)",
    "return x.repeat(2), x.repeat(3, axis=-1) + 1, np.repeat(x, 1, 0), np.repeat(x, True), np.repeat(x, 0)", "return np.repeat(x, (2,)), np.repeat(x, -1)",
    "return np.repeat(x.sum(), 3, axis=0), np.repeat(x, np.int64(2), axis=5)", "z = np.repeat(x, 2)\n    x += 1\n    z[0] = 3\n    return x, z, z.base is None",
    "return np.repeat(x, np.arange(x.shape[0]), axis=0), np.repeat([1, 2], 2), np.repeat(x, 2.5)", "return np.diff(x)",
    "return np.diff(x, axis=0)", "return np.pad(x, 1)", "return np.pad(x, 2, mode='edge')", "return np.split(x, 1)",
    "return np.array_split(x, 3)", "return np.triu(x)", "return np.tril(x, -1)", "return np.ravel(x), np.transpose(y)",
    "return np.array([x, y])", "return np.array([x, x])", "z = np.empty_like(x)\n    z[...] = y\n    return z",
    "z = np.zeros(x.shape)\n    z[:] = x\n    return z", "return np.meshgrid(x, y)", "return np.outer(x, y)", "return np.kron(x, y)",
    "return np.append(x, y)", "return np.broadcast_arrays(x, y)", "return np.append(x, 2.5), np.append(x, y, axis=0)",
    "return np.broadcast_arrays(x, y[:1])", "a, b = np.broadcast_arrays(x, y[:1])\n    return a + b, b[0], b.T",
    "a, b = np.broadcast_arrays(x[:1], x)\n    a[...] = 1\n    return x", "return np.broadcast_to(x, x.shape), np.broadcast_to(x, x.shape)[1:]",
    "z = np.broadcast_to(x, x.shape)\n    z += 1\n    return z", "z = np.broadcast_to(x, x.shape)\n    return z.sum(axis=0), z if z.size > 3 else y",
    "return np.broadcast(x, y).shape, np.broadcast_shapes(x.shape, (1,))", "return x.diagonal(), np.diagonal(x, 1), x.diagonal(-1) + 1",
    "return x.diagonal(axis1=1, axis2=0), x.diagonal(0, -2, -1)", "return np.diag(x), np.diag(x.ravel()[:5], 1), np.diagflat(x[:2], -1)",
    "z = x.diagonal()\n    z[0] = 1\n    return z", "z = x.diagonal()\n    x[0] = 2\n    return z", "np.fill_diagonal(x, 3)\n    return x",
    "return np.rot90(x, 3), np.rot90(x, 2, (1, 0)), np.rot90(x, 4)", "return x.view(), x.view(x.dtype)[1:]",
    "z = x.view('u%d' % x.itemsize)\n    z[...] = z >> 1\n    return x, z", "return (x + y).view('i%d' % (x + y).itemsize) & 3",
    "z = x.view('u%d' % x.itemsize)\n    x += 1\n    return z + 1, x", "z = x * 1\n    z.view('i%d' % z.itemsize)[1:] = 5\n    return z",
    "return x.view(np.bool_)", "return x.conj() is x, x.conjugate(), np.conj(x)", "return x.imag, x.real is x, x.real**2 + x.imag**2, np.imag(y).sum()",
    "z = x.imag\n    z[...] = 1\n    return z", "z = x.imag if x.size > 5 else y\n    return z", "return x.ravel('F'), x.ravel('K'), x.ravel(order='A')",
    "return x.flatten('F'), x.flatten('A') + 1", "return x.reshape((-1, 1), order='F'), np.reshape(x.T, (-1,), order='F')",
    "return x.copy('F'), x.copy(order='K'), np.copy(x, order='F')", "return np.asarray(x, order='F'), np.asarray(x, order='C')",
    "return np.array(x, order='F'), np.array(x, order='C', copy=True)", "return np.asfortranarray(x), np.ascontiguousarray(x, dtype=np.float64)",
    "return np.asarray(x, dtype=np.float32, order='F')", "return np.array(x, ndmin=3), np.array([1, 2], ndmin=2) + x.size",
    "return np.array_split(x, 2, axis=-1), np.array_split(x, [1, 2])", "return np.split(x, [1])", "return np.concatenate((x, y), axis=None)",
    "return x.T.mT if hasattr(x, 'mT') else x", "return (x + 1).base, x[1:].base is x", "return np.insert(x, 1, 3), np.delete(x, 0, axis=0)",
    "return x.strides, x.T.strides, x[::2].strides", "return x.flat[0], x.flat[1:3], len(x.flat), x.T.flat[2]", "x.flat[1] = 3\n    x.flat[2:4] = 1\n    return x",
    "return [v for v in x.ravel()[:5].flat], sum(x[:3].flat)", "return np.meshgrid(x, y, sparse=True), np.meshgrid(x, y, indexing='ij', sparse=True)",
    "w = np.lib.stride_tricks.sliding_window_view(x, 2)\n    return w", "return np.lib.stride_tricks.sliding_window_view(x, 2).sum(axis=-1)",
    "return np.lib.stride_tricks.sliding_window_view(x, 3, axis=0).max(axis=-1), np.lib.stride_tricks.sliding_window_view(x, (2, 2)).mean(axis=(2, 3))",
    "w = np.lib.stride_tricks.as_strided(x, (3, *x.shape), (0, *x.strides))\n    return w * 2, w", "return np.lib.stride_tricks.sliding_window_view(x, (1, 2), axis=(0, 0))[1:] + 1",
    "w = np.lib.stride_tricks.as_strided(x, (3,), (0,))\n    w[1] = 2\n    return x", "return np.zeros_like(x, shape=(2, 3)), np.ones_like(x, shape=4, dtype=int), np.full_like(x, 2, shape=())",
    "z = np.empty_like(x, shape=(2, 2))\n    z[...] = 1\n    return z", "return x.byteswap()", "return x.astype(np.float32, casting='same_kind'), x.astype('f4', 'K', subok=False, copy=False), x.astype('i2', casting='unsafe')",
    "return x.astype(np.int8, casting='safe')", "return x.clip(0, 1, out=y), y", "out = np.zeros((2, 3))\n    for i, j in np.ndindex(2, 3):\n        out[i, j] = x.flat[i] * j\n    return out",
    "out = []\n    for place, v in np.ndenumerate(x[:2]):\n        out.append((place, v * 2))\n    return out", "return type(np.broadcast(x, y)), np.broadcast(x, y).shape",
    "return getattr(x, '_mask', 5), hasattr(x, 'nothing')", "return x.nothing",
    "return np.zeros_like(x[1:]), np.ones_like(x[..., 0]), np.full_like(x[..., ::2], 3), np.zeros_like(x.T, dtype='f4'), np.zeros_like(x.T[1:]).T + y.shape[0]",
    "return np.zeros_like(x.T, shape=(3, 2)), np.ones_like(x.T, shape=x.T.shape), np.full_like(x[::-1], 2)",
]  # fmt: skip

VALUES = [
    "return np.cumsum(x)", "return np.cumsum(x, axis=0)", "return x.cumsum(axis=-1)", "return np.cumprod(x)", "return np.argmin(x)",
    "return np.argmax(x, axis=0)", "return x.argmin(axis=-1)", "return np.ptp(x)", "return np.sort(x)", "return np.sort(x, axis=0)",
    "return np.argsort(x, kind='stable')", "return np.count_nonzero(x)", "return np.count_nonzero(x, axis=0)",
    "return np.median(x)", "return np.median(x, axis=0)", "return np.percentile(x, 30)", "return np.percentile(x, [10, 90], axis=0)",
    "return np.average(x)", "return np.average(x, weights=y)", "return np.nansum(x)", "return np.nansum(x, axis=0)",
    "return np.nan_to_num(x)", "return np.isclose(x, y)", "return np.allclose(x, y)", "return np.array_equal(x, y)",
    "return np.gradient(x)", "return np.trace(x)", "return np.maximum.accumulate(x)", "return np.add.accumulate(x)",
    "return np.maximum.reduce(x)", "return np.add.reduce(x)", "return np.add.reduce(x, axis=None)", "return np.multiply.reduce(x, axis=-1)",
    "return np.subtract.outer(x, y)", "return np.logical_and.reduce(x)", "return np.bitwise_or.reduce(x)",
    "return np.add(x, y, dtype=np.float64)", "return np.multiply(x, y, casting='same_kind')",
    "z = np.zeros(x.shape)\n    np.divide(x, y, out=z, where=y != 0)\n    return z",
    "z = np.ones(x.shape)\n    np.log(x, out=z, where=x > 0)\n    return z",
    "z = x.copy()\n    np.add(x, y, out=z, where=x == y)\n    return z", "z = x.copy()\n    np.sqrt(y, out=z, where=y > 1)\n    return z",
    "x[x > 0] = 1\n    return x", "x[x == y] = 0\n    return x + y", "x[~(x < y)] = x[:1]\n    return x", "x[x > 0] = y\n    return x",
    "x[x != x] = 2.5\n    return x", "z = x * 1\n    z[z > 1] = True\n    return z", "np.copyto(x, y)\n    return x",
    "np.copyto(x, 1, where=y > 0)\n    return x", "x.fill(3)\n    return x", "x.fill(2.7)\n    return x", "return x.sum().item()",
    "return np.select([x > 0, y > 0], [x, y], default=0)", "return np.searchsorted(np.arange(10), x)", "return np.interp(x, [0.0, 1.0], [2.0, 3.0])",
    "return np.round(x, 1)", "return x.round()", "return np.clip(x, 0, 1, out=y)", "return np.divmod(x, y)", "return divmod(x, y)",
    "return np.modf(x)", "return np.frexp(y)", "return np.histogram(x, 5)", "return np.linalg.qr(x)", "return np.linalg.svd(x)",
    "np.divmod(x, y)\n    return y", "return np.take(x, [0, 0])", "return x[[0, -1]]",
    "i = np.arange(3)\n    return x[i % 2]", "i = np.array([[0, 1], [1, 0]])\n    return x[i] + 1", "return x[..., np.array([0, 0])]",
    "i = np.array([1, 0])\n    return x[i, i]", "x[np.array([0, 0])] = 1\n    return x", "return x[np.arange(100)]",
    "return np.dot(x, y)", "return x @ y", "return x.T @ y", "return np.matmul(x, y) + 1", "return np.inner(x, y)",
    "return np.einsum('i,i->', x, y)", "return np.einsum('ij,ij->i', x, y)", "return np.tensordot(x, y, axes=1)", "return np.vdot(x, y)",
    "return np.linalg.norm(x)", "return np.linalg.norm(x, axis=0)", "return np.linalg.inv(x)", "return np.linalg.solve(x, y)", "return np.linalg.det(x)",
    "return np.convolve(x, y)", "return np.convolve(x, y, mode='same')", "return np.trapezoid(x)" if hasattr(np, "trapezoid") else "return x",
    "return np.hypot(x, y).max() + np.linspace(0, 1, 5)", "return np.eye(3) + np.identity(3), np.hanning(5) * x.size",
    "return np.unwrap(x)", "return np.cov(x)", "return np.corrcoef(x)", "return np.std(x, ddof=1), np.var(x, axis=0)",
    "return np.linspace(0.0, 2.0, 7), np.linspace(1, 5, 9, endpoint=False) + x.sum()", "return np.cross(x, y)",
    "return np.isin(x, y)", "return np.digitize(x, [0.0, 1.0])", "return int(np.argmax(x)), float(x.sum())",
    "z = np.broadcast_to(x, (2,) + x.shape)\n    return z, z[0], z.T, z[None][0]", "z = np.broadcast_to(x, (3,) + x.shape)[1]\n    z += 1\n    return z",
    "np.linalg.inv(x)\n    return y", "np.add.reduce(x, dtype=np.float32)\n    return y", "np.log(x, dtype=np.float64)\n    return y",
    "np.maximum(x, y, y)\n    return x", "return np.maximum(x, y, x.copy())", "x[2] = x[1:, -1]\n    return x", "x[:2] = x[1:5:2]\n    return x",
    "z = np.zeros(x.shape)\n    np.divide(x, 0, out=z, where=y > 99)\n    return z", "z = x * 1.0\n    np.divide(x, y != 0, out=z, where=y != 0)\n    return z",
    "z = np.arange(x.size).reshape(x.shape) - 2\n    np.less(z[::-1], 1, out=z, where=z > 0)\n    return z",
    "z = x * 1.5\n    np.add(y, 3, out=z, where=x > 0)\n    return z", "z = np.ones(x.shape)\n    np.log10(x[::-1], out=z[::-1], where=x[::-1] > 0)\n    return z",
    "return np.isin(x, y, kind='table')", "return np.concatenate((x, y), casting='same_value')", "return [np.logspace(0, 1, 4, base=b) for b in np.array([1, 2])]",
    "return np.interp(np.array(1), np.array([0, 2, 4]), np.array([1, -1, 1])), x", "return [1] * np.float64(x.size)", "return np.float64(2) * [1, 2], x + [2]",
    "z = np.ones((1,) * 20)\n    return np.multiply.outer(z, z).ndim, x", "z = np.ones((1,) * 33)\n    return np.multiply.outer(z, z).ndim, x",
    "z = np.zeros((0, 30, 0))\n    return np.add.reduce(z, axis=(0, 2)), np.sum(z, axis=(0, 1)), np.multiply.reduce(z, axis=(0, 1)), x",
    "return np.mean(x, where=x > 1), np.var(x, where=x == x), np.std(x, axis=0, where=y > 0)", "return np.fabs(x), np.float_power(x, 2), np.spacing(x)",
    "return np.ldexp(x, 2), np.conjugate(x)", "return np.add.reduceat(x, [0, 2]), np.maximum.reduceat(x, [1], axis=-1)",
    "np.add.at(x, [0, 0, 1], 1)\n    return x", "np.subtract.at(x, np.array([1, 0]), y[:2])\n    return x", "np.negative.at(x, [0])\n    return x + 1",
    "np.add.at(x, x.argmax(), y[:1])\n    return x", "np.put(x, [0, 2], y)\n    return x", "x.put([1], 4)\n    return x", "np.place(x, x > 1, [7, 8])\n    return x",
    "np.putmask(x, x > 0, y)\n    return x", "np.putmask(x, x > 0, x[::-1])\n    return x", "x.partition(1)\n    return x", "x.sort(axis=0)\n    return x",
    "np.put_along_axis(x, x.argmax(axis=0)[None], 1, axis=0)\n    return x", "np.copyto(x, y * 1.5, casting='unsafe')\n    return x",
    "np.copyto(x, y, casting='no')\n    return x", "np.copyto(x, y, casting='bad')\n    return x", "return x.sum().any(), (x.sum() > 0).all(), x.max().max(), x.max().min()",
    "return x.ravel()[x.argmax()], x.ravel()[np.int64(1)], x[np.int64(0)]", "z = x.ravel().copy()\n    z[z.argmin()] = 7\n    return z",
    "return x.item(1), x.item(-1), x.T.item(2)", "return x.item(x.size)", "return x[:3].tolist(), x.T[:2].tolist()", "return np.array([1, x.sum()]), np.array([x.max(), 2.5, True])",
    "return np.array([x.sum(), np.float32(1), 3])", "return np.unravel_index(x.argmax(), x.shape), np.ravel_multi_index((1, 0), x.shape)",
    "return np.unique(x)", "return np.unique(x, return_index=True, return_inverse=True, return_counts=True)", "return np.unique(x, return_counts=True)",
    "return np.unique(x, return_inverse=True)", "return np.unique(x, axis=0)", "u, n = np.unique(x, return_counts=True)\n    return u[n.argmax()], u * n",
    "return np.union1d(x, y), np.setdiff1d(x, y), np.intersect1d(x, y), np.setxor1d(x, y)", "return np.intersect1d(x, y, return_indices=True), np.setdiff1d(x, x)",
    "return np.setdiff1d(x, y, assume_unique=True), np.intersect1d([1, 2], y)", "return np.cross(x[..., :3], y[..., :3])", "return np.cross(x[:3], y[:3], axis=0)",
    "return np.compress([True, False, True], x, axis=0), x.compress([0, 1])", "return np.compress((x > 0).ravel(), x), x.compress(y.ravel()[:2] > 0, axis=-1)",
    "return np.average(x, axis=0, weights=y[..., 0]), np.average(x, -1, y[0], True)", "return np.average(x, 0, returned=True), np.average(x, weights=y, returned=True)",
    "return np.linalg.lstsq(x, y[:, 0], rcond=None), np.linalg.lstsq(x[:3], y[:3], None)", "return np.polyfit(x.ravel(), y.ravel() + 1, 2), np.polyfit(x.ravel(), y.ravel(), 1, w=y.ravel() > 0)",
    "return np.histogram2d(x.ravel(), y.ravel(), 4)", "return np.histogram2d(x.ravel(), x.ravel(), [3, 2], [[-1, 1], [0, 1]], True)", "return np.apply_along_axis(np.sum, 0, x)",
    "return np.apply_along_axis(lambda r: r - r.mean(), -1, x)", "return max(x.ravel()), min(x.ravel()), max(x.ravel()[:3]), min(-x.ravel())", "return sorted(x.ravel()[:9]), sorted(x.ravel()[:9], reverse=True)",
    "return round(x.ravel()[0], 1), round(x.sum()), round(float(x.sum()), 2)", "return max(x.sum(), x.max()), min(x.ravel()[0], y.ravel()[0], x.ravel()[1]), max(x.sum(), 0.0)",
    "return f'{x.sum()} of {x.size}', str(x.max()), f'{x.mean():.3e}|{x.min()!r:>30}|{float(x.sum())}'", "return '%s and %.2f' % (x.sum(), x.mean()), '{} {:6.1f}'.format(x.max(), x.mean()), repr(x.min())",
    "return '%d' % x.sum(), '%c' % 65", "return '%c' % x.sum()", "return f'{x.sum():d}'", "return f'{x.sum():c}', f'{x.sum():n}'", "return str(x.dtype), repr(x.dtype), f'{x.dtype!s:>9}'",
    "text = 'a' + str(x.sum()) + 'b'\n    return text, text + text, ', '.join([text, 'c', f'{x.max()}']), f'{text:>40}', f'{text!r}'", "text = f'{x.sum()}'\n    return len(text), text.upper(), text == 'a', {text: 1}",
    "return [f'{i}: {v.sum():8.2f}' for i, v in enumerate(x[:3])], {'mean': format(x.mean(), '.4f')}", "if x.sum() > 0:\n        raise ValueError(f'a sum of {x.sum()}')\n    return x",
    "raise ValueError('a sum of %s' % x.sum())", "return f'{x[:2]}', x + 1",
    "k = x.ravel()[:3].argmax()\n    return x[k], x[..., k], x[k:], x[:k], x[k : k + 2], x[::-1][k]", "k = x.argmin()\n    x[k] = 2\n    return x", "k = x.ravel()[:2].argmax()\n    r = x[k]\n    r *= 2\n    return x, r",
    "k = int((x > 0).sum())\n    return x[:k], x[k:], x[-k:].sum(), x[k // 2 : k]", "k = np.count_nonzero(x > 1)\n    x[:k] = 0\n    x[k:] += 1\n    return x", "k = x.ravel()[:2].argmax() - 1\n    return x[k], x[k:]",
    "r, c = np.unravel_index(x.argmax(), x.shape)\n    x[r, c] += 1\n    x[r] -= x[r, c]\n    x[:, c] = 0\n    return x[r, c], x", "k = x.ravel()[:2].argmax()\n    x[k], x[1 - k] = x[1 - k].copy(), x[k].copy()\n    return x",
    "return x.shape[0] * np.finfo(np.float32).eps + x", "try:\n        return len(3)\n    except TypeError as e:\n        return str(e), x", "return np.triu_indices(3, 1), x",
    "return np.linalg.lstsq(x, y, rcond=None)", "return np.logaddexp.reduce(x), np.hypot.accumulate(x)", "return np.max(x, initial=3), np.sum(x, initial=np._NoValue)",
    "np.exp(x, out=y[::-1])\n    return y", "z = x[::-1]\n    x *= 2\n    return np.fmax.reduce(z) + z[z > 0]", "return np.median(x, keepdims=True)",
]  # fmt: skip

# Statements that raise, or warn with Python's machinery, in ways that differ between versions belong here as well as any other.


# NumPy 1 itself goes by where the arrays lie: x that ends within 16 bytes before y counts as overlapping it, and gets another loop.
if np.lib.NumpyVersion(np.__version__) < "2.0.0":
    VALUES.remove("np.exp(x, out=y[::-1])\n    return y")


@pytest.mark.parametrize("text", SHAPES + VALUES)
def test_function(text):
    function = make_function(text)
    for seed, shape_class in enumerate(SHAPE_CLASSES):
        if shape_class == "mild tiles" and any(name in text for name in ("kron", "outer", "meshgrid")):
            continue  # gigabytes
        for dtype in ("float64", DTYPES[seed % len(DTYPES)]):
            assert_same(function, lambda: operands(dtype, shape_class, 2, seed), calls=2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("text", SHAPES + VALUES)
def test_function_of_dtype(text, dtype):
    function = make_function(text)
    for seed, shape_class in enumerate(("tails", "matrix", "fortran")):
        for errstate in ({"all": "ignore"}, {"all": "raise"}):
            assert_same(function, lambda: operands(dtype, shape_class, 2, seed), errstate, calls=2)


WHOLE = [
    "return np.concatenate((x, y))", "return np.stack([x, y])", "return np.hstack((x, y))", "return np.vstack((x, y))",
    "return np.column_stack((x, y))", "return np.roll(x, 1, axis=0)", "return np.roll(x, (1, 2), axis=(0, 1))", "return np.flip(x, 0) + 1",
    "return np.moveaxis(x, 0, 1) * y", "return np.diff(x, axis=0)", "return np.gradient(x)", "return np.meshgrid(x[0], y[0])",
    "return np.cumsum(x, axis=1)", "return np.argmin(x, axis=1)", "return np.sort(x)", "return np.percentile(x, 30)",
    "return np.linalg.inv(x)", "return x @ y", "return np.einsum('ij,ij->i', x, y)", "return x[[0, 1]]", "return np.pad(x, 1)",
    "z = np.zeros(x.shape)\n    np.divide(x, y, out=z, where=y != 0)\n    return z", "x[x > 0] = 1\n    return x",
    "return np.subtract.outer(x[0], y[0])", "return np.maximum.accumulate(x)", "return np.add.reduce(x)", "return np.array([x[0], y[0]])",
    "z = np.empty((3, 2))\n    z[:, 0] = x[0, :3]\n    z[:, 1] = 1\n    return z", "return np.linspace(0, 1, 5)", "return int(np.count_nonzero(x))",
    "return np.outer(x[0], y[0])", "x[0] = (1, 2, 3, 4)\n    return x", "return np.select([x > 0], [y], default=0)", "return np.tile(x, 2)",
    "return np.broadcast_arrays(x, y[0])[1] + np.broadcast_to(x, (4, 4))", "return np.diag(x), np.diag(x[0]), x.diagonal(1) * 2, np.diagflat(y[1])",
    "return x.view(np.int64) >> 52, x.view()", "return x.conj().T @ y, x.real**2 + x.imag**2", "np.add.at(x, [0, 0], y[0])\n    return np.add.reduceat(x, [0, 2])",
    "np.put(x, [1, 2], 0)\n    np.putmask(y, y > 1, x)\n    np.place(x, x > 5, 1)\n    return x, y", "return np.split(x, 2), np.array_split(y, 3), np.rot90(x) + 1",
    "return x.copy(order='F'), x.ravel(order='F'), np.asfortranarray(y)", "return x.tolist(), x.item(3), x[0].argmax()", "return np.mean(x, where=y > 2), np.append(x, 1.0)",
    "return np.fabs(x), np.float_power(x, 2), np.conj(x)", "np.fill_diagonal(x, 0)\n    return x",
    "return x.strides, x.flat[3], x.flat[2:5], [v for v in x.flat]", "x.flat[3] = 7\n    return x", "return np.meshgrid(x[0], y[0], sparse=True)",
    "return np.lib.stride_tricks.sliding_window_view(x, (2, 2)).mean(axis=(2, 3)), np.lib.stride_tricks.as_strided(y, (2, 2), (8, 8)).sum()",
    "return np.unique(x, return_index=True, return_inverse=True, return_counts=True), np.unique(y)", "return np.union1d(x, y), np.setdiff1d(x, y), np.intersect1d(x, y), np.setxor1d(x, y)",
    "return np.cross(x[:, :3], y[:, :3])", "return np.compress([True, False], x, axis=0), x.compress(y[0] > 1, axis=1)", "return np.average(x, axis=0, weights=y[0])",
    "return np.linalg.lstsq(x, y, rcond=None), np.linalg.lstsq(x[:, :2], y[0], rcond=None)", "return np.polyfit(x[0], y[0], 1)", "return np.histogram2d(x.ravel(), y.ravel())",
    "return round(x[0, 1], 1), round(float(x.sum()), 2), round(y.sum())",
    "return f'{x.sum():.3f} of {x.dtype}', str(y[0, 0]), '%.2f' % x.mean(), [repr(v) for v in y[0]]", "text = f'{x.sum()}'\n    return text + '!', ' '.join([text, text])",
    "if x.sum() < 0:\n        raise ValueError(f'a sum of {x.sum()}')\n    return x",
    "k = x.sum(axis=1).argmax()\n    r = x[k]\n    r *= 2\n    x[:, k] = 1\n    return x, r, x[k]", "k = int(np.argmax(x[0]))\n    return x[:k], x[k:], x[k - 1 : k + 1]", "k = np.searchsorted(x[0], 2.5)\n    x[k:] = 0\n    return x, x[0, :k].sum()",
    "return np.zeros_like(x, shape=3), x.byteswap()",
    "return np.zeros_like(x[1:, 1:]), np.ones_like(x.T), np.full_like(x[:, ::2], 3) + x[:, ::2]",
]  # fmt: skip
# What a number does to the dtypes of a call goes by its value in NumPy 1, so that these calls are left to it there.
WHOLE_SINCE_2 = [
    "return x[0][x[0].argmax()]", "return np.cov(x)",
    "return np.apply_along_axis(np.sum, 0, x)",
    "return max(x.ravel()), min(y[0]), sorted(x[1]), max(x[0, 1], x[0, 2])",
    "out = np.zeros((2, 3))\n    for i, j in np.ndindex(2, 3):\n        out[i, j] = x[j, i] * j\n    return out",
]  # fmt: skip


@pytest.mark.parametrize("text", WHOLE + WHOLE_SINCE_2)
def test_captured_whole(text):
    function = make_function(text)
    x = np.arange(16.0).reshape(4, 4) + 4 * np.eye(4)
    explained = framejit.explain(function)(x.copy(), x.T + 1)
    if text in WHOLE or np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        assert not explained.breaks and len(explained.graphs) == 1, str(explained)
    else:
        assert explained.breaks
    assert_same(function, lambda: (x.copy(), x.T + 1))


def test_a_run_that_is_given_up_puts_back_what_it_wrote_at_a_computed_place():
    def f(x):
        k = x.sum(axis=1).argmin()
        x[k] *= 2
        return x

    explained = framejit.explain(f)(np.ones((3, 4)))
    assert not explained.breaks and len(explained.graphs) == 1, str(explained)
    for row in range(3):
        x = np.full((3, 4), 1e308)
        x[row] = [1.0, 2.0, 3.0, -np.inf]
        assert_same(f, lambda: (x.copy(),))
        x[row] = -1e308
        for errstate in ({"all": "warn"}, {"all": "raise"}):
            assert_same(f, lambda: (x.copy(),), errstate)


def test_a_row_of_a_large_array_is_written_where_it_lies():
    def f(x):
        x[x[:, 0].argmax()] *= 2
        return x

    explained = framejit.explain(f)(np.ones((1000, 40)))
    assert "a few items of a large array" in str(explained.breaks)
    assert_same(f, lambda: (np.arange(40000.0).reshape(1000, 40),))


def test_the_size_between_two_computed_places():
    """There is room for it wherever the two lie: it is not largest where both are."""

    def function(x, k):
        k = np.array([k])
        start = (x.shape - k) // 2
        part = x[start[0] : (start + k)[0]]
        return part + 1.0, part[::-1].copy().sum()

    explained = framejit.explain(function)(np.arange(100.0), 7)
    assert not explained.breaks and len(explained.graphs) == 1, str(explained)
    for n, k in ((2_000_000, 1_500_000), (2_000_000, 1_999_999), (1_000_000, 10), (4, 4)):
        assert_same(function, lambda: (np.arange(float(n)), k))


def test_strides_of_counts_go_by_those_of_the_bools():
    x = np.broadcast_to(np.arange(12, dtype="u4").reshape(4, 3).T, (2, 3, 4))
    assert_same(lambda x: (np.count_nonzero(x, axis=2), np.count_nonzero(x, axis=1, keepdims=True), np.count_nonzero(x > 3, axis=0)), lambda: (x,))


def test_both_sides_append():
    def f(x):
        out, nested = [], ([],)
        for row in x:
            if row.sum() > 4:
                out.append(row.sum())
                nested[0].append(1.0)
            else:
                out.append(row.max())
                nested[0].append(2.0)
        return out, nested

    def differently(x):
        out = []
        if x.sum() > 4:
            out.append(x.max())
        return out, x + 1

    explained = framejit.explain(f)(np.ones((3, 4)))
    assert not explained.breaks and len(explained.graphs) == 1, str(explained)
    assert "a list that the sides change in two ways" in str(framejit.explain(differently)(np.ones(3)).breaks)
    for function in (f, differently):
        for scale in (0.1, 1.0, 3.0):
            assert_same(function, lambda: (np.arange(12.0).reshape(3, 4) * scale,))


def test_memory_that_nothing_was_written_to_yet():
    def f(x, n):
        out = np.empty((len(x) - n, 2))
        framejit.graph_break("the array is made before it is filled")
        for i in range(len(out)):
            out[i] = x[i] * n
        return out

    marked = framejit.jit(f)
    errors = framejit.stats()["internal_errors"]
    for size, n in ((3, 1), (4, 1), (5, 1), (6, 2), (7, 2)):
        x = np.arange(float(size))
        assert marked(x, n).tobytes() == f(x, n).tobytes()
    assert framejit.stats()["internal_errors"] == errors


def test_ndarray_makes_memory_of_its_own():
    def f(x):
        whole, line, bools = np.ndarray(x.shape, x.dtype), np.ndarray(3), np.ndarray((2,), dtype=bool, order="C")
        whole[:], line[:], bools[:] = x, 1, True
        return whole, line, bools, np.ndarray(0).shape, np.ndarray(shape=(2, 0), dtype=None).size

    x = np.arange(6.0).reshape(2, 3)
    explained = framejit.explain(f)(x)
    assert not explained.breaks and len(explained.graphs) == 1, str(explained)
    assert_same(f, lambda: (x,))
    for wrong in (
        lambda x: np.ndarray((2, -1)),
        lambda x: np.ndarray(2.5),
        lambda x: np.ndarray(3, "no dtype"),
        lambda x: np.ndarray((2, 3), float, x),
        lambda x: np.ndarray(2, float, x, 8)[:],
        lambda x: np.ndarray((9, 9), float, x),
        lambda x: np.ndarray(),
    ):
        assert_same(wrong, lambda: (x,))


def test_power_of_single_numbers():
    """np.power looks at strides, which a single number does not have."""
    random = np.random.default_rng(4)
    for dtype in ("f4", "f8"):
        for exponent in (-1, 0.5, 2, 3, -2.0):
            for _ in range(20):
                x = (random.random(9) * 4 + 0.1).astype(dtype)
                assert_same(lambda x: (np.power(np.nanmin(x), exponent), np.power(x[2], exponent), np.power(x, exponent), np.power(x[:1], exponent), np.power(x[None, :1], exponent)), lambda x=x: (x,), calls=1)


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "c8"])
def test_union_with_a_number(dtype):
    assert_same(lambda x: (np.union1d(x, 3), np.union1d(1, x), np.union1d(x, [2]), np.setdiff1d(x, 1)), lambda: (np.arange(4).astype(dtype),))


def test_copyto_where_of_more_axes():
    assert_same(lambda x: np.copyto(x, 3, where=np.ones((1, *x.shape), bool)), lambda: (np.zeros((3, 0)),))
    assert_same(lambda x: np.copyto(x, 3, where=np.ones((1, *x.shape), bool)), lambda: (np.zeros((3, 2)),))


def test_text_of_a_complex_number():
    """Where it warns, at the line of the user's."""
    x = np.array([1.5 + 2j, 2.0])
    assert_same(lambda x: f"{x[0]:.2f} {x.sum()} {x[1]!r}", lambda: (x,))
    assert_same(lambda x: "%.1f" % x[0], lambda: (x,))


@pytest.mark.parametrize("name", ["fmax", "fmin"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_zeros_that_an_iterator_goes_over(name, dtype):
    """Which of two zeros np.fmax gives depends on where the loops end that NumPy's iterator makes."""
    function, random = getattr(np, name), np.random.default_rng(4)

    def extremes(a, b):
        return function.outer(a, b), function(a, b), function(a[:, None], b), function(a, b[0]), function(-0.0, b), function(a[::2], b[::2]), function(np.stack([a, -a], 1), np.stack([b, b]).T)

    for n in (1, 2, 3, 5, 9, 17, 33):
        for _ in range(4):
            a, b = (random.choice([0.0, -0.0], n).astype(dtype) for _ in range(2))
            assert_same(extremes, lambda a=a, b=b: (a, b), calls=1)


def test_conjugates_of_bools():
    """np.conjugate takes bools as int8; the layout of its result follows the bools, not their copies."""
    x = np.arange(8) % 3 == 0
    for array in (np.broadcast_to(x[:3], (4, 3)), np.broadcast_to(x.reshape(4, 1, 2), (4, 3, 2)), np.broadcast_to(x[:4, None, None], (4, 3, 2)).T):
        assert_same(lambda a: np.conjugate(a), lambda array=array: (array,), calls=2)


def test_strides_of_what_is_broadcast_along_sizes_that_vary():
    def f(x, items):
        x += 1
        part = np.swapaxes(x[len(items) :, len(items) :, 1:2], 0, -1)
        return np.broadcast_to(part, (2, *part.shape))

    marked = framejit.jit(f)
    for shape in ((2, 3, 4), (2, 5, 6), (2, 3, 4), (2, 4, 7), (2, 3, 5), (3, 4, 4), (4, 3, 4)):
        expected, found = f(np.ones(shape), [1, 2]), marked(np.ones(shape), [1, 2])
        assert found.strides == expected.strides, shape


def test_bounds_of_clip_that_are_computed_from_one_element():
    """NumPy's formula goes by the strides of both bounds: a product with what is broadcast is an array of its own."""
    zeros = np.zeros((3, 5))
    for low in (np.broadcast_to(3.0, (3, 5)), np.full((3, 5), 3.0), np.broadcast_to(np.full(5, 3.0), (3, 5)), np.float64(3)):
        assert_same(lambda x, low: (np.clip(x, low * -0.0, 2), np.clip(x, -low, low * 0.0), np.clip(x, low - low, low)), lambda low=low: (zeros, low), calls=2)


@pytest.mark.parametrize("shape", [(-1, 1), (5, -1), (5, 1), (1, -1, 1), (-1,)], ids=str)
def test_a_column_in_its_own_shape(shape):
    """With -1 the stride of an axis of length 1 is made anew, also where the shape stays."""

    def reshaped(x):
        y = x.reshape(shape)
        return y, y + 1

    for make in (lambda: np.arange(20.0).reshape(5, 4)[:, :1], lambda: np.arange(5.0).reshape(5, 1), lambda: np.arange(20.0).reshape(5, 4)[:, 2:3].T.T):
        assert_same(reshaped, lambda make=make: (make(),))


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_repeated_elements_are_read_where_they_are_used(order):
    def function(x, y):
        return np.repeat(x, 3, axis=1) * y + x.repeat(3).reshape(y.shape)

    x = np.arange(8.0).reshape(2, 4)
    x = np.repeat(x, 2, axis=0)[::2] if order == "strided" else np.asarray(x, order=order)
    y = np.linspace(0, 1, 24).reshape(2, 12)
    marked = framejit.jit(function, fullgraph=True)
    assert marked(x, y).tobytes() == function(x, y).tobytes()
    assert "library_call" not in marked.graphs()


def test_results_of_many_axes_are_predicted_by_small_arrays():
    def triangles(a):
        return np.linalg.qr(a)[1]

    compiled = framejit.jit(triangles)
    tracemalloc.start()
    try:
        for shape in ((2, 3, 4, 3, 4), (3, 4, 5, 4, 5), (4, 5, 6, 5, 6)):
            a = np.random.default_rng(3).normal(size=shape)
            assert compiled(a).tobytes() == triangles(a).tobytes()
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()
