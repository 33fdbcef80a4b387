/* Runs what docs/guide-data.md shows, put before this. */
#include <stdio.h>
#include <stdlib.h>

static void expect(int is_right, const char *what)
{
    if (!is_right) {
        fprintf(stderr, "not right: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    int dims[2] = {0, 0}, wraps[2] = {0, 0}, size, rank, before, after, rows, cols;
    MPI_Comm grid;
    MPI_Init(&argc, &argv);
    begin_to_measure();
    begin();
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, wraps, 0, &grid);
    MPI_Cart_shift(grid, 0, 1, &before, &after);
    expect(above == before && below == after, "the neighbours along axis 0 are those of MPI_Cart_create");
    MPI_Cart_shift(grid, 1, 1, &before, &after);
    expect(left == before && right == after, "the neighbours along axis 1 are those of MPI_Cart_create");
    MPI_Comm_size(same_rows, &cols);
    MPI_Comm_size(same_cols, &rows);
    expect(rows == dims[0] && cols == dims[1], "the communicators are the lines of the grid");

    expect(seconds_so_far() >= 0 && seconds_so_far() < 100, "the time since the beginning");
    printf("rank %d of %d is right\n", rank, size);
    MPI_Finalize();
    return 0;
}
