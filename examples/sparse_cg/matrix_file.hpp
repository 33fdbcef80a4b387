// matrix_file.hpp: a sparse square matrix in Matrix Market format ("coordinate real", general or symmetric), read line
// by line. What is wrong with it is an exception, whose text names the file and the line.
#ifndef MATRIX_FILE_HPP
#define MATRIX_FILE_HPP

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

// Rows and columns count from 0 here, and from 1 in the file.
struct Entry {
    long row, column;
    double value;
    long line;
};

class MatrixFile {
  public:
    // As many rows as PCM_COSTS takes.
    static constexpr long ROWS_MAX = 4194304;

    // Reads the head.
    explicit MatrixFile(const std::string &path) : path_(path), file_(path)
    {
        if (!file_)
            throw std::runtime_error(path_ + ": cannot open it: " + std::strerror(errno));
        next_line(true);
        std::istringstream words(text_);
        std::string mark, object, format, field, symmetry, more;
        words >> mark >> object >> format >> field >> symmetry >> more;
        symmetric_ = symmetry == "symmetric";
        if (mark != "%%matrixmarket" || object != "matrix" || format != "coordinate" || field != "real" ||
            !(symmetric_ || symmetry == "general") || !more.empty())
            wrong("\"%%MatrixMarket matrix coordinate real general\", or symmetric, must stand here");
        long columns = 0;
        char beyond = 0;
        next_line(false);
        if (std::sscanf(text_.c_str(), "%ld %ld %ld %c", &rows_, &columns, &entries_, &beyond) != 3 || entries_ < 0)
            wrong("the numbers of rows, columns and entries must stand here");
        if (rows_ != columns)
            wrong("the matrix is not square");
        if (rows_ < 1 || rows_ > ROWS_MAX)
            wrong("a matrix of 1 to " + std::to_string(ROWS_MAX) + " rows is possible here");
    }

    long rows() const { return rows_; }

    // Calls `use(entry)` for each entry, in the order of the file. A symmetric file has one line for both entries of
    // a pair; they come one after the other.
    template <typename Use> void for_each_entry(Use use)
    {
        for (long i = 0; i < entries_; i++) {
            if (!next_line(false))
                wrong("the file ends here: " + std::to_string(i) + " of " + std::to_string(entries_) +
                      " entries are there");
            Entry entry{0, 0, 0, line_};
            char beyond = 0;
            if (std::sscanf(text_.c_str(), "%ld %ld %lf %c", &entry.row, &entry.column, &entry.value, &beyond) != 3)
                wrong("row, column and value of an entry must stand here");
            if (entry.row < 1 || entry.row > rows_ || entry.column < 1 || entry.column > rows_)
                wrong("row or column is not between 1 and " + std::to_string(rows_));
            if (!std::isfinite(entry.value))
                wrong("the value is no finite number");
            entry.row--, entry.column--;
            use(entry);
            if (symmetric_ && entry.row != entry.column)
                use(Entry{entry.column, entry.row, entry.value, line_});
        }
        if (next_line(false))
            wrong("there are more than " + std::to_string(entries_) + " entries");
    }

  private:
    // Reads a line into text_; false at the end of the file. Only the first may be a comment that counts.
    bool next_line(bool is_first)
    {
        do {
            line_++;
            if (!std::getline(file_, text_)) {
                if (file_.bad())
                    wrong("cannot read on: " + std::string(std::strerror(errno)));
                text_.clear();
                return false;
            }
            if (is_first)
                for (char &letter : text_)
                    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
        } while (!is_first && (text_[0] == '%' || text_.find_first_not_of(" \t\r") == std::string::npos));
        return true;
    }

    [[noreturn]] void wrong(const std::string &what) const
    {
        throw std::runtime_error(path_ + ", line " + std::to_string(line_) + ": " + what);
    }

    std::string path_, text_;
    std::ifstream file_;
    bool symmetric_ = false;
    long rows_ = 0, entries_ = 0, line_ = 0;
};

#endif
