//! Return codes of MPI as errors.
#![allow(unsafe_code, reason = "calls MPI")]

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
    if let Err(reason) = mpi_abi::usable() {
        return reason;
    }
    let mut text = [0_u8; mpi_abi::MPI_MAX_ERROR_STRING + 1];
    let mut length: c_int = 0;
    // SAFETY: the buffer has the length MPI asks for, and one byte more that stays zero.
    let told = unsafe { mpi_abi::PMPI_Error_string(code, text.as_mut_ptr().cast(), &mut length) };
    match CStr::from_bytes_until_nul(&text) {
        Ok(text) if told == 0 => text.to_string_lossy().into_owned(),
        _ => "no text for this code".to_owned(),
    }
}
