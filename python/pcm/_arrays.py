"""Arrays that are divided among the ranks, and the options that say how."""
from __future__ import annotations

import ctypes
import operator
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from ._library import ERROR_ARGUMENT, Error, State, checked, found, guarded, kept, library, prepare
from ._views import StaleView, View, make, make_stale

__all__ = ["Adopted", "Array", "Option", "StaleView", "View", "adopt", "array", "swap"]

_ELEMENTS = {
    np.dtype(name): number
    for number, name in enumerate(
        "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split(), 1
    )
}
_BYTES = 4096  # PCM_BYTES_BASE
_BLOCK = 1885564161  # PCM_OPTION_BLOCK; the others follow it
_HALO, _COSTS = _BLOCK + 4, _BLOCK + 9
_FLAGS = {_BLOCK + 6: 4, _BLOCK + 7: 1, _BLOCK + 8: 2}  # the properties of a whole array, as in pcm_flag


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
    return Option(_COSTS, axis, len(given), (ctypes.c_double * len(given)).from_buffer_copy(given))


def halo(axis: int, width: int) -> Option:
    """Room for `width` elements of the neighbours on both sides of each part."""
    return Option(_HALO, axis, width)


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


def _form(name: str, shape: int | Sequence[int], dtype: Any) -> tuple[tuple[int, ...], np.dtype]:
    extents_given = (shape,) if hasattr(shape, "__index__") else shape
    shape = tuple(operator.index(extent) for extent in extents_given)  # type: ignore[union-attr]
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise Error(f'region "{name}": elements travel as bytes, so {dtype} is not possible', ERROR_ARGUMENT)
    if any(extent < 0 for extent in shape):
        raise Error(f'region "{name}": {shape} has a negative extent', ERROR_ARGUMENT)
    return shape, dtype


def array(name: str, shape: int | Sequence[int], *options: Option, dtype: Any = np.float64) -> Array:
    """Registers an array of 1 to 3 axes before `start`; every rank registers the same ones in the same order.

    Without an option its first axis is divided in equal blocks. `dtype` may be a structured type without objects.
    """
    prepare()
    shape, dtype = _form(name, shape, dtype)
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


class _AxisInC(ctypes.Structure):
    _fields_ = [
        ("extent", ctypes.c_size_t), ("split", ctypes.c_int), ("halo", ctypes.c_size_t), ("periodic", ctypes.c_int),
        ("number", ctypes.c_size_t), ("list", ctypes.c_void_p),
    ]  # fmt: skip


_MAKE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_TAKE_UP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_GIVE_BACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class _HooksInC(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("make", _MAKE), ("take_up", _TAKE_UP), ("give_back", _GIVE_BACK)]


class Adopted(Array):
    """An array in numpy arrays of the program; `adopt` makes it. `local` is the one of the moment."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype, resize: Callable[..., np.ndarray]) -> None:
        super().__init__(name, shape, dtype)
        self._resize = resize
        self._made: dict[int, np.ndarray] = {}
        self._now: np.ndarray = np.empty(0, dtype)

    @property
    def local(self) -> np.ndarray:  # type: ignore[override]
        """This rank's part, halo included: the array that the program made last. It may be used like any other; after a
        change another one is the part."""
        return self._now

    def _make(self, bytes_wanted: int) -> int:
        extents = (ctypes.c_size_t * len(self.shape))()
        checked(library.pcm_local_extents(self._in_c, extents))
        made = self._resize(tuple(extents))
        is_right = isinstance(made, np.ndarray) and made.shape == tuple(extents) and made.dtype == self.dtype
        if not is_right or not made.flags.c_contiguous or not made.flags.writeable:
            wanted = f"{tuple(extents)}, {self.dtype}, contiguous and writable"
            raise Error(f'region "{self.name}": the program made another array than wanted: {wanted}', ERROR_ARGUMENT)
        if made is self._now or any(made is other for other in self._made.values()):
            raise Error(f'region "{self.name}": the program made the same array again', ERROR_ARGUMENT)
        self._made[made.ctypes.data] = made
        return made.ctypes.data

    def _hooks(self) -> _HooksInC:
        def take_up(_: Any, address: int, __: int) -> None:
            # A part without bytes needs none: the library goes on when the program could not make it.
            self._now = self._made.pop(address, np.empty((0,) * len(self.shape), self.dtype))

        def give_back(_: Any, address: int) -> None:
            self._made.pop(address, None)

        make_in_c = _MAKE(lambda _, bytes_wanted: guarded(0, lambda: self._make(bytes_wanted)))
        return kept(_HooksInC(None, make_in_c, _TAKE_UP(take_up), _GIVE_BACK(give_back)))


def adopt(
    name: str,
    shape: int | Sequence[int],
    *options: Option,
    dtype: Any = np.float64,
    resize: Callable[[tuple[int, ...]], np.ndarray] | None = None,
) -> Adopted:
    """Registers an array as `array` does, in memory of the program: `resize(shape)` returns a numpy array for this
    rank's part, in this call and in each change, beside the present one, whose contents move. Without it the part is
    `numpy.zeros`."""
    prepare()
    shape, dtype = _form(name, shape, dtype)
    adopted = Adopted(name, shape, dtype, resize or (lambda extents: np.zeros(extents, dtype)))
    axes = (_AxisInC * len(shape))(*((extent,) for extent in shape))
    flags = 0
    for kind, axis, number, numbers in options or (block(0),):
        if kind in _FLAGS:
            flags |= _FLAGS[kind]
        elif not 0 <= axis < len(shape):
            raise Error(f'region "{name}": an option is for axis {axis} of {len(shape)}', ERROR_ARGUMENT)
        elif kind == _HALO:
            axes[axis].halo = number
        elif kind == _HALO + 1:
            axes[axis].periodic = 1
        else:
            axes[axis].split = 5 if kind == _COSTS else kind - _BLOCK + 1
            axes[axis].number = number
            axes[axis].list = None if numbers is None else ctypes.addressof(numbers)
    element = _ELEMENTS.get(dtype, _BYTES + dtype.itemsize)
    hooks = adopted._hooks()
    checked(library.pcm_adopt(name.encode(), element, len(shape), axes, flags, ctypes.byref(hooks)))
    return adopted


def swap(one: Array, other: Array) -> None:
    """Exchanges the contents of two arrays of the same form without copying. Take `local` of both again."""
    checked(library.pcm_swap(one._in_c, other._in_c))
    if isinstance(one, Adopted) and isinstance(other, Adopted):
        one._now, other._now = other._now, one._now
    one._forget()
    other._forget()
