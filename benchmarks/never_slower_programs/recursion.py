"""Functions that call themselves."""

import cmath

import numpy as np

from never_slower_programs import Family

program = Family()


@program(lambda n: (n,), 6, 12, 20, 24)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@program(lambda n: (n,), 3, 8, 13, 16)
def hanoi(n, a="A", b="B", c="C"):
    if n == 0:
        return 0
    return hanoi(n - 1, a, c, b) + 1 + hanoi(n - 1, c, b, a)


@program(lambda n: (list(range(n)),), 3, 5, 6, 7)
def permutations(items):
    if len(items) <= 1:
        return [items]
    out = []
    for i in range(len(items)):
        for rest in permutations(items[:i] + items[i + 1 :]):
            out.append([items[i], *rest])
    return out


@program(lambda n: (n,), 4, 5, 7, 8)
def n_queens(n):
    solutions = []

    def place(row, columns, down, up, board):
        if row == n:
            solutions.append(board)
            return
        for c in range(n):
            if c not in columns and row + c not in up and row - c not in down:
                place(row + 1, columns | {c}, down | {row - c}, up | {row + c}, [*board, c])

    place(0, frozenset(), frozenset(), frozenset(), [])
    return len(solutions), solutions[0]


@program(lambda n: ([(i * 7919) % 10007 for i in range(n)],), 5, 80, 3000, 18000)
def quicksort(values):
    if len(values) <= 1:
        return values
    pivot = values[len(values) // 2]
    left = [v for v in values if v < pivot]
    middle = [v for v in values if v == pivot]
    right = [v for v in values if v > pivot]
    return quicksort(left) + middle + quicksort(right)


@program(lambda n: ([(i * 7919) % 10007 for i in range(n)],), 5, 60, 2000, 12000)
def mergesort(values):
    if len(values) <= 1:
        return values
    middle = len(values) // 2
    left, right = mergesort(values[:middle]), mergesort(values[middle:])
    merged, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            merged.append(left[i])
            i += 1
        else:
            merged.append(right[j])
            j += 1
    return merged + left[i:] + right[j:]


@program(lambda k: (np.random.default_rng(1).random(2**k) + 0j,), 2, 4, 8, 11)
def recursive_fft(x):
    n = len(x)
    if n == 1:
        return x
    even, odd = recursive_fft(x[::2]), recursive_fft(x[1::2])
    t = np.exp(-2j * np.pi * np.arange(n // 2) / n) * odd
    return np.concatenate([even + t, even - t])


@program(lambda k: ([complex(i % 7, i % 5) for i in range(2**k)],), 2, 5, 10, 13)
def recursive_fft_of_list(x):
    n = len(x)
    if n == 1:
        return x
    even, odd = recursive_fft_of_list(x[::2]), recursive_fft_of_list(x[1::2])
    t = [cmath.exp(-2j * cmath.pi * k / n) * odd[k] for k in range(n // 2)]
    return [even[k] + t[k] for k in range(n // 2)] + [even[k] - t[k] for k in range(n // 2)]


def tree(depth):
    return None if depth == 0 else (depth, tree(depth - 1), tree(depth - 2) if depth > 1 else None)


@program(lambda d: (tree(d),), 3, 11, 20, 24)
def tree_sum(node):
    if node is None:
        return 0
    value, left, right = node
    return value + tree_sum(left) + tree_sum(right)


@program(lambda n: (2, n), 1, 10, 80, 180)
def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


@program(lambda n: (list(range(n)),), 3, 8, 13, 16)
def power_set(items):
    if not items:
        return [[]]
    rest = power_set(items[1:])
    return rest + [[items[0], *r] for r in rest]


@program(lambda n: (n, {}), 5, 15, 60, 150, changes=True)
def partitions(n, memo, largest=None):
    largest = n if largest is None else largest
    if n == 0:
        return 1
    if n < 0 or largest == 0:
        return 0
    if (n, largest) not in memo:
        memo[n, largest] = partitions(n - largest, memo, largest) + partitions(n, memo, largest - 1)
    return memo[n, largest]


def expression(depth):
    return depth + 0.5 if depth == 0 else ("+-*"[depth % 3], expression(depth - 1), expression(depth - 1))


@program(lambda d: (expression(d),), 2, 7, 13, 16)
def evaluate(node):
    if isinstance(node, float):
        return node
    operator, left, right = node
    a, b = evaluate(left), evaluate(right)
    if operator == "+":
        return a + b
    if operator == "-":
        return a - b
    return a * b


@program(lambda n: ([[i, [i + 1, [i + 2]]] for i in range(n)],), 3, 25, 2000, 12000)
def flatten(items):
    out = []
    for item in items:
        if isinstance(item, list):
            out.extend(flatten(item))
        else:
            out.append(item)
    return out


@program(lambda n: (n, n), 3, 5, 8, 10)
def grid_paths(rows, columns):
    if rows == 0 or columns == 0:
        return 1
    return grid_paths(rows - 1, columns) + grid_paths(rows, columns - 1)


@program(lambda n: ([3, 34, 4, 12, 5, 2, 7, 8, 11, 9, 1, 6, 13, 17][:n], 31), 4, 7, 11, 14)
def subset_sums(items, target):
    if target == 0:
        return 1
    if not items:
        return 0
    return subset_sums(items[1:], target) + subset_sums(items[1:], target - items[0])


@program(lambda n: (np.random.default_rng(1).random((n, n)), np.random.default_rng(2).random((n, n))), 2, 4, 16, 32)
def strassen(a, b):
    n = len(a)
    if n <= 2:
        return a @ b
    h = n // 2
    a11, a12, a21, a22 = a[:h, :h], a[:h, h:], a[h:, :h], a[h:, h:]
    b11, b12, b21, b22 = b[:h, :h], b[:h, h:], b[h:, :h], b[h:, h:]
    m1 = strassen(a11 + a22, b11 + b22)
    m2 = strassen(a21 + a22, b11)
    m3 = strassen(a11, b12 - b22)
    m4 = strassen(a22, b21 - b11)
    m5 = strassen(a11 + a12, b22)
    m6 = strassen(a21 - a11, b11 + b12)
    m7 = strassen(a12 - a22, b21 + b22)
    c = np.empty((n, n))
    c[:h, :h], c[:h, h:] = m1 + m4 - m5 + m7, m3 + m5
    c[h:, :h], c[h:, h:] = m2 + m4, m1 - m2 + m3 + m6
    return c


@program(lambda n: ([[0] * n for _ in range(n)], 0, 0), 3, 7, 25, 28, changes=True)
def flood_fill(grid, row, column):
    if not (0 <= row < len(grid) and 0 <= column < len(grid[0])) or grid[row][column]:
        return 0
    grid[row][column] = 1
    total = 1
    for dr, dc in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        total += flood_fill(grid, row + dr, column + dc)
    return total


@program(lambda e: (0.0, 1.0, e), 1e-1, 1e-4, 1e-11, 1e-13)
def adaptive_quadrature(low, high, tolerance):
    def f(x):
        return (x * x + 0.1) ** -1.5

    def simpson(a, b):
        return (b - a) / 6 * (f(a) + 4 * f((a + b) / 2) + f(b))

    middle = (low + high) / 2
    whole, left, right = simpson(low, high), simpson(low, middle), simpson(middle, high)
    if abs(left + right - whole) < 15 * tolerance:
        return left + right
    return adaptive_quadrature(low, middle, tolerance / 2) + adaptive_quadrature(middle, high, tolerance / 2)
