"""SciPy's functions of BLAS and LAPACK are library calls, unless they may write to an argument."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import framejit
from exact.same import assert_same
from exact.test_scans_and_gathers import steps_of
from framejit._core import _numpy_way

linalg = pytest.importorskip("scipy.linalg")
from scipy.linalg import blas, lapack  # noqa: E402

# m, s, l: a matrix, a symmetric positive definite one and a lower triangular one; v, w: vectors; b: two right-hand sides;
# t: rows of a band above the diagonal.
CALLS = {
    "getrf": "(m)", "potrf": "(s)", "potri": "(l, lower=1)", "trtri": "(l, lower=1)", "gesdd": "(m)", "syev": "(s)", "syevd": "(s)",
    "heev": "(s)", "heevd": "(s)", "gesv": "(m, b)", "posv": "(s, b)", "potrs": "(l, b, lower=1)", "getri": "(m, p)",
    "trtrs": "(l, b, lower=1)", "tbtrs": "(t, b)", "pbsv": "(t, b)", "pbtrs": "(t, b)", "getrs": "(m, p, v)", "ptsv": "(r + 9, r[1:], v)",
    "pttrs": "(r, v[1:], b)", "gtsv": "(v[1:], v + 9, v[:-1], v)", "gbsv": "(1, 1, g, b)", "gbtrs": "(g, 1, 1, b, p)",
    "nrm2": "(v)", "asum": "(v)", "dot": "(v, w)",
    "trmv": "(l, v, lower=1)", "trsv": "(l, v, lower=1)", "gemm": "(2, m, b)", "gemv": "(2, m, v)", "symm": "(2, s, b)", "symv": "(2, s, v)",
    "hemm": "(2, s, b)", "hemv": "(2, s, v)", "trmm": "(2, l, b, lower=1)", "trsm": "(2, l, b, lower=1)",
}  # fmt: skip
HOMES = {name: home for home in (lapack, blas) for name in dir(home) if type(getattr(home, name)).__name__ == "fortran"}
NAMES = sorted(name for name in HOMES if name[1:] in CALLS)


def arguments(letter, n=20):
    rng = np.random.default_rng(1)
    dtype = {"s": "f4", "d": "f8", "c": "c8", "z": "c16"}[letter]
    m = (rng.random((n, n)) + 3 * np.eye(n)).astype(dtype)
    g, t = np.ones((4, n), dtype), np.ones((2, n), dtype)
    g[2] = t[1] = 5
    s = m @ m.conj().T
    v, w, b = rng.random(n).astype(dtype), rng.random(n).astype(dtype), rng.random((n, 2)).astype(dtype)
    return m, (s + s.conj().T) / 2, np.tril(m), v, w, b, t, np.arange(n, dtype="i4"), g, rng.random(n).astype(dtype.replace("c8", "f4").replace("c16", "f8"))


def function_of(name, call):
    scope = {"home": HOMES[name]}
    exec(f"def function(m, s, l, v, w, b, t, p, g, r):\n    return home.{name}{call}, v + 1\n", scope)
    return scope["function"]


def function_of_temporaries(name, call, result):
    """Its arguments are computed in the function, in the memory order that Fortran has, and used once or twice."""
    scope = {"home": HOMES[name]}
    lines = [f"    {x} = ({x}.T * 1).T" for x in "mslbtg"] + [f"    {x} = {x} * 1" for x in "vwpr"]
    lines += [f"    found = home.{name}{call}", f"    return {result}"]
    exec("\n".join(["def function(m, s, l, v, w, b, t, p, g, r):", *lines]), scope)
    return scope["function"]


def test_which_functions_are_library_calls():
    found = {name for name, home in HOMES.items() if _numpy_way(getattr(home, name)) == ("library", "")}
    assert found == set(NAMES)
    assert len(found) > 100
    assert {name[1:] for name in found} == set(CALLS)


@pytest.mark.parametrize("name", NAMES)
def test_function(name):
    function = function_of(name, CALLS[name[1:]])
    graph = framejit.jit(function, fullgraph=True)
    graph(*arguments(name[0]))
    assert "library_call" in "".join(graph.graphs())
    for n in (20, 21):
        assert_same(function, lambda: arguments(name[0], n), calls=2)


@pytest.mark.parametrize("name", NAMES)
def test_function_of_what_nothing_else_reads(name):
    """The function computes in its arguments, unless something reads them after the call."""
    for result in ("found", "found, v + 1, m - 1, b, s, l + l", "found[-1]", "found[0] * 2, g, t"):
        if "found[" in result and not isinstance(function_of(name, CALLS[name[1:]])(*arguments(name[0]))[0], tuple):
            continue
        function = function_of_temporaries(name, CALLS[name[1:]], result)
        framejit.jit(function, fullgraph=True)(*arguments(name[0]))
        for n in (20, 21):
            assert_same(function, lambda: arguments(name[0], n), calls=2)


def test_no_copies_of_what_nothing_else_reads():
    def solved(v):
        return lapack.dgtsv(v[1:] - 1.0, v + 9.0, v[:-1] * 0.5, v + 1.0)[3] * 2.0

    def solved_and_read(v):
        lower, middle, upper, right = v[1:] - 1.0, v + 9.0, v[:-1] * 0.5, v + 1.0
        return lapack.dgtsv(lower, middle, upper, right)[3] * middle + right

    def most_memory(function):
        marked = framejit.jit(function, fullgraph=True)
        v = np.linspace(0.0, 1.0, 100_000)
        marked(v)
        marked(v)
        tracemalloc.start()
        marked(v)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak / v.nbytes

    assert most_memory(solved) < 0.5
    assert 1.5 < most_memory(solved_and_read) < 2.5


@pytest.mark.parametrize(
    "call", ["(m.T, b.T.copy().T, overwrite_b=True)", "(m.T, b.T.copy().T, 1)", "(m.T, b.T.copy().T, overwrite_a=1)"]
)
def test_flags_that_let_it_write(call):
    """Then it may give what it was given, so it stays a call of the interpreter's."""
    explained = framejit.explain(function_of("dgesv", call))(*arguments("d"))
    assert "dgesv with an argument that it may write to" in str(explained)
    assert_same(function_of("dgesv", call), lambda: arguments("d"), calls=2)


@pytest.mark.parametrize("call", ["dgesdd(m, lwork=5000)", "dsyevd(s, liwork=300)", "dgetri(m, p, lwork=20)"])
def test_lengths_of_work_spaces(call, capfd):
    """Arrays of another length stand in when results are found out; LAPACK prints that a length does not fit these."""
    name, _, rest = call.partition("(")
    function = function_of(name, "(" + rest)
    explained = framejit.explain(function)(*arguments("d"))
    assert "the length of its work space" in str(explained)
    assert_same(function, lambda: arguments("d"), calls=2)
    assert capfd.readouterr().out.count("On entry to") == 0


@pytest.mark.parametrize("flag", ["0", "False"])
def test_flags_that_do_not(flag):
    framejit.jit(function_of("dgesv", f"(m, b, overwrite_a={flag})"), fullgraph=True)(*arguments("d"))


TWICE = {
    "dgtsv": lambda m, v: lapack.dgtsv(v[1:] * 1.0, (t := v + 9.0), v[:-1] * 0.5, t),
    "dgtsv, beside": lambda m, v: lapack.dgtsv((t := v[1:] * 0.1), v + 9.0, t, v + 1.0),
    "dgesv": lambda m, v: lapack.dgesv((t := m * 2.0), t),
    "dposv": lambda m, v: lapack.dposv((t := m @ m.T + np.eye(len(m))), t),
    "dtrmm": lambda m, v: blas.dtrmm(2.0, (t := m * 1.5), t),
    "dgemm": lambda m, v: blas.dgemm(2.0, (t := m * 1.5), t, c=t, beta=1.0),
    "dgemm, transposed": lambda m, v: blas.dgemm(2.0, (t := m * 1.5), t.T, c=t, beta=1.0),
}


@pytest.mark.parametrize("n", [20, 3000])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", TWICE)
def test_one_array_in_two_places(name, order, n):
    """It is read in one of them, so the function does not compute in the other."""

    def arguments():
        m = np.random.default_rng(5).random((6, 6)) + 3 * np.eye(6)
        return np.asarray(m, order=order), np.linspace(1.0, 2.0, n)

    def cut(m, v):
        if n > 20:
            v = np.where(np.arange(n) % 8 == 7, 0.0, v)
        return TWICE[name](m, v)

    assert_same(TWICE[name], arguments, calls=3)
    assert_same(cut, arguments, calls=3)


def test_what_lapack_refuses():
    """Its errors are those of the interpreter, and an argument of the wrong length is one."""
    for call in ("(v[1:], v + 9, v[2:], v)", "(v[1:], v + 9, None, v)", "(v[1:], v)"):
        assert_same(function_of("dgtsv", call), lambda: arguments("d"), calls=2)


def test_errors_of_the_library_come_once():
    """Its exceptions are classes of its own; a run that meets one leaves nothing behind for a later call to raise."""

    def product(a, b):
        return blas.dgemm(1.0, a, b) + 1

    a, b, odd = np.eye(3), np.ones((3, 2)), np.ones((4, 2))
    for order in ((a, odd, odd), (a, b, b), (a, odd, b)):
        marked = framejit.jit(product)
        for _ in range(4):
            for right in order[1:]:
                seen = []
                for function in (product, marked):
                    try:
                        seen.append(function(order[0], right).tobytes())
                    except Exception as error:
                        seen.append((type(error), str(error)))
                assert seen[0] == seen[1]
                assert [str(number) for number in range(50)]  # no exception waits for its next instruction


def test_the_number_of_a_failure():
    """`info` says at which pivot it failed; the program may ask for it."""

    def solved(a, b):
        *_, x, info = lapack.dgesv(a, b)
        return x * 2 if info == 0 else info

    regular, singular = np.array([[3.0, 1], [1, 2]]), np.ones((2, 2))
    for a in (regular, singular, regular):
        assert_same(solved, lambda a=a: (a, np.ones(2)), calls=2)
    compiled = framejit.jit(solved)
    assert compiled(singular, np.ones(2)) == 2
    np.testing.assert_array_equal(compiled(regular, np.ones(2)), solved(regular, np.ones(2)))


def test_systems_of_three_diagonals():
    """Lengths beside one another are symbolic in one graph."""

    def solved(a, b, c, d):
        return lapack.dgtsv(a.flatten()[1:], b.flatten(), c.flatten()[:-1], d.flatten())[3].reshape(a.shape)

    def diagonals(*shape):
        rng = np.random.default_rng(2)
        return [rng.random(shape) + add for add in (0, 5, 0, 0)]

    compiled = framejit.jit(solved, fullgraph=True)
    for shape in ((3, 100), (40, 50), (100, 1000), (2, 3)):
        np.testing.assert_array_equal(compiled(*diagonals(*shape)), solved(*diagonals(*shape)), strict=True)
    assert compiled.graphs().count("graph @") == 2
    assert "f64[s0*s1 - 1]" in compiled.graphs()


def systems(rows, columns, seed=3):
    """The diagonals and the right side of one system per row, as arrays of two axes; `rows` of them are not coupled."""
    rng = np.random.default_rng(seed)
    lower, diagonal, upper, right = (rng.standard_normal((rows, columns)) for _ in range(4))
    lower[:, 0] = upper[:, -1] = 0
    return lower, diagonal + 6 * np.sign(diagonal), upper, right


def solved_at_once(a, b, c, d):
    return lapack.dgtsv(a.ravel()[1:], b.ravel(), c.ravel()[:-1], d.ravel())


def solution_of_copies(a, b, c, d):
    return lapack.dgtsv(a.flatten()[1:], b.flatten(), c.flatten()[:-1], d.flatten())[3].reshape(a.shape)


EDGES = {
    "whole": lambda *s: None,
    "zeros": lambda a, b, c, d: (np.copyto(d[::3], 0.0), np.copyto(d[1::7], -0.0), np.copyto(b[::3], 1.0)),
    "zeros of both signs": lambda a, b, c, d: np.copyto(d, np.where(np.arange(d.size).reshape(d.shape) % 2, 0.0, -0.0)),
    "signs of what couples nothing": lambda a, b, c, d: (np.copyto(a[:, 0], -0.0), np.copyto(c[::2, -1], -0.0)),
    "exchanged rows": lambda a, b, c, d: np.copyto(b[40, 3:5], 1e-9),
    "singular": lambda a, b, c, d: np.copyto(b[41], 0.0),
    "singular at last": lambda a, b, c, d: (np.copyto(a[-1, -1:], 0.0), np.copyto(b[-1, -1:], 0.0)),
    "infinite": lambda a, b, c, d: np.copyto(d[17, 4:6], np.inf),
    "infinite diagonal": lambda a, b, c, d: np.copyto(b[::5, 4:6], -np.inf),
    "nan": lambda a, b, c, d: np.copyto(d[-1], np.nan),
    "nan on the diagonal": lambda a, b, c, d: np.copyto(b[50, :1], np.nan),
    "tiny": lambda a, b, c, d: np.copyto(d, d * 1e-310),
    "coupled": lambda a, b, c, d: (np.copyto(a[:, 0], 0.5), np.copyto(c[:, -1], 0.5)),
    "coupled from above": lambda a, b, c, d: np.copyto(a[:, 0], 0.5),
    "coupled from below": lambda a, b, c, d: np.copyto(c[:, -1], 0.5),
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("function", [solved_at_once, solution_of_copies])
@pytest.mark.parametrize(("rows", "columns"), [(300, 7), (2050, 9), (9000, 8)])
def test_systems_that_are_not_coupled(function, rows, columns, edge):
    """They are solved side by side, with the bits of the serial function; also where it computes in its arguments."""

    def arguments():
        made = systems(rows, columns)
        EDGES[edge](*made)
        return made

    marked = framejit.jit(function, fullgraph=True)
    for _ in range(3):
        expected, found = function(*arguments()), marked(*arguments())
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)
            assert np.array_equal(np.signbit(ours)[~np.isnan(ours)], np.signbit(theirs)[~np.isnan(theirs)])


def test_systems_side_by_side_are_a_step_of_their_own():
    assert "tridiagonal" in steps_of(solution_of_copies, *systems(300, 9))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_systems_by_threads(threads):
    before = framejit.get_num_threads()
    framejit.set_num_threads(threads)
    try:
        for rows in (20_000, 40_001):
            assert_same(solution_of_copies, lambda rows=rows: systems(rows, 11), calls=2)
    finally:
        framejit.set_num_threads(before)
