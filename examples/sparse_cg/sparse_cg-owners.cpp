// sparse_cg with a list of owners: any rank may own any row. Rows are dealt out by their lengths, the longest first,
// which divides entries more evenly than blocks where single rows are very long; but neighbours are far apart then, so
// more elements of vectors have to be sent. The bits of the results are those of sparse_cg.
#include "conjugate_gradients.hpp"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <numeric>
#include <pcm.hpp>
#include <queue>
#include <thread>
#include <utility>
#include <vector>

// Writes the owners: each row, from the longest to the shortest, goes to the rank with the fewest entries so far.
static void deal(const std::vector<double> &lengths, int ranks, int *owners)
{
    std::vector<std::size_t> rows(lengths.size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    std::stable_sort(rows.begin(), rows.end(), [&](auto one, auto other) { return lengths[one] > lengths[other]; });
    std::priority_queue<std::pair<double, int>> least; // entries, negated, and rank
    for (int rank = 0; rank < ranks; rank++)
        least.emplace(0.0, rank);
    for (std::size_t row : rows) {
        auto [entries, rank] = least.top();
        least.pop();
        owners[row] = rank;
        least.emplace(entries - lengths[row], rank);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4 && argc != 5) {
        std::fprintf(stderr, "usage: sparse_cg-owners MATRIX STEPS SLEEP_US [HISTORY]\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const char *path = argv[1], *history = argc == 5 ? argv[4] : nullptr;
    long steps = std::atol(argv[2]), step = 0;
    std::chrono::microseconds pause(std::atol(argv[3]));

    std::vector<double> lengths; // of all rows
    if (!pcm::joining())
        together([&] { lengths = row_lengths(path); });
    std::size_t rows = lengths.size();
    pcm::register_value("rows", rows);
    pcm::register_value("step", step);
    lengths.resize(rows); // a rank that joins gets them, and the owners, from the others
    std::vector<int> first(rows);
    if (!pcm::joining())
        deal(lengths, static_cast<int>(ranks()), first.data());
    pcm_value("lengths", lengths.data(), rows * sizeof(double)); // the next change deals by them again
    auto deal_again = [&](int ranks, int *owners, std::size_t) { deal(lengths, ranks, owners); };
    pcm::owner_list owners("rows of the matrix", rows, first, deal_again);
    pcm::rows matrix("matrix", owners.name(), {sizeof(std::int64_t), sizeof(double)});
    pcm::rows vectors("vectors", owners.name(), {sizeof(double), sizeof(double)}); // heat and sums: rows of one entry
    Part part{};
    auto take_up = [&] {
        auto numbers = owners.numbers();
        part = {{numbers.begin(), numbers.end()}, static_cast<long>(rows), matrix.offsets(),
                matrix.entries<std::int64_t>(0), matrix.entries<double>(1), vectors.entries<double>(0),
                vectors.entries<double>(1), [&](long row) { return owners.owner(static_cast<std::size_t>(row)); }};
    };
    if (!pcm::joining()) {
        std::vector<std::size_t> own;
        for (std::size_t row : owners.numbers())
            own.push_back(static_cast<std::size_t>(lengths[row]));
        matrix.resize(own);
        vectors.resize(std::vector<std::size_t>(own.size(), 1));
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
