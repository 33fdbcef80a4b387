//! The declarations of this crate against the `mpi.h` of the MPI in use, by its own compiler: a library of another ABI
//! would take one handle for another. Where there is no MPI, nothing is there to compare with.
#![allow(clippy::unwrap_used, reason = "a test")]

mod declared;

/// What the lines of the source do not say by themselves.
const LAYOUT: &str = "\
#include <mpi.h>
#include <stddef.h>
#define SAME(what, value) _Static_assert((long)(what) == (long)(value), #what)
SAME(sizeof(MPI_Comm), sizeof(int));
SAME(sizeof(MPI_Datatype), sizeof(int));
SAME(sizeof(MPI_Errhandler), sizeof(int));
SAME(sizeof(MPI_Group), sizeof(int));
SAME(sizeof(MPI_Info), sizeof(int));
SAME(sizeof(MPI_Message), sizeof(int));
SAME(sizeof(MPI_Op), sizeof(int));
SAME(sizeof(MPI_Request), sizeof(int));
SAME(sizeof(MPI_Session), sizeof(int));
SAME(sizeof(MPI_Win), sizeof(int));
SAME(sizeof(MPI_File), sizeof(void *));
SAME(sizeof(MPI_Aint), sizeof(long));
SAME(sizeof(MPI_Count), sizeof(long long));
SAME(sizeof(MPI_Offset), sizeof(long long));
SAME(sizeof(MPI_Status), 5 * sizeof(int));
SAME(offsetof(MPI_Status, MPI_SOURCE), 2 * sizeof(int));
SAME(offsetof(MPI_Status, MPI_TAG), 3 * sizeof(int));
SAME(offsetof(MPI_Status, MPI_ERROR), 4 * sizeof(int));
SAME(MPI_IN_PLACE, -1);
";

#[test]
fn every_line_is_that_of_the_header_and_one_that_differs_is_found() {
    let planted = [
        ("SAME(MPI_ERR_COMM, 5);", "SAME(MPI_ERR_COMM, 6);"),
        ("int PMPI_Barrier(MPI_Comm);", "int PMPI_Barrier(MPI_Comm, int);"),
    ];
    declared::compare(None, &[], &declared::all(LAYOUT), &planted);
}
