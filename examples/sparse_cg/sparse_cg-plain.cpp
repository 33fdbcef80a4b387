// sparse_cg: how heat spreads over an unstructured mesh, by implicit steps: each solves a sparse system of equations
// with the method of conjugate gradients.
//
// The matrix comes from a file in Matrix Market format. The ranks own blocks of rows, which are stored one after the
// other as columns and values. For products with the matrix a rank gets the elements of the vector that its rows name
// and others own. Sums of all ranks depend on their number in the last bits: results
// agree to 9 digits.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mpi.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// This rank's rows, from `first` to `end`, `end` excluded. Row i of them has the entries from offsets[i] to
// offsets[i + 1]: columns of the matrix, counted from 0, and values. Then a temperature and a sum of temperatures per row.
struct Part {
    long first, end;
    const std::size_t *offsets;
    std::int64_t *columns;
    double *values, *heat, *sums;

    std::size_t rows() const { return static_cast<std::size_t>(end - first); }
    bool has(long row) const { return row >= first && row < end; }
};

// Which elements of a vector this rank gets from others and sends to others.
struct Neighbours {
    std::vector<int> get, get_at, send, send_at; // numbers per rank, and where they begin
    std::vector<long> sent;                      // rows of this rank, in the order of the ranks that need them
    std::vector<long> places;                    // of each entry's column: in the part, or behind it
};

[[noreturn]] static void fail(const std::string &what)
{
    std::fprintf(stderr, "sparse_cg: %s\n", what.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
}

// ---- the file --------------------------------------------------------------------------------------------------

// Reads the head of the file; returns the number of rows and that of entries.
static std::pair<long, long> read_head(std::ifstream &file, const char *path)
{
    std::string line;
    while (std::getline(file, line) && line.rfind('%', 0) == 0)
        if (line.rfind("%%MatrixMarket", 0) == 0 && line != "%%MatrixMarket matrix coordinate real general")
            fail(std::string(path) + " is of another kind than \"coordinate real general\"");
    long rows = 0, columns = 0, entries = 0;
    if (std::sscanf(line.c_str(), "%ld %ld %ld", &rows, &columns, &entries) != 3 || rows < 1 || rows != columns)
        fail("cannot read a square matrix from " + std::string(path));
    return {rows, entries};
}

static long count_rows(const char *path)
{
    std::ifstream file(path);
    return read_head(file, path).first;
}

// Calls `use(row, column, value)` for each entry of this rank's rows, which count from 0 here.
template <typename Use> static void read_entries(const char *path, const Part &part, Use use)
{
    std::ifstream file(path);
    auto [rows, entries] = read_head(file, path);
    long row = 0, column = 0;
    double value = 0;
    for (long i = 0; i < entries; i++) {
        if (!(file >> row >> column >> value) || row < 1 || row > rows || column < 1 || column > rows)
            fail("entry " + std::to_string(i + 1) + " of " + path + " is missing or wrong");
        if (part.has(row - 1))
            use(static_cast<std::size_t>(row - 1 - part.first), column - 1, value);
    }
}

static std::vector<std::size_t> measure(const char *path, const Part &part)
{
    std::vector<std::size_t> lengths(part.rows());
    read_entries(path, part, [&](std::size_t row, long, double) { lengths[row]++; });
    return lengths;
}

static void read_rows(const char *path, const Part &part)
{
    std::vector<std::size_t> next(part.offsets, part.offsets + part.rows());
    read_entries(path, part, [&](std::size_t row, long column, double value) {
        std::size_t place = next[row]++;
        part.columns[place] = column;
        part.values[place] = value;
    });
}

// ---- who has what ----------------------------------------------------------------------------------------------

static Part divide(long rows)
{
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long share = rows / size, rest = rows % size;
    Part part{};
    part.first = rank * share + std::min<long>(rank, rest);
    part.end = part.first + share + (rank < rest);
    return part;
}

static int owner(long rows, long row)
{
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long share = rows / size, rest = rows % size, in_longer = rest * (share + 1);
    return static_cast<int>(row < in_longer ? row / (share + 1) : rest + (row - in_longer) / share);
}

// Agrees with the other ranks about the elements that this rank's rows name and others own.
static Neighbours connect(long rows, const Part &part)
{
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    Neighbours n;
    for (auto *numbers : {&n.get, &n.get_at, &n.send, &n.send_at})
        numbers->assign(static_cast<std::size_t>(size), 0);
    std::size_t entries = part.offsets[part.rows()];
    std::map<long, long> others; // column of others to its place, in ascending order: that of their owners
    for (std::size_t i = 0; i < entries; i++)
        if (!part.has(part.columns[i]))
            others[part.columns[i]] = 0;
    std::vector<long> wanted;
    for (auto &other : others) {
        other.second = part.end - part.first + static_cast<long>(wanted.size());
        wanted.push_back(other.first);
        n.get[static_cast<std::size_t>(owner(rows, other.first))]++;
    }
    for (std::size_t i = 0; i < entries; i++) {
        long column = part.columns[i];
        n.places.push_back(part.has(column) ? column - part.first : others[column]);
    }
    MPI_Alltoall(n.get.data(), 1, MPI_INT, n.send.data(), 1, MPI_INT, MPI_COMM_WORLD);
    for (std::size_t rank = 1; rank < static_cast<std::size_t>(size); rank++) {
        n.get_at[rank] = n.get_at[rank - 1] + n.get[rank - 1];
        n.send_at[rank] = n.send_at[rank - 1] + n.send[rank - 1];
    }
    n.sent.resize(static_cast<std::size_t>(n.send_at.back() + n.send.back()));
    MPI_Alltoallv(wanted.data(), n.get.data(), n.get_at.data(), MPI_LONG, n.sent.data(), n.send.data(),
                  n.send_at.data(), MPI_LONG, MPI_COMM_WORLD);
    for (long &row : n.sent)
        row -= part.first;
    return n;
}

// ---- conjugate gradients ---------------------------------------------------------------------------------------

using Vector = std::vector<double>; // the elements of this rank's rows

static double dot(const Vector &a, const Vector &b)
{
    double mine = 0, all = 0;
    for (std::size_t i = 0; i < a.size(); i++)
        mine += a[i] * b[i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

// The product of the matrix with `v`.
static Vector product(const Part &part, const Neighbours &n, const Vector &v)
{
    Vector outgoing, near = v, result(v.size());
    for (long row : n.sent)
        outgoing.push_back(v[static_cast<std::size_t>(row)]);
    near.resize(v.size() + static_cast<std::size_t>(n.get_at.back() + n.get.back()));
    MPI_Alltoallv(outgoing.data(), n.send.data(), n.send_at.data(), MPI_DOUBLE, near.data() + v.size(), n.get.data(),
                  n.get_at.data(), MPI_DOUBLE, MPI_COMM_WORLD);
    for (std::size_t row = 0; row < v.size(); row++)
        for (std::size_t i = part.offsets[row]; i < part.offsets[row + 1]; i++)
            result[row] += part.values[i] * near[static_cast<std::size_t>(n.places[i])];
    return result;
}

// Replaces `x` by the solution of: matrix times solution equals x.
static void solve(const Part &part, const Neighbours &n, Vector &x)
{
    Vector residual = x, image = product(part, n, x);
    double enough = 1e-26 * dot(x, x);
    for (std::size_t i = 0; i < x.size(); i++)
        residual[i] -= image[i];
    Vector direction = residual;
    for (double square = dot(residual, residual); square > enough;) {
        image = product(part, n, direction);
        double length = square / dot(direction, image);
        for (std::size_t i = 0; i < x.size(); i++) {
            x[i] += length * direction[i];
            residual[i] -= length * image[i];
        }
        double before = square;
        square = dot(residual, residual);
        for (std::size_t i = 0; i < x.size(); i++)
            direction[i] = residual[i] + square / before * direction[i];
    }
}

// One step: a row is heated, then the heat spreads.
static void advance(long rows, const Part &part, const Neighbours &n, long step)
{
    Vector heat(part.heat, part.heat + part.rows());
    long heated = step * 7919 % rows;
    if (part.has(heated))
        heat[static_cast<std::size_t>(heated - part.first)] += 1;
    solve(part, n, heat);
    std::copy(heat.begin(), heat.end(), part.heat);
    for (std::size_t i = 0; i < heat.size(); i++)
        part.sums[i] += heat[i];
}

static double checksum(const Part &part)
{
    double mine = 0, all = 0;
    for (long row = part.first; row < part.end; row++)
        mine += part.sums[row - part.first] * static_cast<double>(1 + row % 10);
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4)
        fail("usage: sparse_cg MATRIX STEPS SLEEP_US");
    const char *path = argv[1];
    long steps = std::atol(argv[2]), step = 0;
    std::chrono::microseconds pause(std::atol(argv[3]));

    long rows = count_rows(path);
    Part part = divide(rows);
    std::vector<std::size_t> offsets{0};
    for (std::size_t length : measure(path, part))
        offsets.push_back(offsets.back() + length);
    std::vector<std::int64_t> columns(offsets.back());
    std::vector<double> values(offsets.back()), heat(part.rows()), sums(part.rows());
    part.offsets = offsets.data();
    part.columns = columns.data();
    part.values = values.data();
    part.heat = heat.data();
    part.sums = sums.data();
    read_rows(path, part);

    Neighbours neighbours = connect(rows, part);
    for (; step < steps; step++) {
        advance(rows, part, neighbours, step);
        std::this_thread::sleep_for(pause);
    }

    double sum = checksum(part);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        std::printf("sparse_cg: iterations %ld ranks %d checksum %.12e\n", steps, size, sum);
    MPI_Finalize();
    return 0;
}
