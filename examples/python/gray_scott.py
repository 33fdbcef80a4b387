#!/usr/bin/env python3
"""gray_scott: two substances react and spread over a plate whose edges are joined; patterns grow.

Usage: gray_scott.py ROWS COLS ITERATIONS [SLEEP_SECONDS]

The ranks own blocks of rows, each with a copy of the row before and after it. All operations are on single elements,
so the result has the same bits on any number of ranks. ROWS must not be less than the number of ranks.
"""
import sys
import time

import numpy as np
import pcm  # before mpi4py
from mpi4py import MPI

FEED, KILL = 0.037, 0.06
SPREAD_U, SPREAD_V = 0.16, 0.08


def set_initial(u, v, first, rows):
    """A square of the second substance in the middle of the plate."""
    row = np.arange(first, first + len(u) - 2)[:, None]
    col = np.arange(u.shape[1])[None, :]
    cols = u.shape[1]
    inside = (abs(2 * row - rows) < rows // 4) & (abs(2 * col - cols) < cols // 4)
    u[1:-1] = np.where(inside, 0.5, 1.0)
    v[1:-1] = np.where(inside, 0.25, 0.0)


def exchange(a):
    """Copies of the neighbours' outer rows."""
    comm = MPI.COMM_WORLD
    above, below = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    comm.Sendrecv(a[1], above, 1, a[-1], below, 1)
    comm.Sendrecv(a[-2], below, 2, a[0], above, 2)


def laplace(a):
    middle = a[1:-1]
    return (a[:-2] + a[2:]) + (np.roll(middle, 1, 1) + np.roll(middle, -1, 1)) - 4 * middle


def advance(u, v):
    exchange(u)
    exchange(v)
    reaction = u[1:-1] * v[1:-1] * v[1:-1]
    new_u = u[1:-1] + SPREAD_U * laplace(u) - reaction + FEED * (1 - u[1:-1])
    new_v = v[1:-1] + SPREAD_V * laplace(v) + reaction - (FEED + KILL) * v[1:-1]
    u[1:-1], v[1:-1] = new_u, new_v


def checksum(u, v, first):
    """Each element's bits are multiplied with its place and added: a sum of integers is the same in any order."""
    total = np.zeros(1, np.uint64)
    for number, a in enumerate((u, v)):
        bits = np.ascontiguousarray(a[1:-1]).view(np.uint64).ravel()
        place = np.arange(bits.size, dtype=np.uint64) + np.uint64(first * a.shape[1])
        bits = (bits ^ (bits >> np.uint64(29))) * (2 * place + np.uint64(3 + number))
        total += bits.sum(dtype=np.uint64)
    everywhere = np.zeros(1, np.uint64)
    MPI.COMM_WORLD.Reduce(total, everywhere, MPI.SUM, 0)
    return everywhere[0]


def main():
    rows, cols, iterations = map(int, sys.argv[1:4])
    pause = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    both = [pcm.array(name, (rows, cols), pcm.block(0), pcm.halo(0, 1), pcm.periodic(0)) for name in "uv"]
    set_initial(both[0].local, both[1].local, both[0].bounds()[0], rows)
    for iteration in pcm.iterations(iterations):
        first, u, v = both[0].bounds()[0], both[0].local, both[1].local
        advance(u, v)
        time.sleep(pause)
    total, comm = checksum(u, v, first), MPI.COMM_WORLD
    if comm.rank == 0:
        print(f"gray_scott: iterations {iterations} ranks {comm.size} checksum {total:016x}", flush=True)


main()
