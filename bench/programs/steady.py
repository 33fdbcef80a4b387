"""What the package pcm costs a program in Python while nothing changes: nanoseconds per pass of a loop, the loop itself
included. Each figure is the median of many bursts: processes of others interrupt a few of them. The argument is the
number of passes in a burst; rank 0 prints a line. With the word endless it iterates until it is killed.
"""
import statistics
import sys
import time

import numpy as np
import pcm

BURSTS = 101


def per_pass(body, passes):
    """Nanoseconds per pass, and what the last pass had."""
    took = []
    for _ in range(BURSTS):
        begin = time.perf_counter_ns()
        last = body(passes)
        took.append((time.perf_counter_ns() - begin) / passes)
    return statistics.median(took), last


def main():
    if sys.argv[1] == "endless":
        for _ in pcm.iterations(1 << 40):
            time.sleep(0.002)
    passes = int(sys.argv[1])
    t = pcm.array("t", (64, 64), pcm.block(0), pcm.halo(0, 1))
    lines = pcm.rows("lines", t, np.float64)
    value = pcm.value("value", 1.0)

    def counted():
        ends = []
        for number in pcm.iterations(BURSTS * passes):
            if number % passes == 0:
                ends.append(time.perf_counter_ns())
        return statistics.median((after - before) / passes for before, after in zip(ends, ends[1:]))

    def empty(passes):
        for _ in range(passes):
            pass

    def iterate(passes):
        for _ in range(passes):
            pcm.iterate()

    def local(passes):
        for _ in range(passes):
            view = t.local
        return view

    def entries(passes):
        for _ in range(passes):
            view = lines.entries()
        return view

    def read(passes):
        for _ in range(passes):
            value.value

    figures = {"counted": counted()}
    first = t.local, lines.entries()
    last = []
    for body in empty, iterate, local, entries, read:
        figures[body.__name__], view = per_pass(body, passes)
        last.append(view)
    assert last[2] is first[0] and last[3] is first[1], "a view is made once"
    if pcm.rank() == 0:
        print("steady:", *(f"{name} {figure:.2f}" for name, figure in figures.items()))


main()
