"""Numpy views of the library's memory that end with it.

numpy has no way to take an array back, so each view is known here. When the memory moves, its class becomes
`StaleView`, all of whose operations raise, and its header says that it has no elements, for code in C that asks no
class.
"""
from __future__ import annotations

import ctypes
import sys
import sysconfig
import weakref
from functools import partial
from typing import Any, NoReturn

import numpy as np

_C_CONTIGUOUS, _F_CONTIGUOUS, _WRITEABLE = 0x1, 0x2, 0x400


class _Header(ctypes.Structure):
    """PyArrayObject_fields, which numpy's C interface has kept since its first version."""

    _fields_ = [
        ("head", ctypes.c_ssize_t * 2),
        ("data", ctypes.c_void_p),
        ("nd", ctypes.c_int),
        ("dimensions", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("descr", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    ]


class View(np.ndarray):
    """A numpy array in the memory of libpcm. It and all views made of it are valid until the ranks change or its array
    is swapped; afterwards every use of them raises `pcm.Error`. Copies stay valid."""

    _known: dict[int, Any] | None

    def __array_finalize__(self, source: Any) -> None:
        known = getattr(source, "_known", None)
        if known is None or self.flags.owndata:
            self._known = None
            return
        self._known = known
        remember(self, known)

    def __array_wrap__(self, result: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What is computed from a view is an ordinary array."""
        if result is self:
            return self
        plain = result.view(np.ndarray) if type(result) is View else result
        return plain[()] if return_scalar else plain

    def __reduce__(self) -> Any:
        return np.array(self, subok=False).__reduce__()


class StaleView(View):
    """What becomes of a view when the memory moves."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "__del__"):
            return object.__getattribute__(self, name)
        _raise()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        _raise()

    def __array_finalize__(self, source: Any) -> None:
        pass

    def __repr__(self) -> str:
        return "<a stale view of pcm>"

    __str__ = __repr__
    __getitem__ = __setitem__ = __delitem__ = __len__ = __iter__ = __contains__ = _refuse
    __array_ufunc__ = __array_function__ = __array__ = __array_wrap__ = __reduce__ = __reduce_ex__ = _refuse
    __buffer__ = __bool__ = __int__ = __float__ = __complex__ = __index__ = __copy__ = __deepcopy__ = _refuse
    __add__ = __radd__ = __iadd__ = __sub__ = __rsub__ = __isub__ = __mul__ = __rmul__ = __imul__ = _refuse
    __truediv__ = __rtruediv__ = __itruediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = __rmatmul__ = _refuse
    __neg__ = __pos__ = __abs__ = __invert__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __and__ = __rand__ = __iand__ = __or__ = __ror__ = __ior__ = __xor__ = __lshift__ = __rshift__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def _raise() -> NoReturn:
    from ._library import Error

    raise Error(
        "this view is stale: the ranks have changed or the array was swapped since it was taken, and its memory is "
        "gone; take `local` of the array again",
        34,
    )


def remember(view: np.ndarray, known: dict[int, Any]) -> None:
    """Until the view is gone, `known` has a weak reference to it."""
    known[id(view)] = weakref.ref(view, partial(known.pop, id(view)))


def make(address: int, shape: tuple[int, ...], dtype: np.dtype, known: dict[int, Any]) -> View:
    """A view of memory that belongs to another object."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = (ctypes.c_char * size).from_address(address)
    view = np.frombuffer(memory, dtype).reshape(shape).view(View) if size else np.empty(shape, dtype).view(View)
    view._known = known
    remember(view, known)
    return view


def make_stale(known: dict[int, Any]) -> None:
    """Ends all views in `known`."""
    for reference in list(known.values()):
        view = reference()
        if view is not None and type(view) is View:
            if _HEADER_IS_KNOWN:
                _empty(view)
            view.__class__ = StaleView
    known.clear()


# What an array without dimensions has as its only element afterwards.
_NOTHING = ctypes.create_string_buffer(1 << 16)


def _empty(view: np.ndarray) -> None:
    header = _Header.from_address(id(view))
    header.data = ctypes.addressof(_NOTHING)
    for axis in range(header.nd):
        header.dimensions[axis] = 0
    # Not contiguous: a buffer for MPI must be, so the request for one fails.
    header.flags &= ~(_C_CONTIGUOUS | _F_CONTIGUOUS | _WRITEABLE)


def _header_is_known() -> bool:
    """Says whether arrays of this numpy have the expected header, by reading and changing one."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    memory = np.zeros((5, 7), np.int16)
    array = memory[1:, 2:]
    header = _Header.from_address(id(array))
    expected = (array.ctypes.data, array.ndim, _WRITEABLE)
    if (header.data, header.nd, header.flags & (_C_CONTIGUOUS | _F_CONTIGUOUS | _WRITEABLE)) != expected:
        return False
    if list(header.dimensions[:2]) != [4, 5]:
        return False
    _empty(array)
    return array.shape == (0, 0) and not array.flags.writeable


_HEADER_IS_KNOWN = _header_is_known()
