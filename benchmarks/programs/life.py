"""Conway's game of life on a torus."""

import numpy as np

SIZES = {"small": (32, 30), "medium": (256, 30), "large": (1024, 20)}


def make(n, generations):
    rng = np.random.default_rng(2)
    return (rng.random((n, n)) < 0.3).astype(np.uint8), generations


def neighbours(board):
    rows = np.roll(board, 1, axis=0) + board + np.roll(board, -1, axis=0)
    return np.roll(rows, 1, axis=1) + rows + np.roll(rows, -1, axis=1) - board


def run(board, generations):
    age = np.zeros(board.shape, dtype=np.int32)
    alive = []
    for _ in range(generations):
        count = neighbours(board)
        born = (count == 3) & (board == 0)
        stays = ((count == 2) | (count == 3)) & (board == 1)
        board = np.where(born | stays, 1, 0).astype(np.uint8)
        age[stays] += 1
        age[~stays] = 0
        alive.append(int(np.count_nonzero(board)))
    return board, age, np.array(alive), age.max()
