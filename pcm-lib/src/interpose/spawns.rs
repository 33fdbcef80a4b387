//! Spawns: what the process manager refuses is an error of the class that MPI has for it. MPICH says "other",
//! Open MPI "unknown".
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(non_snake_case, reason = "the names are those of MPI")]
#![allow(clippy::too_many_arguments, reason = "signatures are those of MPI")]

use super::spawn_hints::Hints;
use mpi_abi::{MPI_Comm, MPI_Errhandler, MPI_Info};
use std::os::raw::{c_int, c_void};

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Comm_spawn(
    command: *mut c_void,
    arguments: *mut c_void,
    processes: c_int,
    info: MPI_Info,
    root: c_int,
    communicator: MPI_Comm,
    made: *mut MPI_Comm,
    codes: *mut c_int,
) -> c_int {
    let (command, arguments) = (command.cast(), arguments.cast());
    // SAFETY: the caller's contract.
    unsafe {
        raised_as_spawn(communicator, || {
            let own = Hints::passing_path(&info, 1, (root, communicator));
            let info = own.as_ref().map_or(info, |own| own.all[0]);
            mpi_abi::PMPI_Comm_spawn(command, arguments, processes, info, root, communicator, made, codes)
        })
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Comm_spawn_multiple(
    count: c_int,
    commands: *mut c_void,
    arguments: *mut c_void,
    processes: *const c_int,
    infos: *const MPI_Info,
    root: c_int,
    communicator: MPI_Comm,
    made: *mut MPI_Comm,
    codes: *mut c_int,
) -> c_int {
    let (all, of_all) = (commands.cast(), arguments.cast());
    // SAFETY: the caller's contract.
    unsafe {
        raised_as_spawn(communicator, || {
            let own = Hints::passing_path(infos, count, (root, communicator));
            let infos = own.as_ref().map_or(infos, |own| own.all.as_ptr());
            mpi_abi::PMPI_Comm_spawn_multiple(count, all, of_all, processes, infos, root, communicator, made, codes)
        })
    }
}

/// Calls with a handler that returns, so that the handler which the program chose hears the right class.
///
/// # Safety
/// `communicator` is what the caller of MPI gave.
unsafe fn raised_as_spawn(communicator: MPI_Comm, spawn: impl FnOnce() -> c_int) -> c_int {
    let mut chosen: MPI_Errhandler = mpi_abi::MPI_ERRHANDLER_NULL();
    // SAFETY: MPI checks the communicator; `chosen` is a local, and freed as often as it was taken.
    unsafe {
        if mpi_abi::PMPI_Comm_get_errhandler(communicator, &mut chosen) != 0 {
            return spawn();
        }
        mpi_abi::PMPI_Comm_set_errhandler(communicator, mpi_abi::MPI_ERRORS_RETURN());
        let code = spawn();
        mpi_abi::PMPI_Comm_set_errhandler(communicator, chosen);
        mpi_abi::PMPI_Errhandler_free(&mut chosen);
        if code == 0 {
            return code;
        }
        let mut class = 0;
        mpi_abi::PMPI_Error_class(code, &mut class);
        // A class is a code of itself.
        let told = match class {
            mpi_abi::MPI_ERR_OTHER | mpi_abi::MPI_ERR_UNKNOWN => mpi_abi::MPI_ERR_SPAWN,
            _ => code,
        };
        mpi_abi::PMPI_Comm_call_errhandler(communicator, told);
        told
    }
}
