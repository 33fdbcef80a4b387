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
#include <pcm.hpp>
#include <thread>
#include <vector>

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

    std::vector<double> lengths; // of all rows; a rank that joins gets its rows from the others
    if (!pcm::joining())
        together([&] { lengths = row_lengths(path); });
    std::size_t rows = lengths.size();
    pcm::register_value("rows", rows);
    pcm::register_value("step", step);
    pcm::option split = pcm::joining() ? pcm::block(0) : pcm::costs(0, lengths);
    pcm::array<double> heat("heat", {rows}, {split}), sums("sums", {rows}, {split});
    pcm::rows matrix("matrix", "heat", {sizeof(std::int64_t), sizeof(double)});
    Part part{};
    auto owner = [&](long row) { return heat.owner({static_cast<std::size_t>(row)}); };
    auto take_up = [&] {
        auto [first, end] = heat.bounds(0);
        std::vector<long> numbers(end - first);
        std::iota(numbers.begin(), numbers.end(), first);
        part = {numbers, static_cast<long>(rows), matrix.offsets(), matrix.entries<std::int64_t>(0),
                matrix.entries<double>(1), heat.data(), sums.data(), owner};
    };
    if (!pcm::joining()) {
        auto own = heat.bounds(0);
        matrix.resize({lengths.begin() + own.first, lengths.begin() + own.end});
        take_up();
        read_and_check(path, part);
    }

    Neighbours neighbours;
    auto connect_all = [&] { take_up(), neighbours = connect(part, step); };
    pcm::on_change(connect_all); // in a rank that joins, too
    pcm::session session;
    if (!pcm::joining())
        connect_all(); // memory is another one after a restart from files
    for (; step < steps; step++) {
        session.iterate();
        advance(part, neighbours, step, history);
        std::this_thread::sleep_for(pause);
    }

    print_result(part, steps);
    MPI_Finalize();
    return 0;
}
