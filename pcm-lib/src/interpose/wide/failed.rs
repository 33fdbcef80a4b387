//! Errors of operations over sites, as MPI numbers them.

use std::os::raw::c_int;

/// The code of an error that MPI has raised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed(pub(super) c_int);

impl Failed {
    pub(super) fn unless(code: c_int) -> Result<(), Self> {
        match code {
            0 => Ok(()),
            code => Err(Self(code)),
        }
    }
}

/// A count as MPI takes it.
pub(super) fn data_count(count: usize) -> Result<c_int, Failed> {
    c_int::try_from(count).map_err(|_| Failed(mpi_abi::MPI_ERR_COUNT))
}
