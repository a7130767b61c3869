"""Tables as lists of lists, as one writes them without NumPy."""

from __future__ import annotations

import random
from typing import Any

from loop_programs import Family

program = Family()


def floats(rows: int, columns: int) -> list[list[float]]:
    draw = random.Random(1).random
    return [[draw() for _ in range(columns)] for _ in range(rows)]


def integers(most: int, rows: int, columns: int) -> list[list[int]]:
    draw = random.Random(1).randrange
    return [[draw(most) for _ in range(columns)] for _ in range(rows)]


def word(length: int, seed: int) -> str:
    return "".join(random.Random(seed).choices("abcd", k=length))


@program(lambda n: (word(n, 1), word(n, 2)), 8, 100)
def common_subsequence(a: str, b: str) -> Any:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            if a[i - 1] == b[j - 1]:
                table[i][j] = table[i - 1][j - 1] + 1
            else:
                table[i][j] = max(table[i - 1][j], table[i][j - 1])
    return table[len(a)][len(b)]


@program(lambda n: (integers(30, 1, n)[0], integers(100, 2, n)[1], 10 * n), 5, 30)
def knapsack(weights: Any, values: Any, most: int) -> Any:
    table = [[0] * (most + 1) for _ in range(len(weights) + 1)]
    for i in range(1, len(weights) + 1):
        for j in range(most + 1):
            table[i][j] = table[i - 1][j]
            if weights[i - 1] <= j:
                table[i][j] = max(table[i][j], table[i - 1][j - weights[i - 1]] + values[i - 1])
    return table[len(weights)][most]


@program(lambda n: (n,), 6, 100)
def paths_in_grid(n: int) -> Any:
    paths = [[1] * n for _ in range(n)]
    for i in range(1, n):
        for j in range(1, n):
            paths[i][j] = (paths[i - 1][j] + paths[i][j - 1]) % 1000007
    return paths[-1][-1]


@program(lambda n: (floats(n, n),), 5, 25)
def shortest_paths(distances: Any) -> Any:
    for k in range(len(distances)):
        for i in range(len(distances)):
            for j in range(len(distances)):
                way = distances[i][k] + distances[k][j]
                if way < distances[i][j]:
                    distances[i][j] = way
    return distances


@program(lambda n: (floats(n, n), floats(1, n)[0]), 4, 30)
def elimination(a: Any, b: Any) -> Any:
    n = len(a)
    for k in range(n):
        for i in range(k + 1, n):
            factor = a[i][k] / a[k][k]
            for j in range(k, n):
                a[i][j] -= factor * a[k][j]
            b[i] -= factor * b[k]
    x = [0.0] * n
    for i in range(n - 1, -1, -1):
        total = b[i]
        for j in range(i + 1, n):
            total -= a[i][j] * x[j]
        x[i] = total / a[i][i]
    return x


@program(lambda n: (integers(2, n, n),), 5, 25)
def life(cells: Any) -> Any:
    rows, columns = len(cells), len(cells[0])
    out = [[0] * columns for _ in range(rows)]
    for i in range(rows):
        for j in range(columns):
            alive = 0
            for y in range(max(0, i - 1), min(rows, i + 2)):
                for x in range(max(0, j - 1), min(columns, j + 2)):
                    alive += cells[y][x]
            alive -= cells[i][j]
            out[i][j] = 1 if alive == 3 or (alive == 2 and cells[i][j] == 1) else 0
    return out


@program(lambda n: (floats(5, 7), n), 3, 60)
def bodies(all_bodies: Any, steps: int) -> Any:
    for _ in range(steps):
        for i in range(len(all_bodies)):
            one = all_bodies[i]
            for j in range(i + 1, len(all_bodies)):
                other = all_bodies[j]
                x, y, z = one[0] - other[0], one[1] - other[1], one[2] - other[2]
                square = x * x + y * y + z * z
                pull = 0.001 / (square * square**0.5)
                one[3] -= x * other[6] * pull
                one[4] -= y * other[6] * pull
                one[5] -= z * other[6] * pull
                other[3] += x * one[6] * pull
                other[4] += y * one[6] * pull
                other[5] += z * one[6] * pull
        for one in all_bodies:
            one[0] += 0.001 * one[3]
            one[1] += 0.001 * one[4]
            one[2] += 0.001 * one[5]
    return all_bodies


@program(lambda n: (floats(n, n), 5), 5, 25)
def heat(plate: Any, steps: int) -> Any:
    for _ in range(steps):
        new = [row[:] for row in plate]
        for i in range(1, len(plate) - 1):
            for j in range(1, len(plate) - 1):
                around = plate[i - 1][j] + plate[i + 1][j] + plate[i][j - 1] + plate[i][j + 1]
                new[i][j] = plate[i][j] + 0.1 * (around - 4 * plate[i][j])
        plate = new
    return plate


@program(lambda n: (integers(1000, n, n),), 4, 20)
def sorted_rows(rows: Any) -> Any:
    for row in rows:
        for i in range(len(row)):
            for j in range(len(row) - 1 - i):
                if row[j] > row[j + 1]:
                    row[j], row[j + 1] = row[j + 1], row[j]
    return rows
