// conjugate_gradients.hpp: what sparse_cg computes, in both versions: reading and checking of this rank's rows, lists
// of elements to exchange, and implicit steps by the method of conjugate gradients.
//
// The bits of all results are the same on any number of ranks, however the rows are divided: the entries of a row are
// added in the order of their columns, and sums over rows are exact until the end.
#ifndef CONJUGATE_GRADIENTS_HPP
#define CONJUGATE_GRADIENTS_HPP

#include "matrix_file.hpp"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <mpi.h>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

// This rank's rows of the matrix. Row i of them has the entries from offsets[i] to offsets[i + 1]: columns of the
// matrix, counted from 0, and values. Then a temperature and a sum of temperatures per row.
struct Part {
    std::vector<long> numbers; // of the rows, rising
    long all;                  // rows of the whole matrix
    const std::size_t *offsets;
    std::int64_t *columns;
    double *values, *heat, *sums;
    std::function<int(long)> owner; // the rank of any row

    std::size_t rows() const { return numbers.size(); }
    std::size_t entries() const { return offsets[rows()]; }
    // Where a row is among those of this rank, or -1.
    long place(long row) const
    {
        auto found = std::lower_bound(numbers.begin(), numbers.end(), row);
        return found != numbers.end() && *found == row ? found - numbers.begin() : -1;
    }
};

// Which elements of a vector this rank gets from others and sends to others.
struct Neighbours {
    std::vector<int> get, get_at, send, send_at; // numbers per rank, and where they begin
    std::vector<long> sent;                      // places of rows, in the order of the ranks that need them
    std::vector<long> places;                    // of each entry's column: in the part, or behind it
};

// ---- what goes wrong, and what is sent -------------------------------------------------------------------------

// Does `work` on all ranks. If it throws on some, the first of these prints its text, and the program ends everywhere.
template <typename Work> void together(Work work)
{
    std::string wrong;
    try {
        work();
    } catch (const std::exception &error) {
        wrong = error.what();
    }
    int rank, size, first;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int mine = wrong.empty() ? size : rank;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == size)
        return;
    if (rank == first)
        std::fprintf(stderr, "sparse_cg: %s\n", wrong.c_str());
    MPI_Finalize();
    std::exit(1);
}

inline std::vector<int> starts(const std::vector<int> &counts)
{
    std::vector<int> at(counts.size());
    std::partial_sum(counts.begin(), counts.end() - 1, at.begin() + 1);
    return at;
}

// Sends a list to each rank. Returns what came, in the order of ranks, and writes how much from each to `counts`.
template <typename T> std::vector<T> exchange(const std::vector<std::vector<T>> &lists, std::vector<int> &counts)
{
    std::vector<int> own;
    std::vector<T> sent;
    for (const auto &list : lists) {
        own.push_back(static_cast<int>(list.size()));
        sent.insert(sent.end(), list.begin(), list.end());
    }
    counts.resize(own.size());
    MPI_Alltoall(own.data(), 1, MPI_INT, counts.data(), 1, MPI_INT, MPI_COMM_WORLD);
    std::vector<int> own_at = starts(own), at = starts(counts);
    std::vector<T> came(static_cast<std::size_t>(at.back() + counts.back()));
    MPI_Datatype item;
    MPI_Type_contiguous(sizeof(T), MPI_BYTE, &item);
    MPI_Type_commit(&item);
    MPI_Alltoallv(sent.data(), own.data(), own_at.data(), item, came.data(), counts.data(), at.data(), item,
                  MPI_COMM_WORLD);
    MPI_Type_free(&item);
    return came;
}

inline std::size_t ranks()
{
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return static_cast<std::size_t>(size);
}

// ---- the rows --------------------------------------------------------------------------------------------------

// The number of entries in each row of the matrix: what the row costs.
inline std::vector<double> row_lengths(const char *path)
{
    MatrixFile file(path);
    std::vector<double> lengths(static_cast<std::size_t>(file.rows()));
    file.for_each_entry([&](const Entry &entry) { lengths[static_cast<std::size_t>(entry.row)]++; });
    return lengths;
}

// Reads this rank's rows, each in the order of its columns. An entry that the file has twice is refused: programs
// differ in what they make of it.
inline void read_rows(const char *path, const Part &part)
{
    std::vector<std::vector<Entry>> found(part.rows());
    MatrixFile(path).for_each_entry([&](const Entry &entry) {
        long place = part.place(entry.row);
        if (place >= 0)
            found[static_cast<std::size_t>(place)].push_back(entry);
    });
    std::size_t next = 0;
    auto wrong = [&](const std::string &where, long row, long column, const char *what) {
        std::string entry = "(" + std::to_string(row + 1) + ", " + std::to_string(column + 1) + ")";
        throw std::runtime_error(path + where + ": entry " + entry + " " + what);
    };
    for (std::size_t i = 0; i < found.size(); i++) {
        auto by_column = [](const Entry &one, const Entry &other) { return one.column < other.column; };
        std::stable_sort(found[i].begin(), found[i].end(), by_column);
        double diagonal = 0;
        long before = -1;
        for (const Entry &entry : found[i]) {
            if (entry.column == before)
                wrong(", line " + std::to_string(entry.line), entry.row, entry.column, "is there twice");
            before = entry.column;
            if (entry.column == entry.row)
                diagonal = entry.value;
            part.columns[next] = entry.column;
            part.values[next++] = entry.value;
        }
        if (!(diagonal > 0))
            wrong("", part.numbers[i], part.numbers[i], "is not positive: the matrix is not positive definite");
    }
}

// Throws unless the matrix is symmetric. Each entry above the diagonal goes to the rank that has its counterpart.
inline void check_symmetry(const char *path, const Part &part)
{
    struct Sent {
        std::int64_t row, column;
        double value;
    };
    std::vector<std::vector<Sent>> lists(ranks());
    for (std::size_t row = 0; row < part.rows(); row++)
        for (std::size_t i = part.offsets[row]; i < part.offsets[row + 1]; i++)
            if (part.columns[i] > part.numbers[row])
                lists[static_cast<std::size_t>(part.owner(part.columns[i]))].push_back(
                    {part.numbers[row], part.columns[i], part.values[i]});
    std::vector<int> counts;
    std::vector<char> is_matched(part.entries());
    auto wrong = [&](std::int64_t row, std::int64_t column, double value, const double *other) {
        std::array<char, 200> text{};
        auto i = static_cast<long long>(row) + 1, j = static_cast<long long>(column) + 1;
        int length = std::snprintf(text.data(), text.size(), "entry (%lld, %lld) is %.17g, but ", i, j, value);
        auto at = static_cast<std::size_t>(length);
        if (other != nullptr)
            std::snprintf(text.data() + at, text.size() - at, "(%lld, %lld) is %.17g", j, i, *other);
        else
            std::snprintf(text.data() + at, text.size() - at, "there is no (%lld, %lld)", j, i);
        throw std::runtime_error(std::string(path) + ": the matrix is not symmetric: " + text.data());
    };
    for (const Sent &upper : exchange(lists, counts)) {
        auto row = static_cast<std::size_t>(part.place(upper.column));
        std::int64_t *end = part.columns + part.offsets[row + 1];
        std::int64_t *found = std::lower_bound(part.columns + part.offsets[row], end, upper.row);
        bool is_there = found != end && *found == upper.row;
        auto i = static_cast<std::size_t>(found - part.columns);
        if (!is_there || part.values[i] < upper.value || part.values[i] > upper.value)
            wrong(upper.row, upper.column, upper.value, is_there ? &part.values[i] : nullptr);
        is_matched[i] = 1;
    }
    for (std::size_t row = 0; row < part.rows(); row++)
        for (std::size_t i = part.offsets[row]; i < part.offsets[row + 1]; i++)
            if (part.columns[i] < part.numbers[row] && !is_matched[i])
                wrong(part.numbers[row], part.columns[i], part.values[i], nullptr);
}

// Reads this rank's rows; the program ends if something is wrong with any.
inline void read_and_check(const char *path, const Part &part)
{
    together([&] { read_rows(path, part); });
    together([&] { check_symmetry(path, part); });
}

// Prints how evenly the entries are divided.
inline void print_shares(const Part &part, long step)
{
    long mine[] = {static_cast<long>(part.entries()), -static_cast<long>(part.entries())}, most[2];
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Reduce(mine, most, 2, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("sparse_cg: step %ld: %zu ranks have %ld to %ld entries each\n", step, ranks(), -most[1], most[0]);
}

// Agrees with the other ranks about the elements that this rank's rows name and others own.
inline Neighbours connect(const Part &part, long step)
{
    print_shares(part, step);
    Neighbours n;
    std::vector<std::vector<long>> wanted(ranks());
    std::map<long, long> others; // column of others to its place
    for (std::size_t i = 0; i < part.entries(); i++) {
        long column = part.columns[i];
        if (part.place(column) < 0 && others.emplace(column, 0).second)
            wanted[static_cast<std::size_t>(part.owner(column))].push_back(column);
    }
    long next = static_cast<long>(part.rows());
    for (const auto &list : wanted) {
        n.get.push_back(static_cast<int>(list.size()));
        for (long column : list)
            others[column] = next++;
    }
    for (std::size_t i = 0; i < part.entries(); i++) {
        long place = part.place(part.columns[i]);
        n.places.push_back(place < 0 ? others[part.columns[i]] : place);
    }
    n.sent = exchange(wanted, n.send);
    for (long &row : n.sent)
        row = part.place(row);
    n.get_at = starts(n.get);
    n.send_at = starts(n.send);
    return n;
}

// ---- conjugate gradients ---------------------------------------------------------------------------------------

using Vector = std::vector<double>; // the elements of this rank's rows

// The sum of term(i) of all ranks. No order changes a bit of it: each term is cut into digits of 32 bits, of 2^96,
// 2^64 … 2^-256, and those of all terms are added as integers.
template <typename Term> double sum(std::size_t count, Term term)
{
    constexpr std::size_t DIGITS = 12;
    std::array<std::int64_t, DIGITS + 1> mine{}, all{}; // and the number of terms that are no numbers or too large
    for (std::size_t i = 0; i < count; i++) {
        double rest = term(i) * 0x1p-96;
        if (!(std::abs(rest) < 0x1p30)) {
            mine[DIGITS]++;
            continue;
        }
        for (std::size_t digit = 0; digit < DIGITS && std::abs(rest) > 0; digit++) {
            auto whole = static_cast<std::int64_t>(rest);
            mine[digit] += whole;
            rest = (rest - static_cast<double>(whole)) * 0x1p32;
        }
    }
    MPI_Allreduce(mine.data(), all.data(), DIGITS + 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (all[DIGITS] > 0)
        return std::numeric_limits<double>::quiet_NaN();
    double total = 0;
    for (std::size_t digit = DIGITS; digit-- > 0;)
        total = total * 0x1p-32 + static_cast<double>(all[digit]);
    return total * 0x1p96;
}

inline double dot(const Vector &a, const Vector &b)
{
    return sum(a.size(), [&](std::size_t i) { return a[i] * b[i]; });
}

// The product of the matrix with `v`.
inline Vector product(const Part &part, const Neighbours &n, const Vector &v)
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

// The residuals of a step, a line for each iteration: step, iteration, residual.
using History = std::string;

// Replaces `x` by the solution of: matrix times solution equals x.
inline void solve(const Part &part, const Neighbours &n, Vector &x, long step, History &history)
{
    Vector residual = x, image = product(part, n, x);
    double enough = 1e-26 * dot(x, x);
    for (std::size_t i = 0; i < x.size(); i++)
        residual[i] -= image[i];
    Vector direction = residual;
    double square = dot(residual, residual);
    for (long iteration = 0;; iteration++) {
        std::array<char, 80> line{};
        std::snprintf(line.data(), line.size(), "%ld %ld %.17g", step, iteration, std::sqrt(square));
        history.append(line.data()).append("\n");
        if (square <= enough)
            return;
        image = product(part, n, direction);
        double energy = dot(direction, image);
        bool is_endless = iteration > 100 + 10 * part.all;
        if (!(energy > 0) || is_endless)
            together([&] {
                std::string why = is_endless ? "the iterations do not converge" : "the matrix is not positive definite";
                throw std::runtime_error(why + " (direction times matrix times direction is " + std::to_string(energy) +
                                         "): step, iteration, residual are " + line.data());
            });
        double length = square / energy, before = square;
        for (std::size_t i = 0; i < x.size(); i++) {
            x[i] += length * direction[i];
            residual[i] -= length * image[i];
        }
        square = dot(residual, residual);
        for (std::size_t i = 0; i < x.size(); i++)
            direction[i] = residual[i] + square / before * direction[i];
    }
}

// Rank 0 appends to the file, if one is asked for, and begins it at step 0. It opens it each time: after a change
// another process can be rank 0. After a crash some steps are written again, with the same numbers.
inline void write(const History &history, const char *path, long step)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != 0 || path == nullptr)
        return;
    std::ofstream file(path, step == 0 ? std::ios::trunc : std::ios::app);
    if (!(file << history << std::flush))
        std::fprintf(stderr, "sparse_cg: cannot write %s: %s\n", path, std::strerror(errno));
}

// One step: a row is heated, then the heat spreads.
inline void advance(const Part &part, const Neighbours &n, long step, const char *history_path)
{
    Vector heat(part.heat, part.heat + part.rows());
    long heated = part.place(step * 7919 % part.all);
    if (heated >= 0)
        heat[static_cast<std::size_t>(heated)] += 1;
    History history;
    solve(part, n, heat, step, history);
    write(history, history_path, step);
    std::copy(heat.begin(), heat.end(), part.heat);
    for (std::size_t i = 0; i < heat.size(); i++)
        part.sums[i] += heat[i];
}

inline void print_result(const Part &part, long steps)
{
    double total = sum(part.rows(), [&](std::size_t i) {
        return part.sums[i] * static_cast<double>(1 + part.numbers[i] % 10);
    });
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        std::printf("sparse_cg: iterations %ld ranks %zu checksum %.17g\n", steps, ranks(), total);
}

#endif
