"""Rows of different lengths, and records with an owner: memory of the library that moves with them."""
from __future__ import annotations

import ctypes
from typing import Any, Callable, Sequence

import numpy as np

from ._arrays import Array
from ._library import ERROR_ARGUMENT, Error, State, checked, found, guarded, kept, library, prepare
from ._views import View, make, make_stale

for _name in ("pcm_row_numbers", "pcm_row_offsets", "pcm_row_entries", "pcm_records_resize", "pcm_record_data"):
    getattr(library, _name).restype = ctypes.c_void_p

_DIVIDE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_size_t
)
_OWNER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


class _Pieces:
    """Views that are good until the ranks change or there are others."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._in_c = name.encode()
        self._views: dict[int | str, View] = {}
        self._known: dict[int, Any] = {}
        State.to_tell.append(self._forget)

    def _forget(self) -> None:
        self._views = {}
        make_stale(self._known)

    def _made(self, key: int | str, address: int, length: int, dtype: np.dtype) -> View:
        view = self._views[key] = make(address, (length,), dtype, self._known)
        return view

    def _counted(self, key: str, function: Callable[..., int], dtype: np.dtype) -> View:
        """What a function of the library returns, with its length."""
        view = self._views.get(key)
        if view is None:
            count = ctypes.c_size_t()
            address = found(function(self._in_c, ctypes.byref(count)))
            view = self._made(key, address, count.value, dtype)
        return view


class OwnerList(_Pieces):
    """The owners of rows; `owner_list` makes it."""

    def __init__(self, name: str, count: int) -> None:
        super().__init__(name)
        self.rows = count

    def __repr__(self) -> str:
        return f"pcm.OwnerList({self.name!r}, {self.rows})"

    @property
    def numbers(self) -> View:
        """The rows of this rank, rising. Only to be read."""
        return self._counted("numbers", library.pcm_row_numbers, np.dtype(np.uintp))

    def owner(self, row: int) -> int:
        """The rank that owns a row."""
        rank = ctypes.c_int()
        checked(library.pcm_owner(self._in_c, ctypes.byref(ctypes.c_size_t(row)), ctypes.byref(rank)))
        return rank.value


class Rows(_Pieces):
    """Rows of different lengths; `rows` makes them."""

    def __init__(self, name: str, like: Array | OwnerList, dtypes: tuple[np.dtype, ...]) -> None:
        super().__init__(name)
        self.like = like
        self.dtypes = dtypes

    def __repr__(self) -> str:
        return f"pcm.Rows({self.name!r}, as {self.like.name!r}, {self.dtypes})"

    def _count(self) -> int:
        if isinstance(self.like, OwnerList):
            return len(self.like.numbers)
        first, end = self.like.bounds(0)
        return end - first

    @property
    def offsets(self) -> View:
        """Row i of this rank, counted from 0, has the entries `offsets[i]` to `offsets[i + 1]`. Only to be read."""
        view = self._views.get("offsets")
        if view is None:
            address = found(library.pcm_row_offsets(self._in_c))
            view = self._made("offsets", address, self._count() + 1, np.dtype(np.uintp))
        return view

    def entries(self, column: int = 0) -> View:
        """The entries of a column, one row after the other."""
        view = self._views.get(column)
        if view is None:
            address = found(library.pcm_row_entries(self._in_c, column))
            view = self._made(column, address, int(self.offsets[-1]), self.dtypes[column])
        return view

    def resize(self, lengths: Sequence[int]) -> None:
        """Gives each row of this rank a length, in entries. All entries are zero then."""
        given = np.ascontiguousarray(lengths, dtype=np.uintp)
        if given.shape != (self._count(),):
            problem = f"{len(given)} lengths for {self._count()} rows"
            raise Error(f'region "{self.name}": {problem}', ERROR_ARGUMENT)
        checked(library.pcm_rows_resize(self._in_c, ctypes.c_void_p(given.ctypes.data)))
        self._forget()


class Records(_Pieces):
    """Records with an owner; `records` makes them."""

    def __init__(self, name: str, dtype: np.dtype) -> None:
        super().__init__(name)
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"pcm.Records({self.name!r}, {self.dtype})"

    def __len__(self) -> int:
        count = ctypes.c_size_t()
        library.pcm_record_data(self._in_c, ctypes.byref(count))
        return count.value

    @property
    def local(self) -> View:
        """The records of this rank, in the memory of the library: no copy."""
        return self._counted("records", library.pcm_record_data, self.dtype)

    def resize(self, count: int) -> None:
        """Keeps the first records; new ones are zero."""
        found(library.pcm_records_resize(self._in_c, ctypes.c_size_t(count)))
        self._forget()

    def assign(self, records: Any) -> None:
        """This rank has these records from now on."""
        given = np.array(records, dtype=self.dtype).reshape(-1)
        self.resize(len(given))
        self.local[:] = given


def owner_list(
    name: str,
    rows: int,
    owners: Sequence[int] | None = None,
    divide: Callable[[np.ndarray, int], Any] | None = None,
) -> OwnerList:
    """Registers the owners of rows, one rank for each, the same list on every rank; else they are in equal blocks.

    When the number of ranks changes, `divide(owners, ranks)` writes the next owners over the array `owners`, alike on
    every rank. Without it each rank's rows stay side by side, and all ranks get equally many."""
    prepare()
    given = None if owners is None else np.ascontiguousarray(owners, dtype=np.intc)
    if given is not None and given.shape != (rows,):
        raise Error(f'region "{name}": {len(given)} owners for {rows} rows', ERROR_ARGUMENT)

    def divide_in_c(_: int, ranks: int, first: Any, count: int) -> int:
        def fill() -> None:
            divide(np.ctypeslib.as_array(first, (count,)), ranks)  # type: ignore[misc]

        return guarded(1, fill)

    hook = kept(_DIVIDE(divide_in_c)) if divide is not None else None
    address = None if given is None else ctypes.c_void_p(given.ctypes.data)
    checked(library.pcm_owner_list(name.encode(), ctypes.c_size_t(rows), address, hook, None))
    return OwnerList(name, rows)


def rows(name: str, like: Array | OwnerList, *dtypes: Any) -> Rows:
    """Registers rows of different lengths, such as those of a sparse matrix, with a column of entries for each dtype.
    Row i belongs to the rank that owns index i of the first axis of `like`, whose other axes are not divided, or to
    that which a list of owners says."""
    prepare()
    kinds = tuple(_plain(name, dtype) for dtype in dtypes)
    sizes = (ctypes.c_size_t * len(kinds))(*(dtype.itemsize for dtype in kinds))
    checked(library.pcm_rows(name.encode(), like._in_c, len(kinds), sizes))
    return Rows(name, like, kinds)


def records(name: str, dtype: Any, owner: Callable[[Any, int], int]) -> Records:
    """Registers records of a dtype, such as particles. When the number of ranks changes, each goes to the rank
    `owner(record, ranks)`; at all other times it stays with its rank."""
    prepare()
    kind = _plain(name, dtype)

    def owner_in_c(_: int, address: int, ranks: int) -> int:
        memory = (ctypes.c_char * kind.itemsize).from_address(address)
        return guarded(-1, lambda: int(owner(np.frombuffer(memory, kind)[0], ranks)))

    hook = kept(_OWNER(owner_in_c))
    checked(library.pcm_records(name.encode(), ctypes.c_size_t(kind.itemsize), hook, None))
    return Records(name, kind)


def _plain(name: str, dtype: Any) -> np.dtype:
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise Error(f'region "{name}": entries travel as bytes, so {kind} is not possible', ERROR_ARGUMENT)
    return kind
