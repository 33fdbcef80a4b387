//! The calls of MPI that the example makes. Errors need no code here: MPI ends a program by default.
#![allow(unsafe_code, reason = "calls MPI")]

use mpi_abi::{MPI_COMM_WORLD, MPI_DOUBLE, MPI_REQUEST_NULL, MPI_STATUSES_IGNORE, MPI_SUM, MPI_UINT64_T};
use std::{
    ffi::c_int,
    ptr::{from_mut, from_ref, null_mut},
};

/// MPI_COMM_WORLD, from MPI_Init to MPI_Finalize.
pub(crate) struct World(());

/// Cells for a neighbour, or room for some of its own.
pub(crate) struct Row<C> {
    pub(crate) neighbour: i32,
    pub(crate) tag: i32,
    pub(crate) cells: C,
}

impl World {
    pub(crate) fn start() -> Self {
        // SAFETY: the first call of MPI in this process, which takes no arguments.
        unsafe { mpi_abi::MPI_Init(null_mut(), null_mut()) };
        Self(())
    }

    pub(crate) fn rank(&self) -> i32 {
        let mut rank = 0;
        // SAFETY: MPI is initialised; the output is a local.
        unsafe { mpi_abi::MPI_Comm_rank(MPI_COMM_WORLD(), &mut rank) };
        rank
    }

    pub(crate) fn size(&self) -> i32 {
        let mut size = 0;
        // SAFETY: as in `rank`.
        unsafe { mpi_abi::MPI_Comm_size(MPI_COMM_WORLD(), &mut size) };
        size
    }

    #[allow(dead_code, reason = "the plain program has nothing that fails")]
    pub(crate) fn abort(&self, code: i32) {
        // SAFETY: MPI is initialised.
        unsafe { mpi_abi::MPI_Abort(MPI_COMM_WORLD(), code) };
    }

    /// Sends and receives all rows at once.
    pub(crate) fn exchange(&self, out: &[Row<&[f64]>], into: &mut [Row<&mut [f64]>]) {
        let mut requests = vec![MPI_REQUEST_NULL(); out.len() + into.len()];
        let (receives, sends) = requests.split_at_mut(into.len());
        // SAFETY: the memory of all rows lives until MPI_Waitall is over.
        unsafe {
            for (Row { neighbour, tag, cells }, request) in into.iter_mut().zip(receives) {
                let (first, count) = (cells.as_mut_ptr().cast(), cells.len() as c_int);
                mpi_abi::MPI_Irecv(first, count, MPI_DOUBLE(), *neighbour, *tag, MPI_COMM_WORLD(), request);
            }
            for (Row { neighbour, tag, cells }, request) in out.iter().zip(sends) {
                let (first, count) = (cells.as_ptr().cast(), cells.len() as c_int);
                mpi_abi::MPI_Isend(first, count, MPI_DOUBLE(), *neighbour, *tag, MPI_COMM_WORLD(), request);
            }
            let count = requests.len() as c_int;
            mpi_abi::MPI_Waitall(count, requests.as_mut_ptr(), MPI_STATUSES_IGNORE);
        }
    }

    /// The sum of all ranks' numbers, which rank 0 gets.
    pub(crate) fn sum(&self, own: u64) -> u64 {
        let mut total = 0_u64;
        // SAFETY: both numbers are locals.
        unsafe {
            let (own, total) = (from_ref(&own).cast(), from_mut(&mut total).cast());
            mpi_abi::MPI_Reduce(own, total, 1, MPI_UINT64_T(), MPI_SUM(), 0, MPI_COMM_WORLD());
        }
        total
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: the last call of MPI in this process.
        unsafe { mpi_abi::MPI_Finalize() };
    }
}
