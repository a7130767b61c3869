"""Loops over the elements of arrays and lists, as one writes them in other languages."""

import numpy as np

from never_slower_programs import Family

program = Family()


def normal(n):
    return np.random.default_rng(1).standard_normal(n)


def uniform(n):
    return np.random.default_rng(2).random(n)


def matrix(n):
    return np.random.default_rng(3).random((n, n))


def integers(n, high):
    return np.random.default_rng(4).integers(0, high, n)


@program(lambda n: (normal(n), 0.1), 8, 200, 5000, 30000)
def exponential_moving_average(x, alpha):
    out = np.empty_like(x)
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = alpha * x[i] + (1 - alpha) * out[i - 1]
    return out


@program(lambda n: (normal(n),), 8, 200, 5000, 40000)
def random_walk(x):
    out = np.zeros(len(x))
    for i in range(1, len(x)):
        out[i] = out[i - 1] + x[i]
    return out


@program(lambda n: (normal(n),), 5, 15, 80, 250, changes=True)
def bubble_sort(a):
    n = len(a)
    for i in range(n):
        for j in range(n - i - 1):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a


@program(lambda n: (normal(n),), 5, 20, 150, 450, changes=True)
def insertion_sort(a):
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return a


@program(lambda n: ([float(v) for v in normal(n)],), 5, 40, 350, 900, changes=True)
def insertion_sort_of_list(a):
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return a


@program(lambda n: (n,), 20, 500, 15000, 100000)
def sieve_of_array(n):
    prime = np.ones(n + 1, dtype=bool)
    prime[:2] = False
    for i in range(2, int(n**0.5) + 1):
        if prime[i]:
            for j in range(i * i, n + 1, i):
                prime[j] = False
    return np.nonzero(prime)[0]


@program(lambda n: (n,), 20, 3000, 400000, 4000000)
def sieve_by_slices(n):
    prime = np.ones(n + 1, dtype=bool)
    prime[:2] = False
    for i in range(2, int(n**0.5) + 1):
        if prime[i]:
            prime[i * i :: i] = False
    return int(prime.sum())


@program(lambda n: (integers(n, 16), 16), 10, 300, 10000, 60000)
def histogram(values, bins):
    counts = np.zeros(bins, dtype=np.int64)
    for v in values:
        counts[v] += 1
    return counts


@program(lambda n: (uniform(n), 10), 10, 200, 8000, 40000)
def histogram_of_floats(values, bins):
    counts = np.zeros(bins)
    for i in range(len(values)):
        k = int(values[i] * bins)
        if k == bins:
            k -= 1
        counts[k] += 1
    return counts


@program(lambda n: (matrix(n), matrix(n)), 3, 5, 20, 40)
def triple_loop_product(a, b):
    n, m = a.shape
    k = b.shape[1]
    c = np.zeros((n, k))
    for i in range(n):
        for j in range(k):
            for p in range(m):
                c[i, j] += a[i, p] * b[p, j]
    return c


@program(lambda n: (matrix(n), matrix(n)), 3, 6, 25, 45)
def triple_loop_product_with_sum(a, b):
    n, m = a.shape
    k = b.shape[1]
    c = np.zeros((n, k))
    for i in range(n):
        for j in range(k):
            s = 0.0
            for p in range(m):
                s += a[i, p] * b[p, j]
            c[i, j] = s
    return c


@program(lambda n: (n, n, 30), 3, 6, 24, 64)
def mandelbrot_by_floats(width, height, limit):
    out = np.zeros((height, width), dtype=np.int64)
    for row in range(height):
        ci = 2.4 * row / height - 1.2
        for column in range(width):
            cr = 3.0 * column / width - 2.0
            x = y = 0.0
            n = 0
            while x * x + y * y <= 4.0 and n < limit:
                x, y = x * x - y * y + cr, 2.0 * x * y + ci
                n += 1
            out[row, column] = n
    return out


@program(lambda n: (n, 30), 3, 8, 30, 80)
def mandelbrot_by_complex(n, limit):
    rows = []
    for i in range(n):
        row = []
        for j in range(n):
            c = complex(-2.0 + 3.0 * j / n, -1.2 + 2.4 * i / n)
            z = 0j
            k = 0
            while abs(z) <= 2.0 and k < limit:
                z = z * z + c
                k += 1
            row.append(k)
        rows.append(row)
    return rows


@program(lambda n: (normal(n),), 10, 500, 20000, 150000)
def sum_of_squares(a):
    s = 0.0
    for i in range(len(a)):
        s += a[i] * a[i]
    return s


@program(lambda n: (normal(n), normal(n)), 10, 400, 20000, 150000)
def dot_by_zip(a, b):
    s = 0.0
    for x, y in zip(a, b):
        s += x * y
    return s


@program(lambda n: (matrix(n), 2), 4, 8, 40, 90)
def stencil_by_loops(a, steps):
    n, m = a.shape
    for _ in range(steps):
        b = a.copy()
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
        a = b
    return a


@program(lambda n: (n, 2), 3, 8, 40, 90)
def spectral_norm(n, rounds):
    def a(i, j):
        return 1.0 / ((i + j) * (i + j + 1) / 2 + i + 1)

    u = [1.0] * n
    v = u
    for _ in range(rounds):
        v = [sum(a(i, j) * u[j] for j in range(n)) for i in range(n)]
        u = [sum(a(j, i) * v[j] for j in range(n)) for i in range(n)]
    uv = vv = 0.0
    for x, y in zip(u, v):
        uv += x * y
        vv += y * y
    return (uv / vv) ** 0.5


@program(lambda n: (np.ones(n),), 3, 12, 80, 220)
def spectral_norm_of_arrays(u):
    n = len(u)
    v = np.zeros(n)
    for i in range(n):
        s = 0.0
        for j in range(n):
            s += u[j] / ((i + j) * (i + j + 1) // 2 + i + 1)
        v[i] = s
    return v


def bodies():
    rng = np.random.default_rng(5)
    return rng.standard_normal((5, 3)), rng.standard_normal((5, 3)) * 0.1, rng.random(5) + 0.5


@program(lambda n: (*bodies(), n, 0.01), 1, 2, 40, 250, changes=True)
def nbody_of_arrays_by_loops(position, velocity, mass, steps, dt):
    n = len(mass)
    for _ in range(steps):
        for i in range(n):
            for j in range(i + 1, n):
                dx = position[i, 0] - position[j, 0]
                dy = position[i, 1] - position[j, 1]
                dz = position[i, 2] - position[j, 2]
                d2 = dx * dx + dy * dy + dz * dz
                mag = dt / (d2 * d2**0.5)
                velocity[i, 0] -= dx * mass[j] * mag
                velocity[i, 1] -= dy * mass[j] * mag
                velocity[i, 2] -= dz * mass[j] * mag
                velocity[j, 0] += dx * mass[i] * mag
                velocity[j, 1] += dy * mass[i] * mag
                velocity[j, 2] += dz * mass[i] * mag
        for i in range(n):
            for k in range(3):
                position[i, k] += dt * velocity[i, k]
    return position


@program(lambda n: (*(part.tolist() for part in bodies()), n, 0.01), 1, 10, 100, 500, changes=True)
def nbody_of_lists(position, velocity, mass, steps, dt):
    n = len(mass)
    for _ in range(steps):
        for i in range(n):
            pi, vi, mi = position[i], velocity[i], mass[i]
            for j in range(i + 1, n):
                pj, vj, mj = position[j], velocity[j], mass[j]
                dx, dy, dz = pi[0] - pj[0], pi[1] - pj[1], pi[2] - pj[2]
                mag = dt * (dx * dx + dy * dy + dz * dz) ** -1.5
                vi[0] -= dx * mj * mag
                vi[1] -= dy * mj * mag
                vi[2] -= dz * mj * mag
                vj[0] += dx * mi * mag
                vj[1] += dy * mi * mag
                vj[2] += dz * mi * mag
        for p, v in zip(position, velocity):
            p[0] += dt * v[0]
            p[1] += dt * v[1]
            p[2] += dt * v[2]
    return position


@program(lambda n: ([tuple(row) for row in bodies()[0].tolist()], n), 1, 10, 100, 500)
def nbody_of_tuples(points, steps):
    bodies = [(p, (0.0, 0.0, 0.0)) for p in points]
    for _ in range(steps):
        moved = []
        for (x, y, z), (vx, vy, vz) in bodies:
            ax = ay = az = 0.0
            for (ox, oy, oz), _v in bodies:
                dx, dy, dz = ox - x, oy - y, oz - z
                d2 = dx * dx + dy * dy + dz * dz + 0.01
                w = d2**-1.5
                ax, ay, az = ax + dx * w, ay + dy * w, az + dz * w
            vx, vy, vz = vx + 0.01 * ax, vy + 0.01 * ay, vz + 0.01 * az
            moved.append(((x + 0.01 * vx, y + 0.01 * vy, z + 0.01 * vz), (vx, vy, vz)))
        bodies = moved
    return bodies


@program(lambda n: (integers(n, 4),), 5, 10, 30, 55)
def nussinov(sequence):
    n = len(sequence)
    table = np.zeros((n, n), dtype=np.int64)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            if j - 1 >= 0:
                table[i, j] = max(table[i, j], table[i, j - 1])
            if i + 1 < n:
                table[i, j] = max(table[i, j], table[i + 1, j])
            if j - 1 >= 0 and i + 1 < n:
                if i < j - 1:
                    bonus = 1 if sequence[i] + sequence[j] == 3 else 0
                    table[i, j] = max(table[i, j], table[i + 1, j - 1] + bonus)
                else:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1])
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table


@program(lambda n: (matrix(n), 2), 4, 8, 30, 75, changes=True)
def seidel2d(a, steps):
    n = a.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                a[i, j] = (
                    a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1] + a[i, j - 1] + a[i, j]
                    + a[i, j + 1] + a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1]
                ) / 9.0  # fmt: skip
    return a


@program(lambda n: (matrix(n),), 3, 6, 22, 40, changes=True)
def floyd_warshall_by_loops(d):
    n = len(d)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                through = d[i, k] + d[k, j]
                if through < d[i, j]:
                    d[i, j] = through
    return d


@program(lambda n: (matrix(n).tolist(),), 3, 8, 35, 65, changes=True)
def floyd_warshall_of_lists(d):
    n = len(d)
    for k in range(n):
        dk = d[k]
        for i in range(n):
            di = d[i]
            dik = di[k]
            for j in range(n):
                if dik + dk[j] < di[j]:
                    di[j] = dik + dk[j]
    return d


@program(lambda n: ((matrix(n) > 0.6).astype(np.int64), 1), 4, 8, 40, 90)
def life_of_array_by_loops(grid, steps):
    n, m = grid.shape
    for _ in range(steps):
        new = np.zeros_like(grid)
        for i in range(n):
            for j in range(m):
                total = 0
                for di in (-1, 0, 1):
                    for dj in (-1, 0, 1):
                        if di or dj:
                            total += grid[(i + di) % n, (j + dj) % m]
                if total == 3 or (total == 2 and grid[i, j]):
                    new[i, j] = 1
        grid = new
    return grid


@program(lambda n: ((matrix(n) > 0.6).astype(int).tolist(), 1), 4, 8, 40, 100)
def life_of_lists(grid, steps):
    n, m = len(grid), len(grid[0])
    for _ in range(steps):
        new = [[0] * m for _ in range(n)]
        for i in range(n):
            for j in range(m):
                total = 0
                for di in (-1, 0, 1):
                    for dj in (-1, 0, 1):
                        if di or dj:
                            total += grid[(i + di) % n][(j + dj) % m]
                new[i][j] = 1 if total == 3 or (total == 2 and grid[i][j]) else 0
        grid = new
    return grid


@program(lambda n: (normal(n),), 8, 300, 10000, 80000)
def running_maximum(x):
    out = np.empty(len(x))
    best = x[0]
    for i, v in enumerate(x):
        if v > best:
            best = v
        out[i] = best
    return out


@program(lambda n: (normal(n), normal(n)), 5, 12, 55, 120)
def dynamic_time_warping(a, b):
    n, m = len(a), len(b)
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = abs(a[i - 1] - b[j - 1])
            cost[i, j] = d + min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
    return cost[n, m]


@program(lambda n: (integers(n, 30) + 1, integers(n, 100), 50), 4, 6, 100, 500)
def knapsack(weights, values, capacity):
    best = np.zeros(capacity + 1, dtype=np.int64)
    for i in range(len(weights)):
        for c in range(capacity, weights[i] - 1, -1):
            best[c] = max(best[c], best[c - weights[i]] + values[i])
    return best[capacity]


@program(lambda n: (uniform(n), uniform(n) + 2, uniform(n), normal(n)), 6, 100, 3000, 15000)
def thomas_tridiagonal(a, b, c, d):
    n = len(d)
    cp, dp, x = np.zeros(n), np.zeros(n), np.zeros(n)
    cp[0] = c[0] / b[0]
    dp[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - a[i] * dp[i - 1]) / m
    x[-1] = dp[-1]
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return x


@program(lambda n: (np.sort(uniform(1000)), uniform(n)), 5, 50, 1000, 7000)
def binary_search(sorted_values, wanted):
    out = []
    for w in wanted:
        low, high = 0, len(sorted_values)
        while low < high:
            middle = (low + high) // 2
            if sorted_values[middle] < w:
                low = middle + 1
            else:
                high = middle
        out.append(low)
    return out


@program(lambda n: (matrix(n) * 255,), 4, 10, 40, 90, changes=True)
def floyd_steinberg_dithering(image):
    h, w = image.shape
    for y in range(h):
        for x in range(w):
            old = image[y, x]
            new = 255.0 if old > 127.5 else 0.0
            image[y, x] = new
            error = old - new
            if x + 1 < w:
                image[y, x + 1] += error * 7 / 16
            if y + 1 < h:
                if x > 0:
                    image[y + 1, x - 1] += error * 3 / 16
                image[y + 1, x] += error * 5 / 16
                if x + 1 < w:
                    image[y + 1, x + 1] += error * 1 / 16
    return image


@program(lambda n: (matrix(n) > 0.35,), 4, 10, 60, 150)
def label_components(mask):
    h, w = mask.shape
    labels = np.zeros((h, w), dtype=np.int32)
    current = 0
    for i in range(h):
        for j in range(w):
            if mask[i, j] and labels[i, j] == 0:
                current += 1
                stack = [(i, j)]
                labels[i, j] = current
                while stack:
                    y, x = stack.pop()
                    for ny, nx in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                        if 0 <= ny < h and 0 <= nx < w and mask[ny, nx] and labels[ny, nx] == 0:
                            labels[ny, nx] = current
                            stack.append((ny, nx))
    return labels, current


@program(lambda n: (normal(n), 5), 12, 60, 600, 5000)
def moving_average_by_slices(x, width):
    out = np.empty(len(x) - width + 1)
    for i in range(len(out)):
        out[i] = x[i : i + width].mean()
    return out


@program(lambda n: (normal(n), normal(n)), 6, 100, 3000, 20000)
def complex_by_elements(re, im):
    out = np.empty(len(re), dtype=complex)
    for i in range(len(re)):
        z = complex(re[i], im[i])
        out[i] = z * z.conjugate() + 1j
    return out


@program(lambda n: (integers(n, 1000), integers(n, 1000)), 6, 100, 3000, 20000)
def merge_sorted_arrays(a, b):
    a, b = np.sort(a), np.sort(b)
    out = np.empty(len(a) + len(b), dtype=a.dtype)
    i = j = 0
    for k in range(len(out)):
        if j >= len(b) or (i < len(a) and a[i] <= b[j]):
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1
    return out


@program(lambda n: (normal(n), 0.5), 6, 200, 10000, 70000)
def filter_by_append(x, threshold):
    kept = []
    for v in x:
        if v > threshold:
            kept.append(v)
    return np.array(kept)


@program(lambda n: (uniform(n) * 10,), 6, 100, 5000, 30000, changes=True)
def clip_in_place(x):
    for i in range(len(x)):
        if x[i] < 2.0:
            x[i] = 2.0
        elif x[i] > 8.0:
            x[i] = 8.0
    return x


@program(lambda n: (matrix(n),), 3, 14, 90, 250)
def transpose_by_loops(a):
    n, m = a.shape
    out = np.empty((m, n))
    for i in range(n):
        for j in range(m):
            out[j, i] = a[i, j]
    return out


@program(lambda n: (matrix(n),), 3, 12, 60, 150)
def trace_and_extremes(a):
    low, high, trace = a[0, 0], a[0, 0], 0.0
    for i in range(a.shape[0]):
        trace += a[i][i]
        for j in range(a.shape[1]):
            v = a[i][j]
            if v < low:
                low = v
            if v > high:
                high = v
    return low, high, trace


@program(lambda n: (normal(n), [0.5, -1.0, 2.0, 0.25]), 4, 60, 3000, 20000)
def horner_of_elements(x, coefficients):
    out = np.zeros_like(x)
    for i in range(x.size):
        y = 0.0
        for c in coefficients:
            y = y * x[i] + c
        out[i] = y
    return out


@program(lambda n: (n, n), 4, 10, 50, 250)
def rule_110(width, steps):
    cells = np.zeros(width, dtype=np.uint8)
    cells[-1] = 1
    for _ in range(steps):
        left, right = np.roll(cells, 1), np.roll(cells, -1)
        cells = ((cells | right) & ~(left & cells & right)).astype(np.uint8)
    return cells


@program(lambda n: (np.zeros(n),), 4, 300, 10000, 80000, changes=True)
def fill_by_index(a):
    for i in range(len(a)):
        a[i] = i * 0.5 + 1.0
    return a


@program(lambda n: (n,), 4, 100, 3000, 20000)
def fibonacci_in_array(n):
    f = np.zeros(n, dtype=np.int64)
    f[1] = 1
    for i in range(2, n):
        f[i] = (f[i - 1] + f[i - 2]) % 1000007
    return f
