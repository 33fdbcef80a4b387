//! The declarations of this crate against the `mpi.h` of the Open MPI that `cargo xtask setup` installs, by its own
//! compiler. Where there is none, nothing is there to compare with.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../mpi-abi/tests/declared/mod.rs"]
mod declared;

use mpi_abi_openmpi::{MPI_COMM_DUP_FN, MPI_Comm, MPI_IN_PLACE, MPI_Request, MPI_STATUS_IGNORE, MPI_Status};
use std::{fs, mem::offset_of, path::Path};

const COMPILER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../.mpi-open/bin/mpicc");

/// What the lines of the source do not say by themselves. A predefined handle is a macro, which must name the object.
const LAYOUT: &str = "\
#include <mpi.h>
#include <stddef.h>
#define SAME(what, value) _Static_assert((long)(what) == (long)(value), #what)
#define TEXT(what) #what
#define NAMES(what, kind, object) \
    _Static_assert(__builtin_strcmp(TEXT(what), \"((\" #kind \") ((void *) &(\" #object \")))\") == 0, #what)
SAME(sizeof(MPI_Comm), sizeof(void *));
SAME(sizeof(MPI_Datatype), sizeof(void *));
SAME(sizeof(MPI_Errhandler), sizeof(void *));
SAME(sizeof(MPI_Group), sizeof(void *));
SAME(sizeof(MPI_Info), sizeof(void *));
SAME(sizeof(MPI_Message), sizeof(void *));
SAME(sizeof(MPI_Op), sizeof(void *));
SAME(sizeof(MPI_Request), sizeof(void *));
SAME(sizeof(MPI_Session), sizeof(void *));
SAME(sizeof(MPI_Win), sizeof(void *));
SAME(sizeof(MPI_File), sizeof(void *));
SAME(sizeof(MPI_Aint), sizeof(long));
SAME(sizeof(MPI_Count), sizeof(long long));
SAME(sizeof(MPI_Offset), sizeof(long long));
SAME(sizeof(MPI_Status), 4 * sizeof(int) + sizeof(size_t));
SAME(offsetof(MPI_Status, MPI_SOURCE), 0);
SAME(offsetof(MPI_Status, MPI_TAG), sizeof(int));
SAME(offsetof(MPI_Status, MPI_ERROR), 2 * sizeof(int));
SAME(offsetof(MPI_Status, _cancelled), 3 * sizeof(int));
SAME(offsetof(MPI_Status, _ucount), 4 * sizeof(int));
SAME(MPI_STATUS_IGNORE, 0);
SAME(MPI_STATUSES_IGNORE, 0);
SAME(MPI_IN_PLACE, 1);
static MPI_Comm_copy_attr_function *const copies = MPI_COMM_DUP_FN;
";

#[test]
fn every_line_is_that_of_the_header_and_one_that_differs_is_found() {
    let text = declared::all(LAYOUT);
    let text = LAYOUT.to_owned() + &are_declared(&text) + text.trim_start_matches(LAYOUT);
    let planted = [
        ("SAME(MPI_ERR_COMM, 5);", "SAME(MPI_ERR_COMM, 6);"),
        (
            "NAMES(MPI_ERRORS_RETURN, MPI_Errhandler, ompi_mpi_errors_return);",
            "NAMES(MPI_ERRORS_RETURN, MPI_Errhandler, ompi_mpi_errors_are_fatal);",
        ),
        (
            "NAMES(MPI_CXX_BOOL, MPI_Datatype, ompi_mpi_cxx_bool);",
            "NAMES(MPI_CXX_BOOL, MPI_Op, ompi_mpi_cxx_bool);",
        ),
        ("int PMPI_Barrier(MPI_Comm);", "int PMPI_Barrier(MPI_Comm, int);"),
        ("sizeof(&PMPI_Barrier)", "sizeof(&PMPI_Barrier_c)"),
    ];
    if !Path::new(COMPILER).exists() {
        eprintln!("not compared: there is no Open MPI");
        return;
    }
    declared::compare(Some(COMPILER), &[], &text, &planted);
}

/// A prototype of what the header does not have would pass: the functions that Open MPI has must be in it.
fn are_declared(text: &str) -> String {
    let lacks = concat!(env!("CARGO_MANIFEST_DIR"), "/../pcm-lib-openmpi/lacks.txt");
    let lacks = fs::read_to_string(lacks).unwrap();
    let declared = text.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("int ")?.split_once('(')?;
        let of_mpi = name.strip_prefix('P').unwrap_or(name);
        let is_there = lacks.lines().all(|lacked| lacked != of_mpi);
        is_there.then(|| format!("SAME(sizeof(&{name}), sizeof(void *));\n"))
    });
    declared.collect()
}

#[test]
fn a_status_and_a_handle_are_laid_out_as_open_mpi_says() {
    assert_eq!((size_of::<MPI_Status>(), align_of::<MPI_Status>()), (24, 8));
    let fields = [
        offset_of!(MPI_Status, MPI_SOURCE),
        offset_of!(MPI_Status, MPI_TAG),
        offset_of!(MPI_Status, MPI_ERROR),
        offset_of!(MPI_Status, cancelled),
        offset_of!(MPI_Status, bytes),
    ];
    assert_eq!(fields, [0, 4, 8, 12, 16]);
    let handles = [size_of::<MPI_Comm>(), size_of::<MPI_Request>()];
    assert_eq!(handles, [size_of::<*mut u8>(); 2]);
    assert!(MPI_STATUS_IGNORE.is_null() && MPI_IN_PLACE.addr() == 1);
    assert_eq!(MPI_COMM_DUP_FN, None, "it is a function there");
}
