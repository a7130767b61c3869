"""Loops over lists of numbers."""

import numpy as np

from loop_programs import Family

program = Family()


def floats(n, seed=1):
    return [float(v) for v in np.random.default_rng(seed).standard_normal(n)]


@program(lambda n: (floats(5), floats(5, 2), floats(5, 3), floats(5, 4), floats(5, 5), floats(5, 6), n), 4, 300)
def nbody_lists(x, y, z, vx, vy, vz, steps):
    for _ in range(steps):
        for i in range(5):
            for j in range(i + 1, 5):
                dx, dy, dz = x[i] - x[j], y[i] - y[j], z[i] - z[j]
                far = dx * dx + dy * dy + dz * dz + 0.01
                pull = 0.001 / (far * far**0.5)
                vx[i] -= dx * pull
                vy[i] -= dy * pull
                vz[i] -= dz * pull
                vx[j] += dx * pull
                vy[j] += dy * pull
                vz[j] += dz * pull
        for i in range(5):
            x[i] += 0.001 * vx[i]
            y[i] += 0.001 * vy[i]
            z[i] += 0.001 * vz[i]
    return x


@program(lambda n: (n,), 50, 40000)
def sieve_of_list(n):
    prime = [True] * (n + 1)
    i = 2
    while i * i <= n:
        if prime[i]:
            for j in range(i * i, n + 1, i):
                prime[j] = False
        i += 1
    count = 0
    for i in range(2, n + 1):
        if prime[i]:
            count += 1
    return count


@program(lambda n: (floats(n), 0.1), 20, 20000)
def smoothed_list(x, alpha):
    out = [x[0]]
    for i in range(1, len(x)):
        out.append(alpha * x[i] + (1 - alpha) * out[i - 1])
    return out


@program(lambda n: (floats(n),), 12, 300)
def insertion_sort_of_list(a):
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return a


@program(lambda n: (floats(n),), 20, 40000)
def sum_of_list(a):
    total = 0.0
    for value in a:
        total += value * value
    return total


@program(lambda n: ([floats(n, i) for i in range(n)], [floats(n, 90 + i) for i in range(n)]), 5, 35)
def matmul_of_lists(a, b):
    n = len(a)
    total = 0.0
    for i in range(n):
        for j in range(n):
            cell = 0.0
            for k in range(n):
                cell += a[i][k] * b[k][j]
            total += cell * cell
    return total


@program(lambda n: (n,), 10, 150)
def pascal_row(n):
    row = [0] * (n + 1)
    row[0] = 1
    for i in range(1, n + 1):
        for j in range(i, 0, -1):
            row[j] = (row[j] + row[j - 1]) % 1000003
    return row


@program(lambda n: (n,), 30, 3000)
def primes_by_append(n):
    primes = [2]
    for candidate in range(3, n, 2):
        for p in primes:
            if p * p > candidate:
                primes.append(candidate)
                break
            if candidate % p == 0:
                break
    return primes


@program(lambda n: ([1, 5, 10, 25, 50, 100], n), 20, 6000)
def coin_ways(coins, amount):
    ways = [0] * (amount + 1)
    ways[0] = 1
    for coin in coins:
        for i in range(coin, amount + 1):
            ways[i] = (ways[i] + ways[i - coin]) % 1000000007
    return ways[amount]


@program(lambda n: (n,), 4, 6)
def pancake_flips(n):
    order, count, most = list(range(n)), [0] * n, 0
    r = n
    while True:
        while r > 1:
            count[r - 1] = r
            r -= 1
        work = order[:]
        flips = 0
        while work[0] != 0:
            low, high = 0, work[0]
            while low < high:
                work[low], work[high] = work[high], work[low]
                low += 1
                high -= 1
            flips += 1
        if flips > most:
            most = flips
        while True:
            if r == n:
                return most
            first = order[0]
            for i in range(r):
                order[i] = order[i + 1]
            order[r] = first
            count[r] -= 1
            if count[r] > 0:
                break
            r += 1
