"""Hangs in a known function and line, which a comment names: hangs.py MODE. MPI is called by ctypes, so that Python
alone is enough. Must never know about pcm."""
import ctypes
import fcntl
import os
import queue
import subprocess
import sys
import threading
import time

mpi = ctypes.CDLL(None)
WORLD = 0x44000000  # MPI_COMM_WORLD of MPICH


def rank():
    number = ctypes.c_int()
    mpi.MPI_Comm_rank(WORLD, ctypes.byref(number))
    return number.value


def meet():
    data = [0] * 8

    def wait():
        # Several lines, so that the line of the call is not the function's.
        data[0] += 1
        mpi.MPI_Barrier(WORLD)  # at: meet.<locals>.wait
        data[0] -= 1

    wait()


class Reader:
    def read_pipe(self):
        end, self.other = os.pipe()
        os.set_blocking(end, True)
        return os.read(  # at: Reader.read_pipe
            end,
            8,
        )


def spin():
    while True: pass  # at: spin


def take_twice():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()  # at: take_twice


def fetch():
    return queue.Queue().get()  # at: fetch


def lock_twice():
    with open(__file__) as first, open(__file__) as second:
        fcntl.flock(first, fcntl.LOCK_EX)
        fcntl.flock(second, fcntl.LOCK_EX)  # at: lock_twice


def results():
    yield 1
    time.sleep(1000000)  # at: results
    yield 2


def add_results():
    return sum(results())


def run_tool():
    subprocess.run(["sleep", "60"])  # at: run_tool


def descend(depth):
    if depth > 0:
        return 1 + descend(depth - 1)
    return time.sleep(1000000)  # at: descend


def main():
    mpi.MPI_Init(None, None)
    alone = {"lock": take_twice, "queue": fetch, "flock": lock_twice, "generator": add_results, "tool": run_tool}
    if rank() != 1:
        meet()
    elif sys.argv[1] in alone:
        alone[sys.argv[1]]()
    elif sys.argv[1] == "pipe":
        Reader().read_pipe()  # at: main
    elif sys.argv[1] == "spin":
        spin()
    else:
        descend(30)


main()  # at: <module>
