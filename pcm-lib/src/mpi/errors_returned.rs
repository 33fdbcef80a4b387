//! Errors of MPI as return codes, for as long as the library's own calls need that.
#![allow(unsafe_code, reason = "calls MPI")]

use mpi_abi::{MPI_Comm, MPI_Errhandler};

/// While it lives, errors that belong to no communicator of the library's own (ports, infos, groups) come back as
/// codes; MPI would otherwise end the program. The application's own choice is restored after it.
#[derive(Debug)]
pub struct ErrorsReturned {
    before: Vec<(MPI_Comm, Option<MPI_Errhandler>)>,
}

impl ErrorsReturned {
    /// Begins. MPI must be initialised. MPI-4 raises such errors on MPI_COMM_SELF, MPI-3 on MPI_COMM_WORLD.
    pub fn begin() -> Self {
        let both = [mpi_abi::MPI_COMM_WORLD(), mpi_abi::MPI_COMM_SELF()];
        Self {
            before: both.iter().map(|each| (*each, replace(*each))).collect(),
        }
    }

    /// As [`ErrorsReturned::begin`], and errors on this communicator too.
    pub(super) fn begin_on(handle: MPI_Comm) -> Self {
        let mut errors = Self::begin();
        if errors.before.iter().all(|(known, _)| *known != handle) {
            errors.before.push((handle, replace(handle)));
        }
        errors
    }
}

fn replace(communicator: MPI_Comm) -> Option<MPI_Errhandler> {
    // SAFETY: the communicators are predefined; the handler is written on success.
    unsafe {
        let mut handler = mpi_abi::MPI_ERRORS_ARE_FATAL();
        let code = mpi_abi::PMPI_Comm_get_errhandler(communicator, &mut handler);
        mpi_abi::PMPI_Comm_set_errhandler(communicator, mpi_abi::MPI_ERRORS_RETURN());
        (code == 0).then_some(handler)
    }
}

impl Drop for ErrorsReturned {
    fn drop(&mut self) {
        for (communicator, handler) in &mut self.before {
            if let Some(handler) = handler {
                // SAFETY: the handler came from PMPI_Comm_get_errhandler, which counts a reference that is freed here.
                unsafe {
                    mpi_abi::PMPI_Comm_set_errhandler(*communicator, *handler);
                    mpi_abi::PMPI_Errhandler_free(handler);
                }
            }
        }
    }
}
