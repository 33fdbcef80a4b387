"""libpcm.so through ctypes: finding it, its errors, MPI where the program does not initialise it, and hooks."""
from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
from typing import Any, Callable

OK, CHANGED = 0, -1
ERROR_ARGUMENT, ERROR_HOOK = 30, 40

def _found() -> ctypes.CDLL:
    loaded = ctypes.CDLL(None)  # pcmctl preloads it
    if hasattr(loaded, "pcm_start"):
        return loaded
    if "mpi4py.MPI" in sys.modules:
        raise ImportError("import pcm before mpi4py: libpcm must come before MPI")
    installed = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../libpcm.so.0")
    name = os.environ.get("PCM_LIBRARY") or (installed if os.path.isfile(installed) else "libpcm.so")
    try:
        return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        advice = "start the program with pcmctl run, or give the path of libpcm.so in PCM_LIBRARY"
        raise ImportError(f"cannot load libpcm: {error}; {advice}") from None


library = _found()
for _name in ("pcm_array_create", "pcm_data"):
    getattr(library, _name).restype = ctypes.c_void_p
for _name in ("pcm_version", "pcm_last_error"):
    getattr(library, _name).restype = ctypes.c_char_p


class Error(RuntimeError):
    """A function of libpcm failed. `code` is its number in docs/errors.md; the message is the library's."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class State:
    """What all modules of the package share."""

    # Grows whenever memory of the library or contents of values may be others than before.
    layout = 0
    started = False
    # An exception cannot pass through C: it waits here for the call that ran the hook to return.
    of_a_hook: BaseException | None = None
    # What C holds addresses of: for good, as nothing can be unregistered.
    kept: list[Any] = []
    # Called when the layout changes, before the hooks of the program.
    to_tell: list[Callable[[], None]] = []


def last_error() -> str:
    return library.pcm_last_error().decode(errors="replace")


def checked(result: int) -> int:
    """Raises what went wrong, if anything did."""
    if result == OK or result == CHANGED:
        return result
    cause, State.of_a_hook = State.of_a_hook, None
    raise Error(last_error() or f"libpcm: error {result}", result) from cause


def found(address: int | None) -> int:
    """The address that a function of the library returned; raises if there is none."""
    if not address:
        raise Error(last_error(), ERROR_ARGUMENT)
    return address


def guarded(failure: int, body: Callable[[], int | None]) -> int:
    """Runs the body of a hook; an exception becomes the number that C takes for a failure."""
    try:
        return body() or 0
    except BaseException as error:  # also KeyboardInterrupt: ctypes would print and forget it
        State.of_a_hook = error
        return failure


def layout_changed() -> None:
    """Views of before become stale, values are read again."""
    State.layout += 1
    for tell in State.to_tell:
        tell()


CHANGE_HOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
POSSIBLE_HOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
EXIT_HOOK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def kept(callback: Any) -> Any:
    """The same, never to be freed."""
    State.kept.append(callback)
    return callback


@CHANGE_HOOK
def _next_layout(_: int | None) -> int:
    return guarded(1, layout_changed)


_prepared = False


def prepare() -> None:
    """Comes before every registration: initialises MPI if the program has not, and registers the first change hook."""
    global _prepared
    if _prepared:
        return
    flag = ctypes.c_int()
    library.MPI_Initialized(ctypes.byref(flag))
    if not flag.value:
        if library.MPI_Init(None, None) != 0:
            raise Error("MPI_Init failed", ERROR_ARGUMENT)
        atexit.register(_finalize)
    checked(library.pcm_on_change(_next_layout, None))
    _prepared = True


@functools.cache
def _world() -> Any:
    """MPI_COMM_WORLD, once MPI is there: the address of an object of Open MPI, a pointer in the standard ABI of MPI-5,
    a number in MPICH's."""
    try:
        open_mpi = ctypes.CDLL("libmpi.so.40", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:  # it is not loaded
        return ctypes.c_void_p(0x101) if os.environ.get("PCM_MPI_ABI") == "standard" else 0x44000000
    return ctypes.byref(ctypes.c_char.in_dll(open_mpi, "ompi_mpi_comm_world"))


def _finalize() -> None:
    flag = ctypes.c_int()
    library.MPI_Finalized(ctypes.byref(flag))
    if flag.value:
        return
    if hasattr(sys, "last_value"):  # an exception ended the program: other ranks would wait without end
        sys.stderr.flush()
        library.MPI_Abort(_world(), 1)
    library.MPI_Finalize()


def _asked_of_mpi(function: str) -> int:
    prepare()
    answer = ctypes.c_int()
    getattr(library, function)(_world(), ctypes.byref(answer))
    return answer.value


def rank() -> int:
    """This process's rank in MPI_COMM_WORLD; it may be another after a change."""
    return _asked_of_mpi("MPI_Comm_rank")


def size() -> int:
    """The number of ranks; it may be another after a change."""
    return _asked_of_mpi("MPI_Comm_size")


def joining() -> bool:
    """True in a process that joined a running job, before and after `start`."""
    prepare()
    return library.pcm_joining() == 1


def active() -> bool:
    """True if a daemon started this program; under mpiexec, False."""
    prepare()
    flag = ctypes.c_int()
    checked(library.pcm_active(ctypes.byref(flag)))
    return flag.value == 1


def version() -> str:
    """The version of libpcm."""
    return library.pcm_version().decode()
