#!/usr/bin/env python3
"""farm: a Monte-Carlo farm. Random walkers start at one side of a wall; how many come out at the other side?

Usage: farm.py WALKERS DEPTH STEPS [SLEEP_SECONDS]

Each rank has walkers and counts of its own and needs no message before the end. A walker whose walk is over begins
another one. Its chances depend on its number and the step alone, so the result is the same on any number of ranks.
"""
import sys
import time

import numpy as np
import pcm  # before mpi4py
from mpi4py import MPI

COMM = MPI.COMM_WORLD

# A walker is absorbed in one of so many steps.
ABSORBED_ONE_IN = 500


def mix(x):
    """A bijection that spreads every bit over all others (splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def my_walkers(count):
    """A row for each walker of this rank: its number, and how deep in the wall it is."""
    numbers = np.arange(COMM.rank, count, COMM.size)
    return np.stack([numbers, np.zeros_like(numbers)], axis=1)


def advance(walkers, step, depth):
    """The walkers after a step, and how many walks ended in it: through the wall, back, or absorbed."""
    numbers, places = walkers.T
    chances = mix(mix(numbers.astype(np.uint64)) + np.uint64(step))
    places = places + np.where(chances & np.uint64(1), 1, -1)
    absorbed = (chances >> np.uint64(1)) % np.uint64(ABSORBED_ONE_IN) == 0
    through, back = ~absorbed & (places >= depth), ~absorbed & (places < 0)
    places = np.where(absorbed | through | back, 0, places)
    return np.stack([numbers, places], axis=1), np.array([through.sum(), back.sum(), absorbed.sum()])


def merge(mine, gone):
    """What this rank has, with what a rank had that ends."""
    return np.concatenate([mine[0], gone[0]]), mine[1] + gone[1]


def split(mine, left):
    """What this rank keeps, and what the first of `left` new ranks gets: an equal part of the walkers, no counts."""
    kept = len(mine[0]) * left // (left + 1)
    return (mine[0][:kept], mine[1]), (mine[0][kept:], np.zeros_like(mine[1]))


def report(walkers, counts, steps):
    """Counts and a hash of all walkers, added: sums of integers do not depend on the ranks."""
    numbers, places = walkers.astype(np.uint64).T
    mine = np.append(counts.astype(np.uint64), mix(mix(numbers) + places).sum(dtype=np.uint64))
    total = np.zeros_like(mine)
    COMM.Reduce(mine, total, MPI.SUM, 0)
    if COMM.rank == 0:
        through, back, absorbed, rest = map(int, total)
        print(f"farm: {through} of {through + back + absorbed} walks went through the wall")
        closing = f"checksum {through}+{back}+{absorbed}+{rest:016x}"
        print(f"farm: iterations {steps} ranks {COMM.size} {closing}", flush=True)


def main():
    count, depth, steps = map(int, sys.argv[1:4])
    pause = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    own = my_walkers(count), np.zeros(3, np.int64)
    own = pcm.value_per_rank("own", own, merge, split, room=1000 + 16 * count)
    for step in pcm.iterations(steps):
        walkers, counts = own.value
        walkers, ended = advance(walkers, step, depth)
        own.value = walkers, counts + ended
        time.sleep(pause)
    report(*own.value, steps)


main()
