// sparse_cg: how heat spreads over an unstructured mesh, by implicit steps: each solves a sparse system of equations
// with the method of conjugate gradients.
//
// The matrix comes from a file in Matrix Market format. The ranks own blocks of rows; a row is stored with its columns
// and values, filled up with zeros to the length of the longest. For products with the matrix a rank gets the elements
// of the vector that its rows name and others own. Sums of all ranks depend on their number in the last bits: results
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
#include <pcm.h>
#include <string>
#include <thread>
#include <vector>

// An element of the matrix; columns count from 0.
struct Entry {
    std::int64_t column;
    double value;
};

// What is known of the matrix before a rank has its rows.
struct Shape {
    long rows, width;
};

// This rank's rows, from `first` to `end`, `end` excluded: their matrix entries, temperatures and temperature sums.
struct Part {
    long first, end;
    Entry *matrix;
    double *heat, *sums;
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

// Calls `use(row, column, value)` for each entry of the file; returns the number of rows.
template <typename Use> static long read_matrix(const char *path, Use use)
{
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line) && line.rfind('%', 0) == 0)
        if (line.rfind("%%MatrixMarket", 0) == 0 && line != "%%MatrixMarket matrix coordinate real general")
            fail(std::string(path) + " is of another kind than \"coordinate real general\"");
    long rows = 0, columns = 0, entries = 0;
    if (std::sscanf(line.c_str(), "%ld %ld %ld", &rows, &columns, &entries) != 3 || rows < 1 || rows != columns)
        fail("cannot read a square matrix from " + std::string(path));
    long row = 0, column = 0;
    double value = 0;
    for (long i = 0; i < entries; i++) {
        if (!(file >> row >> column >> value) || row < 1 || row > rows || column < 1 || column > rows)
            fail("entry " + std::to_string(i + 1) + " of " + path + " is missing or wrong");
        use(row - 1, column - 1, value);
    }
    return rows;
}

static Shape measure(const char *path)
{
    std::map<long, long> lengths;
    long rows = read_matrix(path, [&](long row, long, double) { lengths[row]++; });
    long width = 0;
    for (auto length : lengths)
        width = std::max(width, length.second);
    return {rows, width};
}

static void read_rows(const char *path, const Shape &shape, const Part &part)
{
    std::vector<long> lengths(static_cast<std::size_t>(part.end - part.first));
    for (long i = 0; i < (part.end - part.first) * shape.width; i++)
        part.matrix[i] = {part.first + i / shape.width, 0.0};
    read_matrix(path, [&](long row, long column, double value) {
        if (row < part.first || row >= part.end)
            return;
        long &length = lengths[static_cast<std::size_t>(row - part.first)];
        part.matrix[(row - part.first) * shape.width + length++] = {column, value};
    });
}

// ---- who has what ----------------------------------------------------------------------------------------------

// Registers an array whose first axis, the rows, is divided among the ranks.
static void registered(const char *name, int element, std::vector<std::size_t> extents, bool is_constant)
{
    static const pcm_option rows{PCM_OPTION_BLOCK, 0, 0, nullptr}, constant{PCM_OPTION_CONSTANT, 0, 0, nullptr};
    const void *const form[] = {extents.data(), &rows, is_constant ? &constant : nullptr, nullptr};
    if (pcm_array_create(name, element, static_cast<int>(extents.size()), form) == nullptr)
        fail(pcm_last_error());
}

static void divide(Part &part)
{
    std::size_t first = 0, end = 0;
    pcm_bounds("heat", 0, &first, &end);
    part.first = static_cast<long>(first);
    part.end = static_cast<long>(end);
    part.matrix = static_cast<Entry *>(pcm_data("matrix"));
    part.heat = static_cast<double *>(pcm_data("heat"));
    part.sums = static_cast<double *>(pcm_data("sums"));
}

static int owner(long row)
{
    int rank = 0;
    auto index = static_cast<std::size_t>(row);
    pcm_owner("heat", &index, &rank);
    return rank;
}

// Agrees with the other ranks about the elements that this rank's rows name and others own.
static Neighbours connect(const Shape &shape, const Part &part)
{
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    Neighbours n;
    for (auto *numbers : {&n.get, &n.get_at, &n.send, &n.send_at})
        numbers->assign(static_cast<std::size_t>(size), 0);
    long entries = (part.end - part.first) * shape.width;
    std::map<long, long> others; // column of others to its place, in ascending order: that of their owners
    for (long i = 0; i < entries; i++)
        if (long column = part.matrix[i].column; column < part.first || column >= part.end)
            others[column] = 0;
    std::vector<long> wanted;
    for (auto &other : others) {
        other.second = part.end - part.first + static_cast<long>(wanted.size());
        wanted.push_back(other.first);
        n.get[static_cast<std::size_t>(owner(other.first))]++;
    }
    for (long i = 0; i < entries; i++) {
        long column = part.matrix[i].column;
        bool is_own = column >= part.first && column < part.end;
        n.places.push_back(is_own ? column - part.first : others[column]);
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
static Vector product(const Shape &shape, const Part &part, const Neighbours &n, const Vector &v)
{
    Vector outgoing, near = v, result(v.size());
    for (long row : n.sent)
        outgoing.push_back(v[static_cast<std::size_t>(row)]);
    near.resize(v.size() + static_cast<std::size_t>(n.get_at.back() + n.get.back()));
    MPI_Alltoallv(outgoing.data(), n.send.data(), n.send_at.data(), MPI_DOUBLE, near.data() + v.size(), n.get.data(),
                  n.get_at.data(), MPI_DOUBLE, MPI_COMM_WORLD);
    auto width = static_cast<std::size_t>(shape.width);
    for (std::size_t i = 0; i < v.size() * width; i++)
        result[i / width] += part.matrix[i].value * near[static_cast<std::size_t>(n.places[i])];
    return result;
}

// Replaces `x` by the solution of: matrix times solution equals x.
static void solve(const Shape &shape, const Part &part, const Neighbours &n, Vector &x)
{
    Vector residual = x, image = product(shape, part, n, x);
    double enough = 1e-26 * dot(x, x);
    for (std::size_t i = 0; i < x.size(); i++)
        residual[i] -= image[i];
    Vector direction = residual;
    for (double square = dot(residual, residual); square > enough;) {
        image = product(shape, part, n, direction);
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
static void advance(const Shape &shape, const Part &part, const Neighbours &n, long step)
{
    Vector heat(part.heat, part.heat + (part.end - part.first));
    long heated = step * 7919 % shape.rows;
    if (heated >= part.first && heated < part.end)
        heat[static_cast<std::size_t>(heated - part.first)] += 1;
    solve(shape, part, n, heat);
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

    Shape shape = measure(path);
    Part part{};
    auto rows = static_cast<std::size_t>(shape.rows), width = static_cast<std::size_t>(shape.width);
    registered("matrix", PCM_BYTES(sizeof(Entry)), {rows, width}, true);
    registered("heat", PCM_DOUBLE, {rows}, false);
    registered("sums", PCM_DOUBLE, {rows}, false);
    pcm_value("step", &step, sizeof step);
    divide(part);
    if (!pcm_joining()) // a rank that joins gets its rows from the others
        read_rows(path, shape, part);
    if (pcm_start() != PCM_OK)
        fail(pcm_last_error());

    Neighbours neighbours;
    if (!pcm_joining()) // a rank that joins does this with the others, in the loop
        neighbours = connect(shape, part);
    for (; step < steps; step++) {
        if (pcm_iterate() == PCM_CHANGED) {
            divide(part);
            neighbours = connect(shape, part);
        }
        advance(shape, part, neighbours, step);
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
