// sparse_cg: how heat spreads over an unstructured mesh, by implicit steps: each solves a sparse system of equations
// with the method of conjugate gradients.
//
// The matrix comes from a file in Matrix Market format. The ranks own blocks of rows with about equally many entries,
// which are stored one after the other as columns and values. For products with the matrix a rank gets the elements of
// the vector that its rows name and others own.
#include "conjugate_gradients.hpp"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <numeric>
#include <thread>
#include <vector>

// The rank of each row, so that all ranks have about equally many entries.
static std::vector<int> divide(const std::vector<double> &lengths)
{
    double all = std::accumulate(lengths.begin(), lengths.end(), 0.0), before = 0;
    std::vector<int> owners;
    for (double length : lengths) {
        owners.push_back(static_cast<int>((before + length / 2) * static_cast<double>(ranks()) / all));
        before += length;
    }
    return owners;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4 && argc != 5) {
        std::fprintf(stderr, "usage: sparse_cg MATRIX STEPS SLEEP_US [HISTORY]\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const char *path = argv[1], *history = argc == 5 ? argv[4] : nullptr;
    long steps = std::atol(argv[2]), step = 0;
    std::chrono::microseconds pause(std::atol(argv[3]));

    std::vector<double> lengths; // of all rows
    together([&] { lengths = row_lengths(path); });
    std::size_t rows = lengths.size();
    std::vector<int> owners = divide(lengths);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    Part part{};
    part.all = static_cast<long>(rows);
    part.owner = [&](long row) { return owners[static_cast<std::size_t>(row)]; };
    std::vector<std::size_t> offsets{0};
    for (std::size_t row = 0; row < rows; row++)
        if (owners[row] == rank) {
            part.numbers.push_back(static_cast<long>(row));
            offsets.push_back(offsets.back() + static_cast<std::size_t>(lengths[row]));
        }
    std::vector<std::int64_t> columns(offsets.back());
    std::vector<double> values(offsets.back()), heat(part.rows()), sums(part.rows());
    part.offsets = offsets.data();
    part.columns = columns.data();
    part.values = values.data();
    part.heat = heat.data();
    part.sums = sums.data();
    read_and_check(path, part);

    Neighbours neighbours = connect(part, step);
    for (; step < steps; step++) {
        advance(part, neighbours, step, history);
        std::this_thread::sleep_for(pause);
    }

    print_result(part, steps);
    MPI_Finalize();
    return 0;
}
