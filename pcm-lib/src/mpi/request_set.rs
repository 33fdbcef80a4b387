//! Many messages on their way at once, asked about together.
#![allow(unsafe_code, reason = "calls MPI")]

use super::{
    MpiError, Received, Request,
    error::check,
    request::{count_of, none, received},
};
use mpi_abi::{MPI_Request, MPI_Status};
use std::{mem::MaybeUninit, os::raw::c_int};

/// Requests by slot. Dropping it neither waits nor cancels: their memory must stay.
#[derive(Debug, Default)]
pub struct RequestSet {
    handles: Vec<MPI_Request>,
    free: Vec<usize>,
    indices: Vec<c_int>,
    statuses: Vec<MaybeUninit<MPI_Status>>,
}

/// A request of a set that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The slot it had, free now.
    pub slot: usize,
    /// What arrived, if it was a receive.
    pub received: Received,
}

impl RequestSet {
    /// Adds a request and says its slot.
    pub fn add(&mut self, request: Request) -> usize {
        match self.free.pop() {
            Some(slot) => {
                self.handles[slot] = request.0;
                slot
            }
            None => {
                self.handles.push(request.0);
                self.indices.push(0);
                self.statuses.push(MaybeUninit::uninit());
                self.handles.len() - 1
            }
        }
    }

    /// Number of requests that are not complete.
    pub fn active(&self) -> usize {
        self.handles.len() - self.free.len()
    }

    /// Appends those that are complete by now. After an error the requests that failed are complete too.
    pub fn test_some(&mut self, completed: &mut Vec<Completed>) -> Result<(), MpiError> {
        if self.active() == 0 {
            return Ok(());
        }
        let count = count_of("Testsome", self.handles.len())?;
        let mut found: c_int = 0;
        // SAFETY: all three lists have `count` places; a free slot holds the null request, which is passed over.
        let code = unsafe {
            let statuses = self.statuses.as_mut_ptr().cast();
            let indices = self.indices.as_mut_ptr();
            mpi_abi::PMPI_Testsome(count, self.handles.as_mut_ptr(), &mut found, indices, statuses)
        };
        let mut outcome = Ok(());
        // Negative where no request was active.
        for place in 0..usize::try_from(found).unwrap_or(0) {
            let slot = usize::try_from(self.indices[place]).unwrap_or(0);
            // SAFETY: MPI wrote the first `found` statuses.
            let status = unsafe { self.statuses[place].assume_init_ref() };
            self.free.push(slot);
            if code != 0 && status.MPI_ERROR != 0 {
                outcome = check("Testsome", status.MPI_ERROR);
                continue;
            }
            completed.push(Completed {
                slot,
                received: received(status)?,
            });
        }
        outcome.and(if found > 0 { Ok(()) } else { check("Testsome", code) })
    }

    /// Gives up a receive that nothing will match; it completes all the same.
    pub fn cancel(&mut self, slot: usize) -> Result<(), MpiError> {
        if self.handles[slot] == none() {
            return Ok(());
        }
        // SAFETY: the request is active.
        check("Cancel", unsafe { mpi_abi::PMPI_Cancel(&mut self.handles[slot]) })
    }
}
