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
    static double width = 8.0;
    size_t start, end, count;
    triangle(20);
    pcm_bounds("b", 0, &start, &end);
    const size_t *offsets = pcm_row_offsets("matrix");
    const int *columns = pcm_row_entries("matrix", 0);
    expect(offsets[1] - offsets[0] == start + 1 && columns[start] == (int)start, "the first row of a triangle");
    expect(offsets[end - start] == (end * (end + 1) - start * (start + 1)) / 2, "the entries of the rows");
    static double costs[40], places[30];
    static int owners[30];
    register_sums(40, costs);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pcm_bounds("sums", 0, &start, &end);
    double cost = 0, ideal = 820.0 / size;
    for (size_t row = start; row < end; row++)
        cost += costs[row];
    expect(cost > ideal - 40 && cost < ideal + 40, "rows by their costs");
    for (int cell = 0; cell < 30; cell++) {
        places[cell] = cell % 7 / 7.0;
        owners[cell] = cell * 11 % 30 % size;
    }
    register_ring(30, owners, places);
    const size_t *numbers = pcm_row_numbers("cells", &count);
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        expect(owners[numbers[i]] == rank, "a cell of its owner");
        wanted += (size_t)(owners[(numbers[i] + 1) % 30] != rank) + (size_t)(owners[(numbers[i] + 29) % 30] != rank);
    }
    expect(ghost_count == wanted, "the ghosts");
    expect(divide_by_place(places, 4, owners, 30) == 0 && owners[6] == 3 && owners[7] == 0, "owners by place");
    register_particles(&width);
    append((particle){.x = 1.0, .vx = 2.0});
    append((particle){.x = 7.0});
    move_all(0.5);
    const particle *all = pcm_record_data("particles", &count);
    expect(count == 2 && all[0].x == 2.0 && all[1].x == 7.0, "particles that were appended and moved");
    expect(rank_by_place(&width, &all[0], 4) == 1 && rank_by_place(&width, &all[1], 4) == 3, "ranks of particles");
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
