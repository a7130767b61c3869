"""Loops that call small functions of their module."""

import math

import numpy as np

from loop_programs import Family

program = Family()


def cell(i, j):
    return 1.0 / ((i + j) * (i + j + 1) // 2 + i + 1)


@program(lambda n: (np.ones(n), np.zeros(n)), 8, 110)
def spectral_norm(u, v):
    for i in range(len(u)):
        total = 0.0
        for j in range(len(u)):
            total += cell(i, j) * u[j]
        v[i] = total
    return v


def escape(cx, cy, limit):
    x = y = 0.0
    for step in range(limit):
        if x * x + y * y > 4.0:
            return step
        x, y = x * x - y * y + cx, 2.0 * x * y + cy
    return limit


@program(lambda n: (n,), 6, 50)
def mandelbrot_by_function(n):
    total = 0
    for i in range(n):
        for j in range(n):
            total += escape(-2.0 + 3.0 * j / n, -1.0 + 2.0 * i / n, 60)
    return total


def clamp(value, low, high):
    if value < low:
        return low
    if value > high:
        return high
    return value


@program(lambda n: (np.random.default_rng(1).standard_normal(n), np.zeros(n)), 20, 15000)
def clamp_all(a, out):
    for i in range(len(a)):
        out[i] = clamp(a[i], -1.0, 1.0)


def distance(ax, ay, bx, by):
    return math.sqrt((ax - bx) * (ax - bx) + (ay - by) * (ay - by))


@program(lambda n: (np.random.default_rng(1).random((n, 2)),), 8, 5000)
def length_of_path(points):
    total = 0.0
    for i in range(1, len(points)):
        total += distance(points[i - 1, 0], points[i - 1, 1], points[i, 0], points[i, 1])
    return total


def common_divisor(a, b):
    while b:
        a, b = b, a % b
    return a


@program(lambda n: (n,), 20, 200)
def coprime_pairs(n):
    count = 0
    for a in range(1, n):
        for b in range(1, n):
            if common_divisor(a, b) == 1:
                count += 1
    return count


def ordered(a, b):
    return (a, b) if a <= b else (b, a)


@program(lambda n: (np.random.default_rng(1).standard_normal(n),), 12, 120)
def exchange_sort(a):
    for i in range(len(a)):
        for j in range(i + 1, len(a)):
            a[i], a[j] = ordered(a[i], a[j])
    return a


def wave(x):
    return math.sin(x) * math.exp(-0.1 * x)


def trapezoid(low, high, n):
    width = (high - low) / n
    total = 0.5 * (wave(low) + wave(high))
    for i in range(1, n):
        total += wave(low + i * width)
    return total * width


@program(lambda n: (n,), 2, 25)
def integrals(n):
    total = 0.0
    for i in range(n):
        total += trapezoid(0.0, 1.0 + i, 1000)
    return total


def is_prime(n):
    if n < 2:
        return False
    for d in range(2, int(n**0.5) + 1):
        if n % d == 0:
            return False
    return True


@program(lambda n: (n,), 30, 8000)
def twin_primes(n):
    count = 0
    for i in range(n):
        if is_prime(i) and is_prime(i + 2):
            count += 1
    return count


def placements(full, columns, left, right):
    if columns == full:
        return 1
    count = 0
    free = full & ~(columns | left | right)
    while free:
        bit = free & -free
        free ^= bit
        count += placements(full, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return count


@program(lambda n: (n,), 4, 7)
def queens_of_bits(n):
    return placements((1 << n) - 1, 0, 0, 0)
