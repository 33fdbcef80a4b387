//! Where MPI's life in this process stands.
#![allow(unsafe_code, reason = "calls MPI")]

use super::{MpiError, error::check};
use crate::interpose::lifecycle;
use std::os::raw::c_int;

/// What the calling thread may do with MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    NotInitialized,
    /// It initialised MPI.
    MainThread,
    /// Another one did.
    OtherThread,
    /// Nothing any more.
    Finalized,
}

/// Asks MPI; allowed at any time.
pub fn phase() -> Result<Phase, MpiError> {
    let (mut is_initialized, mut is_finalized, mut is_main): (c_int, c_int, c_int) = (0, 0, 0);
    // SAFETY: both may be called at any time; the outputs are locals.
    unsafe {
        check("Initialized", mpi_abi::PMPI_Initialized(&mut is_initialized))?;
        check("Finalized", mpi_abi::PMPI_Finalized(&mut is_finalized))?;
    }
    if is_finalized != 0 || lifecycle::is_over() {
        return Ok(Phase::Finalized);
    }
    if is_initialized == 0 {
        return Ok(Phase::NotInitialized);
    }
    // SAFETY: MPI is initialised.
    check("Is_thread_main", unsafe { mpi_abi::PMPI_Is_thread_main(&mut is_main) })?;
    Ok(if is_main != 0 {
        Phase::MainThread
    } else {
        Phase::OtherThread
    })
}
