/* A rank starts two more of itself and adds with them. */
#include <mpi.h>
#include <stdio.h>

int main(int count, char **arguments)
{
    int rank, all, sum = 0;
    MPI_Comm parent, between, merged;

    MPI_Init(&count, &arguments);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        char *to_children[] = {"child", "of mine", NULL};
        MPI_Comm_spawn(arguments[0], to_children, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
    } else {
        between = parent;
    }
    MPI_Intercomm_merge(between, parent != MPI_COMM_NULL, &merged);
    MPI_Comm_rank(merged, &rank);
    MPI_Comm_size(merged, &all);
    int own = rank + 1;
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, merged);
    printf("%s rank %d of %d sum %d\n", parent == MPI_COMM_NULL ? "parent" : arguments[2], rank, all, sum);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&between);
    MPI_Finalize();
    return sum == all * (all + 1) / 2 ? 0 : 1;
}
