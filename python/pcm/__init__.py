"""Malleability for MPI programs: ranks join, leave and move while the program runs.

    import pcm                                  # before mpi4py, if that is used

    t = pcm.array("t", (rows, cols), pcm.block(0), pcm.halo(0, 1))
    fill(t.local)
    for iteration in pcm.iterations(1000):
        step(t.local)

Run it with `pcmctl run -n 2 -- python3 program.py`; under mpiexec it is a plain MPI program. What pcm.h says about a
function of libpcm holds for its counterpart here. A failed call raises `pcm.Error` with the text of the library.

mpi4py is not needed: without it this package initialises MPI at the first registration and finalises it at exit.
"""
from ._arrays import (
    CONSTANT,
    SCRATCH,
    STALE_HALO,
    Adopted,
    Array,
    Box,
    Option,
    StaleView,
    View,
    adopt,
    array,
    block,
    costs,
    counts,
    cyclic,
    halo,
    periodic,
    swap,
    weighted,
)
from ._library import Error, active, joining, rank, size, version
from ._pieces import OwnerList, Records, Rows, owner_list, records, rows
from ._run import (
    checkpoint,
    checkpoint_wait,
    iterate,
    iterations,
    on_change,
    on_exit,
    possible_ranks,
    remaining,
    request,
    start,
)
from ._values import PerRank, Value, custom, value, value_per_rank

__all__ = [
    "CONSTANT",
    "SCRATCH",
    "STALE_HALO",
    "Adopted",
    "Array",
    "Box",
    "Error",
    "Option",
    "OwnerList",
    "PerRank",
    "Records",
    "Rows",
    "StaleView",
    "Value",
    "View",
    "active",
    "adopt",
    "array",
    "block",
    "checkpoint",
    "checkpoint_wait",
    "costs",
    "counts",
    "custom",
    "cyclic",
    "halo",
    "iterate",
    "iterations",
    "joining",
    "on_change",
    "on_exit",
    "owner_list",
    "periodic",
    "possible_ranks",
    "rank",
    "records",
    "remaining",
    "request",
    "rows",
    "size",
    "start",
    "swap",
    "value",
    "value_per_rank",
    "version",
    "weighted",
]
