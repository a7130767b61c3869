"""The array API standard: names, signatures and results of the namespace next to those of array-api-strict.

The suite of the standard is larger: ./dev array-api runs it.
"""

from __future__ import annotations

import inspect

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor

pytestmark = pytest.mark.capture
strict = pytest.importorskip("array_api_strict")
if not hasattr(np, "__array_api_version__") or np.__array_api_version__ < "2024.12":
    pytest.skip("NumPy's functions have an older version of the standard", allow_module_level=True)
import framejit.array_api as xp  # noqa: E402

LATER = {"Device", "ArrayAPIStrictFlags", "set_array_api_strict_flags", "get_array_api_strict_flags", "reset_array_api_strict_flags", "__version__"}
NAMES = [name for name in strict.__all__ if name not in LATER]
A = np.array([[4.0, 1.0], [1.0, 3.0]])
B = np.array([[0.5, -1.5], [2.0, 0.25]])
I = np.array([[3, 5], [1, 2]])


def as_arrays(value):
    """What a namespace returned, as ndarrays and Python's objects."""
    if isinstance(value, Tensor):
        return value.asnumpy()
    if type(value).__module__.startswith("array_api_strict") and hasattr(value, "__array__"):
        return np.asarray(value)
    if isinstance(value, (list, tuple)):
        return [as_arrays(item) for item in value]
    return value


def assert_equal(found, expected):
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for pair in zip(found, expected):
            assert_equal(*pair)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected, strict=True)
    else:
        assert found == expected


def test_names():
    assert [name for name in NAMES if not hasattr(xp, name)] == []
    assert [name for name in strict.linalg.__all__ if not hasattr(xp.linalg, name)] == []
    assert [name for name in strict.fft.__all__ if not hasattr(xp.fft, name)] == []
    assert xp.__array_api_version__ == np.__array_api_version__
    assert [name for name in xp.__all__ if not hasattr(xp, name)] == []


def test_the_namespace_of_a_tensor():
    tensor = Tensor(A)
    assert tensor.__array_namespace__() is xp is tensor.__array_namespace__(api_version="2023.12")
    with pytest.raises(ValueError, match="'api_version' must be one of 2021.12"):
        tensor.__array_namespace__(api_version="1999.12")
    assert tensor.to_device(tensor.device) is tensor and complex(tensor[0, 0]) == 4
    with pytest.raises(ValueError, match="'device' must be 'CPU', but got 'cuda'"):
        tensor.to_device("cuda")
    with pytest.raises(ValueError, match="one element"):
        complex(tensor)


UNARY = "abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor isfinite isinf isnan log log10 log1p log2 negative positive reciprocal real round sign signbit sin sinh sqrt square tan tanh trunc imag".split()
BINARY = "add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp maximum minimum multiply nextafter not_equal pow remainder subtract matmul vecdot".split()
INTEGERS = "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor".split()
CALLS = {
    **{name: lambda ns, a, b, i, name=name: getattr(ns, name)(b) for name in UNARY if name not in ("real", "imag", "conj")},
    **{name: lambda ns, a, b, i, name=name: getattr(ns, name)(a, b) for name in BINARY},
    **{name: lambda ns, a, b, i, name=name: getattr(ns, name)(i, i) for name in INTEGERS},
    "logical_not": lambda ns, a, b, i: ns.logical_not(b > 0),
    "bitwise_invert": lambda ns, a, b, i: ns.bitwise_invert(i),
    "all": lambda ns, a, b, i: ns.all(a > b, axis=0),
    "any": lambda ns, a, b, i: ns.any(a > b),
    "arange": lambda ns, a, b, i: ns.arange(1, 9, 2),
    "argmax": lambda ns, a, b, i: ns.argmax(b, axis=1, keepdims=True),
    "argsort": lambda ns, a, b, i: ns.argsort(b, descending=True),
    "asarray": lambda ns, a, b, i: ns.asarray([[1, 2], [3, 4]], dtype=ns.float32),
    "astype": lambda ns, a, b, i: ns.astype(i, ns.float32),
    "broadcast_arrays": lambda ns, a, b, i: ns.broadcast_arrays(a, b[0, :]),
    "broadcast_to": lambda ns, a, b, i: ns.broadcast_to(a, (3, 2, 2)),
    "clip": lambda ns, a, b, i: ns.clip(b, min=-1.0, max=b * 0 + 1),
    "concat": lambda ns, a, b, i: ns.concat([a, b], axis=1),
    "count_nonzero": lambda ns, a, b, i: ns.count_nonzero(i, axis=0),
    "cumulative_sum": lambda ns, a, b, i: ns.cumulative_sum(b, axis=0, include_initial=True),
    "diff": lambda ns, a, b, i: ns.diff(b, axis=0),
    "empty_like": lambda ns, a, b, i: ns.empty_like(a) * 0.0 == 0.0,
    "expand_dims": lambda ns, a, b, i: ns.expand_dims(a, axis=1),
    "eye": lambda ns, a, b, i: ns.eye(3, 2, k=-1, dtype=ns.int32),
    "flip": lambda ns, a, b, i: ns.flip(a, axis=0),
    "full": lambda ns, a, b, i: ns.full((2, 2), 7, dtype=ns.uint8),
    "isdtype": lambda ns, a, b, i: [ns.isdtype(a.dtype, "real floating"), ns.isdtype(i.dtype, (ns.int32, "bool"))],
    "isin": lambda ns, a, b, i: ns.isin(i, i[0, :]),
    "linspace": lambda ns, a, b, i: ns.linspace(0.0, 1.0, 5),
    "max": lambda ns, a, b, i: ns.max(a, axis=(0, 1)),
    "mean": lambda ns, a, b, i: ns.mean(a, axis=0),
    "meshgrid": lambda ns, a, b, i: ns.meshgrid(a[0, :], b[0, :], indexing="ij"),
    "moveaxis": lambda ns, a, b, i: ns.moveaxis(a, 0, 1),
    "nonzero": lambda ns, a, b, i: ns.nonzero(b > 0),
    "permute_dims": lambda ns, a, b, i: ns.permute_dims(a, (1, 0)),
    "prod": lambda ns, a, b, i: ns.prod(i),
    "repeat": lambda ns, a, b, i: ns.repeat(a, 2, axis=0),
    "reshape": lambda ns, a, b, i: ns.reshape(a, (4,)),
    "roll": lambda ns, a, b, i: ns.roll(a, 1),
    "searchsorted": lambda ns, a, b, i: ns.searchsorted(ns.sort(a[0, :]), b[1, :]),
    "sort": lambda ns, a, b, i: ns.sort(b, descending=True, axis=0),
    "squeeze": lambda ns, a, b, i: ns.squeeze(ns.expand_dims(a, axis=0), axis=0),
    "stack": lambda ns, a, b, i: ns.stack((a, b), axis=-1),
    "std": lambda ns, a, b, i: ns.std(a, correction=1.0),
    "sum": lambda ns, a, b, i: ns.sum(a, axis=1, dtype=ns.float32),
    "take": lambda ns, a, b, i: ns.take(a, ns.asarray([1, 0]), axis=0),
    "tensordot": lambda ns, a, b, i: ns.tensordot(a, b, axes=1),
    "tile": lambda ns, a, b, i: ns.tile(a, (2, 1)),
    "tril": lambda ns, a, b, i: ns.tril(a, k=-1),
    "unique_all": lambda ns, a, b, i: ns.unique_all(i)[0],
    "unique_counts": lambda ns, a, b, i: [ns.unique_counts(i).values, ns.unique_counts(i).counts],
    "unstack": lambda ns, a, b, i: ns.unstack(a),
    "var": lambda ns, a, b, i: ns.var(a, axis=0),
    "where": lambda ns, a, b, i: ns.where(b > 0, a, 0.0),
    "zeros": lambda ns, a, b, i: ns.zeros((2, 3), dtype=ns.complex64),
    "linalg.det": lambda ns, a, b, i: ns.linalg.det(a),
    "linalg.eigh": lambda ns, a, b, i: ns.linalg.eigh(a).eigenvalues,
    "linalg.solve": lambda ns, a, b, i: ns.linalg.solve(a, b),
    "linalg.qr": lambda ns, a, b, i: ns.linalg.qr(a).R,
    "linalg.vector_norm": lambda ns, a, b, i: ns.linalg.vector_norm(a, axis=0, ord=1),
    "fft.rfft": lambda ns, a, b, i: ns.fft.rfft(a[0, :], n=4),
    "fft.fftfreq": lambda ns, a, b, i: ns.fft.fftfreq(5, d=0.5, dtype=ns.float32),
    "operators": lambda ns, a, b, i: (a * 2.0 - b / a) @ a - abs(-b) ** 2.0,
    "items": lambda ns, a, b, i: [(i << 1) % 3, a[0, 1], a[:, None, ::-1], b[b > 0], a[..., 0]],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CALLS)
def test_results(name):
    given = A, B, I
    expected = as_arrays(CALLS[name](strict, *map(strict.asarray, given)))
    tensors = list(map(Tensor, given))
    marked = fj.jit(lambda a, b, i: CALLS[name](xp, a, b, i))
    for found in (CALLS[name](xp, *tensors), marked(*tensors), marked(*tensors)):
        assert_equal(as_arrays(found), expected)


def test_signatures():
    """Parameters of the standard are there, under their names where they may be given by name."""
    with_parameters = [name for name in NAMES if inspect.isfunction(getattr(strict, name))]
    for name in with_parameters:
        if isinstance(getattr(np, name, None), np.ufunc):
            continue  # all are given by position
        asked = inspect.signature(getattr(strict, name)).parameters.values()
        there = inspect.signature(getattr(xp, name)).parameters
        if any(p.kind is p.VAR_KEYWORD for p in there.values()):
            continue
        missing = [p.name for p in asked if p.kind is p.KEYWORD_ONLY and p.name not in there]
        assert missing == [] or name in ("__array_namespace_info__",), (name, missing)


@pytest.mark.parametrize("name", ["exp", "sum", "concat", "where", "reshape", "astype", "sort", "linalg.solve", "zeros", "operators"])
def test_captured(name):
    call = CALLS[name]
    report = fj.explain(lambda a, b, i: call(a.__array_namespace__(), a, b, i))(Tensor(A), Tensor(B), Tensor(I))
    assert report.breaks == []


def test_dtypes():
    info = xp.__array_namespace_info__()
    assert info.default_device() == Tensor(A).device and info.devices() == ["CPU"]
    assert info.dtypes(kind="bool") == {"bool": fj.bool_}
    assert set(info.dtypes(kind="numeric")) == set(info.dtypes()) - {"bool"}
    assert info.default_dtypes() == {"real floating": fj.float64, "complex floating": fj.complex128, "integral": fj.int64, "indexing": fj.int64}
    assert all(dtype is getattr(xp, name) for name, dtype in info.dtypes().items())
    with pytest.raises(ValueError, match="'kind' must be in"):
        info.dtypes(kind="text")
    assert xp.result_type(xp.int8, Tensor([1], xp.int16)) is xp.int16 and xp.can_cast(xp.int8, xp.int16)
    assert xp.finfo(xp.float32).eps == np.finfo("f4").eps and xp.finfo(Tensor(A)).dtype is xp.float64
    assert xp.iinfo(xp.int8).max == 127 and xp.iinfo(xp.uint16).dtype is xp.uint16


def test_asarray():
    tensor, array = Tensor(A), A.copy()
    assert xp.asarray(tensor) is tensor is xp.asarray(tensor, copy=False)
    assert xp.asarray(tensor, copy=True) is not tensor
    shared = xp.asarray(array, copy=False)
    array[0, 0] = 9.0
    assert float(shared[0, 0]) == 9.0
    assert xp.asarray([tensor[0, 0], 2.0]).dtype is xp.float64
    with pytest.raises(ValueError, match="'copy' is False"):
        xp.asarray([1.0], copy=False)
    with pytest.raises(ValueError, match="'device' must be 'CPU' or None, but got 'cuda'"):
        xp.zeros(3, device="cuda")
    with pytest.raises(ValueError, match="take the real part first"):
        xp.astype(Tensor([1j]), xp.float64)


def test_scipy_and_scikit_learn_take_the_namespace():
    compat = pytest.importorskip("array_api_compat")
    tensor = Tensor(A)
    assert compat.array_namespace(tensor) is xp and compat.is_array_api_obj(tensor)
    assert compat.size(tensor) == 4
