"""Python's own numbers: loops of scalar mathematics, integers, series."""

import cmath
import math

from never_slower_programs import Family

program = Family()


@program(lambda n: (n,), 5, 25, 400, 2500)
def longest_collatz(limit):
    best, start = 0, 1
    for i in range(1, limit):
        n, steps = i, 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        if steps > best:
            best, start = steps, i
    return start, best


@program(lambda n: (n,), 10, 150, 3000, 14000)
def primes_by_trial(limit):
    primes = []
    for n in range(2, limit):
        for p in primes:
            if p * p > n:
                primes.append(n)
                break
            if n % p == 0:
                break
        else:
            primes.append(n)
    return primes


@program(lambda n: (n,), 10, 300, 30000, 250000)
def sieve_of_list(limit):
    prime = [True] * (limit + 1)
    prime[0] = prime[1] = False
    i = 2
    while i * i <= limit:
        if prime[i]:
            for j in range(i * i, limit + 1, i):
                prime[j] = False
        i += 1
    return [i for i, p in enumerate(prime) if p]


@program(lambda n: (n,), 4, 20, 100, 250)
def sum_of_gcds(limit):
    total = 0
    for a in range(1, limit):
        for b in range(1, limit):
            x, y = a, b
            while y:
                x, y = y, x % y
            total += x
    return total


@program(lambda n: (3.7, 0.4, n), 8, 500, 30000, 200000)
def logistic_map(r, x, n):
    out = []
    for _ in range(n):
        x = r * x * (1.0 - x)
        out.append(x)
    return out


@program(lambda n: (n,), 8, 300, 10000, 50000)
def pi_by_series(n):
    total = 0.0
    for k in range(n):
        total += (-1) ** k / (2 * k + 1)
    return 4.0 * total


@program(lambda n: (n,), 8, 500, 50000, 300000)
def pi_by_midpoints(n):
    h = 1.0 / n
    s = 0.0
    for i in range(n):
        x = (i + 0.5) * h
        s += 4.0 / (1.0 + x * x)
    return s * h


def haversine(a, b):
    lat1, lon1, lat2, lon2 = map(math.radians, (*a, *b))
    h = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371.0 * math.asin(math.sqrt(h))


@program(lambda n: ([((i * 37) % 180 - 90.0, (i * 91) % 360 - 180.0) for i in range(n)],), 4, 40, 3000, 20000)
def tour_length(points):
    total = 0.0
    for a, b in zip(points, points[1:]):
        total += haversine(a, b)
    return total


@program(lambda n: ([float(i + 1) for i in range(n)],), 3, 20, 2000, 14000)
def newton_roots(values):
    roots = []
    for v in values:
        x = v
        for _ in range(50):
            new = 0.5 * (x + v / x)
            if abs(new - x) < 1e-12:
                break
            x = new
        roots.append(x)
    return roots


@program(lambda n: (n,), 2, 4, 150, 1000)
def bisection(problems):
    def f(x, c):
        return math.exp(x) - c * x - 2.0

    roots = []
    for c in range(1, problems + 1):
        low, high = 0.0, 10.0
        while high - low > 1e-10:
            middle = (low + high) / 2
            if f(low, c) * f(middle, c) <= 0:
                high = middle
            else:
                low = middle
        roots.append(low)
    return roots


@program(lambda n: (n,), 4, 200, 20000, 150000)
def simpson(n):
    def f(x):
        return math.sin(x) * math.exp(-x)

    h = 3.0 / n
    s = f(0.0) + f(3.0)
    for i in range(1, n):
        s += f(i * h) * (4 if i % 2 else 2)
    return s * h / 3


@program(lambda n: (n,), 4, 40, 5000, 30000)
def rk4_of_floats(steps):
    x, v, h = 1.0, 0.0, 0.001
    for _ in range(steps):
        k1x, k1v = v, -x
        k2x, k2v = v + 0.5 * h * k1v, -(x + 0.5 * h * k1x)
        k3x, k3v = v + 0.5 * h * k2v, -(x + 0.5 * h * k2x)
        k4x, k4v = v + h * k3v, -(x + h * k3x)
        x += h / 6 * (k1x + 2 * k2x + 2 * k3x + k4x)
        v += h / 6 * (k1v + 2 * k2v + 2 * k3v + k4v)
    return x, v


@program(lambda n: (n, 12345), 5, 200, 6000, 40000)
def linear_congruences(n, seed):
    inside = 0
    for _ in range(n):
        seed = (1103515245 * seed + 12345) % 2147483648
        x = seed / 2147483648
        seed = (1103515245 * seed + 12345) % 2147483648
        y = seed / 2147483648
        if x * x + y * y < 1.0:
            inside += 1
    return 4 * inside / n


@program(lambda n: (n,), 5, 200, 20000, 120000)
def digit_sums(limit):
    total = 0
    for n in range(limit):
        while n:
            total += n % 10
            n //= 10
    return total


@program(lambda n: (n,), 5, 40, 400, 1200)
def perfect_numbers(limit):
    return [n for n in range(2, limit) if sum(d for d in range(1, n // 2 + 1) if n % d == 0) == n]


@program(lambda n: (n,), 3, 30, 160, 420)
def pascal_triangle(rows):
    triangle = [[1]]
    for _ in range(rows):
        last = triangle[-1]
        triangle.append([1] + [a + b for a, b in zip(last, last[1:])] + [1])
    return triangle


@program(lambda n: (n,), 5, 500, 10000, 30000)
def large_fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a % 10**9


@program(lambda n: ([0.1 * ((i * 7) % 11) for i in range(n)],), 5, 300, 30000, 200000)
def kahan_sum(values):
    total = compensation = 0.0
    for v in values:
        y = v - compensation
        t = total + y
        compensation = (t - total) - y
        total = t
    return total


@program(lambda n: ([float((i * 37) % 101) for i in range(n)],), 5, 300, 20000, 120000)
def welford_variance(values):
    count, mean, m2 = 0, 0.0, 0.0
    for v in values:
        count += 1
        delta = v - mean
        mean += delta / count
        m2 += delta * (v - mean)
    return mean, m2 / (count - 1)


@program(lambda n: (n,), 3, 60, 2500, 15000)
def quadratic_roots(n):
    out = []
    for k in range(1, n):
        a, b, c = 1.0, float(k % 7), float(k % 5)
        d = cmath.sqrt(b * b - 4 * a * c)
        out.append(((-b + d) / (2 * a), (-b - d) / (2 * a)))
    return out


@program(lambda n: (n,), 3, 100, 3000, 20000)
def powers_modulo(n):
    total = 0
    for base in range(2, n):
        total += pow(base, 65537, 1000003) ^ base
    return total


@program(lambda n: (n,), 3, 200, 6000, 30000)
def bits_by_hand(n):
    counts = 0
    for v in range(n):
        x = v
        while x:
            x &= x - 1
            counts += 1
    return counts


@program(lambda n: (1000.0, 0.05, n), 3, 60, 1500, 8000)
def compound_interest(balance, rate, months):
    rows = []
    for month in range(1, months + 1):
        interest = round(balance * rate / 12, 2)
        balance = balance + interest - 5.0
        rows.append((month, interest, round(balance, 2)))
    return rows


@program(lambda n: ([[1.0 + (i * j) % 7 for j in range(n)] for i in range(n)],), 3, 6, 28, 50)
def matrix_of_lists(a):
    n = len(a)
    c = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            s = 0.0
            for k in range(n):
                s += a[i][k] * a[k][j]
            c[i][j] = s
    return c


@program(lambda n: ([[4.0 * (i == j) + 1.0 / (1 + i + j) for j in range(n)] + [1.0] for i in range(n)],), 3, 8, 40, 85,
         changes=True)  # fmt: skip
def gauss_elimination(rows):
    n = len(rows)
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(i + 1, n):
            factor = rows[r][i] / rows[i][i]
            for c in range(i, n + 1):
                rows[r][c] -= factor * rows[i][c]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][c] * x[c] for c in range(i + 1, n))) / rows[i][i]
    return x
