"""Loops over the elements of one-dimensional arrays."""

import numpy as np

from loop_programs import Family

program = Family()


def normal(n, seed=1):
    return np.random.default_rng(seed).standard_normal(n)


def integers(n, high, seed=2):
    return np.random.default_rng(seed).integers(0, high, n)


@program(lambda n: (normal(n),), 20, 40000)
def sum_of_squares(a):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * a[i]
    return total


@program(lambda n: (normal(n),), 20, 40000)
def sum_by_values(a):
    total = 0.0
    for value in a:
        if value > 0.0:
            total += value
    return total


@program(lambda n: (normal(n), normal(n, 3)), 20, 20000)
def dot_by_zip(a, b):
    total = 0.0
    for x, y in zip(a, b):
        total += x * y
    return total


@program(lambda n: (normal(n),), 20, 30000)
def largest_by_enumerate(a):
    best, where = a[0], 0
    for i, value in enumerate(a):
        if value > best:
            best, where = value, i
    return where


@program(lambda n: (normal(n).astype(np.float32),), 20, 30000)
def mean_of_float32(a):
    total = np.float32(0.0)
    for i in range(a.shape[0]):
        total += a[i]
    return total / np.float32(a.shape[0])


@program(lambda n: (normal(n), 0.1), 20, 20000)
def moving_exponential(x, alpha):
    out = np.empty_like(x)
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = alpha * x[i] + (1 - alpha) * out[i - 1]
    return out


@program(lambda n: (normal(n),), 20, 30000)
def random_walk(x):
    out = np.zeros(len(x))
    for i in range(1, len(x)):
        out[i] = out[i - 1] + x[i]
    return out


@program(lambda n: (normal(n),), 12, 170)
def bubble_sort(a):
    n = len(a)
    for i in range(n):
        for j in range(n - i - 1):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a


@program(lambda n: (normal(n),), 12, 300)
def insertion_sort(a):
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return a


@program(lambda n: (normal(n),), 12, 1500)
def heap_sort(a):
    n = len(a)
    for end in range(n // 2 + n - 1, 0, -1):
        if end >= n:
            root, size = end - n, n
        else:
            a[0], a[end] = a[end], a[0]
            root, size = 0, end
        while True:
            child = 2 * root + 1
            if child >= size:
                break
            if child + 1 < size and a[child] < a[child + 1]:
                child += 1
            if a[root] >= a[child]:
                break
            a[root], a[child] = a[child], a[root]
            root = child
    return a


@program(lambda n: (n,), 50, 40000)
def sieve(n):
    prime = np.ones(n + 1, dtype=np.bool_)
    prime[0] = False
    prime[1] = False
    i = 2
    while i * i <= n:
        if prime[i]:
            for j in range(i * i, n + 1, i):
                prime[j] = False
        i += 1
    count = 0
    for i in range(n + 1):
        if prime[i]:
            count += 1
    return count


@program(lambda n: (np.random.default_rng(3).random(n), 20), 20, 20000)
def histogram(x, bins):
    counts = np.zeros(bins, dtype=np.int64)
    for i in range(len(x)):
        k = int(x[i] * bins)
        if k >= bins:
            k = bins - 1
        counts[k] += 1
    return counts


@program(lambda n: (integers(n, 100), np.zeros(n + 1, np.int64)), 20, 30000)
def prefix_sums(a, out):
    for i in range(len(a)):
        out[i + 1] = out[i] + a[i]


@program(lambda n: (normal(n), np.zeros(n)), 20, 30000)
def running_maximum(a, out):
    best = a[0]
    for i in range(len(a)):
        if a[i] > best:
            best = a[i]
        out[i] = best


@program(lambda n: (normal(n), normal(9, 4), np.zeros(n - 8)), 20, 3000)
def convolution(signal, taps, out):
    for i in range(len(out)):
        total = 0.0
        for k in range(len(taps)):
            total += signal[i + k] * taps[len(taps) - 1 - k]
        out[i] = total


@program(lambda n: (np.sort(integers(n, 4 * n)), 4 * n), 20, 30000)
def pairs_of_sum(a, target):
    low, high, count = 0, len(a) - 1, 0
    while low < high:
        total = a[low] + a[high]
        if total == target:
            count += 1
            low += 1
            high -= 1
        elif total < target:
            low += 1
        else:
            high -= 1
    return count


@program(lambda n: (integers(n, 2), np.zeros(n, np.int64), np.zeros(n, np.int64)), 20, 20000)
def run_lengths(a, values, lengths):
    count, i = 0, 0
    while i < len(a):
        j = i
        while j < len(a) and a[j] == a[i]:
            j += 1
        values[count] = a[i]
        lengths[count] = j - i
        count += 1
        i = j
    return count


@program(lambda n: (normal(12), n), 20, 5000)
def horner(coefficients, n):
    total = 0.0
    for i in range(n):
        x = i / n
        value = 0.0
        for k in range(len(coefficients) - 1, -1, -1):
            value = value * x + coefficients[k]
        total += value
    return total


@program(lambda n: (integers(n, 256).astype(np.uint8),), 20, 3000)
def crc16(data):
    crc = 0xFFFF
    for i in range(len(data)):
        byte = int(data[i])
        for _ in range(8):
            if (crc ^ byte) & 1:
                crc = (crc >> 1) ^ 0x8408
            else:
                crc >>= 1
            byte >>= 1
    return crc ^ 0xFFFF


@program(lambda n: (integers(n, 256), np.zeros(256, np.int64)), 20, 20000)
def crc32_by_table(data, table):
    for i in range(256):
        c = i
        for _ in range(8):
            c = (c >> 1) ^ 0xEDB88320 if c & 1 else c >> 1
        table[i] = c
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@program(lambda n: (np.sort(normal(n)), normal(n // 4, 5)), 20, 6000)
def binary_searches(table, queries):
    total = 0
    for q in range(len(queries)):
        low, high = 0, len(table)
        while low < high:
            middle = (low + high) // 2
            if table[middle] < queries[q]:
                low = middle + 1
            else:
                high = middle
        total += low
    return total


@program(lambda n: (np.sort(normal(n)), np.sort(normal(n, 6)), np.zeros(2 * n)), 20, 10000)
def merge(a, b, out):
    i = j = k = 0
    while i < len(a) and j < len(b):
        if a[i] <= b[j]:
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1
        k += 1
    while i < len(a):
        out[k] = a[i]
        i += 1
        k += 1
    while j < len(b):
        out[k] = b[j]
        j += 1
        k += 1


@program(lambda n: (normal(n), 4.0 + normal(n, 7) ** 2, normal(n, 8), normal(n, 9)), 20, 10000)
def tridiagonal(a, b, c, d):
    n = len(d)
    for i in range(1, n):
        w = a[i] / b[i - 1]
        b[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    d[n - 1] = d[n - 1] / b[n - 1]
    for i in range(n - 2, -1, -1):
        d[i] = (d[i] - c[i] * d[i + 1]) / b[i]
    return d


@program(lambda n: (normal(n),), 20, 20000)
def largest_subarray(a):
    best = here = 0.0
    for i in range(len(a)):
        here = max(0.0, here + a[i])
        best = max(best, here)
    return best


@program(lambda n: (integers(n, 256).astype(np.uint8),), 20, 30000)
def counting_sort(a):
    counts = np.zeros(256, np.int64)
    for i in range(a.size):
        counts[a[i]] += 1
    k = 0
    for value in range(256):
        for _ in range(counts[value]):
            a[k] = value
            k += 1
    return a


@program(lambda n: (integers(20, 30) + 1, integers(20, 90, 3), np.zeros(n, np.int64)), 20, 900)
def knapsack(weights, values, best):
    for item in range(len(weights)):
        for room in range(len(best) - 1, weights[item] - 1, -1):
            with_it = best[room - weights[item]] + values[item]
            if with_it > best[room]:
                best[room] = with_it
    return best[-1]


@program(lambda n: (integers(n, 1000), np.zeros(n, np.int64)), 12, 250)
def longest_increasing(a, length):
    best = 0
    for i in range(len(a)):
        length[i] = 1
        for j in range(i):
            if a[j] < a[i] and length[j] + 1 > length[i]:
                length[i] = length[j] + 1
        if length[i] > best:
            best = length[i]
    return best


@program(lambda n: (normal(n), np.zeros(n)), 40, 20000)
def moving_average(a, out):
    window = 0.0
    for i in range(a.shape[0]):
        window += a[i]
        if i >= 16:
            window -= a[i - 16]
            out[i] = window / 16
        else:
            out[i] = window / (i + 1)


@program(lambda n: (normal(n),), 20, 20000)
def welford(a):
    mean = m2 = 0.0
    count = 0
    for x in a:
        count += 1
        delta = x - mean
        mean += delta / count
        m2 += delta * (x - mean)
    return mean, m2 / count


@program(lambda n: (normal(n), np.zeros(n)), 20, 10000)
def biquad(x, out):
    x1 = x2 = y1 = y2 = 0.0
    for i in range(len(x)):
        y = 0.2 * x[i] + 0.4 * x1 + 0.2 * x2 + 0.3 * y1 - 0.1 * y2
        x2, x1 = x1, x[i]
        y2, y1 = y1, y
        out[i] = y


@program(lambda n: (np.arange(n),), 20, 15000)
def shuffle(a):
    seed = 1
    for i in range(len(a) - 1, 0, -1):
        seed = (1103515245 * seed + 12345) & 0x7FFFFFFF
        j = seed % (i + 1)
        a[i], a[j] = a[j], a[i]
    return a


@program(lambda n: (np.zeros(n, np.int64), integers(n, n), integers(n, n, 3)), 20, 4000)
def union_find(parent, left, right):
    sets = len(parent)
    for i in range(len(parent)):
        parent[i] = i
    for k in range(len(left)):
        a, b = left[k], right[k]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a != b:
            parent[a] = b
            sets -= 1
    return sets


@program(lambda n: (np.zeros(n, np.int64), n), 4, 6)
def queens_of_arrays(place, n):
    row, count = 0, 0
    place[0] = -1
    while row >= 0:
        place[row] += 1
        while place[row] < n:
            safe = True
            for k in range(row):
                if place[k] == place[row] or abs(place[k] - place[row]) == row - k:
                    safe = False
                    break
            if safe:
                break
            place[row] += 1
        if place[row] == n:
            row -= 1
        elif row == n - 1:
            count += 1
        else:
            row += 1
            place[row] = -1
    return count


@program(lambda n: (normal(n), np.zeros(n), np.zeros(n)), 12, 120)
def durbin(r, y, z):
    y[0] = -r[0]
    beta, alpha = 1.0, -r[0]
    for k in range(1, len(r)):
        beta = (1.0 - alpha * alpha) * beta
        total = 0.0
        for i in range(k):
            total += r[k - i - 1] * y[i]
        alpha = -(r[k] + total) / (beta + 1000.0)
        for i in range(k):
            z[i] = y[i] + alpha * y[k - i - 1]
        for i in range(k):
            y[i] = z[i]
        y[k] = alpha
    return y


@program(lambda n: (np.sort(normal(50)), normal(50, 2), normal(n, 3), np.zeros(n)), 20, 4000)
def interpolation(xs, ys, at, out):
    for i in range(len(at)):
        x = at[i]
        if x <= xs[0]:
            out[i] = ys[0]
        elif x >= xs[-1]:
            out[i] = ys[-1]
        else:
            k = 0
            while xs[k + 1] < x:
                k += 1
            t = (x - xs[k]) / (xs[k + 1] - xs[k])
            out[i] = ys[k] + t * (ys[k + 1] - ys[k])


@program(lambda n: (normal(n) + 1j * normal(n, 2), normal(n, 3) + 1j * normal(n, 4)), 20, 15000)
def complex_dot(a, b):
    total = 0j
    for i in range(len(a)):
        total += a[i].conjugate() * b[i]
    return total


@program(lambda n: (normal(n), 0.1), 20, 15000)
def black_scholes_like(x, rate):
    total = 0.0
    for i in range(len(x)):
        total += np.exp(-rate * abs(x[i])) * np.sqrt(1.0 + x[i] ** 2)
    return total


@program(lambda n: (np.sin(np.arange(n) * 0.1) * 100,), 40, 20000)
def count_peaks(a):
    peaks = 0
    for i in range(1, len(a) - 1):
        if a[i - 1] < a[i] > a[i + 1]:
            peaks += 1
    return peaks
