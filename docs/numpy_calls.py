"""Typical calls of NumPy's and SciPy's functions, which the tests of docs/numpy.md make, and why some functions are left to them."""

from __future__ import annotations

# x, y: 6 by 8 floats between 0 and 1; v: 40 of them; a: 4 by 4, well conditioned; k: 30 ints; i: 10 ints below 6; m: x > 0.5; z: complex.
CALLS = {
    "numpy": """
all(x) allclose(x, y) amax(x) amin(x) angle(z) any(x) append(v, 1.0) apply_along_axis(np.sum, 0, x) apply_over_axes(np.sum, x, [0]) arange(0, 1, 0.1)
argmax(x, axis=1) argmin(x) argpartition(v, 3) argsort(v) argwhere(m) around(x, 1) array([x, y]) array_equal(x, y) array_equiv(x, y) array_split(v, 3)
asanyarray(x) asarray(x) asarray_chkfinite(x) ascontiguousarray(x.T) asfortranarray(x) astype(x, np.float32) atleast_1d(x) atleast_2d(v) atleast_3d(v)
average(x, axis=1, weights=v[:8]) bartlett(8) bincount(k) blackman(8) block([[x, x], [x, x]]) broadcast_arrays(x, x[0]) broadcast_shapes((6, 1), (1, 8))
broadcast_to(x, (3, 6, 8)) can_cast(np.int32, np.float64) choose(i % 2, [v[:10], v[10:20]]) clip(x, 0.2, 0.8) column_stack([v, v]) common_type(x)
compress([True, False], x, axis=0) concat([x, y]) concatenate([x, y]) convolve(v, v[:3]) copy(x) copyto(x, y) corrcoef(x) correlate(v, v[:3])
count_nonzero(m) cov(x) cross(x[:, :3], y[:, :3]) cumprod(v) cumsum(x, axis=0) cumulative_prod(v) cumulative_sum(v) delete(v, 1) diag(v) diag_indices(4)
diag_indices_from(a) diagflat(v) diagonal(x) diff(x) digitize(x, [0.2, 0.5]) dot(x, y.T) dsplit(v.reshape(2, 2, 10), 2) dstack([x, y]) ediff1d(v)
einsum('ij,ij->i', x, y) empty(3)[:0] empty_like(x)[:0] expand_dims(x, 0) extract(m, x) eye(4) fill_diagonal(a, 1) fix(x) flatnonzero(m) flip(x)
fliplr(x) flipud(x) full((2, 2), 3.0) full_like(x, 2) geomspace(1, 100, 5) gradient(v) hamming(8) hanning(8) histogram(v)
histogram2d(v, v) histogram_bin_edges(v) hsplit(x, 2) hstack([x, y]) i0(x) identity(3) imag(z) indices((3, 4)) inner(x, y) insert(v, 1, 5.0)
interp(x, v[:5].cumsum(), v[:5]) intersect1d(k, i) isclose(x, y) iscomplex(z) iscomplexobj(x) isfortran(x) isin(k, i) isneginf(x) isposinf(x) isreal(z)
isrealobj(x) isscalar(x) issubdtype(x.dtype, np.floating) iterable(x) ix_([0, 1], [2, 3]) kaiser(8, 2.0) kron(a, a) lexsort((v, v)) linspace(0, 1, 11)
logspace(0, 2, 5) mask_indices(3, np.triu) matrix_transpose(x) max(x) mean(x) median(x) meshgrid(v, v) min(x) moveaxis(x, 0, 1) nan_to_num(x) nanargmax(x) nanargmin(x)
nancumprod(x) nancumsum(x) nanmax(x) nanmean(x) nanmedian(x) nanmin(x) nanpercentile(x, 20) nanprod(x) nanquantile(x, 0.2) nanstd(x) nansum(x) nanvar(x)
ndim(x) nonzero(x) ones(3) ones_like(x) outer(v, v) packbits(m) pad(x, 1) partition(v, 3) percentile(x, 30) permute_dims(x) piecewise(x, [x < 0.5], [0, 1])
place(x, m, [0.0]) polyadd(v[:3], v[:3]) polyder(v[:4]) polyfit(v, v * v, 2) polysub(v[:3], v[:3]) polyval(v[:3], x)
prod(x) promote_types(np.int32, np.float32) ptp(x) put(x, [1, 2], 0.0) put_along_axis(x, i[:6, None], 1.0, 1) putmask(x, m, 0) quantile(x, 0.3)
ravel(x) ravel_multi_index((1, 2), (3, 4)) real(z) repeat(x, 2) require(x) reshape(x, (8, 6)) resize(v, (3, 3)) result_type(np.int32, 'f4') roll(x, 1)
rollaxis(x, 1) rot90(x) round(x, 2) searchsorted(np.sort(v), x) select([x > 0.5], [x], 0.0) setdiff1d(k, i) setxor1d(k, i) shape(x) sinc(x) size(x)
sort(x) sort_complex(v) split(v, 4) squeeze(x[None]) stack([x, y]) std(x) sum(x) swapaxes(x, 0, 1) take(v, k) take_along_axis(x, x.argsort(axis=1), 1)
tensordot(x, y.T, 1) tile(x, (2, 3)) trace(x) transpose(x) trapezoid(v) tri(4) tril(x) tril_indices(4) tril_indices_from(a) triu(x) triu_indices(4)
triu_indices_from(a) union1d(k, i) unique(k) unpackbits(m.view(np.uint8)) unravel_index(5, (3, 4)) unstack(x) unwrap(v) vander(v[:5], 3) var(x) vdot(v, v)
vsplit(x, 2) vstack([x, y]) where(m, x, y) zeros(3) zeros_like(x) matmul(x, y.T) vecdot(x, y) matvec(x, v[:8]) vecmat(v[:6], x) divmod(x, y) modf(x) frexp(x)
ldexp(x, 2) clip(x, 0.1, 0.9) lib.stride_tricks.sliding_window_view(v, 3).sum(axis=1) lib.stride_tricks.as_strided(v, (3, 3), (8, 8)).sum()
""",
    "numpy.linalg": """
cholesky(a @ a.T) cond(a) cross(x[:, :3], y[:, :3]) det(a) diagonal(a) eigh(a + a.T) eigvalsh(a) inv(a) lstsq(x.T, v[:8], rcond=None) matmul(x, y.T)
matrix_norm(a) matrix_power(a, 3) matrix_rank(a) matrix_transpose(a) multi_dot([a, a, a]) norm(x) outer(v, v) pinv(x) qr(x) slogdet(a) solve(a, v[:4])
svd(x) svdvals(x) tensordot(x, y.T, axes=1) trace(a) vecdot(x, y) vector_norm(v)
""",
    "numpy.fft": """
fft(v) fft2(x) fftfreq(10) fftn(x) fftshift(v) hfft(v) ifft(v) ifft2(x) ifftn(x) ifftshift(v) ihfft(v) irfft(v) irfft2(x) irfftn(x) rfft(v) rfft2(x) rfftfreq(10)
rfftn(x)
""",
    "scipy.special": "bdtr(x, n, x) bdtrc(x, n, x) bdtri(x, n, x)",
    "numpy.ndarray": """
T all() any() argmax() argmin() argpartition(3) argsort() astype(np.float32) byteswap() clip(0.2, 0.8) compress([True], axis=0) conj() conjugate() copy() cumprod() cumsum()
diagonal() dot(y.T) dtype fill(1.0) flags.c_contiguous flat[3] flatten() imag item(3) itemsize mT max() mean() min() nbytes ndim nonzero() partition(3) prod() put([1], 2.0)
ravel() real repeat(2) reshape(8, 6) round(1) searchsorted(0.5) shape size sort() squeeze() std() strides sum() swapaxes(0, 1) take([1, 2]) tolist() trace()
transpose() var() view(np.int64) choose([x, y])
""",
}


def calls(module: str) -> dict[str, str]:
    """The typical calls by the name of the function."""
    texts, depth = [""], 0
    for letter in CALLS[module].strip():
        depth += (letter in "([") - (letter in ")]")
        if not letter.isspace() or depth:
            texts[-1] += letter
        elif texts[-1]:
            texts.append("")
    return {text.split("(")[0].split("[")[0].split(".")[0 if module == "numpy.ndarray" else -1]: text for text in texts}


_TEXT = "text of arrays, which depends on np.set_printoptions and the user's own formatters"
_FILES = "files, bytes and memory from elsewhere"
_PROCESS = "reads or sets the state of the process"
_OBJECTS = "objects of a type of NumPy's own, or of Python objects"
_DATES = "dates"
_VALUES = "the dtype or type of the result depends on the values"
_EXAMPLE = "its result cannot be predicted by a call with small arrays, whose numbers it may refuse"
_MEMORY = "returns where the memory of an array is, or changes an array object"
_PYTHON = "the library's own code in Python or Cython, most of which runs once in a program"

# Left to the library: the graph ends at the call, and continues after it.
LEFT = {
    "numpy": {
        _TEXT: "array2string array_repr array_str base_repr binary_repr format_float_positional format_float_scientific info typename",
        _FILES: "from_dlpack frombuffer fromfile fromiter fromregex fromstring genfromtxt load loadtxt save savetxt savez savez_compressed",
        _PROCESS: "geterr geterrcall get_include get_printoptions getbufsize printoptions set_printoptions setbufsize seterr seterrcall show_config show_runtime test",
        _OBJECTS: "asmatrix bmat frompyfunc nested_iters unique_all unique_counts unique_inverse unique_values",
        _DATES: "busday_count busday_offset datetime_as_string datetime_data is_busday isnat",
        _VALUES: "mintypecode min_scalar_type real_if_close roots trim_zeros polydiv einsum_path",
        _MEMORY: "may_share_memory shares_memory",
        _PYTHON: "poly polyint polymul fromfunction histogramdd row_stack isdtype",
    },
    "numpy.linalg": {_VALUES: "eig eigvals", _EXAMPLE: "tensorinv tensorsolve"},
    "numpy.fft": {},
    "scipy.special": {_PYTHON: "*"},
    "numpy.ndarray": {
        _FILES: "dump dumps tobytes tofile",
        _MEMORY: "base ctypes data getfield resize setfield setflags device to_device",
    },
}
