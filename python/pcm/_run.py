"""The run: start, iterations, checkpoints, requests, hooks."""
from __future__ import annotations

import ctypes
import sys
from typing import Callable, Iterator

from ._library import (
    CHANGE_HOOK,
    CHANGED,
    ERROR_HOOK,
    EXIT_HOOK,
    POSSIBLE_HOOK,
    State,
    checked,
    guarded,
    kept,
    layout_changed,
    library,
    prepare,
)

_iterate = library.pcm_iterate


@EXIT_HOOK
def _flush(_: int | None) -> None:
    # A rank that leaves ends like a C program, by exit(), which does not know Python's buffers.
    sys.stdout.flush()
    sys.stderr.flush()


def start() -> None:
    """Ends the registration. In a rank that joins, data and values are in place afterwards; views that were taken
    before are stale there."""
    prepare()
    if not State.started:
        checked(library.pcm_on_exit(_flush, None))
    checked(library.pcm_start())
    State.started = True
    layout_changed()


def iterate() -> bool:
    """The top of an iteration; True if ranks joined, left or moved. A rank that leaves ends here: exit hooks run,
    `atexit` functions and `finally` do not."""
    result = _iterate()
    if result == 0:
        return False
    return checked(result) == CHANGED


def iterations(count: int, name: str = "iteration") -> Iterator[int]:
    """The numbers of the iterations, from 0 to `count`: starts, if `start` was not called, and calls `iterate` at the
    top of each. A rank that joins begins with the number at which the others are, and so does a restored job."""
    prepare()
    number = kept(ctypes.c_longlong(0))
    checked(library.pcm_value(name.encode(), ctypes.byref(number), ctypes.c_size_t(ctypes.sizeof(number))))
    if not State.started:
        start()
    remaining(count - number.value)
    while number.value < count:
        iterate()
        yield number.value
        number.value += 1


def checkpoint() -> None:
    """Begins a checkpoint in files. Every rank calls it right after `iterate`."""
    checked(library.pcm_checkpoint())


def checkpoint_wait() -> None:
    """Waits until the last checkpoint is on disk."""
    checked(library.pcm_checkpoint_wait())


def request(ranks: int) -> None:
    """Asks for a number of ranks; one rank calls it, and a later `iterate` makes the change, or none."""
    checked(library.pcm_request(ranks))


def remaining(count: int) -> None:
    """Declares how many iterations remain, on every rank, so that no change comes too late to pay."""
    checked(library.pcm_remaining(ctypes.c_longlong(max(count, 0))))


def possible_ranks(is_possible: Callable[[int], bool]) -> None:
    """Says on which numbers of ranks the program can run, before `start`."""
    prepare()
    callback = POSSIBLE_HOOK(lambda _, ranks: guarded(0, lambda: int(bool(is_possible(ranks)))))
    result = library.pcm_possible_ranks(callback, None)
    checked(ERROR_HOOK if State.of_a_hook else result)


def on_change(hook: Callable[[], None]) -> Callable[[], None]:
    """Calls `hook` on every rank after the ranks have changed, inside `iterate`; also a decorator. If it raises,
    `iterate` raises `Error` with that as its cause."""
    prepare()
    callback = kept(CHANGE_HOOK(lambda _: guarded(1, lambda: (hook(), 0)[1])))
    checked(library.pcm_on_change(callback, None))
    return hook


def on_exit(hook: Callable[[], None]) -> Callable[[], None]:
    """Calls `hook` on a rank that leaves, before it ends; also a decorator. It must not communicate."""
    prepare()
    callback = kept(EXIT_HOOK(lambda _: hook()))
    checked(library.pcm_on_exit(callback, None))
    return hook
