"""Loops over the elements of two-dimensional arrays; kernels as those of PolyBench and NPBench, element by element."""

import numpy as np

from loop_programs import Family

program = Family()


def normal(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape)


def integers(high, *shape, seed=2):
    return np.random.default_rng(seed).integers(0, high, shape)


def positive(n):
    a = normal(n, n)
    return a @ a.T + n * np.eye(n)


@program(lambda n: (normal(n, n), normal(n, n, seed=2), np.zeros((n, n))), 6, 40)
def matmul(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@program(lambda n: (normal(n, n), normal(n, n, seed=2), np.zeros((n, n))), 6, 30)
def matmul_by_rows(a, b, c):
    n = len(a)
    for i in range(n):
        for k in range(n):
            for j in range(n):
                c[i][j] += a[i][k] * b[k][j]
    return c


@program(lambda n: (normal(n, n) ** 2,), 6, 35)
def floyd_warshall(d):
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


@program(lambda n: (integers(4, n), integers(4, n, seed=3), np.zeros((n + 1, n + 1), np.int64)), 8, 100)
def levenshtein(a, b, d):
    for i in range(len(a) + 1):
        d[i, 0] = i
    for j in range(len(b) + 1):
        d[0, j] = j
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d[len(a), len(b)]


@program(lambda n: (normal(n), normal(n, seed=3)), 8, 100)
def dynamic_time_warping(a, b):
    n, m = len(a), len(b)
    d = np.full((n + 1, m + 1), np.inf)
    d[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = abs(a[i - 1] - b[j - 1])
            d[i, j] = cost + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d[n, m]


@program(lambda n: (integers(3, n), integers(3, n, seed=3)), 8, 120)
def common_subsequence(a, b):
    d = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int32)
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                d[i + 1, j + 1] = d[i, j] + 1
            else:
                d[i + 1, j + 1] = max(d[i, j + 1], d[i + 1, j])
    return d[-1, -1]


@program(lambda n: (integers(2, n, n), np.zeros((n, n), np.int64)), 8, 40)
def life(old, new):
    rows, columns = old.shape
    for i in range(rows):
        for j in range(columns):
            around = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if di != 0 or dj != 0:
                        around += old[(i + di) % rows, (j + dj) % columns]
            if around == 3 or (around == 2 and old[i, j] == 1):
                new[i, j] = 1
            else:
                new[i, j] = 0


@program(lambda n: (normal(n, n), np.zeros((n, n)), 3), 8, 50)
def jacobi_2d(a, b, steps):
    for _ in range(steps):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                b[i, j] = 0.2 * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                a[i, j] = b[i, j]
    return a


@program(lambda n: (normal(n, n), 2), 8, 50)
def seidel_2d(a, steps):
    n = len(a)
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                a[i, j] = (
                    a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1] + a[i, j - 1] + a[i, j]
                    + a[i, j + 1] + a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1]
                ) / 9.0  # fmt: skip
    return a


@program(lambda n: (positive(n),), 6, 45)
def cholesky(a):
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[j, k]
            a[i, j] /= a[j, j]
        for k in range(i):
            a[i, i] -= a[i, k] * a[i, k]
        a[i, i] = np.sqrt(a[i, i])
    return a


@program(lambda n: (positive(n),), 6, 40)
def lu(a):
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[k, j]
            a[i, j] /= a[j, j]
        for j in range(i, n):
            for k in range(i):
                a[i, j] -= a[i, k] * a[k, j]
    return a


@program(lambda n: (positive(n), normal(n, seed=2), np.zeros(n)), 8, 180)
def trisolv(lower, b, x):
    for i in range(len(b)):
        total = b[i]
        for j in range(i):
            total -= lower[i, j] * x[j]
        x[i] = total / lower[i, i]
    return x


@program(lambda n: (1.5, normal(n, n), normal(n, n, seed=2)), 6, 35)
def trmm(alpha, a, b):
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            for k in range(i + 1, b.shape[0]):
                b[i, j] += a[k, i] * b[k, j]
            b[i, j] *= alpha
    return b


@program(lambda n: (normal(n, n), np.zeros((n, n)), np.zeros((n, n))), 6, 30)
def gramschmidt(a, q, r):
    for k in range(a.shape[1]):
        norm = 0.0
        for i in range(a.shape[0]):
            norm += a[i, k] * a[i, k]
        r[k, k] = norm**0.5
        for i in range(a.shape[0]):
            q[i, k] = a[i, k] / r[k, k]
        for j in range(k + 1, a.shape[1]):
            r[k, j] = 0.0
            for i in range(a.shape[0]):
                r[k, j] += q[i, k] * a[i, j]
            for i in range(a.shape[0]):
                a[i, j] -= q[i, k] * r[k, j]
    return q


@program(lambda n: (integers(4, n), np.zeros((n, n), np.int64)), 8, 50)
def nussinov(bases, table):
    n = len(bases)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            best = table[i, j]
            best = max(best, table[i, j - 1])
            if i + 1 < n:
                best = max(best, table[i + 1, j])
                if i < j - 1:
                    pair = 1 if bases[i] + bases[j] == 3 else 0
                    best = max(best, table[i + 1, j - 1] + pair)
                else:
                    best = max(best, table[i + 1, j - 1])
            for k in range(i + 1, j):
                best = max(best, table[i, k] + table[k + 1, j])
            table[i, j] = best
    return table[0, n - 1]


def sparse(n):
    width = 7
    indices = integers(n, n * width).astype(np.int32)
    return normal(n * width), indices, np.arange(n + 1, dtype=np.int32) * width, normal(n, seed=4), np.zeros(n)


@program(sparse, 10, 2500)
def spmv(values, columns, starts, x, y):
    for i in range(len(y)):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        y[i] = total


@program(lambda n: (normal(n, n), np.zeros((2 * n, 2 * n))), 6, 45)
def bilinear(image, out):
    rows, columns = out.shape
    for i in range(rows):
        y = i * (image.shape[0] - 1) / rows
        y0 = int(y)
        fy = y - y0
        for j in range(columns):
            x = j * (image.shape[1] - 1) / columns
            x0 = int(x)
            fx = x - x0
            top = image[y0, x0] * (1 - fx) + image[y0, x0 + 1] * fx
            bottom = image[y0 + 1, x0] * (1 - fx) + image[y0 + 1, x0 + 1] * fx
            out[i, j] = top * (1 - fy) + bottom * fy


@program(lambda n: (integers(256, n, n).astype(np.uint8), np.zeros((n, n), np.uint8)), 8, 150)
def threshold(image, out):
    count = 0
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            if image[i, j] > 128:
                out[i, j] = 255
                count += 1
            else:
                out[i, j] = 0
    return count


@program(lambda n: (integers(256, n, n).astype(np.uint8), np.zeros((n, n), np.uint8)), 8, 50)
def box_blur(image, out):
    for i in range(1, image.shape[0] - 1):
        for j in range(1, image.shape[1] - 1):
            total = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    total += int(image[i + di, j + dj])
            out[i, j] = total // 9


@program(lambda n: (integers(2, n, n), np.zeros((n, n), np.int64), np.zeros((n * n, 2), np.int64)), 6, 45)
def components(image, labels, stack):
    count = 0
    rows, columns = image.shape
    for i in range(rows):
        for j in range(columns):
            if image[i, j] == 0 or labels[i, j] != 0:
                continue
            count += 1
            labels[i, j] = count
            stack[0, 0], stack[0, 1] = i, j
            top = 1
            while top > 0:
                top -= 1
                y, x = stack[top, 0], stack[top, 1]
                for k in range(4):
                    yy = y + (1 if k == 0 else -1 if k == 1 else 0)
                    xx = x + (1 if k == 2 else -1 if k == 3 else 0)
                    if 0 <= yy < rows and 0 <= xx < columns and image[yy, xx] == 1 and labels[yy, xx] == 0:
                        labels[yy, xx] = count
                        stack[top, 0] = yy
                        stack[top, 1] = xx
                        top += 1
    return count


@program(lambda n: (normal(n, n),), 8, 120)
def transpose_in_place(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j], a[j, i] = a[j, i], a[i, j]
    return a


@program(lambda n: (normal(n, n), np.zeros((n, n))), 8, 50)
def sobel(image, out):
    for i in range(1, image.shape[0] - 1):
        for j in range(1, image.shape[1] - 1):
            gx = image[i - 1, j + 1] + 2 * image[i, j + 1] + image[i + 1, j + 1]
            gx -= image[i - 1, j - 1] + 2 * image[i, j - 1] + image[i + 1, j - 1]
            gy = image[i + 1, j - 1] + 2 * image[i + 1, j] + image[i + 1, j + 1]
            gy -= image[i - 1, j - 1] + 2 * image[i - 1, j] + image[i - 1, j + 1]
            out[i, j] = (gx * gx + gy * gy) ** 0.5


@program(lambda n: (normal(n, 3), np.zeros((n, n))), 8, 60)
def pairwise_distances(points, out):
    for i in range(len(points)):
        for j in range(len(points)):
            total = 0.0
            for k in range(3):
                difference = points[i, k] - points[j, k]
                total += difference * difference
            out[i, j] = np.sqrt(total)


@program(lambda n: (np.zeros((2, n)), 30), 10, 400)
def heat_1d(u, steps):
    u[0, 0] = 1.0
    for t in range(steps):
        old, new = t % 2, (t + 1) % 2
        for i in range(1, u.shape[1] - 1):
            u[new, i] = u[old, i] + 0.25 * (u[old, i - 1] - 2.0 * u[old, i] + u[old, i + 1])
        u[new, 0] = 1.0
    return u


@program(lambda n: (positive(n), normal(n, seed=2)), 6, 35)
def gauss_elimination(a, b):
    n = len(b)
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[pivot, k]):
                pivot = i
        if pivot != k:
            for j in range(n):
                a[k, j], a[pivot, j] = a[pivot, j], a[k, j]
            b[k], b[pivot] = b[pivot], b[k]
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            for j in range(k, n):
                a[i, j] -= factor * a[k, j]
            b[i] -= factor * b[k]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            b[i] -= a[i, j] * b[j]
        b[i] /= a[i, i]
    return b


@program(lambda n: (integers(30, n + 1) + 1, np.zeros((n, n), np.int64)), 6, 35)
def matrix_chain(sizes, cost):
    n = len(sizes) - 1
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cost[i, j] = 1 << 40
            for k in range(i, j):
                trial = cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                if trial < cost[i, j]:
                    cost[i, j] = trial
    return cost[0, n - 1]


@program(lambda n: (n, np.zeros((n, n), np.int32)), 6, 50)
def mandelbrot_image(n, out):
    for i in range(n):
        for j in range(n):
            cx, cy = -2.0 + 3.0 * j / n, -1.0 + 2.0 * i / n
            x = y = 0.0
            step = 0
            while step < 60 and x * x + y * y <= 4.0:
                x, y = x * x - y * y + cx, 2.0 * x * y + cy
                step += 1
            out[i, j] = step


@program(lambda n: (normal(n, 3), normal(n, 3, seed=2), normal(n) ** 2, np.zeros((n, 3)), 2), 4, 28)
def nbody_arrays(place, speed, mass, force, steps):
    n = len(mass)
    for _ in range(steps):
        for i in range(n):
            for k in range(3):
                force[i, k] = 0.0
        for i in range(n):
            for j in range(n):
                if i != j:
                    dx = place[j, 0] - place[i, 0]
                    dy = place[j, 1] - place[i, 1]
                    dz = place[j, 2] - place[i, 2]
                    far = dx * dx + dy * dy + dz * dz + 0.01
                    pull = mass[j] / (far * np.sqrt(far))
                    force[i, 0] += pull * dx
                    force[i, 1] += pull * dy
                    force[i, 2] += pull * dz
        for i in range(n):
            for k in range(3):
                speed[i, k] += 0.01 * force[i, k]
                place[i, k] += 0.01 * speed[i, k]
    return place


@program(lambda n: (normal(n, 4), np.zeros(n, np.int64), normal(5, 4, seed=2)), 8, 400)
def nearest_centre(points, labels, centres):
    for i in range(points.shape[0]):
        best, least = 0, np.inf
        for c in range(centres.shape[0]):
            total = 0.0
            for k in range(points.shape[1]):
                total += (points[i, k] - centres[c, k]) ** 2
            if total < least:
                best, least = c, total
        labels[i] = best


@program(lambda n: (np.asfortranarray(normal(n, n)), np.zeros(n)), 8, 120)
def column_sums(a, out):
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            out[j] += a[i, j]
    return out


@program(lambda n: (normal(n, n), normal(n, seed=2), np.zeros(n)), 8, 90)
def atax(a, x, y):
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        for j in range(a.shape[1]):
            y[j] += a[i, j] * total
    return y
