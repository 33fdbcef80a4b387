/* Mistakes in collective operations over sites: each is an error at the rank that made it, at the call or when it
 * waits, with the code that MPI gives for it, and no rank hangs. Each form: 0 blocking, 1 nonblocking, 2 persistent. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int wrong;

static void expect(int code, int class, const char *what, int form)
{
    int found;
    MPI_Error_class(code, &found);
    if (found != class) {
        printf("%s, form %d: class %d instead of %d\n", what, form, found, class);
        wrong = 1;
    }
}

static int finish(int code, MPI_Request *request, int form)
{
    if (code != MPI_SUCCESS || form == 0)
        return code;
    if (form == 2 && (code = MPI_Start(request)) != MPI_SUCCESS)
        return code;
    code = MPI_Wait(request, MPI_STATUS_IGNORE);
    if (*request != MPI_REQUEST_NULL)
        MPI_Request_free(request);
    return code;
}

static int bcast(void *data, int count, int root, MPI_Comm comm, int form)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = form == 0   ? MPI_Bcast(data, count, MPI_INT, root, comm)
               : form == 1 ? MPI_Ibcast(data, count, MPI_INT, root, comm, &request)
                           : MPI_Bcast_init(data, count, MPI_INT, root, comm, MPI_INFO_NULL, &request);
    return finish(code, &request, form);
}

static int reduce(int *from, int *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, int form)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = form == 0   ? MPI_Allreduce(from, to, count, type, op, comm)
               : form == 1 ? MPI_Iallreduce(from, to, count, type, op, comm, &request)
                           : MPI_Allreduce_init(from, to, count, type, op, comm, MPI_INFO_NULL, &request);
    return finish(code, &request, form);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, data[8] = {0}, sum[8];
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int form = 0; form < 3; form++) {
        expect(bcast(data, 4, size, comm, form), MPI_ERR_ROOT, "a root that is no rank", form);
        expect(bcast(data, -1, 0, comm, form), MPI_ERR_COUNT, "a count below 0", form);
        expect(bcast(data, 4, 0, MPI_COMM_NULL, form), MPI_ERR_COMM, "no communicator", form);
        expect(reduce(data, sum, 4, MPI_INT, MPI_OP_NULL, comm, form), MPI_ERR_OP, "no operation", form);
        expect(reduce(data, sum, 4, MPI_DOUBLE, MPI_BAND, comm, form), MPI_ERR_OP, "bits of reals", form);
        /* The last rank has less room than is sent. */
        int less = rank == size - 1, code = bcast(data, less ? 2 : 4, 0, comm, form);
        if (less ? code == MPI_SUCCESS : code != MPI_SUCCESS) {
            printf("rank %d of %d, form %d: code %d of a message that is too long\n", rank, size, form, code);
            wrong = 1;
        }
        /* All of it leaves the communicator as it was. */
        for (int i = 0; i < 8; i++)
            data[i] = rank + i;
        expect(reduce(data, sum, 8, MPI_INT, MPI_SUM, comm, form), MPI_SUCCESS, "a sum afterwards", form);
        for (int i = 0; i < 8; i++)
            if (sum[i] != size * (size - 1) / 2 + i * size)
                wrong = 1;
    }
    int all;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_MAX, comm);
    if (rank == 0 && !all)
        printf("all right with %d ranks\n", size);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
