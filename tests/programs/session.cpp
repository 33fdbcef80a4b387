// All that pcm.hpp has beside arrays, in a sum that does not depend on the ranks: rank 0 adds to a value of each rank
// and to a list of its own in each iteration; both are shared out and collected when the ranks change.
//
// Usage: session ITERATIONS SLEEP_US [fail]    with a change hook that fails
#include <algorithm>
#include <array>
#include <chrono>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <pcm.hpp>
#include <thread>

static void expect(bool is_so, const char *what)
{
    if (is_so)
        return;
    std::fprintf(stderr, "session: not so: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

template <typename Call> static pcm_result code_of(Call call)
{
    try {
        call();
    } catch (const pcm::error &e) {
        expect(*e.what() != '\0', "an error has a text");
        return e.code();
    }
    return PCM_OK;
}

// Errors come as exceptions, with the code and the text of C, or as codes.
static void check_errors()
{
    expect(code_of([] { pcm::bounds("nothing", 0); }) == PCM_ERROR_UNKNOWN, "an unknown array is named");
    expect(code_of([] { pcm::array<int> bad("bad", {4}, {pcm::block(7)}); }) != PCM_OK, "axis 7 of one is refused");
    std::error_code code;
    pcm::session twice(code);
    expect(code.value() == PCM_ERROR_STARTED && !code.message().empty(), "a second session has a code");
    expect(code.category() == pcm::category(), "the code is of this library");
}

// A part is stored with its halo; what the library says of an index is where the array has it.
static void check_array(pcm::array<std::complex<double>> &grid, int rank)
{
    auto rows = grid.bounds(0), cols = grid.bounds(1);
    expect(grid.local_extent(0) == rows.size() + 2 && grid.local_extents()[1] == cols.size(), "local extents");
    expect(static_cast<std::size_t>(grid.end() - grid.begin()) == grid.size(), "a range over the part");
    if (rows.size() == 0 || cols.size() == 0)
        return;
    expect(grid.owner({rows.first, cols.first}) == rank, "a rank owns the first of its own");
    auto offset = grid.local_offset({rows.first, cols.first});
    expect(&grid(1, 0) == &grid[offset] && &grid[offset] == grid.data() + offset, "two ways to one element");
    expect(grid.data() + offset == grid.data() + grid.local_extent(1), "the last axis is contiguous");
    expect(grid.boxes().size() == 1 && grid.boxes()[0].start[0] == rows.first, "one box");
}

// A vector of the program is the array's part: as long as it, at the place that the library knows.
static void check_vector(const std::string &name, const std::vector<double> &held, long iteration)
{
    auto rows = pcm::bounds(name, 0);
    expect(held.size() == 3 * rows.size(), "an adopted vector has the length of the part");
    expect(held.empty() || held.data() == pcm_data(name.c_str()), "the part is the vector");
    for (double each : held)
        expect(each == static_cast<double>(iteration), "an adopted vector has its contents");
}

using mark = std::array<long, 2>;
constexpr long MARKS = 20;

// Row i has i % 3 entries, each i; record k, of MARKS, belongs to rank k % ranks. Each iteration adds one to all.
static void fill_pieces(pcm::rows &lines, pcm::records<mark> &marks)
{
    auto own = pcm::bounds("held", 0);
    std::vector<std::size_t> lengths;
    for (std::size_t row = own.first; row < own.end; row++)
        lengths.push_back(row % 3);
    lines.resize(lengths);
    for (std::size_t row = own.first; row < own.end; row++)
        for (std::size_t n = lines.offsets()[row - own.first]; n < lines.offsets()[row - own.first + 1]; n++)
            lines.entries<long>(0)[n] = static_cast<long>(row);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (long each = rank; each < MARKS; each += size)
        marks.push_back({each, each});
}

static void check_pieces(pcm::rows &lines, pcm::records<mark> &marks, long iteration)
{
    auto own = pcm::bounds("held", 0);
    const std::size_t *offsets = lines.offsets();
    for (std::size_t row = own.first; row < own.end; row++) {
        std::size_t first = offsets[row - own.first], end = offsets[row - own.first + 1];
        expect(end - first == row % 3, "a row has its length");
        for (std::size_t n = first; n < end; n++)
            expect(lines.entries<long>(0)[n]++ == static_cast<long>(row) + iteration, "a row has its entries");
    }
    int rank, size, count = static_cast<int>(marks.size()), all = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&count, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(all == MARKS, "no record is lost");
    for (mark &each : marks)
        expect(each[0] % size == rank && each[1]++ == each[0] + iteration, "a record is with its owner");
}

constexpr std::size_t CELLS = 17;

// Cell i belongs to rank i * i % ranks, and has one entry, to which each iteration adds one.
static void divide(int ranks, int *owners, std::size_t cells)
{
    for (std::size_t i = 0; i < cells; i++)
        owners[i] = static_cast<int>(i * i) % ranks;
}

static void fill_cells(const pcm::owner_list &owners, pcm::rows &cells)
{
    std::vector<std::size_t> numbers = owners.numbers();
    cells.resize(std::vector<std::size_t>(numbers.size(), 1));
    std::copy(numbers.begin(), numbers.end(), cells.entries<std::size_t>(0));
}

static void check_cells(const pcm::owner_list &owners, const pcm::rows &cells, long iteration)
{
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    auto *entry = cells.entries<std::size_t>(0);
    for (std::size_t cell : owners.numbers())
        expect((*entry++)++ == cell + static_cast<std::size_t>(iteration), "a cell has its entry");
    std::size_t count = 0;
    for (std::size_t cell = 0; cell < CELLS; cell++) {
        expect(owners.owner(cell) == static_cast<int>(cell * cell) % size, "a cell has its owner");
        count += owners.owner(cell) == rank;
    }
    expect(owners.numbers().size() == count, "a rank has the cells that it owns");
}

static void run(long iterations, std::chrono::microseconds pause, bool has_failing_hook)
{
    pcm::array<std::complex<double>> grid("grid", {12, 9}, {pcm::block(0), pcm::block(1), pcm::halo(0, 1)});
    pcm::array<std::int16_t> one("one", {40}, {pcm::cyclic(0, 3), pcm::scratch()});
    pcm::array<std::int16_t> other("other", {40}, {pcm::cyclic(0, 3)});
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<double> weights(static_cast<std::size_t>(size), 1.5);
    pcm::value<std::size_t> length("length", pcm::joining() ? 0 : 30); // as if it were read from a file
    pcm::array<float> uneven("uneven", {*length}, {pcm::weighted(0, weights), pcm::constant()});
    std::vector<double> costs(50, 1.0);
    costs[3] = 20.0;
    std::vector<double> held, next;
    auto by_costs = pcm::joining() ? pcm::block(0) : pcm::costs(0, costs);
    pcm::adopt("held", held, {50, 3}, {by_costs});
    pcm::adopt("next", next, {50, 3}, {by_costs});
    std::vector<int> first_owners(CELLS);
    divide(size, first_owners.data(), CELLS);
    pcm::owner_list owners("owners", CELLS, first_owners, divide);
    pcm::rows cells("cells", owners.name(), {sizeof(std::size_t)});
    expect(code_of([] { pcm::owner_list("few", 3, {0, 0}); }) == PCM_ERROR_ARGUMENT, "each row has an owner");
    pcm::rows lines("lines", "held", {sizeof(long)});
    pcm::records<mark> marks("marks", [](const mark &each, int ranks) { return static_cast<int>(each[0] % ranks); });
    if (!pcm::joining())
        fill_pieces(lines, marks), fill_cells(owners, cells);
    pcm::value<long> iteration("iteration", 0);
    pcm::value_per_rank<long> tokens(
        "tokens", 0, [](long &mine, const long &leaving) { mine += leaving; },
        [](long &mine, int left) {
            long share = mine / (left + 1);
            mine -= share;
            return share;
        });
    std::vector<long> list;
    pcm::custom("list", {[&](int to, int ranks, pcm::packer &out) {
                             (void)ranks;
                             (void)to;
                             out.append(list);
                         },
                         [&](const std::vector<pcm::part> &parts) {
                             list.clear();
                             for (const pcm::part &part : parts)
                                 for (long each : part.as<long>())
                                     list.push_back(each);
                         },
                         [](int from, int before, int after) { return std::vector<int>{from * after / before}; }});
    int rank = -1, hooks = 0;
    pcm::on_change([&] {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        check_array(grid, rank);
        hooks++;
    });
    if (has_failing_hook)
        pcm::on_change([] { throw std::logic_error("planted in a hook"); });
    pcm::on_exit([] { std::fflush(nullptr); });
    pcm::possible_ranks([](int ranks) { return ranks != 61; });
    try {
        pcm::possible_ranks([](int) -> bool { throw std::logic_error("planted in a rule"); });
        expect(false, "what a rule throws comes out of the call");
    } catch (const std::logic_error &) {
    }
    pcm::session session;
    check_errors();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (; *iteration < iterations; ++*iteration) {
        int before = hooks;
        bool is_changed = session.iterate();
        expect(is_changed == (hooks > before), "the hook runs in each change");
        check_array(grid, rank);
        session.remaining(iterations - *iteration);
        const std::int16_t *was = one.data();
        one.swap(other);
        expect(other.data() == was, "a swap exchanges the memory");
        check_vector("held", held, *iteration);
        check_pieces(lines, marks, *iteration);
        check_cells(owners, cells, *iteration);
        for (std::size_t i = 0; i < held.size(); i++)
            next[i] = held[i] + 1.0;
        pcm::swap("held", held, "next", next);
        if (rank == 0) {
            *tokens += *iteration;
            list.push_back(*iteration);
        }
        std::this_thread::sleep_for(pause);
    }
    long mine[2] = {*tokens, 0}, all[2] = {0, 0};
    for (long each : list)
        mine[1] += each;
    MPI_Reduce(mine, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        std::printf("session: iterations %ld ranks %d checksum %ld+%ld\n", *iteration, size, all[0], all[1]);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 3)
        return 2;
    try {
        run(std::atol(argv[1]), std::chrono::microseconds(std::atol(argv[2])), argc > 3);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "session: %s\n", e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
