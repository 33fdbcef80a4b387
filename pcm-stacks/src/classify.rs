//! Whose code a frame is: the program's, MPI's, the system's, or an interpreter's. Pure.

use std::path::Path;

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Program,
    /// MPI with its transports, and libpcm.
    Mpi,
    /// The C library, the start of a program and libraries of compilers.
    System,
    Interpreter,
}

const MPI: [&str; 17] = [
    "libmpi",
    "libpmpi",
    "libpcm.",
    "libpcm_abi.",
    "libpcm_openmpi.",
    "libfabric",
    "libucp",
    "libuct",
    "libucs",
    "libucm",
    "libpsm",
    "librdmacm",
    "libibverbs",
    "libpmi",
    "libhwloc",
    "libopen-pal",
    "libopen-rte",
];

const SYSTEM: [&str; 17] = [
    "[vdso]",
    "[vsyscall]",
    "libc.so",
    "libc-",
    "ld-linux",
    "ld-2",
    "libpthread",
    "libm.so",
    "libm-",
    "libdl",
    "librt.so",
    "libgcc_s",
    "libstdc++",
    "libgfortran",
    "libgomp",
    "libquadmath",
    "libffi.so",
];

/// Whose a file is, by its name and its folders.
pub(crate) fn of_file(name: &str, path: Option<&Path>) -> Whose {
    let folder = path.and_then(Path::parent);
    let lies_in = |names: &str| folder.is_some_and(|folder| folder.ends_with(names));
    if lies_in("lib-dynload") {
        Whose::Interpreter
    } else if lies_in("mpi4py") {
        Whose::Mpi
    } else {
        of_module(name)
    }
}

fn of_module(name: &str) -> Whose {
    let begins = |names: &[&str]| names.iter().any(|one| name.starts_with(one));
    if begins(&MPI) {
        Whose::Mpi
    } else if begins(&SYSTEM) {
        Whose::System
    } else if is_python(name) {
        Whose::Interpreter
    } else {
        Whose::Program
    }
}

/// Whether a file is the interpreter of Python or its library.
pub(crate) fn is_python(name: &str) -> bool {
    let rest = name.strip_prefix("lib").unwrap_or(name).strip_prefix("python");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// Whose a function is that lies in a program's own file, by its name and its source.
pub(crate) fn of_function(name: &str, source: Option<&str>) -> Whose {
    // Parts of the C++ library are compiled into programs.
    if source.is_some_and(|source| source.contains("/include/") && source.contains("/c++/")) {
        return Whose::System;
    }
    let begins = |names: &[&str]| names.iter().any(|one| name.starts_with(one));
    if begins(&[
        "MPI_",
        "PMPI_",
        "MPIR_",
        "MPID_",
        "MPIDI_",
        "pcm_lib::",
        "<pcm_lib::",
        "mpi_abi::",
    ]) {
        Whose::Mpi
    } else if begins(&["std::", "core::", "alloc::", "<std::", "<core::", "<alloc::"]) || START.contains(&name) {
        Whose::System
    } else {
        Whose::Program
    }
}

/// What runs before `main`.
const START: [&str; 3] = ["_start", "__libc_start_main", "__libc_start_call_main"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_functions_have_owners() {
        for (name, whose) in [
            ("heat2d", Whose::Program),
            ("libmpich.so.12", Whose::Mpi),
            ("libpcm.so.0", Whose::Mpi),
            ("libpcm_abi.so.0", Whose::Mpi),
            ("libpcm_openmpi.so.0", Whose::Mpi),
            ("libpcmodel.so", Whose::Program),
            ("libc.so.6", Whose::System),
            ("libcfd.so", Whose::Program),
            ("[vdso]", Whose::System),
            ("python3.11", Whose::Interpreter),
            ("libpython3.13.so.1.0", Whose::Interpreter),
            ("pythonic", Whose::Program),
        ] {
            assert_eq!(of_module(name), whose, "{name}");
        }
        for (path, whose) in [
            (
                "/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so",
                Whose::Interpreter,
            ),
            (
                "/env/site-packages/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so",
                Whose::Mpi,
            ),
            ("/home/user/solver/fast.cpython-311-x86_64-linux-gnu.so", Whose::Program),
        ] {
            let path = Path::new(path);
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            assert_eq!(of_file(name, Some(path)), whose, "{name}");
        }
        let gthr = "/usr/include/x86_64-linux-gnu/c++/14/bits/gthr-default.h";
        for (function, source, whose) in [
            ("PMPI_Recv", None, Whose::Mpi),
            ("exchange", Some("/home/user/include/exchange.hpp"), Whose::Program),
            ("core::ops::function::FnOnce::call_once", None, Whose::System),
            ("__gthread_mutex_lock", Some(gthr), Whose::System),
        ] {
            assert_eq!(of_function(function, source), whose, "{function}");
        }
    }
}
