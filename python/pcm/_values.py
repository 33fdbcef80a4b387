"""Values that travel with the ranks, of any kind that pickle can store, and data that only the program can divide."""
from __future__ import annotations

import ctypes
import pickle
from typing import Any, Callable, Generic, Sequence, TypeVar

from ._library import ERROR_ARGUMENT, Error, State, checked, guarded, kept, library, prepare

T = TypeVar("T")

_LENGTH = 8  # bytes before the pickle that say how long it is
_ROOM = 1024 - _LENGTH  # so much a joining rank has at once

_MERGE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_SPLIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


class Value(Generic[T]):
    """A value that is the same on every rank; `value` makes it. Read and assign `value`.

    Assign a new object rather than changing the old one in place: only what is assigned travels.
    """

    def __init__(self, name: str, initial: T, room: int) -> None:
        prepare()
        self.name = name
        self._room = room
        self._memory = kept(ctypes.create_string_buffer(_LENGTH + room))
        self._layout = -1
        self.value = initial

    @property
    def value(self) -> T:
        """What was assigned last; in a rank that joined, what the other ranks have."""
        if self._layout != State.layout:
            self._object = _read(ctypes.addressof(self._memory))
            self._layout = State.layout
        return self._object

    @value.setter
    def value(self, new: T) -> None:
        _write(ctypes.addressof(self._memory), new, self._room, self.name)
        self._object = new
        self._layout = State.layout


class PerRank(Value[T]):
    """A value of each rank, which moves with it; `value_per_rank` makes it."""


def value(name: str, initial: T, room: int = _ROOM) -> Value[T]:
    """Registers a value that is the same on every rank, such as a step size. `room` is the number of bytes that its
    pickle may have. Up to the default, a joining rank has the value of the job's beginning right away: register what
    the shapes of arrays depend on before them."""
    made: Value[T] = Value(name, initial, room)
    size = ctypes.c_size_t(len(made._memory))
    checked(library.pcm_value(name.encode(), made._memory, size))
    # A joining rank has another value at once.
    made._layout = -1
    return made


def value_per_rank(
    name: str,
    initial: T,
    merge: Callable[[T, T], T] | None = None,
    split: Callable[[T, int], tuple[T, T]] | None = None,
    room: int = _ROOM,
) -> PerRank[T]:
    """Registers a value that each rank has for itself.

    `merge(mine, other)` returns the sum of both when the rank of `other` ends; without it the job cannot shrink.
    `split(mine, left)` returns what this rank keeps of `mine` and the share of a new rank; `left` new ranks still get
    one, this one included, so an equal share is `mine / (left + 1)`. Without it a new rank keeps `initial`.
    """
    made: PerRank[T] = PerRank(name, initial, room)

    def merge_in_c(_: int, mine: int, other: int) -> int:
        return guarded(1, lambda: _write(mine, merge(_read(mine), _read(other)), room, name))  # type: ignore[misc]

    def split_in_c(_: int, mine: int, share: int, left: int) -> int:
        def divide() -> None:
            rest, given = split(_read(mine), left)  # type: ignore[misc]
            _write(mine, rest, room, name)
            _write(share, given, room, name)

        return guarded(1, divide)

    hooks = (kept(_MERGE(merge_in_c)) if merge else None, kept(_SPLIT(split_in_c)) if split else None)
    size = ctypes.c_size_t(len(made._memory))
    checked(library.pcm_value_per_rank(name.encode(), made._memory, size, *hooks, None))
    return made


def _write(address: int, new: Any, room: int, name: str) -> None:
    stored = pickle.dumps(new, pickle.HIGHEST_PROTOCOL)
    if len(stored) > room:
        problem = f"needs {len(stored)} bytes and has room for {room}"
        raise Error(f'value "{name}" {problem}; register it with room={len(stored)} or more', ERROR_ARGUMENT)
    ctypes.memmove(address, len(stored).to_bytes(_LENGTH, "little") + stored, _LENGTH + len(stored))


def _read(address: int) -> Any:
    length = int.from_bytes(ctypes.string_at(address, _LENGTH), "little")
    return pickle.loads(ctypes.string_at(address + _LENGTH, length))


class _Part(ctypes.Structure):
    _fields_ = [("source", ctypes.c_int), ("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


_PACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
_UNPACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Part), ctypes.c_size_t)
_TARGETS = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
)


class _Hooks(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("pack", _PACK), ("unpack", _UNPACK), ("targets", _TARGETS)]


_RAW, _PICKLED = b"r", b"p"


def custom(
    name: str,
    pack: Callable[[int, int], Any],
    unpack: Callable[[list[tuple[int, Any]]], None],
    targets: Callable[[int, int, int], Sequence[int]] | None = None,
) -> None:
    """Registers data that only the program can divide.

    `pack(to, ranks)` returns what new rank `to` of `ranks` gets from this one: bytes, or any object for pickle; None
    for nothing. The data must stay unchanged. `unpack(parts)` replaces the data by a list of pairs: the old rank, and
    what it packed for this one. `targets(source, before, after)` returns the new ranks that get a part of what old
    rank `source` has; it must give the same answer on all ranks.
    """
    prepare()

    def pack_in_c(_: int, to: int, ranks: int, packer: int) -> int:
        def body() -> int:
            packed = pack(to, ranks)
            if packed is None:
                return 0
            if isinstance(packed, (bytes, bytearray, memoryview)):
                stored = _RAW + bytes(packed)
            else:
                stored = _PICKLED + pickle.dumps(packed, pickle.HIGHEST_PROTOCOL)
            return checked(library.pcm_pack(ctypes.c_void_p(packer), stored, ctypes.c_size_t(len(stored))))

        return guarded(1, body)

    def unpack_in_c(_: int, parts: Any, count: int) -> int:
        def body() -> None:
            found = []
            for part in parts[:count] if count else ():
                stored = ctypes.string_at(part.data, part.size) if part.size else b""
                if stored:
                    found.append((part.source, stored[1:] if stored[:1] == _RAW else pickle.loads(stored[1:])))
            unpack(found)

        return guarded(1, body)

    def targets_in_c(_: int, source: int, before: int, after: int, room: Any) -> int:
        def body() -> int:
            chosen = list(targets(source, before, after))  # type: ignore[misc]
            if len(chosen) > after:
                raise Error(f'region "{name}": targets named {len(chosen)} of {after} ranks', ERROR_ARGUMENT)
            for number, one in enumerate(chosen):
                room[number] = one
            return len(chosen)

        return guarded(-1, body)

    hooks = _Hooks(None, _PACK(pack_in_c), _UNPACK(unpack_in_c), _TARGETS(targets_in_c) if targets else _TARGETS())
    checked(library.pcm_custom(name.encode(), ctypes.byref(kept(hooks))))
