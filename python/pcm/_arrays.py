"""Arrays that are divided among the ranks, and the options that say how."""
from __future__ import annotations

import ctypes
import operator
from typing import Any, NamedTuple, Sequence

import numpy as np

from ._library import ERROR_ARGUMENT, Error, State, checked, found, library, prepare
from ._views import StaleView, View, make, make_stale

__all__ = ["Array", "Option", "StaleView", "View", "array", "swap"]

_ELEMENTS = {
    np.dtype(name): number
    for number, name in enumerate(
        "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split(), 1
    )
}
_BYTES = 4096  # PCM_BYTES_BASE
_BLOCK = 1885564161  # PCM_OPTION_BLOCK; the others follow it


class _OptionInC(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("axis", ctypes.c_int), ("number", ctypes.c_size_t), ("list", ctypes.c_void_p)]


class Option(NamedTuple):
    """An option of an array; made by `block`, `halo` and so on."""

    kind: int
    axis: int = 0
    number: int = 0
    list: Any = None


def block(axis: int = 0) -> Option:
    """Equal blocks, one per rank; the first ones are one element longer if the length is not a multiple."""
    return Option(_BLOCK, axis)


def cyclic(axis: int, length: int) -> Option:
    """Blocks of `length` elements, assigned to the ranks in turn."""
    return Option(_BLOCK + 1, axis, length)


def weighted(axis: int, weights: Sequence[float]) -> Option:
    """One block per rank, in proportion to its weight; equal blocks when the number of ranks has changed."""
    return Option(_BLOCK + 2, axis, len(weights), (ctypes.c_double * len(weights))(*weights))


def counts(axis: int, lengths: Sequence[int]) -> Option:
    """One block per rank of exactly this many elements; equal blocks when the number of ranks has changed."""
    return Option(_BLOCK + 3, axis, len(lengths), (ctypes.c_size_t * len(lengths))(*lengths))


def costs(axis: int, costs: Sequence[float]) -> Option:
    """One block per rank, so that each has about the same sum of costs: one for each element of the axis, the same list
    on every rank."""
    given = np.ascontiguousarray(costs, dtype=np.float64)
    return Option(_BLOCK + 9, axis, len(given), (ctypes.c_double * len(given)).from_buffer_copy(given))


def halo(axis: int, width: int) -> Option:
    """Room for `width` elements of the neighbours on both sides of each part."""
    return Option(_BLOCK + 4, axis, width)


def periodic(axis: int) -> Option:
    """The halo beyond an end of the array holds the elements of the other end."""
    return Option(_BLOCK + 5, axis)


STALE_HALO = Option(_BLOCK + 6)
"""Halos are not updated when parts move."""
SCRATCH = Option(_BLOCK + 7)
"""The contents are not needed when an iteration begins."""
CONSTANT = Option(_BLOCK + 8)
"""The contents do not change after `start`."""


class Box(NamedTuple):
    """A box of global indices: its first index and its length along each axis."""

    start: tuple[int, ...]
    length: tuple[int, ...]


class Array:
    """An array that is divided among the ranks; `array` makes it. `local` is this rank's part."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self._in_c = name.encode()
        self._view: View | None = None
        self._known: dict[int, Any] = {}
        State.to_tell.append(self._forget)

    def __repr__(self) -> str:
        return f"pcm.Array({self.name!r}, {self.shape}, {self.dtype})"

    def _forget(self) -> None:
        self._view = None
        make_stale(self._known)

    @property
    def local(self) -> View:
        """This rank's part, halo included, in the memory of the library: no copy. The same object until the ranks
        change or the array is swapped; afterwards the old one is stale, and every use of it raises `Error`."""
        if self._view is None:
            extents = (ctypes.c_size_t * len(self.shape))()
            checked(library.pcm_local_extents(self._in_c, extents))
            address = found(library.pcm_data(self._in_c))
            self._view = make(address, tuple(extents), self.dtype, self._known)
        return self._view

    @property
    def own(self) -> View:
        """`local` without its halo. Not for cyclic axes."""
        local = self.local
        lengths = [end - first for first, end in (self.bounds(axis) for axis in range(len(self.shape)))]
        halos = [(extent - length) // 2 for extent, length in zip(local.shape, lengths)]
        return local[tuple(slice(width, width + length) for width, length in zip(halos, lengths))]

    def bounds(self, axis: int = 0) -> tuple[int, int]:
        """The global indices of an axis that this rank owns: the first one, and the end, which is not one of them."""
        first, end = ctypes.c_size_t(), ctypes.c_size_t()
        checked(library.pcm_bounds(self._in_c, axis, ctypes.byref(first), ctypes.byref(end)))
        return first.value, end.value

    def boxes(self) -> list[Box]:
        """The boxes of global indices that this rank owns: one or none; more only with a cyclic axis."""
        count = ctypes.c_size_t()
        checked(library.pcm_box_count(self._in_c, ctypes.byref(count)))
        boxes = []
        for number in range(count.value):
            start, length = ((ctypes.c_size_t * len(self.shape))() for _ in range(2))
            checked(library.pcm_box(self._in_c, ctypes.c_size_t(number), start, length))
            boxes.append(Box(tuple(start), tuple(length)))
        return boxes

    def owner(self, *index: int) -> int:
        """The rank that owns a global index."""
        rank = ctypes.c_int()
        checked(library.pcm_owner(self._in_c, self._index(index), ctypes.byref(rank)))
        return rank.value

    def local_offset(self, *index: int) -> int:
        """The position in `local.flat` of a global index that this rank owns."""
        offset = ctypes.c_size_t()
        checked(library.pcm_local_offset(self._in_c, self._index(index), ctypes.byref(offset)))
        return offset.value

    def set_costs(self, axis: int, costs: Sequence[float]) -> None:
        """Gives the elements along an axis new costs, the same on every rank: the next change divides by them."""
        given = np.ascontiguousarray(costs, dtype=np.float64)
        if given.shape != self.shape[axis : axis + 1]:
            problem = f"{len(given)} costs for axis {axis} of {self.shape}"
            raise Error(f'region "{self.name}": {problem}', ERROR_ARGUMENT)
        checked(library.pcm_set_costs(self._in_c, axis, ctypes.c_void_p(given.ctypes.data)))

    def _index(self, index: tuple[int, ...]) -> Any:
        if len(index) != len(self.shape) or min(index) < 0:
            problem = f"{index} is no index of an array with {len(self.shape)} axes"
            raise Error(f'region "{self.name}": {problem}', ERROR_ARGUMENT)
        return (ctypes.c_size_t * len(index))(*index)


def array(name: str, shape: int | Sequence[int], *options: Option, dtype: Any = np.float64) -> Array:
    """Registers an array of 1 to 3 axes before `start`; every rank registers the same ones in the same order.

    Without an option its first axis is divided in equal blocks. `dtype` may be a structured type without objects.
    """
    prepare()
    extents_given = (shape,) if hasattr(shape, "__index__") else shape
    shape = tuple(operator.index(extent) for extent in extents_given)  # type: ignore[union-attr]
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise Error(f'region "{name}": elements travel as bytes, so {dtype} is not possible', ERROR_ARGUMENT)
    if any(extent < 0 for extent in shape):
        raise Error(f'region "{name}": {shape} has a negative extent', ERROR_ARGUMENT)
    options_in_c = []
    for option in options or (block(0),):
        address = ctypes.addressof(option.list) if option.list is not None else None
        options_in_c.append(_OptionInC(option.kind, option.axis, option.number, address))
    extents = (ctypes.c_size_t * len(shape))(*shape)
    addresses = [ctypes.addressof(extents), *map(ctypes.addressof, options_in_c), None]
    form = (ctypes.c_void_p * len(addresses))(*addresses)
    element = _ELEMENTS.get(dtype, _BYTES + dtype.itemsize)
    found(library.pcm_array_create(name.encode(), element, len(shape), form))
    return Array(name, shape, dtype)


def swap(one: Array, other: Array) -> None:
    """Exchanges the contents of two arrays of the same form without copying. Take `local` of both again."""
    checked(library.pcm_swap(one._in_c, other._in_c))
    one._forget()
    other._forget()
