//! Names under which processes of different worlds find each other.
#![allow(unsafe_code, reason = "calls MPI")]

use super::{ErrorsReturned, MpiError, error::check};
use std::{
    ffi::{CStr, CString, NulError},
    os::raw::c_char,
};

/// A port, one's own or another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port(CString);

impl Port {
    /// Opens a port here.
    pub fn open() -> Result<Self, MpiError> {
        let _errors = ErrorsReturned::begin();
        let mut name = [0_u8; mpi_sys::MPI_MAX_PORT_NAME as usize + 1];
        // SAFETY: the buffer has the length MPI asks for, and one byte more that stays zero.
        let code = unsafe { mpi_sys::PMPI_Open_port(mpi_sys::RSMPI_INFO_NULL, name.as_mut_ptr().cast::<c_char>()) };
        check("Open_port", code)?;
        Ok(Self(
            CStr::from_bytes_until_nul(&name)
                .expect("the last byte is zero")
                .to_owned(),
        ))
    }

    /// A port that another process opened.
    pub fn named(name: &str) -> Result<Self, NulError> {
        CString::new(name).map(Self)
    }

    /// The name to give to others.
    pub fn name(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    pub(super) fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr()
    }

    /// Closes a port that was opened here.
    pub fn close(self) -> Result<(), MpiError> {
        let _errors = ErrorsReturned::begin();
        // SAFETY: the name ends with a zero byte.
        check("Close_port", unsafe { mpi_sys::PMPI_Close_port(self.0.as_ptr()) })
    }
}
