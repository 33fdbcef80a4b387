//! What every process gives to every other in one call, of any length and from any place. The call is that of MPI-4
//! with large counts: an MPI without it can do all but this.
#![allow(unsafe_code, reason = "calls MPI with memory that must outlive the call")]

use super::{
    MpiError, Received, Request,
    error::check,
    request::{byte, none},
};
use mpi_abi::{Function, MPI_Aint, MPI_Comm, MPI_Count};
use std::{ffi::c_void, ptr};

/// Bytes that lie somewhere; none have no place.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub first: *mut u8,
    pub length: usize,
}

impl Stretch {
    pub const NONE: Self = Self {
        first: ptr::null_mut(),
        length: 0,
    };
}

/// An exchange on its way. Dropping it neither waits nor cancels; it must not be dropped before it is complete.
#[derive(Debug)]
pub struct AllToAll {
    request: Request,
    /// MPI reads them until the request is complete.
    _tables: [Table; 2],
}

#[derive(Debug)]
struct Table {
    base: *mut c_void,
    counts: Vec<MPI_Count>,
    places: Vec<MPI_Aint>,
}

static LARGE: Function = Function::new("PMPI_Ialltoallv_c\0");

impl AllToAll {
    /// Gives `out[p]` to process `p` and puts what it gives to `into[p]`, for each process on the other side of the
    /// communicator, or all of it if it has one side.
    ///
    /// # Safety
    /// The bytes must stay where they are until the exchange is complete, those of `out` unchanged, those of `into`
    /// untouched. There are as many of both as there are processes.
    pub(super) unsafe fn begin(communicator: MPI_Comm, out: &[Stretch], into: &[Stretch]) -> Result<Self, MpiError> {
        // MPI wants two buffers that begin at different places, even if nobody has anything.
        static NOTHING: [u8; 2] = [0; 2];
        if LARGE.address().is_none() {
            return Err(MpiError {
                call: "Ialltoallv_c",
                code: mpi_abi::MPI_ERR_UNSUPPORTED_OPERATION,
                text: "this MPI has no calls with large counts (MPI-4); choose a method with p2p".to_owned(),
            });
        }
        let tables = [(out, 0), (into, 1)].map(|(stretches, place)| Table::of(stretches, &NOTHING[place]));
        let mut request = none();
        let [from, to] = &tables;
        // SAFETY: the tables live as long as the request, the bytes by contract; distances from the base lead to them.
        let code = unsafe {
            let (counts, places) = (to.counts.as_ptr(), to.places.as_ptr());
            mpi_abi::PMPI_Ialltoallv_c(
                from.base,
                from.counts.as_ptr(),
                from.places.as_ptr(),
                byte(),
                to.base,
                counts,
                places,
                byte(),
                communicator,
                &mut request,
            )
        };
        check("Ialltoallv_c", code)?;
        let request = Request(request);
        Ok(Self {
            request,
            _tables: tables,
        })
    }

    /// Whether it is complete.
    pub fn test(&mut self) -> Result<bool, MpiError> {
        self.request.test().map(|done: Option<Received>| done.is_some())
    }
}

impl Table {
    /// Places are distances from the lowest one: MPI takes a null base for a mistake.
    fn of(stretches: &[Stretch], nothing: &u8) -> Self {
        let firsts = stretches
            .iter()
            .filter(|stretch| stretch.length > 0)
            .map(|stretch| stretch.first);
        let base = firsts.min().unwrap_or(ptr::from_ref(nothing).cast_mut());
        let distance = |stretch: &Stretch| match stretch.length {
            0 => 0,
            _ => (stretch.first.addr() - base.addr()) as MPI_Aint,
        };
        Self {
            base: base.cast(),
            counts: stretches.iter().map(|stretch| stretch.length as MPI_Count).collect(),
            places: stretches.iter().map(distance).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_distances_from_the_lowest_and_no_bytes_have_none() {
        let bytes = [0_u8; 16];
        let at = |n: usize| Stretch {
            first: bytes[n..].as_ptr().cast_mut(),
            length: 2,
        };
        let nothing = 0;
        let table = Table::of(&[at(9), Stretch::NONE, at(4)], &nothing);
        assert_eq!(table.base.cast_const().cast(), bytes[4..].as_ptr());
        assert_eq!((table.counts, table.places), (vec![2, 0, 2], vec![5, 0, 0]));
        assert!(!Table::of(&[Stretch::NONE], &nothing).base.is_null());
    }
}
