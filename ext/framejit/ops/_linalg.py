"""Linear algebra, Fourier transforms and special functions: NumPy's and SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._api._dtypes import ALL
from framejit._core import _array, _arrays, _tensor
from framejit.ops._elementwise import _INTEGRAL, where
from framejit.ops._loss import _special
from framejit.ops._reduce import _axes, sum

__all__ = [
    "addbmm", "addr", "adjoint", "batch_dot", "block_diag", "cholesky", "cholesky_inverse", "cholesky_solve", "cov",
    "cross", "det", "dist", "eig", "eigvals", "fftshift", "i0", "ifftshift", "igamma", "igammac", "inverse", "kron",
    "log_matrix_determinant", "logdet", "lstsq", "matrix_determinant", "matrix_exp", "matrix_norm", "matrix_power",
    "matrix_solve", "mvlgamma", "pinv", "polygamma", "qr", "slogdet", "svd", "trapz", "vander", "vecdot",
    "vector_norm", "xdivy", "zeta",
]  # fmt: skip


def _float(input: Any) -> Any:
    return _array(input, "floating")


def det(input: Any) -> Any:
    """Determinants of the last two dimensions."""
    return _tensor(np.linalg.det(_float(input)))


matrix_determinant = det


def slogdet(input: Any) -> Any:
    """Signs of the determinants, and the logarithms of their sizes."""
    sign, size = np.linalg.slogdet(_float(input))
    return _tensor(sign), _tensor(size)


log_matrix_determinant = slogdet


def logdet(input: Any) -> Any:
    """Logarithms of the determinants; NaN for negative ones."""
    x = _float(input)
    sign, size = np.linalg.slogdet(x)
    return _tensor(np.where(sign < 0, x.dtype.type(np.nan), size))


def inverse(input: Any) -> Any:
    """Inverses of the last two dimensions."""
    return _tensor(np.linalg.inv(_float(input)))


def pinv(x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """Pseudo-inverses; singular values up to max(atol, rtol * the largest) count as 0."""
    array = _float(x)
    largest = np.linalg.svd(array, compute_uv=False, hermitian=hermitian)[..., :1]
    if rtol is None:
        rtol = 0.0 if atol is not None else max(array.shape[-2:]) * float(np.finfo(array.dtype).eps)
    cut = np.maximum(0.0 if atol is None else atol, rtol * largest)
    return _tensor(np.linalg.pinv(array, (cut / largest)[..., 0], hermitian))


def cholesky(input_x: Any, upper: bool = False) -> Any:
    """The triangle L with L @ L.T, or U with U.T @ U."""
    lower = np.linalg.cholesky(_float(input_x))
    return _tensor(lower.swapaxes(-1, -2) if upper else lower)


def cholesky_inverse(input_x: Any, upper: bool = False) -> Any:
    """The inverse of the matrix that a triangle of `cholesky` represents."""
    x = _float(input_x)
    return _tensor(np.linalg.inv(x.T @ x if upper else x @ x.T))


def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Any:
    """The solution of A x = input, of whose A a triangle is given."""
    b, x = _arrays(input, input2)
    turned = x.swapaxes(-1, -2)
    return _tensor(np.linalg.solve(turned @ x if upper else x @ turned, b))


def qr(input: Any, mode: str = "reduced") -> Any:
    """(Q, R) with orthonormal Q and upper triangle R."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"For 'qr', the 'mode' must be 'reduced' or 'complete', but got {mode!r}.")
    q, r = np.linalg.qr(_float(input), mode)
    return _tensor(q), _tensor(r)


def svd(input: Any, full_matrices: bool = False, compute_uv: bool = True) -> Any:
    """(s, u, v) with u @ diag(s) @ v.T; s alone without `compute_uv`."""
    x = _float(input)
    if not compute_uv:
        return _tensor(np.linalg.svd(x, compute_uv=False))
    u, s, turned = np.linalg.svd(x, full_matrices)
    return _tensor(s), _tensor(u), _tensor(np.conj(turned).swapaxes(-1, -2))


def eig(A: Any) -> Any:
    """(values, vectors) of the last two dimensions, complex."""
    values, vectors = np.linalg.eig(_float(A))
    kind = np.result_type(_float(A), np.complex64)
    return _tensor(values.astype(kind)), _tensor(vectors.astype(kind))


def eigvals(A: Any) -> Any:
    """Eigenvalues of the last two dimensions, complex."""
    return eig(A)[0]


def matrix_exp(input: Any) -> Any:
    """exp of matrices."""
    from scipy.linalg import expm

    return _tensor(expm(_float(input)))


def matrix_power(input: Any, n: int) -> Any:
    """The n-th power of matrices."""
    return _tensor(np.linalg.matrix_power(_array(input), n))


def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False) -> Any:
    """The solution of matrix @ x = rhs."""
    a, b = _arrays(matrix, rhs)
    return _tensor(np.linalg.solve(np.conj(a).swapaxes(-1, -2) if adjoint else a, b))


def lstsq(input: Any, A: Any) -> Any:
    """The x with the least norm of input @ x - A."""
    a, b = _arrays(input, A)
    column = b.ndim == 1
    out = np.linalg.lstsq(a, b[:, None] if column else b, rcond=None)[0]
    return _tensor(out)


def matrix_norm(A: Any, ord: Any = "fro", axis: Any = (-2, -1), keepdims: bool = False, *, dtype: Any = None) -> Any:
    """Norms of matrices."""
    return _tensor(np.linalg.norm(_array(A, "floating" if dtype is None else dtype), ord, tuple(axis), keepdims))


def vector_norm(x: Any, ord: Any = 2, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> Any:
    """Norms of vectors; over several dimensions those of all their elements."""
    array = _array(x, "floating" if dtype is None else dtype)
    axes = _axes(axis)
    if axes is None or isinstance(axes, tuple):
        every = tuple(range(array.ndim)) if axes is None else tuple([a % array.ndim for a in axes])
        rest = [a for a in range(array.ndim) if a not in every]
        lines = array.transpose((*rest, *every)).reshape((*[array.shape[a] for a in rest], -1))
        out = np.linalg.norm(lines, ord, -1)
        if keepdims:
            out = np.asarray(out).reshape([1 if a in every else array.shape[a] for a in range(array.ndim)])
        return _tensor(out)
    return _tensor(np.linalg.norm(array, ord, axes, keepdims))


def vecdot(x: Any, y: Any, *, axis: int = -1) -> Any:
    """Products of vectors along an axis; the first is conjugated."""
    a, b = _arrays(x, y)
    return _tensor(np.sum(np.conj(a) * b if a.dtype.kind == "c" else a * b, axis=axis))


def kron(input: Any, other: Any) -> Any:
    """Kronecker's product."""
    x, y = _arrays(input, other)
    return _tensor(np.kron(x, y))


def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """Cross products of vectors along `dim`, by default the first one of length 3."""
    x, y = _arrays(input, other)
    axis = x.shape.index(3) if dim is None else dim
    return _tensor(np.cross(x, y, axis=axis))


def block_diag(*inputs: Any) -> Any:
    """A matrix with the inputs on its diagonal."""
    from scipy.linalg import block_diag as of_blocks

    return _tensor(of_blocks(*[np.atleast_2d(x) for x in _arrays(*inputs)]))


def adjoint(x: Any) -> Any:
    """The last two dimensions exchanged, conjugated."""
    return _tensor(np.conj(_array(x)).swapaxes(-1, -2))


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariance of the rows; of integers in float32."""
    x = _array(input, ALL["float32"]) if input.dtype in _INTEGRAL else _array(input)
    weights = [None if w is None else _array(w) for w in (fweights, aweights)]
    return _tensor(np.cov(x, ddof=correction, fweights=weights[0], aweights=weights[1]).astype(x.dtype))


def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The norm of the difference."""
    x, y = _arrays(input, other)
    return _tensor(np.linalg.norm((x - y).reshape(-1), p))


def addr(x: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * x + alpha * outer(vec1, vec2)."""
    return x * beta + vec1.reshape((-1, 1)) * vec2.reshape((1, -1)) * alpha


def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * the sum of batch1 @ batch2."""
    return input * beta + sum(batch1 @ batch2, 0) * alpha


def batch_dot(x1: Any, x2: Any, axes: Any = None) -> Any:
    """Products over one axis of each, sample by sample."""
    if axes is None:
        axes = (x1.ndim - 1, 1 if x2.ndim == 2 else x2.ndim - 2)
    first, second = (axes, axes) if isinstance(axes, int) else axes
    x, y = _arrays(x1, x2)
    x = np.moveaxis(x, first, -1)
    y = np.moveaxis(y, second, 1)
    lead, rest = x.shape[1:-1], y.shape[2:]
    out = x.reshape((x.shape[0], -1, x.shape[-1])) @ y.reshape((y.shape[0], y.shape[1], -1))
    shape = (x.shape[0], *lead, *rest)
    return _tensor(out.reshape(shape if len(shape) > 1 else (shape[0], 1)))


def trapz(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Any:
    """The integral by trapezoids."""
    values = np.moveaxis(_float(y), dim, -1)
    if x is None:
        steps: Any = values.dtype.type(dx)
    else:
        places = _float(x)
        steps = np.diff(np.moveaxis(places, dim, -1) if places.ndim == values.ndim else places, axis=-1)
    return _tensor(((values[..., 1:] + values[..., :-1]) * steps / values.dtype.type(2)).sum(-1))


def vander(x: Any, N: int | None = None) -> Any:
    """Powers of the elements, falling from left to right."""
    array = _array(x)
    return _tensor(np.vander(array, N).astype(array.dtype))


# --- Fourier transforms -------------------------------------------------------------------------------------------------------


def _fourier(name: str, several: bool, default: Any) -> Any:
    def of_one(input: Any, n: Any = None, dim: Any = default, norm: str | None = None) -> Any:
        from scipy import fft

        return _tensor(getattr(fft, name)(_float(input), n, dim, norm))

    def of_several(input: Any, s: Any = None, dim: Any = default, norm: str | None = None) -> Any:
        from scipy import fft

        return _tensor(getattr(fft, name)(_float(input), s, dim, norm))

    transform = of_several if several else of_one
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"Fourier's transform: scipy.fft.{name}."
    return transform


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    globals()[_name] = _fourier(_name, False, -1)
    globals()[_name + "2"] = _fourier(_name + "2", True, (-2, -1))
    globals()[_name + "n"] = _fourier(_name + "n", True, None)
    __all__ += [_name, _name + "2", _name + "n"]


def fftshift(input: Any, dim: Any = None) -> Any:
    """The zero frequency in the middle."""
    return _tensor(np.fft.fftshift(_array(input), _axes(dim)))


def ifftshift(input: Any, dim: Any = None) -> Any:
    """The zero frequency at the beginning."""
    return _tensor(np.fft.ifftshift(_array(input), _axes(dim)))


# --- Special functions ------------------------------------------------------------------------------------------------------------


def _of_special(name: str, own: str) -> Any:
    def function(x: Any) -> Any:
        return _special(name, x)

    function.__name__ = function.__qualname__ = own
    function.__doc__ = f"scipy.special.{name} of each element."
    return function


for _name, _own in (
    *[(name, f"bessel_{name}") for name in ("j0", "j1", "y0", "y1", "k0", "k1", "i0", "i1")],
    *[(name, f"bessel_{name}") for name in ("k0e", "k1e", "i0e", "i1e")],
):
    globals()[_own] = _of_special(_name, _own)
    __all__ += [_own]


def i0(input: Any) -> Any:
    """scipy.special.i0 of each element."""
    return _special("i0", input)


def _of_two(name: str, x: Any, y: Any) -> Any:
    from scipy import special

    a, b = _arrays(x, y)
    return _tensor(getattr(special, name)(a, b).astype(a.dtype))


def igamma(input: Any, other: Any) -> Any:
    """The regularized lower incomplete gamma function."""
    return _of_two("gammainc", input, other)


def igammac(input: Any, other: Any) -> Any:
    """The regularized upper incomplete gamma function."""
    return _of_two("gammaincc", input, other)


def zeta(input: Any, other: Any) -> Any:
    """Hurwitz's zeta function."""
    return _of_two("zeta", input, other)


def polygamma(n: Any, input: Any) -> Any:
    """The n-th derivative of `digamma`."""
    from scipy.special import polygamma as function

    x = _float(input)
    return _tensor(function(int(n), x).astype(x.dtype))


def mvlgamma(input: Any, p: int) -> Any:
    """log of the multivariate gamma function."""
    x = _float(input)
    total = np.full(x.shape, 0.28618247146235004 * p * (p - 1), x.dtype)  # log(pi) / 4
    for at in range(p):
        total = total + _array(_special("gammaln", _tensor(x - x.dtype.type(at / 2))))
    return _tensor(total)


def xdivy(x: Any, y: Any) -> Any:
    """x / y, 0 where x is 0."""
    safe = where(x == 0, 1, y)
    return where(x == 0, 0, x / safe)
