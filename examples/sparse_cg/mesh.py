#!/usr/bin/env python3
"""Writes a matrix for sparse_cg: mesh.py ROWS > mesh.mtx

An unstructured symmetric matrix I + L, L the Laplacian of a graph without any order, in Matrix Market format.
"""
import random
import sys

rows = int(sys.argv[1])
chance = random.Random(1)
links = {(row - 1, row): 0.01 for row in range(1, rows)}
for _ in range(rows):
    low, high = sorted(chance.sample(range(rows), 2))
    links[low, high] = 0.01 * (1 + chance.randrange(8))
diagonal = [1.0] * rows
for (low, high), weight in links.items():
    diagonal[low] += weight
    diagonal[high] += weight
print("%%MatrixMarket matrix coordinate real general")
print(rows, rows, rows + 2 * len(links))
for row, value in enumerate(diagonal):
    print(row + 1, row + 1, value)
for (low, high), weight in links.items():
    print(low + 1, high + 1, -weight)
    print(high + 1, low + 1, -weight)
