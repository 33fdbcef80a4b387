//! Hints for MPI calls.
#![allow(unsafe_code, reason = "calls MPI")]

use super::{MpiError, error::check};
use std::{ffi::CString, time::Duration};

/// A set of hints, freed when dropped.
#[derive(Debug)]
pub struct Info(mpi_abi::MPI_Info);

impl Info {
    /// The hint by which MPICH limits the wait of accept and connect. It counts whole seconds, so `limit` is rounded
    /// up; an MPI that does not know the hint waits without limit.
    pub fn with_timeout(limit: Duration) -> Result<Self, MpiError> {
        let seconds = limit.as_secs() + u64::from(limit.subsec_nanos() > 0);
        let value = CString::new(seconds.max(1).to_string()).expect("digits hold no zero byte");
        // SAFETY: both texts end with a zero byte; the info is freed by drop.
        unsafe {
            let mut info = mpi_abi::MPI_INFO_NULL();
            check("Info_create", mpi_abi::PMPI_Info_create(&mut info))?;
            let info = Self(info);
            check(
                "Info_set",
                mpi_abi::PMPI_Info_set(info.0, c"timeout".as_ptr(), value.as_ptr()),
            )?;
            Ok(info)
        }
    }

    pub fn handle(&self) -> mpi_abi::MPI_Info {
        self.0
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: made by PMPI_Info_create and freed once.
        unsafe { mpi_abi::PMPI_Info_free(&mut self.0) };
    }
}
