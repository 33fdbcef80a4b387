#!/usr/bin/env python3
"""Writes a symmetric, positive definite matrix for sparse_cg in Matrix Market format:

    mesh.py ROWS > mesh.mtx

Kinds of matrices (--kind): I + L, where L is the Laplacian of a graph
    mesh       without any order: a chain, and pairs of rows by chance
    poisson3d  that is a cube of cells, with cold walls; ROWS is rounded down to a cube
    powerlaw   that grows: a new row is tied to rows that have many ties already, so a few rows get very long
or
    random     values between -1 and 1 at places by chance, and a diagonal that outweighs its row
"""
import argparse
import random

chance = random.Random(1)


def mesh(rows):
    links = {(row - 1, row): -0.01 for row in range(1, rows)}
    for _ in range(rows):
        low, high = sorted(chance.sample(range(rows), 2))
        links[low, high] = -0.01 * (1 + chance.randrange(8))
    return [1.0] * rows, links


def poisson3d(rows):
    side = next(side for side in range(1, rows + 2) if (side + 1) ** 3 > rows)
    links, walls = {}, []
    for row in range(side**3):
        sides = 0
        for stride in 1, side, side**2:
            if row // stride % side + 1 < side:
                links[row, row + stride] = -10.0
                sides += 1
            sides += row // stride % side > 0
        walls.append(1.0 + 10.0 * (6 - sides))
    return walls, links


def powerlaw(rows, ties=3):
    links, ends = {}, [0]
    for row in range(1, rows):
        tied = {chance.choice(ends) for _ in range(ties)}
        for other in sorted(tied):
            links[other, row] = -0.1
            ends += [other, row]
    return [1.0] * rows, links


def randomly(rows, each=4):
    links = {}
    for _ in range(each * rows if rows > 1 else 0):
        low, high = sorted(chance.sample(range(rows), 2))
        links[low, high] = chance.uniform(-1, 1)
    return [1.0] * rows, links


def main():
    kinds = {"mesh": mesh, "poisson3d": poisson3d, "powerlaw": powerlaw, "random": randomly}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int)
    parser.add_argument("--kind", choices=kinds, default="mesh")
    parser.add_argument("--symmetric", action="store_true", help="write each pair of entries once")
    asked = parser.parse_args()
    if asked.rows < 1:
        parser.error("a matrix has at least one row")
    diagonal, links = kinds[asked.kind](asked.rows)
    for (low, high), value in links.items():
        diagonal[low] += abs(value)
        diagonal[high] += abs(value)
    rows = len(diagonal)
    print("%%MatrixMarket matrix coordinate real", "symmetric" if asked.symmetric else "general")
    print(rows, rows, rows + len(links) * (1 if asked.symmetric else 2))
    for row, value in enumerate(diagonal):
        print(row + 1, row + 1, value)
    for (low, high), value in links.items():
        print(high + 1, low + 1, value)
        if not asked.symmetric:
            print(low + 1, high + 1, value)


if __name__ == "__main__":
    main()
