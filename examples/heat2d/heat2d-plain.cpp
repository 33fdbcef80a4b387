// heat2d in C++: how heat spreads over a plate whose border is held at fixed temperatures. The same method and the same
// bits as heat2d.c.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

static const char USAGE[] = "usage: heat2d --rows R --cols C --iterations K [--sleep-us U]\n";

enum { FROM_ABOVE = 1, FROM_BELOW = 2 };

struct Options {
    std::size_t rows = 0, cols = 0;
    long iterations = -1, sleep_us = 0;
};

// The rows this rank owns, `count` of them from row `first` of the plate, and the ranks that own the rows beside.
struct Block {
    std::size_t first, count;
    int rank, above, below;
};

static Options read_options(int argc, char **argv)
{
    Options o;
    for (int i = 1; i < argc; i += 2) {
        std::string_view name = argv[i], text = i + 1 < argc ? argv[i + 1] : "";
        long number = -1;
        if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc{} || number < 0)
            throw std::invalid_argument(std::string(name) + " must have a whole number of 0 or more");
        if (name == "--rows")
            o.rows = static_cast<std::size_t>(number);
        else if (name == "--cols")
            o.cols = static_cast<std::size_t>(number);
        else if (name == "--iterations")
            o.iterations = number;
        else if (name == "--sleep-us")
            o.sleep_us = number;
        else
            throw std::invalid_argument("unknown option " + std::string(name));
    }
    if (o.rows < 3 || o.cols < 3 || o.cols > INT32_MAX || o.iterations < 0)
        throw std::invalid_argument("--rows and --cols must be 3 or more, and --iterations is missing");
    return o;
}

// The first rows % size ranks get one row more. A rank without rows has no neighbours.
static Block my_rows(std::size_t rows)
{
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::size_t r = static_cast<std::size_t>(rank), share = rows / static_cast<std::size_t>(size);
    std::size_t rest = rows % static_cast<std::size_t>(size), first = r * share + std::min(r, rest);
    std::size_t end = first + share + (r < rest);
    Block b{first, end - first, rank, MPI_PROC_NULL, MPI_PROC_NULL};
    if (b.count > 0 && first > 0)
        b.above = rank - 1;
    if (b.count > 0 && end < rows)
        b.below = rank + 1;
    return b;
}

// Hot along the top, cooling off along the sides, cold elsewhere.
static double initial(std::size_t row, std::size_t col, const Options &o)
{
    if (row == 0)
        return 100.0;
    if (col == 0 || col == o.cols - 1)
        return 100.0 * static_cast<double>(o.rows - 1 - row) / static_cast<double>(o.rows - 1);
    return 0.0;
}

// `t` holds the halo row above, the rank's own rows, the halo row below.
static void set_initial(double *t, const Block &b, const Options &o)
{
    for (std::size_t i = 0; i < b.count; i++)
        for (std::size_t j = 0; j < o.cols; j++)
            t[(i + 1) * o.cols + j] = initial(b.first + i, j, o);
}

static void exchange_halo(double *t, const Block &b, std::size_t cols)
{
    double *first = t + cols, *last = t + b.count * cols;
    int n = static_cast<int>(cols);
    MPI_Sendrecv(first, n, MPI_DOUBLE, b.above, FROM_BELOW, last + cols, n, MPI_DOUBLE, b.below, FROM_BELOW,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(last, n, MPI_DOUBLE, b.below, FROM_ABOVE, t, n, MPI_DOUBLE, b.above, FROM_ABOVE, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

// One step of Jacobi's method in place; two rows keep the values that it overwrites too early.
static void relax(double *t, const Block &b, const Options &o)
{
    std::vector<double> above(t, t + o.cols), here(o.cols);
    for (std::size_t i = 1; i <= b.count; i++) {
        double *row = t + i * o.cols;
        const double *below = row + o.cols;
        std::copy(row, row + o.cols, here.begin());
        std::size_t global = b.first + i - 1;
        if (global > 0 && global < o.rows - 1)
            for (std::size_t j = 1; j < o.cols - 1; j++)
                row[j] = 0.25 * ((above[j] + below[j]) + (here[j - 1] + here[j + 1]));
        std::swap(above, here);
    }
}

// A bijection that spreads every bit over all others (splitmix64).
static std::uint64_t mix(std::uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

// Each cell's bits are hashed with its place and added: a sum of integers does not depend on who owns what.
static std::uint64_t checksum(const double *t, const Block &b, std::size_t cols)
{
    std::uint64_t sum = 0, total = 0, bits = 0;
    for (std::size_t i = 0; i < b.count * cols; i++) {
        std::memcpy(&bits, &t[cols + i], sizeof bits);
        sum += mix(bits ^ mix(b.first * cols + i + UINT64_C(0x9e3779b97f4a7c15)));
    }
    MPI_Reduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    return total;
}

static void run(const Options &o)
{
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<double> t((o.rows / static_cast<std::size_t>(size) + 3) * o.cols);
    Block b = my_rows(o.rows);
    set_initial(t.data(), b, o);

    long iteration = 0;
    double start = MPI_Wtime();
    while (iteration < o.iterations) {
        exchange_halo(t.data(), b, o.cols);
        relax(t.data(), b, o);
        std::this_thread::sleep_for(std::chrono::microseconds(o.sleep_us));
        iteration++;
    }
    double seconds = MPI_Wtime() - start;
    std::uint64_t sum = checksum(t.data(), b, o.cols);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (b.rank == 0)
        std::printf("heat2d: iterations %ld ranks %d seconds %.6f checksum %016llx\n", iteration, size, seconds,
                    static_cast<unsigned long long>(sum));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    try {
        run(read_options(argc, argv));
    } catch (const std::exception &e) {
        std::fprintf(stderr, "heat2d: %s\n%s", e.what(), USAGE);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
