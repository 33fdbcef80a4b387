//! Return codes of MPI as errors.
#![allow(unsafe_code, reason = "calls MPI")]

use super::Communicator;
use mpi_abi::{MPI_Comm, MPI_Errhandler};
use std::{ffi::CStr, os::raw::c_int};

/// A call of MPI that failed. The communicator it was made on is as usable as MPI leaves it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("MPI_{} failed with code {}: {}", .call, .code, .text)]
pub struct MpiError {
    /// The function, without `MPI_`.
    pub call: &'static str,
    /// What it returned.
    pub code: i32,
    /// What MPI says about that code.
    pub text: String,
}

/// Turns the return code of `call` into a result.
pub(super) fn check(call: &'static str, code: c_int) -> Result<(), MpiError> {
    if code == 0 {
        Ok(())
    } else {
        Err(MpiError {
            call,
            code,
            text: text_of(code),
        })
    }
}

fn text_of(code: c_int) -> String {
    let mut text = [0_u8; mpi_abi::MPI_MAX_ERROR_STRING + 1];
    let mut length: c_int = 0;
    // SAFETY: the buffer has the length MPI asks for, and one byte more that stays zero.
    let told = unsafe { mpi_abi::PMPI_Error_string(code, text.as_mut_ptr().cast(), &mut length) };
    match CStr::from_bytes_until_nul(&text) {
        Ok(text) if told == 0 => text.to_string_lossy().into_owned(),
        _ => "no text for this code".to_owned(),
    }
}

/// While it lives, errors that belong to no communicator of the library's own (ports, infos, groups) come back as
/// codes; MPI would otherwise end the program. The application's own choice is restored after it.
#[derive(Debug)]
pub struct ErrorsReturned {
    before: Vec<(MPI_Comm, Option<MPI_Errhandler>)>,
}

impl ErrorsReturned {
    /// Begins. MPI must be initialised. MPI-4 raises such errors on MPI_COMM_SELF, MPI-3 on MPI_COMM_WORLD.
    pub fn begin() -> Self {
        let both = [mpi_abi::MPI_COMM_WORLD, mpi_abi::MPI_COMM_SELF];
        Self {
            before: both.iter().map(|each| (*each, replace(*each))).collect(),
        }
    }

    /// As [`ErrorsReturned::begin`], and errors on this communicator too.
    pub fn begin_on(communicator: &Communicator) -> Self {
        let mut errors = Self::begin();
        let handle = communicator.handle();
        if errors.before.iter().all(|(known, _)| *known != handle) {
            errors.before.push((handle, replace(handle)));
        }
        errors
    }
}

fn replace(communicator: MPI_Comm) -> Option<MPI_Errhandler> {
    // SAFETY: the communicators are predefined; the handler is written on success.
    unsafe {
        let mut handler = mpi_abi::MPI_ERRORS_ARE_FATAL;
        let code = mpi_abi::PMPI_Comm_get_errhandler(communicator, &mut handler);
        mpi_abi::PMPI_Comm_set_errhandler(communicator, mpi_abi::MPI_ERRORS_RETURN);
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
