"""Programs over whole arrays: statistics, images, Monte Carlo methods, small learners."""

import numpy as np

from never_slower_programs import Family

program = Family()


def random(*shape):
    return np.random.default_rng(21).random(shape)


@program(lambda n: (n,), 10, 300, 150000, 1000000)
def monte_carlo_pi(n):
    rng = np.random.default_rng(12)
    x, y = rng.random(n), rng.random(n)
    return 4.0 * np.count_nonzero(x * x + y * y <= 1.0) / n


@program(lambda n: (np.random.default_rng(13), 4, n), 5, 20, 8000, 50000, changes=True)
def asian_option(rng, steps, paths):
    dt, rate, volatility = 1.0 / steps, 0.05, 0.2
    spot = np.full(paths, 100.0)
    total = np.zeros(paths)
    for _ in range(steps):
        z = rng.standard_normal(paths)
        spot *= np.exp((rate - 0.5 * volatility**2) * dt + volatility * np.sqrt(dt) * z)
        total += spot
    payoff = np.maximum(total / steps - 100.0, 0.0)
    return np.exp(-rate) * payoff.mean(), payoff.std()


@program(lambda n: (np.random.default_rng(14), n), 5, 100, 2000, 15000, changes=True)
def random_walk_step_by_step(rng, steps):
    position, path = 0, []
    for _ in range(steps):
        position += 1 if rng.random() < 0.5 else -1
        path.append(position)
    return max(path), min(path), path[-1]


@program(lambda n: ((random(n, n, 3) * 256).astype(np.uint8),), 6, 16, 120, 350)
def image_pipeline(image):
    grey = image @ np.array([0.299, 0.587, 0.114])
    padded = np.pad(grey, 1, mode="edge")
    h, w = grey.shape
    blurred = sum(padded[i : i + h, j : j + w] for i in range(3) for j in range(3)) / 9
    level = blurred.astype(np.uint8)
    counts = np.bincount(level.ravel(), minlength=256)
    cdf = counts.cumsum()
    equalised = (cdf[level] * 255 // cdf[-1]).astype(np.uint8)
    gy, gx = np.gradient(equalised.astype(np.float64))
    return equalised, np.hypot(gx, gy)


@program(lambda n: (random(n) * 4 - 2,), 6, 60, 3000, 20000)
def vectorized_scalar(x):
    def step(v):
        return v * v if v > 0 else -v

    return np.vectorize(step)(x)


@program(lambda n: (random(n, 10),), 3, 6, 250, 2500)
def along_axis(x):
    return np.apply_along_axis(lambda row: (row - row.mean()) / (row.std() + 1e-9), 1, x)


@program(lambda n: (random(n, 5),), 4, 20, 20000, 150000)
def z_scores(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


@program(lambda n: (random(n, 2), 4, 5), 8, 30, 3000, 20000)
def k_means(points, k, rounds):
    centres = points[:k].copy()
    labels = np.zeros(len(points), dtype=int)
    for _ in range(rounds):
        distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        labels = distances.argmin(axis=1)
        for c in range(k):
            inside = points[labels == c]
            if len(inside):
                centres[c] = inside.mean(axis=0)
    return centres, labels


@program(lambda n: (random(n, n) > 0.6, 3), 5, 16, 200, 600)
def life_by_rolls(grid, steps):
    for _ in range(steps):
        count = sum(
            np.roll(np.roll(grid.astype(int), i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)
        )
        grid = (count == 3) | (grid & (count == 2))
    return grid


@program(lambda n: ({name: random(n, n) for name in "uvpt"},), 4, 16, 250, 800)
def fields_in_a_dict(fields):
    out = {}
    for name, field in fields.items():
        out[name] = field - field.mean() + 0.1 * np.roll(field, 1, axis=0)
    out["energy"] = 0.5 * (fields["u"] ** 2 + fields["v"] ** 2)
    return out


@program(lambda n: (random(n, 3), random(n, 3)), 4, 15, 250, 700)
def pairwise_distances(a, b):
    d = a[:, None, :] - b[None, :, :]
    return np.sqrt((d * d).sum(axis=-1))


@program(lambda n: (random(n), 10), 20, 200, 100000, 1000000)
def moving_average_by_sums(x, width):
    c = np.cumsum(np.insert(x, 0, 0.0))
    return (c[width:] - c[:-width]) / width


@program(lambda n: (random(n, 4), (random(n) > 0.5) * 1.0, 10), 8, 20, 15000, 100000)
def logistic_regression(x, y, rounds):
    w = np.zeros(x.shape[1])
    for _ in range(rounds):
        p = 1.0 / (1.0 + np.exp(-(x @ w)))
        w -= 0.1 * x.T @ (p - y) / len(y)
    return w


@program(lambda n: (random(n, n), 20), 4, 10, 500, 1500)
def power_iteration(a, rounds):
    v = np.ones(a.shape[0])
    for _ in range(rounds):
        v = a @ v
        v /= np.linalg.norm(v)
    return v @ a @ v


@program(lambda n: (random(3), n), 3, 5, 60, 400)
def small_vectors_in_a_loop(v, steps):
    axis = np.array([0.0, 0.6, 0.8])
    for _ in range(steps):
        v = v + 0.01 * np.cross(axis, v)
        v = v / np.sqrt(v @ v)
    return v


@program(lambda n: (np.array([1.0, 0.0]), n, 0.01), 3, 10, 150, 1000)
def rk4_of_two_elements(y, steps, h):
    def f(y):
        return np.array([y[1], -y[0] - 0.1 * y[1]])

    out = [y]
    for _ in range(steps):
        k1 = f(y)
        k2 = f(y + 0.5 * h * k1)
        k3 = f(y + 0.5 * h * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        out.append(y)
    return np.array(out)


@program(lambda n: (np.array([1.0, 1.0, 1.0]), n), 3, 20, 500, 3000)
def lorenz_by_euler(state, steps):
    path = np.empty((steps + 1, 3))
    path[0] = state
    for i in range(steps):
        x, y, z = path[i]
        path[i + 1] = path[i] + 0.01 * np.array([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])
    return path


@program(lambda n: (random(n), (random(n) * 5).astype(int)), 8, 200, 50000, 400000)
def group_means(values, keys):
    return {int(k): values[keys == k].mean() for k in np.unique(keys)}


@program(lambda n: (random(n) * 10,), 5, 300, 100000, 900000)
def piecewise(x):
    return np.where(x < 2, x * x, np.where(x < 5, 4 + x, np.sqrt(x) + 6))


@program(lambda n: (random(n) - 0.5,), 5, 300, 30000, 300000)
def filter_and_sort(x):
    kept = np.sort(x[x > 0])
    return kept, np.median(kept), np.percentile(kept, [10, 90])


@program(lambda n: (random(n, n), 5), 4, 8, 200, 600)
def least_squares_and_residuals(a, rounds):
    b = a.sum(axis=1)
    x = np.zeros(len(b))
    diagonal = np.diag(a) + len(b)
    r = b
    for _ in range(rounds):
        r = b - a @ x
        x = x + r / diagonal
    return np.linalg.solve(a + np.eye(len(b)), b), np.linalg.norm(r)


@program(lambda n: (n,), 8, 64, 20000, 200000)
def signal_and_spectrum(n):
    t = np.arange(n) / n
    s = np.sin(2 * np.pi * 5 * t) + 0.5 * np.cos(2 * np.pi * 9 * t)
    spectrum = np.abs(np.fft.rfft(s * np.hanning(n)))
    return spectrum.argmax(), spectrum


@program(lambda n: ([random(3) for _ in range(n)],), 3, 15, 600, 4000)
def list_of_small_arrays(vectors):
    total = np.zeros(3)
    norms = []
    for v in vectors:
        total = total + v * 2.0
        norms.append(float(np.sqrt((v**2).sum())))
    return total, norms


@program(lambda n: (random(n, 8), 0.1), 3, 6, 200, 1500)
def rows_by_python(table, threshold):
    out = []
    for row in table:
        m = row.mean()
        if m > threshold:
            out.append((m, row.max() - row.min()))
    return out


@program(lambda n: (random(n), random(n)), 6, 500, 200000, 1500000)
def linear_fit(x, y):
    sx, sy, sxx, sxy, n = x.sum(), y.sum(), (x * x).sum(), (x * y).sum(), len(x)
    slope = (n * sxy - sx * sy) / (n * sxx - sx * sx)
    intercept = (sy - slope * sx) / n
    return slope, intercept, float(np.abs(y - slope * x - intercept).max())


@program(lambda n: (random(n, n), 4), 4, 8, 150, 350)
def matrix_power_and_trace(a, k):
    a = a / a.sum(axis=1, keepdims=True)
    p = np.eye(len(a))
    for _ in range(k):
        p = p @ a
    return np.trace(p), np.allclose(p.sum(axis=1), 1.0)


@program(lambda n: ((random(n) * 100).astype(np.int64),), 6, 500, 100000, 1000000)
def integers_and_bits(x):
    y = (x << 2) ^ (x >> 1)
    return (y & 0xFF).sum(), np.bitwise_or.reduce(x), x % 7 + x // 3
