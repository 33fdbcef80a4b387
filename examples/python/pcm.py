"""The part of libpcm (pcm.h) that gray_scott.py uses, through ctypes. Import it before mpi4py.

`pcmctl run` loads the library before MPI; under mpiexec this module does, if the dynamic linker finds libpcm.so.
"""
import ctypes
import sys

import numpy as np

_ELEMENTS = {np.dtype(np.float64): 10, np.dtype(np.int64): 4}  # enum pcm_element
_BLOCK, _HALO, _PERIODIC = 1885564161, 1885564165, 1885564166  # enum pcm_option_kind
_CHANGED = -1

_library = ctypes.CDLL(None)
if not hasattr(_library, "pcm_start"):
    _library = ctypes.CDLL("libpcm.so", mode=ctypes.RTLD_GLOBAL)
_library.pcm_array_create.restype = ctypes.c_void_p
_library.pcm_data.restype = ctypes.c_void_p
_library.pcm_last_error.restype = ctypes.c_char_p
_kept = []  # what the library holds the address of


class Error(Exception):
    """A function of the library failed."""


class _Option(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("axis", ctypes.c_int), ("number", ctypes.c_size_t), ("list", ctypes.c_void_p)]


def _checked(result):
    if result > 0:
        raise Error(f"code {result}: {_library.pcm_last_error().decode()}")
    return result


def array(name, shape, dtype=np.float64, halo=0, periodic=False):
    """Registers an array whose first axis is divided among the ranks; data(name) is this rank's part."""
    options = [_Option(_BLOCK), _Option(_HALO, 0, halo), _Option(_PERIODIC)][: 3 if periodic else 2]
    extents = (ctypes.c_size_t * len(shape))(*shape)
    form = [ctypes.addressof(extents)] + [ctypes.addressof(option) for option in options] + [None]
    element = _ELEMENTS[np.dtype(dtype)]
    if not _library.pcm_array_create(name.encode(), element, len(shape), (ctypes.c_void_p * len(form))(*form)):
        raise Error(_library.pcm_last_error().decode())
    _kept.append((name, np.dtype(dtype), len(shape)))


def data(name):
    """This rank's part of an array, halo included. No copy: valid until iterate() has returned True."""
    dtype, axes = next((dtype, axes) for known, dtype, axes in _kept if known == name)
    extents = (ctypes.c_size_t * axes)()
    _checked(_library.pcm_local_extents(name.encode(), extents))
    bytes_ = int(np.prod(extents)) * dtype.itemsize
    memory = (ctypes.c_char * bytes_).from_address(_library.pcm_data(name.encode()))
    return np.frombuffer(memory, dtype).reshape(tuple(extents))


def bounds(name, axis=0):
    """The global indices of this rank's part along an axis, from the first one to the end."""
    first, end = ctypes.c_size_t(), ctypes.c_size_t()
    _checked(_library.pcm_bounds(name.encode(), axis, ctypes.byref(first), ctypes.byref(end)))
    return first.value, end.value


def value(name, initial):
    """Registers an integer that is the same on every rank; use and change its `value`."""
    number = ctypes.c_int64(initial)
    _kept.append((number,))
    _checked(_library.pcm_value(name.encode(), ctypes.byref(number), ctypes.c_size_t(ctypes.sizeof(number))))
    return number


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _flush(_):
    sys.stdout.flush()
    sys.stderr.flush()


def start():
    """Ends the registrations; in a rank that joins, the data and values are in place afterwards."""
    # A rank that leaves ends like a C program, by exit(), which does not know Python's buffers.
    _checked(_library.pcm_on_exit(_flush, None))
    _checked(_library.pcm_start())


def iterate():
    """The top of an iteration; True if the ranks have changed. A rank that leaves ends here."""
    return _checked(_library.pcm_iterate()) == _CHANGED
