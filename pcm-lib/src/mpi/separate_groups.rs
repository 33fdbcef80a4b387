//! Two groups that stay two: old ranks on one side, newcomers on the other, an inter-communicator between them.
#![allow(unsafe_code, reason = "calls MPI with memory that must outlive the call")]

use super::{
    AllToAll, Communicator, InterCommunicator, MpiError, Request, Stretch, Transport,
    error::check,
    request::{byte, count_of, none},
};

/// The sides of a move, as one of their processes sees them. Messages go from one side to the other only.
#[derive(Debug)]
pub struct SeparateGroups {
    own: Communicator,
    between: InterCommunicator,
    is_old: bool,
    /// Ranks on the old side, and of both.
    old_size: u32,
    size: u32,
}

impl SeparateGroups {
    /// `own` has this side's processes in the order they have in `between`, and no other traffic.
    pub fn new(own: Communicator, between: InterCommunicator, is_old: bool) -> Result<Self, MpiError> {
        let (here, there) = (own.size()?, between.remote_size()?);
        Ok(Self {
            own,
            between,
            is_old,
            old_size: if is_old { here } else { there },
            size: here.saturating_add(there),
        })
    }

    /// Ends both communicators. Collective over both sides.
    pub fn disconnect(self) -> Result<(), MpiError> {
        let between = self.between.disconnect();
        self.own.disconnect().and(between)
    }

    /// A rank in the move as a rank on the other side; for one of the own side MPI says what is wrong.
    fn remote(&self, rank: u32) -> i32 {
        let first = if self.is_old { self.old_size } else { 0 };
        rank.wrapping_sub(first).cast_signed()
    }

    /// The part of a list by rank that is the other side's.
    fn others<'a>(&self, list: &'a [Stretch]) -> &'a [Stretch] {
        let (old, new) = list.split_at(self.old_size as usize);
        if self.is_old { new } else { old }
    }
}

impl Transport for SeparateGroups {
    fn rank(&self) -> Result<u32, MpiError> {
        let first = if self.is_old { 0 } else { self.old_size };
        self.own.rank().map(|rank| first + rank)
    }

    fn size(&self) -> Result<u32, MpiError> {
        Ok(self.size)
    }

    unsafe fn isend(&self, bytes: &[u8], to: u32, tag: u32) -> Result<Request, MpiError> {
        let mut request = none();
        let count = count_of("Isend", bytes.len())?;
        // SAFETY: the communicator exists, the memory stays by contract.
        let code = unsafe {
            let (data, to, tag) = (bytes.as_ptr().cast(), self.remote(to), tag.cast_signed());
            mpi_abi::PMPI_Isend(data, count, byte(), to, tag, self.between.handle(), &mut request)
        };
        check("Isend", code).map(|()| Request(request))
    }

    unsafe fn irecv(&self, room: &mut [u8], from: u32, tag: u32) -> Result<Request, MpiError> {
        let mut request = none();
        let count = count_of("Irecv", room.len())?;
        // SAFETY: as in `isend`.
        let code = unsafe {
            let (data, from, tag) = (room.as_mut_ptr().cast(), self.remote(from), tag.cast_signed());
            mpi_abi::PMPI_Irecv(data, count, byte(), from, tag, self.between.handle(), &mut request)
        };
        check("Irecv", code).map(|()| Request(request))
    }

    /// To the other side, and among the old ranks.
    unsafe fn ibcast_of_first(&self, bytes: &mut [u8]) -> Result<Vec<Request>, MpiError> {
        let count = count_of("Ibcast", bytes.len())?;
        let is_first = self.is_old && self.own.rank()? == 0;
        let root = match (self.is_old, is_first) {
            (true, true) => mpi_abi::MPI_ROOT,
            (true, false) => mpi_abi::MPI_PROC_NULL,
            (false, _) => 0,
        };
        let mut request = none();
        // SAFETY: as in `isend`. The first process has both read the same bytes.
        let code = unsafe {
            let data = bytes.as_mut_ptr().cast();
            mpi_abi::PMPI_Ibcast(data, count, byte(), root, self.between.handle(), &mut request)
        };
        check("Ibcast", code)?;
        let mut requests = vec![Request(request)];
        if self.is_old {
            // SAFETY: by contract.
            requests.push(unsafe { self.own.ibcast(bytes, 0)? });
        }
        Ok(requests)
    }

    /// Over an inter-communicator each side gets what the other side has.
    unsafe fn iallreduce_min(&self, own: &u64, least: &mut [u64; 2]) -> Result<Vec<Request>, MpiError> {
        let [here, there] = least;
        // SAFETY: by contract.
        unsafe {
            let among = self.own.iallreduce_min(own, here)?;
            let across = super::collective::iallreduce_min(self.between.handle(), own, there)?;
            Ok(vec![among, across])
        }
    }

    unsafe fn ialltoallv(&self, out: &[Stretch], into: &[Stretch]) -> Result<AllToAll, MpiError> {
        // SAFETY: by contract; the other side's processes are those the call wants.
        unsafe { AllToAll::begin(self.between.handle(), self.others(out), self.others(into)) }
    }
}
