"""Loops as they are written without a thought of a compiler: tuples, lists, dicts, keywords, closures and random numbers."""

import math
import random
from collections import namedtuple

import numpy as np

from loop_programs import Family

program = Family()

RATES = {"infection": 0.3, "recovery": 0.1, "step": 0.05}
AROUND = ((0, 1), (1, 0), (0, -1), (-1, 0))
Spring = namedtuple("Spring", "stiffness damping")


def bits(*shape):
    return np.random.default_rng(5).integers(0, 2, shape)


@program(lambda n: (bits(n, n),), 6, 24)
def count_neighbours(grid):
    out = np.zeros_like(grid)
    for i in range(1, grid.shape[0] - 1):
        for j in range(1, grid.shape[1] - 1):
            total = 0
            for a in (-1, 0, 1):
                for b in (-1, 0, 1):
                    if a or b:
                        total += grid[i + a, j + b]
            out[i, j] = total
    return out


@program(lambda n: (n,), 20, 2000)
def magnet(n):
    spins = np.ones((16, 16), dtype=np.int64)
    seed = 12345
    for _ in range(n):
        seed = (1103515245 * seed + 12345) % 2147483648
        i = seed % 16
        seed = (1103515245 * seed + 12345) % 2147483648
        j = seed % 16
        energy = 2 * spins[i, j] * (spins[(i + 1) % 16, j] + spins[i - 1, j] + spins[i, (j + 1) % 16] + spins[i, j - 1])
        seed = (1103515245 * seed + 12345) % 2147483648
        if energy <= 0 or seed / 2147483648 < math.exp(-energy * 0.4):
            spins[i, j] = -spins[i, j]
    return spins.sum()


@program(lambda n: (n,), 10, 10_000)
def epidemic(n):
    healthy, ill, immune = 0.99, 0.01, 0.0
    for _ in range(n):
        infected = RATES["infection"] * healthy * ill * RATES["step"]
        recovered = RATES["recovery"] * ill * RATES["step"]
        healthy -= infected
        ill += infected - recovered
        immune += recovered
    return healthy, ill, immune


def move(x, v, step=0.01, rate=1.0):
    return x + v * step, v - rate * x * step


@program(lambda n: (n,), 10, 10_000)
def oscillator(n):
    x, v = 1.0, 0.0
    for _ in range(n):
        x, v = move(x, v, rate=2.0, step=0.02)
    return x, v


@program(lambda n: (Spring(0.7, 0.1), n), 10, 10_000)
def damped(spring, n):
    x, v = 1.0, 0.0
    for _ in range(n):
        v -= (spring.stiffness * x + spring.damping * v) * 0.01
        x += v * 0.01
    return x, v


@program(lambda n: (n, 3.7), 10, 10_000)
def logistic_by_closure(n, rate):
    def following(x):
        return rate * x * (1 - x)

    x = 0.3
    for _ in range(n):
        x = following(x)
    return x


def lorenz(x, y, z):
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z


@program(lambda n: (n,), 4, 1500)
def runge_kutta(n):
    x, y, z, h = 1.0, 1.0, 1.0, 0.01
    for _ in range(n):
        a = lorenz(x, y, z)
        b = lorenz(x + h / 2 * a[0], y + h / 2 * a[1], z + h / 2 * a[2])
        c = lorenz(x + h / 2 * b[0], y + h / 2 * b[1], z + h / 2 * b[2])
        d = lorenz(x + h * c[0], y + h * c[1], z + h * c[2])
        x += h / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0])
        y += h / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])
        z += h / 6 * (a[2] + 2 * b[2] + 2 * c[2] + d[2])
    return x, y, z


@program(lambda n: (n,), 10, 20_000)
def area_by_random(n):
    numbers = random.Random(1)
    inside = 0
    for _ in range(n):
        x, y = numbers.random(), numbers.random()
        if x * x + y * y < 1:
            inside += 1
    return inside


@program(lambda n: (n,), 10, 10_000)
def area_by_generator(n):
    numbers = np.random.default_rng(1)
    inside = 0
    for _ in range(n):
        x, y = numbers.random(), numbers.random()
        if x * x + y * y < 1:
            inside += 1
    return inside


@program(lambda n: ((np.arange(n * n) * 7919 % 11 < 8).astype(np.int64).reshape(n, n),), 5, 60)
def flood(free):
    seen = np.zeros(free.shape, dtype=np.bool_)
    places = [(0, 0)]
    count = 0
    while places:
        y, x = places.pop()
        if y < 0 or x < 0 or y >= free.shape[0] or x >= free.shape[1] or seen[y, x] or not free[y, x]:
            continue
        seen[y, x] = True
        count += 1
        for dy, dx in AROUND:
            places.append((y + dy, x + dx))
    return count


@program(lambda n: (n,), 5, 600)
def primes_by_list(n):
    found = []
    number = 2
    while len(found) < n:
        for p in found:
            if p * p > number:
                found.append(number)
                break
            if number % p == 0:
                break
        else:
            found.append(number)
        number += 1
    return found[-1]


@program(lambda n: (np.arange(n) * 7 % 5, np.arange(n) * 3 % 4), 6, 100)
def edits_by_rows(a, b):
    before = list(range(len(b) + 1))
    for i in range(1, len(a) + 1):
        row = [i] + [0] * len(b)
        for j in range(1, len(b) + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + cost)
        before = row
    return before[-1]


@program(lambda n: (n,), 5, 150)
def triangle_of_pascal(n):
    rows = [[1]]
    for _ in range(n):
        last = rows[-1]
        row = [1]
        for k in range(1, len(last)):
            row.append((last[k - 1] + last[k]) % 1000003)
        row.append(1)
        rows.append(row)
    return rows[-1][n // 2]


@program(lambda n: (np.random.default_rng(2).random(n),), 20, 3000)
def medians_of_parts(x):
    numbers = [float(v) for v in x]
    out = []
    for i in range(len(numbers) - 5):
        out.append(sorted(numbers[i : i + 5])[2])
    return out


@program(lambda n: (np.random.default_rng(2).random((n, 2)), 4), 8, 400)
def labels_of_nearest(points, count):
    labels = np.zeros(len(points), dtype=np.int64)
    for i in range(len(points)):
        least = float("inf")
        for j in range(count):
            distance = (points[i, 0] - points[j, 0]) ** 2 + (points[i, 1] - points[j, 1]) ** 2
            if distance < least:
                least = distance
                labels[i] = j
    return labels


@program(lambda n: (np.random.default_rng(2).normal(size=n),), 20, 3000)
def turns(x):
    peaks = valleys = run = longest = 0
    last = x[0]
    for v in x:
        if v > last:
            if run < 0:
                valleys += 1
                run = 0
            run += 1
        elif v < last:
            if run > 0:
                peaks += 1
                run = 0
            run -= 1
        longest = max(longest, abs(run))
        last = v
    return peaks, valleys, longest
