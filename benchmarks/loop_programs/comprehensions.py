"""Comprehensions, generator expressions and strings, as ordinary programs have them."""

import math

import numpy as np

from loop_programs import Family

program = Family()

TEXT = "the quick brown fox jumps over the lazy dog "


def numbers(n):
    return [float(x) for x in np.random.default_rng(3).normal(size=n)]


def text(n, seed=0):
    letters = np.random.default_rng(seed).integers(0, len(TEXT), n)
    return "".join(TEXT[k] for k in letters)


@program(lambda n: (numbers(n),), 20, 3000)
def squares_of_positive(x):
    return sum(v * v for v in x if v > 0.0)


@program(lambda n: (numbers(n),), 20, 3000)
def steps_between(x):
    return max(abs(b - a) for a, b in zip(x, x[1:]))


@program(lambda n: (n,), 30, 3000)
def primes_by_all(n):
    found = []
    for k in range(2, n):
        if all(k % q for q in range(2, int(k**0.5) + 1)):
            found.append(k)
    return found


@program(lambda n: (n,), 5, 40)
def product_of_tables(n):
    a = [[i + j for j in range(n)] for i in range(n)]
    b = [[i - j for j in range(n)] for i in range(n)]
    return [[sum(a[i][k] * b[k][j] for k in range(n)) for j in range(n)] for i in range(n)]


@program(lambda n: (np.random.default_rng(3).normal(size=(n, n)),), 5, 60)
def largest_of_matrix(m):
    return max(m[i, j] for i in range(m.shape[0]) for j in range(m.shape[1]))


@program(lambda n: (np.random.default_rng(3).normal(size=(n, n)),), 5, 60)
def sums_of_rows(m):
    return [sum(row) for row in m]


@program(lambda n: (n,), 5, 60)
def distances_of_points(n):
    points = [(math.cos(k), math.sin(k)) for k in range(n)]
    return [[math.sqrt((x - u) ** 2 + (y - v) ** 2) for u, v in points] for x, y in points]


@program(lambda n: (text(n),), 20, 3000)
def count_vowels(s):
    found = 0
    for c in s:
        if c in "aeiou":
            found += 1
    return found


@program(lambda n: (text(n),), 20, 3000)
def checksum_of_text(s):
    value = 5381
    for c in s:
        value = (value * 33 + ord(c)) & 0xFFFFFFFF
    return value


@program(lambda n: (text(n), text(n, 1)), 10, 100)
def edits_of_text(a, b):
    before = list(range(len(b) + 1))
    for i in range(1, len(a) + 1):
        row = [i]
        for j in range(1, len(b) + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + cost))
        before = row
    return before[-1]


@program(lambda n: (text(n), text(n, 1)), 10, 100)
def subsequence_of_text(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int64)
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                table[i + 1, j + 1] = table[i, j] + 1
            else:
                table[i + 1, j + 1] = max(table[i, j + 1], table[i + 1, j])
    return table[-1, -1]


@program(lambda n: (np.sort(np.random.default_rng(3).random(n)), np.random.default_rng(4).random(n)), 10, 1000)
def steps_of_table(edges, values):
    total = 0.0
    for x in values:
        k = np.searchsorted(edges, x)
        if 0 < k < len(edges):
            total += (x - edges[k - 1]) / (edges[k] - edges[k - 1])
    return total
