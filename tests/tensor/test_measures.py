"""Losses of sequences, likeness of images, places between elements, combined layers and measures, against formulas written out."""

from __future__ import annotations

import itertools
import math

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, nn, ops
from tensor.tensor_support import marked_as_eager

pytestmark = pytest.mark.capture
rng = np.random.default_rng(3)

# --- Connectionist temporal classification --------------------------------------------------------------------------------------


def collapsed(path, blank):
    return tuple(label for label, _ in itertools.groupby(path) if label != blank)


def likelihood(probabilities, labels, blank):
    """The sum over all paths that say the labels."""
    steps, classes = probabilities.shape
    paths = (path for path in itertools.product(range(classes), repeat=steps) if collapsed(path, blank) == tuple(labels))
    return sum(math.prod(probabilities[step, at] for step, at in enumerate(path)) for path in paths)


PROBABILITIES = rng.dirichlet(np.ones(4), (5, 3))
TARGETS, INPUTS, SIZES = np.int32([[1, 2, 2], [3, 3, 1], [2, 0, 0]]), np.int32([5, 4, 3]), np.int32([3, 2, 1])


@pytest.mark.parametrize("blank", [0, 3])
def test_ctc_loss_is_a_sum_over_paths(blank):
    targets = TARGETS if blank == 0 else np.int32([[1, 2, 2], [0, 0, 1], [2, 0, 0]])
    wanted = [-np.log(likelihood(PROBABILITIES[:t, n], targets[n, :s], blank)) for n, (t, s) in enumerate(zip(INPUTS, SIZES))]
    given = (Tensor(np.log(PROBABILITIES)), Tensor(targets), Tensor(INPUTS), Tensor(SIZES), blank)
    loss, logs = ops.ctc_loss(*given, "none")
    np.testing.assert_allclose(loss.asnumpy(), wanted, rtol=1e-12)
    assert logs.shape == (3, 5, 7)
    marked_as_eager(lambda *given: ops.ctc_loss(*given, blank, "none"), *given[:4])
    assert nn.CTCLoss(blank, "sum")(*given[:4]).item() == pytest.approx(sum(wanted))
    assert nn.CTCLoss(blank)(*given[:4]).item() == pytest.approx(np.mean(np.array(wanted) / SIZES))
    one = nn.CTCLoss(blank)(given[0][:, 0], given[1][0], Tensor(5), Tensor(3))
    assert one.shape == () and one.item() == pytest.approx(wanted[0] / 3)
    assert nn.CTCLoss(blank)(*given[:2], tuple(INPUTS.tolist()), tuple(SIZES.tolist())).item() == pytest.approx(np.mean(np.array(wanted) / SIZES))


def test_ctc_loss_of_what_cannot_be():
    given = (Tensor(np.log(PROBABILITIES)), Tensor(TARGETS), Tensor(np.int32([5, 2, 3])), Tensor(np.int32([3, 2, 0])))
    loss = nn.CTCLoss(reduction="none")
    found = loss(*given).asnumpy()
    assert np.isinf(found[1]) and found[2] == pytest.approx(-np.log(PROBABILITIES[:3, 2, 0]).sum())
    gradient = fj.grad(lambda x: loss(x, *given[1:]))(given[0]).asnumpy()
    assert np.isfinite(gradient).all() and not gradient[:, 1].any() and gradient[:, 0].any()
    assert nn.CTCLoss(reduction="none", zero_infinity=True)(*given).asnumpy()[1] == 0
    with pytest.raises(IndexError):
        loss(*given[:2], Tensor(np.int32([6, 4, 3])), given[3])


# --- Images -------------------------------------------------------------------------------------------------------------------------


def ssim_of_one(x, y, size, sigma, k1, k2, largest):
    """Of two planes: (likeness, contrast), by windows."""
    at = np.arange(size) - (size - 1) // 2
    window = np.exp(-(at[:, None] ** 2 + at**2) / (2 * sigma**2))
    window /= window.sum()
    found = []
    for i, j in np.ndindex(x.shape[0] - size + 1, x.shape[1] - size + 1):
        a, b = x[i : i + size, j : j + size], y[i : i + size, j : j + size]
        mean, other = (a * window).sum(), (b * window).sum()
        var, var2, both = ((a - mean) ** 2 * window).sum(), ((b - other) ** 2 * window).sum(), ((a - mean) * (b - other) * window).sum()
        c1, c2 = (k1 * largest) ** 2, (k2 * largest) ** 2
        contrast = (2 * both + c2) / (var + var2 + c2)
        found.append(((2 * mean * other + c1) / (mean**2 + other**2 + c1) * contrast, contrast))
    return np.mean(found, 0)


X = rng.uniform(0, 1, (2, 3, 12, 13))
Y = np.clip(X + rng.normal(0, 0.1, X.shape), 0, 1)


@pytest.mark.parametrize("options", [(1.0, 11, 1.5, 0.01, 0.03), (2.0, 4, 1.0, 0.02, 0.05)])
def test_ssim(options):
    largest, size, sigma, k1, k2 = options
    wanted = [np.mean([ssim_of_one(a, b, size, sigma, k1, k2, largest)[0] for a, b in zip(*pair)]) for pair in zip(X, Y)]
    given = Tensor(X, fj.float32), Tensor(Y, fj.float32)
    cell = nn.SSIM(*options)
    np.testing.assert_allclose(cell(*given).asnumpy(), wanted, atol=2e-5)
    np.testing.assert_allclose(cell(given[0], given[0]).asnumpy(), 1, atol=1e-6)
    marked_as_eager(lambda *given: cell(*given), *given)
    assert not cell.trainable_params()


def halved(x):
    height, width = x.shape[2] // 2 * 2, x.shape[3] // 2 * 2
    return x[:, :, :height, :width].reshape(2, 3, height // 2, 2, width // 2, 2).mean((3, 5))


@pytest.mark.parametrize("dtype", [fj.float32, fj.uint8])
def test_ssim_of_several_sizes(dtype):
    powers, given = (0.3, 0.7), [x if dtype is fj.float32 else np.round(x * 255) for x in (X, Y)]
    x, y = (g if dtype is fj.float32 else g / 255 for g in given)
    first = [[ssim_of_one(a, b, 3, 1.5, 0.01, 0.03, 1.0)[1] for a, b in zip(*pair)] for pair in zip(x, y)]
    second = [[ssim_of_one(a, b, 3, 1.5, 0.01, 0.03, 1.0)[0] for a, b in zip(*pair)] for pair in zip(halved(x), halved(y))]
    wanted = (np.maximum(first, 0) ** powers[0] * np.maximum(second, 0) ** powers[1]).mean(1)
    cell = nn.MSSSIM(1.0 if dtype is fj.float32 else 255, powers, 3)
    np.testing.assert_allclose(cell(*[Tensor(g, dtype) for g in given]).asnumpy(), wanted, atol=2e-5)


def test_psnr():
    wanted = 10 * np.log10(1 / np.square(X - Y).mean((1, 2, 3)))
    np.testing.assert_allclose(nn.PSNR()(Tensor(X, fj.float32), Tensor(Y, fj.float32)).asnumpy(), wanted, rtol=1e-5)
    x, y = (np.round(v * 255) for v in (X, Y))
    wanted = 10 * np.log10(255**2 / np.square(x - y).mean((1, 2, 3)))
    np.testing.assert_allclose(nn.PSNR(255)(Tensor(x, fj.uint8), Tensor(y, fj.uint8)).asnumpy(), wanted, rtol=1e-5)
    with pytest.raises(ValueError, match=r"'SSIM', images must not be smaller than 'filter_size' 11, but got \(2, 3, 8, 8\)"):
        nn.SSIM()(ops.ones((2, 3, 8, 8)), ops.ones((2, 3, 8, 8)))


# --- Places between elements ----------------------------------------------------------------------------------------------------


def reflected(at, low, high):
    while at < low or at > high:
        at = 2 * low - at if at < low else 2 * high - at
    return at


def sampled(x, place, mode, padding, aligned):
    """The value of one plane at (x, y) or (x, y, z)."""
    places = []
    for at, n in zip(place[::-1], x.shape):
        places.append((at + 1) / 2 * (n - 1) if aligned else ((at + 1) * n - 1) / 2)

    def bounded(at, n):
        if padding == "reflection":
            at = reflected(at, 0, n - 1) if aligned else reflected(at, -0.5, n - 0.5)
        return at if padding == "zeros" else min(max(at, 0), n - 1)

    def element(index):
        if any(not 0 <= i < n for i, n in zip(index, x.shape)):
            return 0.0
        return x[tuple(int(i) for i in index)]

    if mode != "bicubic":
        places = [bounded(at, n) for at, n in zip(places, x.shape)]
    if mode == "nearest":
        return element([np.rint(at) for at in places])
    total = 0.0
    reach = (0, 1) if mode == "bilinear" else (-1, 0, 1, 2)
    for away in itertools.product(reach, repeat=len(places)):
        index = [np.floor(at) + a for at, a in zip(places, away)]
        weight = 1.0
        for at, i in zip(places, index):
            d = abs(at - i)
            if mode == "bilinear":
                weight *= 1 - d
            else:
                weight *= 1.25 * d**3 - 2.25 * d**2 + 1 if d <= 1 else -0.75 * (d**3 - 5 * d**2 + 8 * d - 4)
        if mode == "bicubic":
            index = [np.floor(bounded(i, n)) for i, n in zip(index, x.shape)]
        total += weight * element(index)
    return total


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "axes"), [("bilinear", 2), ("nearest", 2), ("bicubic", 2), ("bilinear", 3), ("nearest", 3)])
def test_grid_sample(mode, axes, padding, aligned):
    x = rng.normal(size=(2, 2, 4, 5, 3)[: axes + 2])
    grid = rng.uniform(-1.9, 1.9, (2, 3, 2, 4, 3)[: axes + 1] + (axes,))
    wanted = np.zeros((2, 2, *grid.shape[1:-1]))
    for at in np.ndindex(wanted.shape):
        wanted[at] = sampled(x[at[:2]], grid[(at[0], *at[2:])], mode, padding, aligned)
    given = Tensor(x), Tensor(grid)
    np.testing.assert_allclose(ops.grid_sample(*given, mode, padding, aligned).asnumpy(), wanted, rtol=1e-9, atol=1e-12)
    marked_as_eager(lambda *given: ops.grid_sample(*given, mode, padding, aligned), *given)


def test_grid_sample_of_no_place():
    nowhere = Tensor(np.full((2, 1, 1, 2), np.nan))
    assert not ops.grid_sample(Tensor(X), nowhere).asnumpy().any()
    assert np.isnan(ops.grid_sample(Tensor(X), nowhere, padding_mode="border").asnumpy()).all()
    far = ops.grid_sample(Tensor(X), Tensor(np.full((2, 1, 1, 2), np.inf)), padding_mode="border", mode="nearest")
    np.testing.assert_array_equal(far.asnumpy()[..., 0, 0], X[..., -1, -1])


@pytest.mark.parametrize("aligned", [False, True])
def test_affine_grid(aligned):
    theta, size = rng.normal(size=(2, 3, 4)), (2, 1, 2, 3, 4)
    found = ops.affine_grid(Tensor(theta), size, aligned).asnumpy()
    for n, d, h, w in np.ndindex(2, 2, 3, 4):
        x, y, z = ((2 * i / (k - 1) - 1) if aligned else (2 * i + 1) / k - 1 for i, k in ((w, 4), (h, 3), (d, 2)))
        np.testing.assert_allclose(found[n, d, h, w], theta[n] @ [x, y, z, 1], rtol=1e-12)
    same = ops.affine_grid(Tensor(np.eye(3)[None, :2]), (1, 2, 12, 13), aligned)
    np.testing.assert_allclose(ops.grid_sample(Tensor(X[:1]), same, align_corners=aligned).asnumpy(), X[:1], atol=1e-12)


# --- Layers ---------------------------------------------------------------------------------------------------------------------


def test_combined_layers():
    x = Tensor(X, fj.float32)
    cell = nn.Conv2dBnAct(3, 4, 3, has_bn=True, activation="leakyrelu", alpha=0.3)
    marked_as_eager(lambda x: cell(x), x)
    out = cell.batchnorm(cell.conv(x)).asnumpy()
    np.testing.assert_array_equal(cell(x).asnumpy(), np.where(out > 0, out, out * np.float32(0.3)))
    plain = nn.DenseBnAct(13, 2)
    np.testing.assert_array_equal(plain(x[0, 0]).asnumpy(), plain.dense(x[0, 0]).asnumpy())


def test_matrices_and_their_diagonals():
    x = Tensor(np.arange(12.0).reshape(2, 2, 3))
    np.testing.assert_array_equal(nn.MatrixDiag()(x[0]).asnumpy(), [np.diag(row) for row in x[0].asnumpy()])
    np.testing.assert_array_equal(nn.MatrixDiagPart()(x).asnumpy(), [[0, 4], [6, 10]])
    for given in (x, x.swapaxes(1, 2)):
        found = nn.MatrixSetDiag()(given, Tensor([[-1.0, -2.0], [-3.0, -4.0]], fj.float64)).asnumpy()
        wanted = given.asnumpy().copy()
        for n, i in np.ndindex(2, 2):
            wanted[n, i, i] = [[-1, -2], [-3, -4]][n][i]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("operator", ["SUM", "MEAN", "MAX"])
def test_embeddings_merged_by_field(operator):
    cell = nn.MultiFieldEmbeddingLookup(5, 2, 3, operator=operator)
    ids, values, fields = np.int32([[2, 4, 1, 0], [1, 3, 3, 0]]), np.float32([[1, 2, 0.5, 0], [1, -1, 3, 0]]), np.int32([[0, 1, 1, 0], [0, 0, 2, 0]])
    given = Tensor(ids), Tensor(values), Tensor(fields)
    table, wanted = cell.embedding_table.asnumpy(), np.zeros((2, 3, 2))
    for n, field in np.ndindex(2, 3):
        own = [(table[i] * v, abs(v)) for i, v, f in zip(ids[n], values[n], fields[n]) if f == field and v]
        if own:
            rows, weights = np.array([row for row, _ in own]), sum(weight for _, weight in own)
            wanted[n, field] = {"SUM": rows.sum(0), "MEAN": rows.sum(0) / weights, "MAX": rows.max(0)}[operator]
    np.testing.assert_allclose(cell(*given).asnumpy(), wanted, rtol=1e-6, atol=1e-8)
    marked_as_eager(lambda *given: cell(*given), *given)


# --- Measures ---------------------------------------------------------------------------------------------------------------------


def test_occlusion():
    cell = nn.SequentialCell(nn.Flatten(), nn.Dense(12, 4))
    image = rng.normal(size=(1, 3, 4)).astype(np.float32)
    weights, bias = cell[1].weight.asnumpy(), cell[1].bias.asnumpy()
    for box, first, last in ((None, (0, 0), (2, 3)), ([0, 1, 1, -1], (0, 1), (1, 3))):
        measure = nn.OcclusionSensitivity(0.5, 1, 5, box)
        measure.update(cell, Tensor(image), Tensor([2]))
        wanted = np.zeros((last[0] - first[0] + 1, last[1] - first[1] + 1))
        for i, j in np.ndindex(wanted.shape):
            y, x = i + first[0], j + first[1]
            covered = image.copy()
            covered[0, max(0, y - 1) : y + 1, max(0, x - 1) : x + 1] = 0.5
            wanted[i, j] = (weights @ (image - covered).ravel())[2]
        np.testing.assert_allclose(measure.eval(), wanted, atol=1e-6)
    assert bias.shape == (4,)


def test_roc_and_area():
    predictions, labels = rng.normal(size=40).round(1), rng.integers(0, 2, 40)
    wrong, right, thresholds = nn.ROC()(Tensor(predictions), Tensor(labels))
    for x, y, threshold in zip(wrong, right, thresholds):
        taken = predictions >= threshold
        assert x == taken[labels == 0].mean() and y == taken[labels == 1].mean()
    pairs = [(a > b) + (a == b) / 2 for a in predictions[labels == 1] for b in predictions[labels == 0]]
    assert nn.auc(wrong, right) == pytest.approx(np.mean(pairs))
    rows = rng.normal(size=(5, 3))
    by_class = nn.ROC(class_num=3)(Tensor(rows), Tensor([0, 1, 2, 1, 0]))
    for number in range(3):
        one = nn.ROC()(Tensor(rows[:, number]), Tensor(np.int32(np.array([0, 1, 2, 1, 0]) == number)))
        assert all(np.array_equal(a[number], b) for a, b in zip(by_class, one))


def test_distances_of_edges():
    first, second = np.zeros((9, 9), int), np.zeros((9, 9), int)
    first[1:5, 1:5], second[3:8, 2:7] = 1, 1

    def edge(x):
        padded = np.pad(x, 1)
        return [(i, j) for i, j in np.argwhere(x) if min(padded[i, j + 1], padded[i + 2, j + 1], padded[i + 1, j], padded[i + 1, j + 2]) == 0]

    there = [min(math.dist(p, q) for q in edge(second)) for p in edge(first)]
    back = [min(math.dist(p, q) for q in edge(first)) for p in edge(second)]
    given = Tensor(first), Tensor(second), 1
    assert nn.HausdorffDistance()(*given) == pytest.approx(max(there + back))
    assert nn.HausdorffDistance(percentile=90.0, directed=True)(*given) == pytest.approx(np.percentile(there, 90))
    assert nn.MeanSurfaceDistance(True)(*given) == pytest.approx((np.mean(there) + np.mean(back)) / 2)
    assert nn.RootMeanSquareDistance()(*given) == pytest.approx(np.mean(np.square(there)))
    assert nn.HausdorffDistance()(Tensor(first), Tensor(second * 2), 1) == np.inf


def test_shares_of_classes():
    labels, predictions = rng.integers(0, 2, (4, 3, 5)), rng.integers(0, 2, (4, 3, 5))
    right, wrong, neither, missed = (((predictions == p) & (labels == n)).sum() for p, n in ((1, 1), (1, 0), (0, 0), (0, 1)))
    for name, wanted in (("f1 score", 2 * right / (2 * right + wrong + missed)), ("Specificity", neither / (neither + wrong)), ("mcc", np.corrcoef(labels.ravel(), predictions.ravel())[0, 1])):
        assert nn.ConfusionMatrixMetric(metric_name=name)(Tensor(predictions), Tensor(labels)) == pytest.approx(wanted)
    by_class = [[(predictions[n, c] & labels[n, c]).sum() / labels[n, c].sum() if labels[n, c].any() else np.nan for c in range(3)] for n in range(4)]
    assert nn.ConfusionMatrixMetric(True, "recall", True)(Tensor(predictions), Tensor(labels)) == pytest.approx(np.nanmean(np.nanmean(by_class, 1)))
    with pytest.raises(NotImplementedError, match="no metric 'x'; there are: tpr"):
        nn.ConfusionMatrixMetric(metric_name="x")(Tensor(predictions), Tensor(labels))


def test_other_measures():
    assert nn.Dice(1e-5)(Tensor([1.0, 1.0, 0.0]), Tensor([1.0, 0.0, 0.0])) == pytest.approx(2 / 3 / 3, rel=1e-4)
    words = "the cat is on the mat".split()
    assert nn.BleuScore(2)([words], [[words[:4], "a cat is on the mat".split()]]) == pytest.approx(math.sqrt(5 / 6))
    rows = rng.normal(size=(3, 2))
    cosines = [[a @ b / math.hypot(*a) / math.hypot(*b) for b in rows] for a in rows]
    np.testing.assert_allclose(nn.CosineSimilarity(zero_diagonal=False)(Tensor(rows)), cosines)
    with pytest.raises(TypeError, match="abstract"):
        nn.Metric()
    with pytest.raises(TypeError, match="'Dice', the inputs must be Tensors, lists or arrays, but got int"):
        nn.Dice()(3, 4)


# --- Windows at places that are drawn -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [2, 3])
def test_fractional_pooling(axes):
    """Windows begin where the drawn number says; the first number of images is for the width."""
    x = rng.normal(size=(2, 2, 7, 8, 6)[: axes + 2])
    window, sizes, drawn = (2, 3, 2)[:axes], (3, 4, 2)[:axes], rng.uniform(size=(2, 2, axes))
    found, at = ops.fractional_max_pool2d(*(Tensor(x), window, sizes, None, True, Tensor(drawn))) if axes == 2 else ops.fractional_max_pool3d(*(Tensor(x), window, sizes, None, True, Tensor(drawn)))
    for place in np.ndindex(found.shape):
        part = []
        for axis, (n, k, size) in enumerate(zip(x.shape[2:], window, sizes)):
            sample = drawn[place[0], place[1], axis if axes == 3 else 1 - axis]
            apart, i = (n - k) / (size - 1), place[2 + axis]
            start = n - k if i == size - 1 else int((i + sample) * apart) - int(sample * apart)
            part.append(slice(start, start + k))
        values = x[place[:2]][tuple(part)]
        assert found.asnumpy()[place] == values.max() == x[place[:2]].ravel()[at.asnumpy()[place]]
    cell = (nn.FractionalMaxPool2d if axes == 2 else nn.FractionalMaxPool3d)(2, output_ratio=0.4)
    assert cell(Tensor(x)).shape == (2, 2, *[int(n * 0.4) for n in x.shape[2:]]) and cell(Tensor(x[0])).ndim == axes + 1
    fj.set_seed(1)
    first = cell(Tensor(x)).asnumpy()
    fj.set_seed(1)
    np.testing.assert_array_equal(cell(Tensor(x)).asnumpy(), first)
