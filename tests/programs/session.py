"""What the package pcm has beside heat2d, in a sum that does not depend on the ranks: rank 0 adds to a value of each
rank and to a list of its own in each iteration; both are shared out and collected when the ranks change. It does
without mpi4py.

Usage: session.py ITERATIONS SLEEP_US [fail]    with a change hook that fails
"""
import sys
import time

import numpy as np
import pcm


def raises(call, *arguments):
    try:
        call(*arguments)
    except pcm.Error as error:
        assert str(error), "an error has a text"
        return True
    return False


def check_stale(view):
    """An old view raises, whatever is done with it; it never reads memory that has moved."""
    uses = (
        lambda: view[0], lambda: view.sum(), lambda: view + 1, lambda: np.add(view, 1), lambda: np.roll(view, 1),
        lambda: len(view), lambda: list(view), lambda: view.shape, lambda: view.__setitem__(0, 1), lambda: 1 - view,
        lambda: view.copy(), lambda: np.concatenate([view, view]), lambda: view == 3, lambda: bool(view),
    )  # fmt: skip
    for number, use in enumerate(uses):
        assert raises(use), f"use {number} of a stale view does not raise"
    assert np.ndarray.__len__(view) == 0, "C sees no element"
    assert refuses_buffer(view), "C gets no memory of it"


def refuses_buffer(view):
    """As for mpi4py, which asks for contiguous memory."""
    import ctypes

    room = ctypes.create_string_buffer(256)
    try:
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), room, 0x0098 | 0x0008)  # PyBUF_ANY_CONTIGUOUS
    except (ValueError, BufferError, pcm.Error):
        return True
    return False


def check_array(grid, rank):
    rows, cols = grid.bounds(0), grid.bounds(1)
    assert grid.local.shape == (rows[1] - rows[0] + 2, cols[1] - cols[0])
    assert grid.own.shape == (rows[1] - rows[0], cols[1] - cols[0])
    assert grid.local is grid.local, "a view is made once"
    assert type(grid.local[1:] + 1) is np.ndarray, "results are ordinary arrays"
    if grid.own.size:
        assert grid.owner(rows[0], cols[0]) == rank
        grid.own[0, 0] = 7
        assert grid.local.flat[grid.local_offset(rows[0], cols[0])] == 7
        assert grid.boxes()[0].start == (rows[0], cols[0])


MARKS = 20


def fill_pieces(lines, marks):
    """Row i has i % 3 entries, each i; record k belongs to rank k % ranks."""
    first, end = lines.like.bounds()
    lines.resize([row % 3 for row in range(first, end)])
    lines.entries()[:] = [row for row in range(first, end) for _ in range(row % 3)]
    marks.assign([(each, each) for each in range(pcm.rank(), MARKS, pcm.size())])


def check_pieces(lines, marks, iteration):
    """Each iteration adds one to all."""
    first, end = lines.like.bounds()
    assert list(np.diff(lines.offsets)) == [row % 3 for row in range(first, end)]
    assert list(lines.entries()) == [row + iteration for row in range(first, end) for _ in range(row % 3)]
    assert sorted(marks.local["id"]) == list(range(pcm.rank(), MARKS, pcm.size()))
    assert list(marks.local["value"]) == list(marks.local["id"] + iteration)
    assert marks.local is marks.local and lines.offsets is lines.offsets and lines.entries() is lines.entries()
    lines.entries()[:] += 1
    marks.local["value"] += 1


CELLS = 17


def divide(owners, ranks):
    """Cell i belongs to rank i * i % ranks."""
    owners[:] = np.arange(CELLS) ** 2 % ranks


def fill_cells(cells):
    cells.resize([1] * len(cells.like.numbers))
    cells.entries()[:] = cells.like.numbers


def check_cells(cells, iteration):
    """Each iteration adds one to the entry of each cell."""
    numbers = list(cells.like.numbers)
    assert numbers == [cell for cell in range(CELLS) if cell**2 % pcm.size() == pcm.rank()]
    assert list(cells.entries()) == [cell + iteration for cell in numbers]
    assert cells.like.owner(4) == 16 % pcm.size()
    cells.entries()[:] += 1


made = []


def resize(shape):
    """An array of the program for a part, with a row that the library does not know."""
    whole = np.zeros((shape[0] + 1, *shape[1:]))
    whole[-1] = -1
    made.append(whole)
    return whole[:-1]


def check_adopted(plate, next_plate, iteration):
    """Each iteration adds one to all of what the program's own array holds."""
    rows = plate.bounds(0)
    assert type(plate.local) is np.ndarray and plate.local.shape == (rows[1] - rows[0], 5)
    assert any(plate.local.base is whole for whole in made), "the part is in an array of the program"
    assert all((whole[-1] == -1).all() for whole in made), "no more was written than the part"
    assert (plate.local == iteration + np.arange(*rows)[:, None]).all()
    next_plate.local[:] = plate.local + 1
    pcm.swap(plate, next_plate)
    del made[:-8]


def fail():
    raise ValueError("planted in a hook")


def main():
    iterations, pause = int(sys.argv[1]), float(sys.argv[2]) / 1e6
    grid = pcm.array("grid", (12, 9), pcm.block(0), pcm.block(1), pcm.halo(0, 1), dtype=complex)
    record = np.dtype([("number", np.int32), ("weight", np.float32)])
    one = pcm.array("one", 40, pcm.cyclic(0, 3), pcm.SCRATCH, dtype=record)
    other = pcm.array("other", 40, pcm.cyclic(0, 3), dtype=record)
    length = pcm.value("length", None if pcm.joining() else 30)  # as if it were read from a file
    pcm.array("fixed", length.value, pcm.weighted(0, [1.5] * pcm.size()), pcm.CONSTANT, dtype=np.float32)
    shared = pcm.value("shared", {"done": 0, "name": ("any", "kind")})
    tokens = pcm.value_per_rank(
        "tokens", [0], lambda mine, gone: [mine[0] + gone[0]],
        lambda mine, left: ([mine[0] - mine[0] // (left + 1)], [mine[0] // (left + 1)]),
    )  # fmt: skip
    held = pcm.array("held", 50, pcm.block() if pcm.joining() else pcm.costs(0, range(50)))
    owners = np.zeros(CELLS, np.intc)
    divide(owners, pcm.size())
    cells = pcm.rows("cells", pcm.owner_list("owners", CELLS, owners, divide), np.int64)
    plate, next_plate = (pcm.adopt(name, (31, 5), resize=resize) for name in ("plate", "next plate"))
    assert raises(pcm.adopt, "bad", 4, pcm.block(1)) and raises(lambda: pcm.adopt("bad", 90, resize=lambda _: []))
    assert raises(lambda: pcm.adopt("bad", (90, 4), resize=lambda shape: np.zeros(shape, order="F")))
    lines = pcm.rows("lines", held, np.int32)
    mark = [("id", np.int64), ("value", np.int64)]
    marks = pcm.records("marks", mark, lambda record, ranks: record["id"] % ranks)
    if not pcm.joining():
        fill_pieces(lines, marks)
        fill_cells(cells)
        plate.local[:] = np.arange(*plate.bounds(0))[:, None]
    assert raises(pcm.owner_list, "few", 3, [0, 0]) and raises(held.set_costs, 0, [1.0])
    assert raises(lines.entries, 1) and raises(pcm.rows, "marks", held, int) and raises(lines.resize, [1])
    items = []

    def unpack(parts):
        items[:] = [each for _, part in parts for each in part]

    pcm.custom("list", lambda to, ranks: list(items), unpack, lambda old, before, after: [old * after // before])
    hooks = []
    pcm.possible_ranks(lambda ranks: ranks < 61)
    assert raises(pcm.possible_ranks, lambda ranks: ranks < 1) and raises(pcm.possible_ranks, lambda ranks: ranks / 0)

    @pcm.on_change
    def changed():
        hooks.append(pcm.rank())
        check_array(grid, pcm.rank())

    if len(sys.argv) > 3:
        pcm.on_change(fail)
    assert raises(grid.bounds, 5) and raises(pcm.array, "grid", 4) and raises(pcm.value, "big", "x" * 5000)
    before_start = one.local
    pcm.start()
    check_stale(before_start)
    assert raises(pcm.start), "a second start"
    old = grid.local
    row = old[1:]
    old_marks = marks.local
    for iteration in range(shared.value["done"], iterations):
        count = len(hooks)
        if pcm.iterate():
            assert len(hooks) == count + 1
            check_stale(old)
            check_stale(row)
            check_stale(old_marks)
        old = grid.local
        row = old[1:]
        check_array(grid, pcm.rank())
        check_pieces(lines, marks, iteration)
        check_cells(cells, iteration)
        check_adopted(plate, next_plate, iteration)
        held.set_costs(0, np.arange(50) % (2 + iteration))
        old_marks = marks.local
        first = one.local
        pcm.swap(one, other)
        check_stale(first)
        pcm.remaining(iterations - iteration)
        if pcm.rank() == 0:
            tokens.value = [tokens.value[0] + iteration]
            items.append(iteration)
        shared.value = {"done": iteration + 1, "name": shared.value["name"]}
        assert shared.value["name"] == ("any", "kind")
        time.sleep(pause)
    finish(iterations, tokens.value[0], sum(items))


def finish(iterations, tokens, items):
    """Adds up over the ranks, with the MPI that the package found."""
    from pcm._library import library
    import ctypes

    mine, total = (ctypes.c_longlong * 2)(tokens, items), (ctypes.c_longlong * 2)()
    library.MPI_Reduce(mine, total, 2, 0x4C00083A, 0x58000003, 0, 0x44000000)
    if pcm.rank() == 0:
        print(f"session: iterations {iterations} ranks {pcm.size()} checksum {total[0]}+{total[1]}", flush=True)


main()
