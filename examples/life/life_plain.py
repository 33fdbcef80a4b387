#!/usr/bin/env python3
"""life: Conway's Game of Life on a board whose edges are joined. The ranks own blocks of rows.

Usage: life.py ROWS COLS GENERATIONS [SLEEP_SECONDS]

ROWS must not be less than the number of ranks.
"""
import sys
import time

import numpy as np
from mpi4py import MPI

COMM = MPI.COMM_WORLD


def my_rows(rows):
    """The rows of this rank, from the first one to the end; the first ranks get one row more."""
    share, rest = divmod(rows, COMM.size)
    first = COMM.rank * share + min(COMM.rank, rest)
    return first, first + share + (COMM.rank < rest)


def mix(x):
    """A bijection that spreads every bit over all others (splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def places(board, first):
    """The number of each own cell on the whole board."""
    rows, cols = board[1:-1].shape
    return np.arange(first * cols, (first + rows) * cols, dtype=np.uint64).reshape(rows, cols)


def set_initial(board, first):
    """A third of the cells lives; which ones depends on their places alone."""
    board[1:-1] = mix(places(board, first)) % np.uint64(3) == 0


def exchange(board):
    """Copies of the neighbours' outer rows come into the first and the last row."""
    above, below = (COMM.rank - 1) % COMM.size, (COMM.rank + 1) % COMM.size
    COMM.Sendrecv(board[1], above, 1, board[-1], below, 1)
    COMM.Sendrecv(board[-2], below, 2, board[0], above, 2)


def advance(board):
    exchange(board)
    three = board[:-2] + board[1:-1] + board[2:]
    nine = np.roll(three, 1, 1) + three + np.roll(three, -1, 1)
    # Alive with three neighbours, or with two and alive before.
    board[1:-1] = (nine == 3) | ((nine == 4) & (board[1:-1] == 1))


def checksum(board, first):
    """The numbers of living cells, hashed and added: a sum of integers does not depend on who owns what."""
    mine, total = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    mine[0] = mix(places(board, first))[board[1:-1] == 1].sum(dtype=np.uint64)
    COMM.Reduce(mine, total, MPI.SUM, 0)
    return total[0]


def main():
    rows, cols, generations = map(int, sys.argv[1:4])
    pause = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    first, end = my_rows(rows)
    board = np.zeros((end - first + 2, cols), np.uint8)
    set_initial(board, first)
    for _ in range(generations):
        advance(board)
        time.sleep(pause)
    total = checksum(board, first)
    if COMM.rank == 0:
        print(f"life: iterations {generations} ranks {COMM.size} checksum {total:016x}", flush=True)


main()
