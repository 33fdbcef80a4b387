//! Operations that combine, and those from one rank to all.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(clippy::too_many_arguments, reason = "signatures are those of MPI")]

use super::carry::Memory;
use super::communicator::{Member, Which, Wide};
use super::data::{Element, Given, Opaque};
use super::failed::Failed;
use super::operation::{Form, Operation};
use super::stage::Stage;
use super::trial;
use mpi_abi::{MPI_Comm, MPI_Datatype, MPI_Op};
use pcm_core::wide::{
    bcast::{barrier as meeting, bcast as spread},
    link::{Pieces, Spread},
    reduce,
    scan::{Grouping, Prefix, ordered, scan},
    schedule::Schedule,
};
use std::os::raw::{c_int, c_void};
use std::{ptr, slice, sync::Arc};

impl Member {
    /// Whether MPI would take these: what it would not, it refuses itself, on every rank.
    pub(super) fn takes(self, count: c_int, root: Option<c_int>) -> bool {
        count >= 0 && root.is_none_or(|root| (0..self.size).contains(&root.cast_unsigned()))
    }

    /// Whether this rank has what only the root has; all have it where there is no root.
    pub(super) fn has_all(self, root: Option<c_int>) -> bool {
        root.is_none_or(|root| self.rank == root.cast_unsigned())
    }
}

pub(super) unsafe fn barrier(comm: MPI_Comm, form: Form<'_>, own: impl FnOnce() -> c_int) -> c_int {
    let begin = |wide: &Arc<Wide>| {
        let schedule = meeting(&wide.sites, wide.rank);
        Ok(Stage::moving(schedule, Memory::none(), || Ok(Stage::Done)))
    };
    let operation = Operation {
        comm,
        which: Which::OverSites,
        form,
        datatypes: &[],
        op: None,
    };
    // SAFETY: the caller's contract.
    unsafe { operation.go(|_| true, begin, own) }
}

pub(super) unsafe fn bcast(
    buffer: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    let begin = move |wide: &Arc<Wide>| {
        let root = root.cast_unsigned();
        let is_root = wide.rank == root;
        // SAFETY: the caller's contract.
        let mut data = unsafe { Opaque::new(buffer, count, datatype, wide)? };
        if is_root {
            data.pack()?;
        }
        let pieces = wide.link.pieces(&wide.sites, Spread::FromOne, (data.length(), 1));
        let schedule = spread(&wide.sites, wide.rank, root, data.length(), pieces);
        let memory = Memory::bytes(ptr::null_mut(), data.first());
        Ok(Stage::moving(schedule, memory, move || {
            if !is_root {
                data.unpack()?;
            }
            Ok(Stage::Done)
        }))
    };
    let operation = Operation {
        comm,
        which: Which::OverSites,
        form,
        datatypes: &[datatype],
        op: None,
    };
    let is_sound = |member: Member| member.takes(count, Some(root)) && trial::takes(datatype);
    // SAFETY: the caller's contract.
    unsafe { operation.go(is_sound, begin, own) }
}

/// Buffers of operands and result, and what combines how many of them.
type Sum = (*mut c_void, *mut c_void, c_int, MPI_Datatype, MPI_Op);

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

    fn pieces(&self, wide: &Wide) -> Pieces {
        let size = (self.count, self.element.extent().unsigned_abs());
        wide.link.pieces(&wide.sites, Spread::FromAll, size)
    }
}

/// An operation that combines.
fn combining<'a>(comm: MPI_Comm, form: Form<'a>, datatype: &'a MPI_Datatype, op: MPI_Op) -> Operation<'a> {
    Operation {
        comm,
        which: Which::Sums,
        form,
        datatypes: slice::from_ref(datatype),
        op: Some(op),
    }
}

/// One of the operations that combine: the root of those that have one, and its plan.
unsafe fn sum(
    ((given, result, count, datatype, op), comm): (Sum, MPI_Comm),
    root: Option<c_int>,
    form: Form<'_>,
    plan: impl FnOnce(&Wide, &Operands) -> Schedule + 'static,
    own: impl FnOnce() -> c_int,
) -> c_int {
    let begin = move |wide: &Arc<Wide>| {
        // SAFETY: the caller's contract.
        let (operands, given) = unsafe {
            let operands = Operands::new(count, datatype, op, wide)?;
            let given = Given::new(given, result, operands.element, operands.count)?;
            (operands, given)
        };
        let memory = Memory::of(operands.element, given.first(), result);
        let schedule = plan(wide, &operands);
        Ok(Stage::combining(schedule, memory, op, move || {
            drop(given);
            Ok(Stage::Done)
        }))
    };
    // Only the root of a sum has a result.
    let is_sound = |member: Member| {
        let has_result = count > 0 && member.has_all(root);
        let result = if has_result { result } else { ptr::null_mut() };
        member.takes(count, root) && trial::combines((datatype, op), given, result)
    };
    // SAFETY: the caller's contract.
    unsafe { combining(comm, form, &datatype, op).go(is_sound, begin, own) }
}

pub(super) unsafe fn reduce(
    given: *mut c_void,
    result: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    let plan = move |wide: &Wide, operands: &Operands| {
        let (sites, me, root) = (&wide.sites, wide.rank, root.cast_unsigned());
        match operands.may_be_mixed {
            true => reduce::reduce(sites, me, root, operands.count, operands.pieces(wide)),
            false => ordered(sites, me, Some(root), operands.count, wide.grouping()),
        }
    };
    // SAFETY: the caller's contract.
    unsafe {
        sum(
            ((given, result, count, datatype, op), comm),
            Some(root),
            form,
            plan,
            own,
        )
    }
}

pub(super) unsafe fn allreduce(
    given: *mut c_void,
    result: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    let plan = |wide: &Wide, operands: &Operands| {
        let (sites, me) = (&wide.sites, wide.rank);
        match operands.may_be_mixed {
            true => reduce::allreduce(sites, me, operands.count, operands.pieces(wide)),
            false => ordered(sites, me, None, operands.count, wide.grouping()),
        }
    };
    // SAFETY: the caller's contract.
    unsafe { sum(((given, result, count, datatype, op), comm), None, form, plan, own) }
}

pub(super) unsafe fn scan_inclusive(
    given: *mut c_void,
    result: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { prefix(Prefix::Inclusive, (given, result, count, datatype, op), comm, form, own) }
}

pub(super) unsafe fn scan_exclusive(
    given: *mut c_void,
    result: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { prefix(Prefix::Exclusive, (given, result, count, datatype, op), comm, form, own) }
}

unsafe fn prefix(prefix: Prefix, what: Sum, comm: MPI_Comm, form: Form<'_>, own: impl FnOnce() -> c_int) -> c_int {
    let plan =
        move |wide: &Wide, operands: &Operands| scan(&wide.sites, wide.rank, operands.count, prefix, wide.grouping());
    // SAFETY: the caller's contract.
    unsafe { sum((what, comm), None, form, plan, own) }
}

pub(super) unsafe fn reduce_scatter_block(
    given: *mut c_void,
    result: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    let begin = move |wide: &Arc<Wide>| {
        let counts = vec![usize::try_from(count).unwrap_or(0); wide.sites.size() as usize];
        // SAFETY: the caller's contract.
        unsafe { scattered(wide, (given, result), &counts, datatype, op) }
    };
    let is_sound = |member: Member| {
        let result = if count > 0 { result } else { ptr::null_mut() };
        member.takes(count, None) && trial::combines((datatype, op), given, result)
    };
    // SAFETY: the caller's contract.
    unsafe { combining(comm, form, &datatype, op).go(is_sound, begin, own) }
}

pub(super) unsafe fn reduce_scatter(
    given: *mut c_void,
    result: *mut c_void,
    counts: *mut c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // None with a negative one.
    let all = move |size: u32| {
        // SAFETY: the caller's contract.
        let counts = unsafe { slice::from_raw_parts(counts, size as usize) };
        let counts = counts.iter().map(|count| usize::try_from(*count).ok());
        counts.collect::<Option<Vec<usize>>>()
    };
    let begin = move |wide: &Arc<Wide>| {
        let counts = all(wide.sites.size()).ok_or(Failed(mpi_abi::MPI_ERR_COUNT))?;
        // SAFETY: the caller's contract.
        unsafe { scattered(wide, (given, result), &counts, datatype, op) }
    };
    let is_sound = |member: Member| {
        !counts.is_null() && all(member.size).is_some() && trial::combines((datatype, op), given, ptr::null_mut())
    };
    // SAFETY: the caller's contract.
    unsafe { combining(comm, form, &datatype, op).go(is_sound, begin, own) }
}

/// Each rank's part of the sum.
unsafe fn scattered(
    wide: &Wide,
    (sendbuf, recvbuf): (*mut c_void, *mut c_void),
    counts: &[usize],
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<Stage, Failed> {
    let (whole, me) = (counts.iter().sum(), wide.rank as usize);
    // SAFETY: the caller's contract.
    let (operands, given) = unsafe {
        let operands = Operands::new(0, datatype, op, wide)?;
        let given = Given::new(sendbuf, recvbuf, operands.element, whole)?;
        (operands, given)
    };
    let element = operands.element;
    if operands.may_be_mixed {
        let schedule = reduce::reduce_scatter(&wide.sites, wide.rank, counts);
        let memory = Memory::of(element, given.first(), recvbuf);
        return Ok(Stage::combining(schedule, memory, op, move || {
            drop(given);
            Ok(Stage::Done)
        }));
    }
    // In the order of ranks the sum is made as a whole.
    let sum = element.room(whole)?;
    let schedule = ordered(&wide.sites, wide.rank, None, whole, wide.grouping());
    let memory = Memory::of(element, given.first(), sum.first());
    let (first, own): (usize, usize) = (counts[..me].iter().sum(), counts[me]);
    Ok(Stage::combining(schedule, memory, op, move || {
        drop(given);
        // SAFETY: the caller's contract.
        unsafe { element.copy((element.at(sum.first(), first), recvbuf), own)? };
        Ok(Stage::Done)
    }))
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
