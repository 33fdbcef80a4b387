//! Operations that move blocks: each rank's to one, from one to each, or from each to all.
#![allow(unsafe_code, reason = "calls MPI")]

use super::carry::{Memory, carry};
use super::communicator::{Wide, over_sites};
use super::data::{Element, Opaque};
use super::failed::Failed;
use super::{code, is_sound, trial};
use mpi_abi::{MPI_Comm, MPI_Datatype};
use pcm_core::wide::{
    all::{Block, allgather, alltoall},
    gather::{counts, gather, scatter},
};
use std::os::raw::{c_int, c_void};
use std::ptr;

/// Elements of the program.
type Elements = (*mut c_void, c_int, MPI_Datatype);

/// Whether all blocks are equally long: else only the root knows of all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lengths {
    Equal,
    Varied,
}

/// The lengths of the blocks that pass through this rank, which is not the root.
unsafe fn passing(wide: &Wide, root: u32, own: usize, lengths: Lengths) -> Result<Vec<usize>, Failed> {
    let size = wide.sites.size() as usize;
    if lengths == Lengths::Equal {
        return Ok(vec![own; size]);
    }
    let (own, mut all) = (own as u64, vec![0_u64; size]);
    all[wide.rank as usize] = own;
    let memory = Memory::of(
        Element::LENGTH,
        (&raw const own).cast_mut().cast(),
        all.as_mut_ptr().cast(),
    );
    // SAFETY: a number of each rank.
    unsafe { carry(wide, &counts(&wide.sites, wide.rank, root), memory, None)? };
    Ok(all.into_iter().map(|length| length as usize).collect())
}

unsafe fn gathered(
    wide: &Wide,
    root: u32,
    (buffer, count, datatype): Elements,
    all: impl FnOnce() -> Result<Opaque, Failed>,
    lengths: Lengths,
) -> Result<(), Failed> {
    let (sites, me) = (&wide.sites, wide.rank);
    // SAFETY: the caller's contract.
    unsafe {
        if me != root {
            let mut own = Opaque::new(buffer, count, datatype, wide)?;
            own.pack()?;
            let lengths = passing(wide, root, own.length(), lengths)?;
            let memory = Memory::bytes(own.first(), ptr::null_mut());
            return carry(wide, &gather(sites, me, root, &lengths), memory, None);
        }
        let mut all = all()?;
        let schedule = gather(sites, me, root, all.lengths());
        let mut own = given(wide, (buffer, count, datatype), &mut all)?;
        let memory = Memory::bytes(own.first(&mut all, me), all.first());
        carry(wide, &schedule, memory, None)?;
        all.unpack()
    }
}

unsafe fn scattered(
    wide: &Wide,
    root: u32,
    all: impl FnOnce() -> Result<Opaque, Failed>,
    (buffer, count, datatype): Elements,
    lengths: Lengths,
) -> Result<(), Failed> {
    let (sites, me) = (&wide.sites, wide.rank);
    // SAFETY: the caller's contract.
    unsafe {
        if me != root {
            let mut own = Opaque::new(buffer, count, datatype, wide)?;
            let lengths = passing(wide, root, own.length(), lengths)?;
            let memory = Memory::bytes(ptr::null_mut(), own.first());
            carry(wide, &scatter(sites, me, root, &lengths), memory, None)?;
            return own.unpack();
        }
        let mut all = all()?;
        all.pack()?;
        let schedule = scatter(sites, me, root, all.lengths());
        if buffer == mpi_abi::MPI_IN_PLACE {
            let memory = Memory::bytes(all.first(), all.block(me));
            return carry(wide, &schedule, memory, None);
        }
        let mut own = Opaque::new(buffer, count, datatype, wide)?;
        carry(wide, &schedule, Memory::bytes(all.first(), own.first()), None)?;
        own.unpack()
    }
}

unsafe fn gathered_everywhere(wide: &Wide, elements: Elements, mut all: Opaque) -> Result<(), Failed> {
    let schedule = allgather(&wide.sites, wide.rank, &in_turn(all.lengths()));
    // SAFETY: the caller's contract.
    unsafe {
        let mut own = given(wide, elements, &mut all)?;
        let memory = Memory::bytes(own.first(&mut all, wide.rank), all.first());
        carry(wide, &schedule, memory, None)?;
    }
    all.unpack()
}

/// Without what is given, what is in the place of the result is.
unsafe fn exchanged(wide: &Wide, given: Option<Opaque>, mut all: Opaque) -> Result<(), Failed> {
    let receives = in_turn(all.lengths());
    // SAFETY: the caller's contract.
    unsafe {
        match given {
            Some(mut given) => {
                given.pack()?;
                let schedule = alltoall(wide.rank, &in_turn(given.lengths()), &receives);
                carry(wide, &schedule, Memory::bytes(given.first(), all.first()), None)?;
            }
            None => {
                all.pack()?;
                let mut given = all.copied();
                let memory = Memory::bytes(given.as_mut_ptr().cast(), all.first());
                carry(wide, &alltoall(wide.rank, &receives, &receives), memory, None)?;
            }
        }
    }
    all.unpack()
}

/// A rank's own block.
enum Own {
    Apart(Opaque),
    InPlace,
}

impl Own {
    fn first(&mut self, all: &mut Opaque, me: u32) -> *mut c_void {
        match self {
            Self::Apart(own) => own.first(),
            Self::InPlace => all.block(me),
        }
    }
}

unsafe fn given(wide: &Wide, (buffer, count, datatype): Elements, all: &mut Opaque) -> Result<Own, Failed> {
    if buffer == mpi_abi::MPI_IN_PLACE {
        all.pack()?;
        return Ok(Own::InPlace);
    }
    // SAFETY: the caller's contract.
    let mut own = unsafe { Opaque::new(buffer, count, datatype, wide)? };
    own.pack()?;
    Ok(Own::Apart(own))
}

/// Whether MPI takes the types of this rank's block and of all blocks, those that it looks at here.
fn takes(wide: &Wide, root: Option<c_int>, (own, of_own): (*mut c_void, MPI_Datatype), of_all: MPI_Datatype) -> bool {
    let has_all = root.is_none_or(|root| wide.rank == root.cast_unsigned());
    let is_own_meant = !has_all || own != mpi_abi::MPI_IN_PLACE;
    (!is_own_meant || trial::takes(of_own)) && (!has_all || trial::takes(of_all))
}

/// Whether arrays are there that the root alone reads.
fn has_all(wide: &Wide, root: c_int, arrays: &[*mut c_int]) -> bool {
    wide.rank != root.cast_unsigned() || arrays.iter().all(|array| !array.is_null())
}

/// Blocks that lie one after the other.
fn in_turn(lengths: &[usize]) -> Vec<Block> {
    let block = |first: &mut usize, count: &usize| {
        *first += count;
        Some(Block {
            first: *first - count,
            count: *count,
        })
    };
    lengths.iter().scan(0, block).collect()
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Gather(
    sendbuf: *mut c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = over_sites(comm)
            .filter(|wide| is_sound(wide, 0, Some(root)) && takes(wide, Some(root), (sendbuf, sendtype), recvtype))
        else {
            return mpi_abi::PMPI_Gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
        };
        let all = || Opaque::blocks(recvbuf, recvcount, recvtype, &wide);
        let own = (sendbuf, sendcount, sendtype);
        code(gathered(&wide, root.cast_unsigned(), own, all, Lengths::Equal))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Gatherv(
    sendbuf: *mut c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *mut c_int,
    displs: *mut c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = over_sites(comm).filter(|wide| {
            is_sound(wide, 0, Some(root))
                && has_all(wide, root, &[recvcounts, displs])
                && takes(wide, Some(root), (sendbuf, sendtype), recvtype)
        }) else {
            return mpi_abi::PMPI_Gatherv(
                sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm,
            );
        };
        let all = || Opaque::varied(recvbuf, (recvcounts, displs), recvtype, &wide);
        let own = (sendbuf, sendcount, sendtype);
        code(gathered(&wide, root.cast_unsigned(), own, all, Lengths::Varied))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Scatter(
    sendbuf: *mut c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = over_sites(comm)
            .filter(|wide| is_sound(wide, 0, Some(root)) && takes(wide, Some(root), (recvbuf, recvtype), sendtype))
        else {
            return mpi_abi::PMPI_Scatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
        };
        let all = || Opaque::blocks(sendbuf, sendcount, sendtype, &wide);
        let own = (recvbuf, recvcount, recvtype);
        code(scattered(&wide, root.cast_unsigned(), all, own, Lengths::Equal))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Scatterv(
    sendbuf: *mut c_void,
    sendcounts: *mut c_int,
    displs: *mut c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = over_sites(comm).filter(|wide| {
            is_sound(wide, 0, Some(root))
                && has_all(wide, root, &[sendcounts, displs])
                && takes(wide, Some(root), (recvbuf, recvtype), sendtype)
        }) else {
            return mpi_abi::PMPI_Scatterv(
                sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm,
            );
        };
        let all = || Opaque::varied(sendbuf, (sendcounts, displs), sendtype, &wide);
        let own = (recvbuf, recvcount, recvtype);
        code(scattered(&wide, root.cast_unsigned(), all, own, Lengths::Varied))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Allgather(
    sendbuf: *mut c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = over_sites(comm)
            .filter(|wide| is_sound(wide, recvcount, None) && takes(wide, None, (sendbuf, sendtype), recvtype))
        else {
            return mpi_abi::PMPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
        };
        let all = Opaque::blocks(recvbuf, recvcount, recvtype, &wide);
        let own = (sendbuf, sendcount, sendtype);
        code(all.and_then(|all| gathered_everywhere(&wide, own, all)))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Allgatherv(
    sendbuf: *mut c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *mut c_int,
    displs: *mut c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = over_sites(comm).filter(|wide| {
            !recvcounts.is_null() && !displs.is_null() && takes(wide, None, (sendbuf, sendtype), recvtype)
        }) else {
            return mpi_abi::PMPI_Allgatherv(
                sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm,
            );
        };
        let all = Opaque::varied(recvbuf, (recvcounts, displs), recvtype, &wide);
        let own = (sendbuf, sendcount, sendtype);
        code(all.and_then(|all| gathered_everywhere(&wide, own, all)))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Alltoall(
    sendbuf: *mut c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = over_sites(comm)
            .filter(|wide| is_sound(wide, recvcount, None) && takes(wide, None, (sendbuf, sendtype), recvtype))
        else {
            return mpi_abi::PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
        };
        let given = match sendbuf == mpi_abi::MPI_IN_PLACE {
            true => Ok(None),
            false => Opaque::blocks(sendbuf, sendcount, sendtype, &wide).map(Some),
        };
        let all = Opaque::blocks(recvbuf, recvcount, recvtype, &wide);
        code(given.and_then(|given| exchanged(&wide, given, all?)))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Alltoallv(
    sendbuf: *mut c_void,
    sendcounts: *mut c_int,
    sdispls: *mut c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *mut c_int,
    rdispls: *mut c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = over_sites(comm).filter(|wide| {
            !recvcounts.is_null() && !rdispls.is_null() && takes(wide, None, (sendbuf, sendtype), recvtype)
        }) else {
            return mpi_abi::PMPI_Alltoallv(
                sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
            );
        };
        let given = match sendbuf == mpi_abi::MPI_IN_PLACE {
            true => Ok(None),
            false => Opaque::varied(sendbuf, (sendcounts, sdispls), sendtype, &wide).map(Some),
        };
        let all = Opaque::varied(recvbuf, (recvcounts, rdispls), recvtype, &wide);
        code(given.and_then(|given| exchanged(&wide, given, all?)))
    }
}
