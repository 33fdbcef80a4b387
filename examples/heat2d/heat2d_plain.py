#!/usr/bin/env python3
"""heat2d in Python: how heat spreads over a plate whose border is held at fixed temperatures. The same method and the
same bits as heat2d.c."""
import argparse
import time

import numpy as np
from mpi4py import MPI

COMM = MPI.COMM_WORLD


def my_rows(rows):
    """The rows of this rank, from the first one to the end; the first ones get one row more."""
    share, rest = divmod(rows, COMM.size)
    first = COMM.rank * share + min(COMM.rank, rest)
    return first, first + share + (COMM.rank < rest)


def set_initial(t, first, rows):
    """Hot along the top, cooling off along the sides, cold elsewhere. `t` has a row of each neighbour as its halo."""
    t[1:-1, [0, -1]] = 100.0 * (rows - 1 - np.arange(first, first + len(t) - 2))[:, None] / (rows - 1)
    if first == 0 and len(t) > 2:
        t[1] = 100.0


def exchange_halo(t, first, rows):
    is_empty, end = len(t) == 2, first + len(t) - 2
    above = MPI.PROC_NULL if is_empty or first == 0 else COMM.rank - 1
    below = MPI.PROC_NULL if is_empty or end == rows else COMM.rank + 1
    COMM.Sendrecv(t[1], above, 1, t[-1], below, 1)
    COMM.Sendrecv(t[-2], below, 2, t[0], above, 2)


def relax(t, first, rows):
    """One step of Jacobi's method; the border keeps its temperature."""
    begin, end = max(1, 2 - first), min(len(t) - 1, rows - first)
    t[begin:end, 1:-1] = 0.25 * (
        (t[begin - 1 : end - 1, 1:-1] + t[begin + 1 : end + 1, 1:-1]) + (t[begin:end, :-2] + t[begin:end, 2:])
    )


def mix(x):
    """A bijection that spreads every bit over all others (splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def checksum(t, first):
    """Each cell's bits are hashed with its place and added: a sum of integers does not depend on who owns what."""
    bits = np.array(t[1:-1]).view(np.uint64).ravel()
    place = np.arange(bits.size, dtype=np.uint64) + np.uint64(first * t.shape[1])
    mine, total = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    mine[0] = mix(bits ^ mix(place + np.uint64(0x9E3779B97F4A7C15))).sum(dtype=np.uint64)
    COMM.Reduce(mine, total, MPI.SUM, 0)
    return total[0]


def main():
    parser = argparse.ArgumentParser("heat2d")
    for name in ("rows", "cols", "iterations"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--sleep-us", type=int, default=0)
    o = parser.parse_args()

    first, end = my_rows(o.rows)
    t = np.zeros((end - first + 2, o.cols))
    set_initial(t, first, o.rows)
    start = time.monotonic()
    for _ in range(o.iterations):
        exchange_halo(t, first, o.rows)
        relax(t, first, o.rows)
        time.sleep(o.sleep_us / 1e6)
    seconds = time.monotonic() - start
    total = checksum(t, first)
    if COMM.rank == 0:
        closing = f"ranks {COMM.size} seconds {seconds:.6f} checksum {total:016x}"
        print(f"heat2d: iterations {o.iterations} {closing}", flush=True)


main()
