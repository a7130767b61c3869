"""What the tests of Tensors share."""

from __future__ import annotations

import framejit as fj
import numpy as np

NUMPY2 = np.lib.NumpyVersion(np.__version__) >= "2.0.0"  # where a scalar decides by its value, as before, the graph breaks


def leaves(value):
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def assert_same(result, expected, what=""):
    """Tensors of the same dtype, shape and bytes; other values equal and of one type."""
    found, wanted = leaves(result), leaves(expected)
    assert len(found) == len(wanted), what
    for a, b in zip(found, wanted):
        assert type(a) is type(b), (what, type(a), type(b))
        if isinstance(a, fj.Tensor):
            assert a.dtype is b.dtype, (what, a.dtype, b.dtype)
            assert a.shape == b.shape, (what, a.shape, b.shape)
            assert a.asnumpy().tobytes() == b.asnumpy().tobytes(), (what, a, b)
        else:
            assert a == b, what


def assert_array(tensor, array, what=""):
    """A Tensor with exactly these elements and this dtype."""
    array = np.asarray(array)
    assert isinstance(tensor, fj.Tensor), what
    assert tensor.asnumpy().dtype == array.dtype, (what, tensor.dtype, array.dtype)
    assert tensor.shape == array.shape, (what, tensor.shape, array.shape)
    assert tensor.asnumpy().tobytes() == np.ascontiguousarray(array).tobytes(), (what, tensor, array)


def marked_as_eager(function, *args, breaks=0):
    """Eager execution and two marked calls agree; gives the marked function."""
    expected = function(*args)
    marked = fj.jit(function)
    for _ in range(2):
        assert_same(marked(*args), expected, function.__qualname__)
    if breaks is not None and NUMPY2:
        explained = fj.explain(function)(*args)
        assert len(explained.breaks) == breaks, [b["detail"] for b in explained.breaks]
        assert breaks or marked.graphs().count("graph @") == 1
    return marked
