//! The declarations of this crate against the `mpi.h` that the MPI in use has for programs of the standard ABI, by its
//! own compiler. Where there is none, nothing is there to compare with.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../mpi-abi/tests/declared/mod.rs"]
mod declared;

use mpi_abi_standard::{MPI_COMM_DUP_FN, MPI_Comm, MPI_Request, MPI_Status};
use std::{mem::offset_of, path::Path, ptr};

/// By this an MPI with both ABIs knows which one is meant.
const STANDARD: [&str; 1] = ["-DMPI_ABI"];

/// What the lines of the source do not say by themselves.
const LAYOUT: &str = "\
#include <mpi.h>
#include <stddef.h>
#define SAME(what, value) _Static_assert((long)(what) == (long)(value), #what)
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
SAME(sizeof(MPI_Status), 8 * sizeof(int));
SAME(offsetof(MPI_Status, MPI_SOURCE), 0);
SAME(offsetof(MPI_Status, MPI_TAG), sizeof(int));
SAME(offsetof(MPI_Status, MPI_ERROR), 2 * sizeof(int));
SAME(MPI_STATUS_IGNORE, 0);
SAME(MPI_STATUSES_IGNORE, 0);
SAME(MPI_COMM_NULL_COPY_FN, 0);
SAME(MPI_COMM_NULL_DELETE_FN, 0);
SAME(MPI_ERRORS_RETURN, 0x143);
";

/// Whether the MPI in use has the standard ABI.
fn is_there() -> bool {
    let asked = "#include <mpi.h>\n#ifndef MPI_ABI_VERSION\n#error\n#endif\n";
    let is_there = declared::said_to(None, &STANDARD, asked).is_some_and(|(agrees, _)| agrees);
    if !is_there {
        eprintln!("not compared: the MPI in use has no standard ABI");
    }
    is_there
}

#[test]
fn every_line_is_that_of_the_header_and_one_that_differs_is_found() {
    let text = declared::all(LAYOUT);
    assert!(text.contains("SAME(MPI_IN_PLACE, 1);"), "{text}");
    let planted = [
        ("SAME(MPI_ERR_COMM, 5);", "SAME(MPI_ERR_COMM, 6);"),
        ("SAME(MPI_ERRORS_RETURN, 0x143);", "SAME(MPI_ERRORS_RETURN, 0x142);"),
        ("int PMPI_Barrier(MPI_Comm);", "int PMPI_Barrier(MPI_Comm, int);"),
    ];
    if is_there() {
        declared::compare(None, &STANDARD, &text, &planted);
        let duplicate = MPI_COMM_DUP_FN.unwrap();
        let same = format!("#include <mpi.h>\n_Static_assert((long)MPI_COMM_DUP_FN == {duplicate}, \"\");\n");
        let (agrees, said) = declared::said_to(None, &STANDARD, &same).unwrap();
        assert!(agrees, "{said}");
    }
}

/// The one that differs is said by a function, by what the MPI says of itself.
#[test]
fn every_number_but_one_is_that_of_intels_header_too() {
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../.mpi-intel/include");
    if !Path::new(&include["-I".len()..]).is_dir() {
        eprintln!("not compared: Intel MPI is not installed");
        return;
    }
    // Prototypes differ in words that change no call, as `const`.
    let all = declared::all(LAYOUT);
    let lines = all.lines().filter(|line| line.starts_with(['#', 'S']));
    let own: String = lines.flat_map(|line| [line, "\n"]).collect();
    let of_intel = own.replace("SAME(MPI_ERRORS_RETURN, 0x143);", "SAME(MPI_ERRORS_RETURN, 0x142);");
    assert!(own.lines().count() > 100 && own != of_intel, "{own}");
    for (text, is_its) in [(of_intel, true), (own, false)] {
        let (agrees, said) = declared::said_to(Some("gcc"), &["-DMPI_ABI", include], &text).unwrap();
        assert_eq!(agrees, is_its, "{said}");
    }
}

#[test]
fn a_status_and_a_handle_are_laid_out_as_the_standard_says() {
    assert_eq!(size_of::<MPI_Status>(), 32);
    assert_eq!(align_of::<MPI_Status>(), 4);
    let fields = [
        offset_of!(MPI_Status, MPI_SOURCE),
        offset_of!(MPI_Status, MPI_TAG),
        offset_of!(MPI_Status, MPI_ERROR),
        offset_of!(MPI_Status, MPI_internal),
    ];
    assert_eq!(fields, [0, 4, 8, 12]);
    let handles = [size_of::<MPI_Comm>(), size_of::<MPI_Request>()];
    assert_eq!(handles, [size_of::<*mut u8>(); 2]);
    assert_eq!(mpi_abi_standard::MPI_STATUS_IGNORE, ptr::null_mut());
}
