"""Gradients of complex numbers: dL/dx + i dL/dy of z = x + iy, as MindSpore's and PyTorch's, against differences in both directions."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, ops
from grad.grad_support import assert_gradients, differences

pytestmark = pytest.mark.capture
Z = np.array([1 + 2j, -0.5 + 0.3j, 2 - 1j])
W = np.array([0.5 - 1j, 1 + 1j, -2 + 0.5j])
R = np.array([0.7, -1.2, 0.9])
A = np.array([[1 + 1j, 0.5j], [0.3 - 2j, 2 + 0.4j]])
B = np.array([[0.2 - 1j, 1.5], [-0.7 + 0.1j, 0.6j]])


def weighted(x, w=1.3 - 0.4j):
    """A real number that goes by both parts of the elements, each in its own way."""
    return (x * np.arange(1, x.size + 1).reshape(x.shape) * w).imag.sum() + np.abs(x + 0.1).sum()


ANALYTIC = [
    np.exp, np.log, np.sqrt, np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh, np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arccosh,
    np.arctanh, np.square, np.reciprocal, np.expm1, np.log1p, np.log2, np.log10, np.exp2, np.negative, np.positive,
]  # fmt: skip


@pytest.mark.parametrize("f", ANALYTIC, ids=lambda f: f.__name__)
def test_analytic_functions(f):
    g = assert_gradients(lambda z: weighted(f(z)), Z, order=2, tolerance=2e-4)
    assert g.graphs().count("graph @") == 1


FUNCTIONS = {
    "abs": (lambda z: np.abs(z).sum(), Z),
    "real and imag": (lambda z: (z.real**2 * z.imag).sum() + np.real(z).prod(), Z),
    "conj": (lambda z: weighted(np.conj(z) * z * z), Z),
    "angle": (lambda z: (np.angle(z) * z).imag.sum(), Z),
    "products": (lambda z, w: weighted(z * w + z / w - w), Z, W),
    "powers": (lambda z, w: weighted(z**3) + weighted(z**w), Z, W),
    "of real arguments": (lambda x, z: weighted(x * z) + weighted(np.exp(1j * x)) + (x + z).imag.prod(), R, Z),
    "made of parts": (lambda x, y: weighted(np.exp(x + 1j * y)), R, R[::-1].copy()),
    "sums": (lambda z: weighted(np.cumsum(z)) + np.abs(z.sum()) + np.abs(z.mean()) + np.abs(z.prod()), Z),
    "std": (lambda z: z.std() + z.var(), Z),
    "where": (lambda z: weighted(np.where(z.real > 0, z * z, 2j * z)), Z),
    "views": (lambda z: weighted(z[::-1][:2] * z[1:]) + weighted(z.reshape(3, 1) * z), Z),
    "items": (lambda z: weighted(z[np.array([0, 0, 2])]) + (z[1] * z[0]).imag, Z),
    "a complex result": (lambda z: z * z * W, Z),
    "a complex result of reals": (lambda x: np.exp(1j * x) * W, R),
    "matrices": (lambda a, b: weighted(a @ b) + weighted(a @ b[0]) + weighted(np.dot(a, b)), A, B),
    "mixed matrices": (lambda a, b: weighted(a @ b) + weighted(b @ a) + weighted(np.einsum("ij,jk->ik", a, b)), A, B.real.copy()),
    "vdot": (lambda z, w: (np.vdot(z, w) * W).imag.sum(), Z, W),
    "solve": (lambda a, b: weighted(np.linalg.solve(a, b)), A, B),
    "inv": (lambda a: weighted(np.linalg.inv(a)) + np.abs(np.linalg.det(a)), A),
    "norm": (lambda z: np.linalg.norm(z) + np.linalg.norm(A * z[0]), Z),
    "outer": (lambda z, w: weighted(np.outer(z, w)), Z, W),
    "fft": (lambda z: weighted(np.fft.fft(z)) + weighted(np.fft.ifft(z, norm="ortho")), Z),
    "fft of reals": (lambda x: weighted(np.fft.fft(x)), R),
    "fft2": (lambda a: weighted(np.fft.fft2(a)) + weighted(np.fft.fftn(a * a)), A),
    "rfft": (lambda x: weighted(np.fft.rfft(x)) + weighted(np.fft.rfft(x[:2], norm="forward")), R),
    "irfft": (lambda z: (np.fft.irfft(z) ** 2).sum() + (np.fft.irfft(z, 5, norm="ortho") ** 3).sum(), Z),
    "concatenate": (lambda z, x: weighted(np.concatenate([z, x])), Z, R),
    "a number": (lambda z: np.abs(z) * (z * z * 1j).real, 1.5 - 0.5j),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    f, *args = FUNCTIONS[name]
    g = assert_gradients(f, *args, order=1)
    assert g.graphs().count("graph @") == 1


def set_parts(z):
    y = z * 1j
    part = y.real
    part *= z.imag
    y.imag[1:] = part[:2] * 2
    y[0] = z[2]
    y[1:] += z[:2]
    return weighted(y)


def set_attributes(z):
    y = z * 1j
    y.real *= z.imag
    y.imag = y.real * 2
    return weighted(y)


def test_parts_that_are_written():
    g = assert_gradients(set_parts, Z)
    assert g.graphs().count("graph @") == 1
    g = assert_gradients(set_attributes, Z)  # stores into attributes are breaks
    assert g.graphs().count("graph @") == 0


def test_other_attributes_are_not_assigned():
    def f(x):
        y = x * 1
        y.shape = (1, 3)
        return y.sum()

    with pytest.raises(fj.GraphBreakError, match="an assignment to ndarray.shape"):
        fj.grad(f)(Z)


@pytest.mark.parametrize("name", ["abs", "real and imag", "conj", "products", "of real arguments", "matrices", "fft", "views", "norm"])
def test_tape(name):
    f, *args = FUNCTIONS[name]

    def broken(*args):
        fj.graph_break("here")
        return f(*args)

    positions = tuple(range(len(args)))
    whole = fj.grad(f, positions)(*args)
    found = fj.grad(broken, positions)
    for a, b in zip(found(*args), whole, strict=True) if len(args) > 1 else [(found(*args), whole)]:
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert found.graphs().count("graph @") == 0


# What MindSpore 2.10 gives on CPU, where it has the gradient.
MINDSPORE = {
    "abs": (ops.abs, [0.4472136 + 0.8944272j, -0.8574929 + 0.5144958j, 0.8944272 - 0.4472136j]),
    "real": (ops.real, [1, 1, 1]),
    "imag": (ops.imag, [1j, 1j, 1j]),
    "conj": (ops.conj, [1, 1, 1]),
    "exp": (ops.exp, [-1.1312044 - 2.4717267j, 0.5794409 - 0.17924207j, 3.9923239 + 6.217676j]),
    "exp.imag": (lambda z: ops.imag(ops.exp(z)), [2.4717267 - 1.1312044j, 0.17924207 + 0.5794409j, -6.217676 + 3.9923239j]),
    "log": (ops.log, [0.2 + 0.4j, -1.4705882 + 0.88235295j, 0.4 - 0.2j]),
    "sqrt": (ops.sqrt, [0.28443223 + 0.1757888j, 0.17478475 + 0.63102835j, 0.32542542 - 0.07682252j]),
    "div": (lambda z: z / Tensor(W.astype(np.complex64)), [0.4 - 0.8j, 0.5 + 0.5j, -0.47058824 + 0.11764706j]),
    "angle": (ops.angle, [-0.4 + 0.2j, -0.88235295 - 1.4705882j, 0.2 + 0.4j]),
    "tanh.imag": (lambda w: ops.imag(ops.tanh(w * 1)), None),
    "add": (lambda z: ops.abs(z + Tensor(R.astype(np.float32))), None),
}


@pytest.mark.parametrize("name", MINDSPORE)
def test_tensors(name):
    f, wanted = MINDSPORE[name]
    z = Tensor(Z.astype(np.complex64))
    g = fj.jit(fj.grad(f), fullgraph=True)
    found = g(z)
    assert found.dtype == fj.complex64
    if wanted is not None:
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-5)
    else:
        wanted = differences(lambda x: f(Tensor(x)).asnumpy(), (Z,))
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-3, atol=1e-3)


def test_tensors_of_reals():
    x, z = Tensor(R.astype(np.float32)), Tensor(Z.astype(np.complex64))
    of_x, of_z = fj.grad(lambda x, z: ops.abs(x * z), (0, 1))(x, z)
    assert (of_x.dtype, of_z.dtype) == (fj.float32, fj.complex64)
    np.testing.assert_allclose(of_x.asnumpy(), np.sign(R) * np.abs(Z), rtol=1e-6)
    np.testing.assert_allclose(of_z.asnumpy(), np.abs(R) * Z / np.abs(Z), rtol=1e-6)


def test_zero():
    np.testing.assert_array_equal(fj.grad(np.abs)(np.zeros(2, complex)), np.zeros(2))


def test_complex64():
    found = fj.grad(lambda z: np.abs(z * z).sum())(Z.astype(np.complex64))
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, 2 * Z, rtol=1e-6)


def test_products_with_a_jacobian():
    out, moved = fj.jvp(lambda z: z * z, Z, W)
    np.testing.assert_allclose(moved, 2 * Z * W)
    np.testing.assert_allclose(out, Z * Z)
    out, pull = fj.vjp(lambda z: z * z, Z)
    np.testing.assert_allclose(pull(W)[0], np.conj(2 * Z) * W)


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda z: np.sign(z).real.sum(), "sign"),
        (lambda z: z.astype(np.complex64).view(np.float64).sum(), "ndarray.view"),
        (lambda z: np.linalg.eigvalsh(np.outer(z, z)).sum(), "eigvalsh"),
    ],
)
def test_what_has_no_gradient(f, text):
    with pytest.raises(fj.GraphBreakError, match=text):
        fj.grad(f)(Z)
