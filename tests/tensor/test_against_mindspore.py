"""MindSpore 2.10 on CPU beside framejit: values, dtype, shape and types of errors of the rows of mindspore_rows.py; the losses of a training.

Runs where `./dev mindspore` has made MindSpore's environment.
"""

from __future__ import annotations

import collections
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tensor import mindspore_primitive_rows

pytestmark = pytest.mark.capture
HERE = Path(__file__).resolve().parent
FOUND = sorted(HERE.parents[1].glob(".venv-*-mindspore/bin/python"))

# Units in the last place by which values may differ: those of MindSpore's kernels and ours together, near results where terms cancel.
ULP = 16
MORE_ULP = {
    r"\b(exp|Exp|elu|ELU|softplus|logsigmoid|Softplus)\b": 64,
    r"\b(expm1|tanhshrink)\b": 1024,
    r"\b(log|Log|log2|log10|log1p|log_softmax|LogSoftmax)\b": 1024,
    r"\b(softmax|Softmax|SampledSoftmaxLoss)\b": 32,
    r"[cC]onv\dd|Conv2D": 256,
    r"GroupNorm|group_norm": 128,
    r"Bernoulli|digamma|matmul": 64,
    r"PoissonNLL|Focal": 128,
    r"LBeta": 256,
    r"gradient\(ops": 512,
    r"updated\(": 64,
    r"Betainc|Bessel|CTCLoss|Svd": 128,
    r"HSV|Adjust": 512,
}

# By how much they may differ instead, where sums of many terms come near 0.
ATOL = {
    r"nn\.(RNN|LSTM|GRU|Multihead|Transformer|BatchNorm|LayerNorm|GroupNorm)": 2e-6,
    r"(RNN|LSTM|GRU|Multihead|Transformer|trained).*": 5e-6,
    r"[cC]onv\d|Pool\d|pool\dd|interpolate|[uU]psample|fold|LRN|lrn": 3e-6,
    r"Loss|_loss|gamma|Gamma|BiDense|Perplexity": 2e-6,
    r"qr|lstsq|trapz|blackman|det|inverse|cholesky|[mM]atrix|fft|pinv|logcumsumexp|logaddexp2": 2e-5,
    r"grid_sample|affine_grid": 3e-6,
    r"Dice": 1e-6,
    r"matrix_power": 2e-3,
    r"gradients\(.*": 1e-4,
    r"steps\(.*": 1e-6,
    r"steps\(.*Adam": 3e-5,
    r"Resize|ScaleAnd|Sampler|Crop|Deformable|ROIAlign|Conv3DTranspose|FFT|STFT|stft|Qr|Cumulative|Blackman|gradient.*Renorm|FractionalAvg|orgqr": 1e-5,
    r"gradient.*(Resize|Conv3DTranspose)": 5e-5,
}

# Where the two differ, and why.
KNOWN = {
    r"ops\.floor_divide\([ikl], [lw]\)|ops\.floor_divide\(s, w\)|s // w": "MindSpore divides integers by zero as the processor has it, and bools in bool; here as NumPy",
    r"~i": "MindSpore takes ~ of integers for logical_not; here it is Python's",
    r"w\.any\(\)": "MindSpore gives uint8; here bool, as for all other dtypes",
    r"ops\.full\(\(2,\), 1\.5\)": "MindSpore drops the fraction",
    r"a\.item\(99\)": "MindSpore's item() takes no index; here it does, as before 2.7",
    r"ops\.matmul\(a, b\)|a @ b": "MindSpore's CPU kernel raises RuntimeError; here ValueError, as its other backends",
    r"Tensor\((None)?\)": "MindSpore raises TypeError; here ValueError, as its documentation says",
    r"steps\(nn\.Momentum\(.*True\).*": "MindSpore's CPU kernel takes no notice of use_nesterov",
    r"steps\(nn\.Adagrad\(.*update_slots=False.*": "MindSpore's CPU kernel takes no notice of update_slots",
    r"steps\(nn\.FTRL\(.*l1=.*": "MindSpore's CPU kernel has the wrong sign of l1 where the sum is negative",
    r"nn\.CTCLoss\(.*zero_infinity=True\)\(ops.*": "MindSpore's CPU kernel takes no notice of zero_infinity",
    r"a\.cumsum\(1, dtype=ms\.float64\)": "MindSpore converts the sums; here the elements, as in sum()",
    r"ops\.digamma\(d\)": "MindSpore computes it in float32",
    r"ops\.ResizeNearestNeighbor\(.*half_pixel_centers=True.*": "MindSpore's CPU kernel takes no notice of half_pixel_centers",
    r"ops\.split\(a, 5, 7\)": "here IndexError, as for axes elsewhere",
}

# What differs too if MindSpore has NumPy 1 and framejit has NumPy 2: there a Python number and a float32 are float64. MindSpore 2.10 runs with
# both, and with the same one it agrees.
BY_NUMPY = r"(measured\()?nn\.(MAE|MSE)\(.*"


def known(row):
    return any(re.fullmatch(pattern, row) for pattern in KNOWN)


def is_error(value):
    return isinstance(value, tuple)


def ulps(x, y, near=0.0):
    if x.dtype.kind not in "fc":
        return 0.0 if np.array_equal(x, y) else np.inf
    if x.dtype.kind == "c":
        return max(ulps(x.real, y.real, near), ulps(x.imag, y.imag, near))
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(all="ignore"):
        if near:
            same |= np.abs(x - y) <= near
        distance = np.abs(x.astype("f8") - y.astype("f8")) / np.spacing(np.maximum(np.abs(x), np.abs(y))).astype("f8")
    return float(np.max(np.where(same, 0, np.where(np.isnan(distance), np.inf, distance)), initial=0))


def difference(row, theirs, ours):
    """What differs, or ''."""
    if len(theirs) != len(ours):
        return f"{len(theirs)} values, here {len(ours)}"
    allowed = max([ULP, *(count for pattern, count in MORE_ULP.items() if re.search(pattern, row))])
    near = max([0.0, *(size for pattern, size in ATOL.items() if re.search(pattern, row))])
    for (kind, name, dtype, shape, data), (own_kind, own_name, own_dtype, own_shape, own_data) in zip(theirs, ours):
        if (name, dtype, shape) != (own_name, own_dtype, own_shape) or "Tensor" in (kind, own_kind) and kind != own_kind:
            return f"{kind} {name} {dtype} {shape}, here {own_kind} {own_name} {own_dtype} {own_shape}"
        if dtype:
            found, own = np.frombuffer(data, dtype).reshape(shape), np.frombuffer(own_data, dtype).reshape(shape)
            distance = ulps(found, own, near)
            if distance > allowed:
                return f"{distance:.0f} ulp, of {allowed}"
    return ""


def under_both(script, folder, *arguments):
    """The files that the script writes under MindSpore and under framejit."""
    if not FOUND:
        pytest.skip("MindSpore is not installed: ./dev mindspore")
    for python, package in ((FOUND[0], "mindspore"), (sys.executable, "framejit")):
        command = [str(python), str(HERE / script), package, *arguments, str(folder / package)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stderr[-2000:]
    return folder / "mindspore", folder / "framejit"


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """By row: what MindSpore gives; and what framejit gives."""
    return [pickle.loads(file.read_bytes()) for file in under_both("mindspore_values.py", tmp_path_factory.mktemp("mindspore"))]


@pytest.fixture(scope="module")
def values(evaluated):
    """By row that both evaluate: what MindSpore gives, and what framejit gives."""
    theirs, ours = evaluated
    return {row: (theirs[row], ours[row]) for row in ours}


@pytest.fixture(scope="module")
def by_numpy(values):
    """The pattern of the rows that differ because the two have different versions of NumPy, or one that matches none."""
    command = [str(FOUND[0]), "-c", "import numpy; print(numpy.__version__)"]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return "(?!)" if theirs.split(".")[0] == np.__version__.split(".")[0] else BY_NUMPY


def test_values(values, by_numpy):
    """Every row that MindSpore computes."""
    wrong, counts = {}, collections.Counter()
    for row, (theirs, ours) in values.items():
        if is_error(theirs):
            continue
        found = f"here {ours[1][0]}: {ours[2]}" if is_error(ours) else difference(row, theirs, ours)
        counts["differ" if found else "agree"] += 1
        if bool(found) != known(row) and not (found and re.fullmatch(by_numpy, row)):
            wrong[row] = found or "is in KNOWN, and agrees"
    assert not wrong, "\n".join(f"{row}: {found}" for row, found in wrong.items())
    assert counts["agree"] > 1500, counts


def test_errors(values):
    """Every row that neither computes, where MindSpore says more than that it has no kernel for the CPU."""
    wrong, count = {}, 0
    for row, (theirs, ours) in values.items():
        if not (is_error(theirs) and is_error(ours)) or "unregistered" in theirs[2]:
            continue
        count += 1
        if theirs[1][0] not in ours[1] and not known(row):  # MindSpore's own may depend on which of its threads raises
            wrong[row] = f"{theirs[1][0]}, here {ours[1][0]}: {ours[2]}"
    assert not wrong, "\n".join(f"{row}: {found}" for row, found in wrong.items())
    assert count > 50, count


def test_each_known_difference_is_of_a_row(values):
    assert [pattern for pattern in KNOWN if not any(re.fullmatch(pattern, row) for row in values)] == []


def test_lenet_learns_alike(tmp_path):
    """The losses of 20 steps on scikit-learn's digits are equal but for rounding; those of 120 are no further apart than gradients that are off
    by half a unit in the last place of the largest put them."""
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32).repeat(4, 2).repeat(4, 3)
    np.savez(tmp_path / "digits.npz", images=images, labels=digits.target.astype(np.int32))
    theirs, ours = (np.load(f"{file}.npz") for file in under_both("mindspore_training.py", tmp_path, str(tmp_path / "digits.npz")))
    for name in theirs:
        own = ours[f"{name} O0"]
        noise = np.maximum.accumulate(np.max([np.abs(ours[f"{name} noise {seed}"] - own) for seed in range(3)], 0))
        assert own[-10:].mean() < 0.6 < own[:10].mean(), name
        for level in ("O0", "O1"):
            apart = np.abs(ours[f"{name} {level}"] - theirs[name])
            assert apart[:20].max() < 1e-5, (name, level, apart[:20])
            assert (apart <= 4 * noise + 1e-5).all(), (name, level, int(np.argmax(apart > 4 * noise + 1e-5)), apart.max(), noise.max())


# The datasets of MindSpore 2.10 call numpy.array with copy=False and mean what it meant before NumPy 2: a copy if one is needed.
WITH_EARLIER_COPY = """
import functools, runpy, sys
import numpy
make = numpy.array
numpy.array = functools.wraps(make)(lambda *args, copy=True, **options: make(*args, copy=copy or None, **options))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_tutorials(tmp_path):
    """What the programs of the tutorials give, but for rounding."""
    if not FOUND:
        pytest.skip("MindSpore is not installed: ./dev mindspore")
    found = []
    theirs, ours = [str(FOUND[0]), "-c", WITH_EARLIER_COPY], [sys.executable, "-m", "framejit", "--as-mindspore"]
    for name, command in (("theirs", theirs), ("ours", ours)):
        command += [str(HERE / "mindspore_tutorials.py"), str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-2000:]
        found.append(np.load(tmp_path / f"{name}.npz"))
    theirs, ours = found
    assert sorted(theirs) == sorted(ours)
    for name in theirs:
        assert (theirs[name].dtype, theirs[name].shape) == (ours[name].dtype, ours[name].shape), name
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-4, atol=1e-5, err_msg=name)


# --- Names, parameters, attributes, settings, errors and gradients, row by row of MindSpore's own listing ------------------

GRADIENTS_THAT_DIFFER = {
    r"ops\.(max|min)imum\(x, y\) .*": "MindSpore halves the gradient of equal elements, which is 0 for integers; here it is the first one's",
    r"x / 2 of .*": "MindSpore's gradient is in the dtype of the quotient; here in the operand's",
}


@pytest.fixture(scope="module")
def listings(tmp_path_factory):
    """What both offer, by kind and name."""
    return [pickle.loads(file.read_bytes()) for file in under_both("mindspore_listing.py", tmp_path_factory.mktemp("listing"))]


def known_differences():
    lines = (HERE / "mindspore_known.txt").read_text().splitlines()
    return {line for line in lines[3:] if line and not line.startswith("#")}


def test_listing(listings):
    """What is in MindSpore and not alike here is in mindspore_known.txt, under a reason; and nothing else is there."""
    theirs, ours = listings
    found = set()
    for (kind, name), value in theirs.items():
        absent = (kind, name) not in ours
        if kind == "gradient" or (not absent and ours[kind, name] == value):
            continue
        if kind == "parameters" and absent and ("name", name) in theirs and ("name", name) not in ours:
            continue  # the name says it
        found.add(f"{kind} {name}")
    new, gone = sorted(found - known_differences()), sorted(known_differences() - found)
    assert not new, "differ, and are not in mindspore_known.txt:\n" + "\n".join(new)
    assert not gone, "agree, and are in mindspore_known.txt:\n" + "\n".join(gone)


# What MindSpore says, without blanks, of a call that no kernel computes, and of one that only its compiler may make.
NO_KERNEL = "unregistered|Kernelselectfailed|Notfoundop|Createkernelmodforop|onlysupport|Notimplementexception"
NO_CALL = "__infer__|Kernelselectfailed|Runopinputstypeisinvalid|Invalidprimitive|cannotfindfnmatch|Castfailed|^$"


@pytest.mark.parametrize(
    "heading, rows, said",
    [
        ("MindSpore 2.10 has no kernel for the CPU", mindspore_primitive_rows.WITHOUT_KERNEL, NO_KERNEL),
        ("MindSpore's compiler makes these calls; others are errors there", mindspore_primitive_rows.OF_THE_COMPILER, NO_CALL),
    ],
)
def test_names_that_mindspore_does_not_compute(evaluated, heading, rows, said):
    """The names under a reason are those of which a row calls each, and MindSpore says that it cannot be called."""
    text = (HERE / "mindspore_known.txt").read_text().partition(f"# {heading}\n")[2].partition("\n\n")[0]
    assert sorted(rows) == sorted(line.removeprefix("name ") for line in text.splitlines())
    theirs, _ = evaluated
    wrong = {name: theirs[row] for name, row in rows.items() if not is_error(theirs[row]) or not re.search(said, "".join(theirs[row][2].split()))}
    assert not wrong, wrong


def test_gradients_of_every_dtype(listings):
    """Each row that MindSpore computes: dtypes, shapes and values."""
    theirs, ours = listings
    wrong, agree = [], 0
    for (kind, name), value in theirs.items():
        if kind != "gradient" or value[0] == "error":
            continue
        agree += ours[kind, name] == value
        differs = any(re.fullmatch(pattern, name) for pattern in GRADIENTS_THAT_DIFFER)
        if ours[kind, name] != value and not differs:
            wrong.append(f"{name}: {value}, here {ours[kind, name]}")
    assert not wrong, "\n".join(wrong)
    assert agree > 450, agree


def test_table_of_signatures(tmp_path):
    """The texts of signatures are those that MindSpore's library has."""
    if not FOUND:
        pytest.skip("MindSpore is not installed: ./dev mindspore")
    written = tmp_path / "table.py"
    done = subprocess.run([str(FOUND[0]), str(HERE / "mindspore_signatures.py"), str(written)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    table = HERE.parents[1] / "ext" / "framejit" / "ops" / "_signature_table.py"
    assert written.read_text(encoding="utf-8") == table.read_text(encoding="utf-8")
