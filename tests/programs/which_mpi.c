/* Prints the file of the MPI that it runs with: which_mpi */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    Dl_info of_mpi;
    MPI_Init(&argc, &argv);
    /* Nobody stands in front of this one. */
    if (dladdr(dlsym(RTLD_DEFAULT, "MPI_Get_version"), &of_mpi))
        printf("runs with %s\n", of_mpi.dli_fname);
    return MPI_Finalize();
}
