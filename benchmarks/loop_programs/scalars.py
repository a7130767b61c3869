"""Loops over Python numbers alone."""

import math

from loop_programs import Family

program = Family()


def one(n):
    return (n,)


@program(one, 20, 3000)
def fibonacci(rounds):
    total = 0
    for first in range(rounds):
        a, b = 0, first
        for _ in range(30 + first % 30):
            a, b = b, a + b
        total = (total + a) % 1000003
    return total


@program(one, 50, 3000)
def collatz(n):
    best, longest = 0, 0
    for start in range(1, n):
        x, steps = start, 0
        while x != 1:
            if x % 2 == 0:
                x //= 2
            else:
                x = 3 * x + 1
            steps += 1
        if steps > longest:
            best, longest = start, steps
    return best, longest


@program(one, 12, 250)
def gcd_sum(n):
    total = 0
    for i in range(1, n):
        for j in range(i, n):
            a, b = i, j
            while b:
                a, b = b, a % b
            total += a
    return total


@program(one, 60, 12000)
def count_primes(n):
    count = 0
    for candidate in range(2, n):
        divisor = 2
        while divisor * divisor <= candidate:
            if candidate % divisor == 0:
                break
            divisor += 1
        else:
            count += 1
    return count


@program(one, 100, 200000)
def pi_series(n):
    total, sign = 0.0, 1.0
    for k in range(n):
        total += sign / (2 * k + 1)
        sign = -sign
    return 4.0 * total


@program(one, 100, 200000)
def logistic_map(n):
    x = 0.3
    for _ in range(n):
        x = 3.7 * x * (1.0 - x)
    return x


@program(one, 6, 60)
def mandelbrot(n):
    inside = 0
    for row in range(n):
        for column in range(n):
            cx, cy = 3.0 * column / n - 2.0, 2.0 * row / n - 1.0
            x = y = 0.0
            for _ in range(80):
                xx, yy = x * x, y * y
                if xx + yy > 4.0:
                    break
                y = 2.0 * x * y + cy
                x = xx - yy + cx
            else:
                inside += 1
    return inside


@program(one, 6, 50)
def julia_complex(n):
    total = 0
    for row in range(n):
        for column in range(n):
            z = complex(3.0 * column / n - 1.5, 3.0 * row / n - 1.5)
            for step in range(50):
                z = z * z + (-0.4 + 0.6j)
                if z.real * z.real + z.imag * z.imag > 4.0:
                    total += step
                    break
    return total


@program(one, 20, 10000)
def newton_roots(n):
    total = 0.0
    for i in range(1, n):
        x = float(i)
        for _ in range(100):
            following = 0.5 * (x + i / x)
            if abs(following - x) < 1e-12 * following:
                break
            x = following
        total += x
    return total


@program(one, 50, 60000)
def monte_carlo_pi(n):
    seed, hits = 12345, 0
    for _ in range(n):
        seed = (1103515245 * seed + 12345) % 2147483648
        x = seed / 2147483648.0
        seed = (1103515245 * seed + 12345) % 2147483648
        y = seed / 2147483648.0
        if x * x + y * y <= 1.0:
            hits += 1
    return 4.0 * hits / n


@program(one, 60, 60000)
def digit_sums(n):
    total = 0
    for number in range(n):
        while number > 0:
            total += number % 10
            number //= 10
    return total


@program(one, 40, 15000)
def integer_roots(n):
    total = 0
    for number in range(1, n):
        root = number
        following = (root + 1) // 2
        while following < root:
            root = following
            following = (root + number // root) // 2
        total += root
    return total


@program(one, 40, 60000)
def simpson(n):
    width = 4.0 / n
    total = 0.0
    for i in range(n + 1):
        x = i * width
        weight = 1.0 if i == 0 or i == n else 4.0 if i % 2 else 2.0
        total += weight * math.exp(-x * x) * math.sin(3.0 * x)
    return total * width / 3.0


@program(one, 10, 4000)
def bisection(n):
    total = 0.0
    for i in range(1, n):
        low, high = 0.0, 3.0
        target = i / n
        while high - low > 1e-6:
            middle = (low + high) / 2.0
            if middle * middle * middle - middle < target:
                low = middle
            else:
                high = middle
        total += low
    return total


@program(one, 20, 500)
def perfect_numbers(n):
    total = 0
    for number in range(2, n):
        divisors = 0
        for d in range(1, number):
            if number % d == 0:
                divisors += d
        if divisors == number:
            total += number
    return total


@program(one, 10, 8000)
def modular_powers(n):
    total = 0
    for base in range(1, n):
        result, factor, exponent = 1, base, 65537
        while exponent:
            if exponent & 1:
                result = result * factor % 1000003
            factor = factor * factor % 1000003
            exponent >>= 1
        total ^= result
    return total


@program(one, 20, 15000)
def pendulum(n):
    angle, speed, step = 1.0, 0.0, 0.001
    for _ in range(n):
        a1 = -math.sin(angle)
        v1 = speed
        a2 = -math.sin(angle + 0.5 * step * v1)
        v2 = speed + 0.5 * step * a1
        a3 = -math.sin(angle + 0.5 * step * v2)
        v3 = speed + 0.5 * step * a2
        a4 = -math.sin(angle + step * v3)
        v4 = speed + step * a3
        angle += step * (v1 + 2.0 * v2 + 2.0 * v3 + v4) / 6.0
        speed += step * (a1 + 2.0 * a2 + 2.0 * a3 + a4) / 6.0
    return angle, speed


@program(one, 50, 30000)
def bit_counts(n):
    total = 0
    for number in range(n):
        rest = number
        while rest:
            rest &= rest - 1
            total += 1
    return total


@program(one, 50, 60000)
def xorshift(n):
    x, total = 2463534242, 0
    for _ in range(n):
        x ^= (x << 13) & 0xFFFFFFFF
        x ^= x >> 17
        x ^= (x << 5) & 0xFFFFFFFF
        total += x & 255
    return total


@program(one, 20, 10000)
def kepler(n):
    total = 0.0
    for i in range(n):
        mean = 6.283 * i / n
        e = mean
        for _ in range(20):
            change = (e - 0.3 * math.sin(e) - mean) / (1.0 - 0.3 * math.cos(e))
            e -= change
            if math.fabs(change) < 1e-13:
                break
        total += e
    return total


@program(one, 12, 90)
def pythagorean_triples(n):
    count = 0
    for a in range(1, n):
        for b in range(a, n):
            for c in range(b, n):
                if a * a + b * b == c * c:
                    count += 1
    return count


@program(one, 20, 60000)
def kahan_harmonic(n):
    total, lost = 0.0, 0.0
    for k in range(1, n + 1):
        term = 1.0 / k - lost
        following = total + term
        lost = (following - total) - term
        total = following
    return total


@program(one, 40, 100000)
def josephus(n):
    place = 0
    for size in range(2, n + 1):
        place = (place + 7) % size
    return place


@program(one, 5, 3000)
def exponential_series(n):
    total = 0.0
    for i in range(n):
        x, term, value, k = i / n, 1.0, 1.0, 1
        while term > 1e-17:
            term *= x / k
            value += term
            k += 1
        total += value
    return total


@program(one, 20, 3000)
def weekdays(n):
    fridays = 0
    for year in range(1600, 1600 + n):
        for month in range(1, 13):
            y, m = year, month
            if m < 3:
                m += 12
                y -= 1
            if (13 + 13 * (m + 1) // 5 + y + y // 4 - y // 100 + y // 400) % 7 == 6:
                fridays += 1
    return fridays


@program(one, 8, 22)
def fibonacci_recursive(n):
    if n < 2:
        return n
    return fibonacci_recursive(n - 1) + fibonacci_recursive(n - 2)
