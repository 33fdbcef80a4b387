//! Collective operations of a job whose nodes are at several sites: in place of MPI's, which takes all ranks for
//! neighbours, each message crosses a slow link once (`pcm_core::wide`). A communicator within one site has MPI's own,
//! except for sums whose bits must not depend on where ranks are.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(non_snake_case, reason = "the names are those of MPI")]
#![allow(clippy::too_many_arguments, reason = "signatures are those of MPI")]

mod blocks;
mod carry;
mod communicator;
mod data;
mod failed;
mod trial;

pub(super) use blocks::{
    MPI_Allgather, MPI_Allgatherv, MPI_Alltoall, MPI_Alltoallv, MPI_Gather, MPI_Gatherv, MPI_Scatter, MPI_Scatterv,
};
pub(super) use communicator::{ended, job_changed};

use carry::{Memory, carry};
use communicator::{Wide, for_sums, over_sites};
use data::{Element, Given, Opaque};
use failed::Failed;
use mpi_abi::{MPI_Comm, MPI_Datatype, MPI_Op};
use pcm_core::wide::{
    bcast::{barrier, bcast},
    reduce::{allreduce, reduce, reduce_scatter},
    scan::{Grouping, Prefix, ordered, scan},
    schedule::Schedule,
};
use std::os::raw::{c_int, c_void};
use std::{ptr, sync::Arc};

/// A long message is cut into pieces of this length, so that a site passes the first on while others come.
const SEGMENT_BYTES: usize = 64 << 10;

/// Most pieces of one message: each has tags of its own.
const SEGMENTS_MAX: usize = 8192;

/// Elements of a piece.
fn segment(count: usize, element_bytes: usize) -> usize {
    let by_length = SEGMENT_BYTES / element_bytes.max(1);
    by_length.max(count.div_ceil(SEGMENTS_MAX)).max(1)
}

fn code(outcome: Result<(), Failed>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(Failed(code)) => code,
    }
}

/// Whether MPI would take these: what it would not, it refuses itself, on every rank.
fn is_sound(wide: &Wide, count: c_int, root: Option<c_int>) -> bool {
    count >= 0 && root.is_none_or(|root| (0..wide.sites.size()).contains(&root.cast_unsigned()))
}

/// Buffers of operands and result, and what combines how many of them.
type Sum = (*mut c_void, *mut c_void, c_int, MPI_Datatype, MPI_Op);

/// The communicator of a sum that MPI would make and that is ours. Only the root of a sum has a result.
unsafe fn of_sum(comm: MPI_Comm, root: Option<c_int>, (given, result, count, datatype, op): Sum) -> Option<Arc<Wide>> {
    // SAFETY: the caller's contract.
    let wide = unsafe { for_sums(comm)? };
    let has_result = count > 0 && root.is_none_or(|root| wide.rank == root.cast_unsigned());
    let result = if has_result { result } else { ptr::null_mut() };
    (is_sound(&wide, count, root) && trial::combines((datatype, op), given, result)).then_some(wide)
}

/// Carries out a sum.
unsafe fn sum(
    wide: &Wide,
    (given, result, count, datatype, op): Sum,
    plan: impl FnOnce(&Operands) -> Schedule,
) -> Result<(), Failed> {
    // SAFETY: the caller's contract.
    unsafe {
        let operands = Operands::new(count, datatype, op, wide)?;
        let given = Given::new(given, result, operands.element, operands.count, wide)?;
        let memory = Memory::of(operands.element, given.first(), result);
        carry(wide, &plan(&operands), memory, Some(op))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Barrier(comm: MPI_Comm) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = over_sites(comm) else {
            return mpi_abi::PMPI_Barrier(comm);
        };
        let schedule = barrier(&wide.sites, wide.rank);
        code(carry(
            &wide,
            &schedule,
            Memory::bytes(ptr::null_mut(), ptr::null_mut()),
            None,
        ))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Bcast(
    buffer: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = over_sites(comm).filter(|wide| is_sound(wide, count, Some(root)) && trial::takes(datatype))
        else {
            return mpi_abi::PMPI_Bcast(buffer, count, datatype, root, comm);
        };
        let root = root.cast_unsigned();
        let outcome = (|| {
            let mut data = Opaque::new(buffer, count, datatype, &wide)?;
            if wide.rank == root {
                data.pack()?;
            }
            let schedule = bcast(&wide.sites, wide.rank, root, data.length(), segment(data.length(), 1));
            carry(&wide, &schedule, Memory::bytes(ptr::null_mut(), data.first()), None)?;
            match wide.rank == root {
                true => Ok(()),
                false => data.unpack(),
            }
        })();
        code(outcome)
    }
}

/// What is combined.
struct Operands {
    element: Element,
    count: usize,
    /// In whatever order is fastest.
    may_be_mixed: bool,
}

impl Operands {
    unsafe fn new(count: c_int, datatype: MPI_Datatype, op: MPI_Op, wide: &Wide) -> Result<Self, Failed> {
        let mut commutes: c_int = 0;
        // SAFETY: the caller's operator; the output is a local.
        unsafe { Failed::unless(mpi_abi::PMPI_Op_commutative(op, &mut commutes))? };
        Ok(Self {
            // SAFETY: the caller's type.
            element: unsafe { Element::new(datatype)? },
            count: usize::try_from(count).unwrap_or(0),
            may_be_mixed: commutes != 0 && !wide.is_reproducible,
        })
    }

    fn segment(&self) -> usize {
        segment(self.count, self.element.extent().unsigned_abs())
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Reduce(
    sendbuf: *mut c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    let what = (sendbuf, recvbuf, count, datatype, op);
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = of_sum(comm, Some(root), what) else {
            return mpi_abi::PMPI_Reduce(sendbuf, recvbuf, count, datatype, op, root, comm);
        };
        let (sites, me, root) = (&wide.sites, wide.rank, root.cast_unsigned());
        code(sum(&wide, what, |operands| match operands.may_be_mixed {
            true => reduce(sites, me, root, operands.count, operands.segment()),
            false => ordered(sites, me, Some(root), operands.count, wide.grouping()),
        }))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Allreduce(
    sendbuf: *mut c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    let what = (sendbuf, recvbuf, count, datatype, op);
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = of_sum(comm, None, what) else {
            return mpi_abi::PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
        };
        let (sites, me) = (&wide.sites, wide.rank);
        code(sum(&wide, what, |operands| match operands.may_be_mixed {
            true => allreduce(sites, me, operands.count, operands.segment()),
            false => ordered(sites, me, None, operands.count, wide.grouping()),
        }))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Reduce_scatter_block(
    sendbuf: *mut c_void,
    recvbuf: *mut c_void,
    recvcount: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = of_sum(comm, None, (sendbuf, recvbuf, recvcount, datatype, op)) else {
            return mpi_abi::PMPI_Reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm);
        };
        let counts = vec![usize::try_from(recvcount).unwrap_or(0); wide.sites.size() as usize];
        code(scattered(&wide, (sendbuf, recvbuf), &counts, datatype, op))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Reduce_scatter(
    sendbuf: *mut c_void,
    recvbuf: *mut c_void,
    recvcounts: *mut c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let counts = |wide: &Wide| {
            if recvcounts.is_null() || !trial::combines((datatype, op), sendbuf, ptr::null_mut()) {
                return None;
            }
            let counts = std::slice::from_raw_parts(recvcounts, wide.sites.size() as usize);
            counts
                .iter()
                .map(|count| usize::try_from(*count).ok())
                .collect::<Option<Vec<usize>>>()
        };
        let wide = for_sums(comm).and_then(|wide| counts(&wide).map(|counts| (wide, counts)));
        let Some((wide, counts)) = wide else {
            return mpi_abi::PMPI_Reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm);
        };
        code(scattered(&wide, (sendbuf, recvbuf), &counts, datatype, op))
    }
}

/// Each rank's part of the sum.
unsafe fn scattered(
    wide: &Wide,
    (sendbuf, recvbuf): (*mut c_void, *mut c_void),
    counts: &[usize],
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<(), Failed> {
    let (whole, me) = (counts.iter().sum(), wide.rank as usize);
    // SAFETY: the caller's contract.
    unsafe {
        let operands = Operands::new(0, datatype, op, wide)?;
        let given = Given::new(sendbuf, recvbuf, operands.element, whole, wide)?;
        let element = operands.element;
        if operands.may_be_mixed {
            let schedule = reduce_scatter(&wide.sites, wide.rank, counts);
            return carry(wide, &schedule, Memory::of(element, given.first(), recvbuf), Some(op));
        }
        // In the order of ranks the sum is made as a whole.
        let sum = element.room(whole)?;
        let schedule = ordered(&wide.sites, wide.rank, None, whole, wide.grouping());
        carry(
            wide,
            &schedule,
            Memory::of(element, given.first(), sum.first()),
            Some(op),
        )?;
        let first: usize = counts[..me].iter().sum();
        element.copy((element.at(sum.first(), first), recvbuf), counts[me], wide)
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Scan(
    sendbuf: *mut c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    let what = (sendbuf, recvbuf, count, datatype, op);
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = of_sum(comm, None, what) else {
            return mpi_abi::PMPI_Scan(sendbuf, recvbuf, count, datatype, op, comm);
        };
        let (sites, me, grouping) = (&wide.sites, wide.rank, wide.grouping());
        code(sum(&wide, what, |operands| {
            scan(sites, me, operands.count, Prefix::Inclusive, grouping)
        }))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Exscan(
    sendbuf: *mut c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    let what = (sendbuf, recvbuf, count, datatype, op);
    // SAFETY: the caller's contract.
    unsafe {
        let Some(wide) = of_sum(comm, None, what) else {
            return mpi_abi::PMPI_Exscan(sendbuf, recvbuf, count, datatype, op, comm);
        };
        let (sites, me, grouping) = (&wide.sites, wide.rank, wide.grouping());
        code(sum(&wide, what, |operands| {
            scan(sites, me, operands.count, Prefix::Exclusive, grouping)
        }))
    }
}

impl Wide {
    /// What is combined first where the order of ranks counts.
    fn grouping(&self) -> Grouping {
        match self.is_reproducible {
            true => Grouping::Ranks,
            false => Grouping::Runs,
        }
    }
}
