//! Names under which processes of different worlds find each other.
#![allow(unsafe_code, reason = "calls MPI")]

use super::{ErrorsReturned, MpiError, error::check};
use std::{
    ffi::{CStr, CString, NulError},
    os::raw::{c_char, c_int},
};

/// A port, one's own or another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port(CString);

impl Port {
    /// Opens a port here.
    pub fn open() -> Result<Self, MpiError> {
        let _errors = ErrorsReturned::begin();
        let mut name = [0_u8; mpi_abi::MPI_MAX_PORT_NAME + 1];
        // SAFETY: the buffer has the length MPI asks for, and one byte more that stays zero.
        let code = unsafe { mpi_abi::PMPI_Open_port(mpi_abi::MPI_INFO_NULL(), name.as_mut_ptr().cast::<c_char>()) };
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

    /// Stands for a port that only another rank of a collective call has to know.
    pub fn elsewhere() -> Self {
        Self(CString::default())
    }

    /// The port that a process of the job made known under a name, if one did.
    pub fn find(service: &str) -> Result<Option<Self>, MpiError> {
        let _errors = ErrorsReturned::begin();
        let mut name = [0_u8; mpi_abi::MPI_MAX_PORT_NAME + 1];
        let service = text(service);
        // SAFETY: as in `open`; the service's name ends with a zero byte.
        let code = unsafe {
            mpi_abi::PMPI_Lookup_name(
                service.as_ptr(),
                mpi_abi::MPI_INFO_NULL(),
                name.as_mut_ptr().cast::<c_char>(),
            )
        };
        if class_of(code) == mpi_abi::MPI_ERR_NAME {
            return Ok(None);
        }
        check("Lookup_name", code)?;
        let name = CStr::from_bytes_until_nul(&name).expect("the last byte is zero");
        Ok(Some(Self(name.to_owned())))
    }

    /// Makes the port known to all processes of the job.
    pub fn publish(&self, service: &str) -> Result<(), MpiError> {
        let _errors = ErrorsReturned::begin();
        let service = text(service);
        // SAFETY: both texts end with a zero byte.
        check("Publish_name", unsafe {
            mpi_abi::PMPI_Publish_name(service.as_ptr(), mpi_abi::MPI_INFO_NULL(), self.0.as_ptr())
        })
    }

    /// Takes back [`Port::publish`].
    pub fn withdraw(&self, service: &str) -> Result<(), MpiError> {
        let _errors = ErrorsReturned::begin();
        let service = text(service);
        // SAFETY: both texts end with a zero byte.
        check("Unpublish_name", unsafe {
            mpi_abi::PMPI_Unpublish_name(service.as_ptr(), mpi_abi::MPI_INFO_NULL(), self.0.as_ptr())
        })
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
        check("Close_port", unsafe { mpi_abi::PMPI_Close_port(self.0.as_ptr()) })
    }
}

/// The text up to its first zero byte.
fn text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

fn class_of(code: c_int) -> c_int {
    let mut class = 0;
    // SAFETY: the output is a local.
    unsafe { mpi_abi::PMPI_Error_class(code, &mut class) };
    class
}
