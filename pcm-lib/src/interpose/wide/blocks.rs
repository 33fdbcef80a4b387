//! Operations that move blocks: each rank's to one, from one to each, or from each to all.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(clippy::too_many_arguments, reason = "signatures are those of MPI")]

use super::carry::Memory;
use super::communicator::{Member, Which, Wide};
use super::data::{Element, Opaque};
use super::failed::Failed;
use super::operation::{Form, Operation};
use super::stage::Stage;
use super::trial;
use mpi_abi::{MPI_Comm, MPI_Datatype};
use pcm_core::wide::{
    all::{Block, allgather, alltoall},
    gather::{counts, gather, scatter},
};
use std::os::raw::{c_int, c_void};
use std::{ptr, sync::Arc};

/// Elements of the program.
type Elements = (*mut c_void, c_int, MPI_Datatype);

/// Blocks of the program, one for each rank.
#[derive(Clone, Copy)]
struct Blocks {
    buffer: *mut c_void,
    lengths: Lengths,
    datatype: MPI_Datatype,
}

/// How many elements the blocks have.
#[derive(Clone, Copy)]
enum Lengths {
    Equal(c_int),
    /// Counts and where they begin. Where there is a root only that knows them.
    Varied(*mut c_int, *mut c_int),
}

impl Blocks {
    fn equal((buffer, count, datatype): Elements) -> Self {
        Self {
            buffer,
            lengths: Lengths::Equal(count),
            datatype,
        }
    }

    fn varied(buffer: *mut c_void, (counts, firsts): (*mut c_int, *mut c_int), datatype: MPI_Datatype) -> Self {
        Self {
            buffer,
            lengths: Lengths::Varied(counts, firsts),
            datatype,
        }
    }

    /// Whether MPI takes the count that all have.
    fn has_count(self) -> bool {
        !matches!(self.lengths, Lengths::Equal(..0))
    }

    /// Where they go to or from a root, MPI sends blocks of varied lengths directly.
    fn which(self) -> Which {
        match self.lengths {
            Lengths::Equal(_) => Which::OverSites,
            Lengths::Varied(..) => Which::OverLargeSites,
        }
    }

    /// Whether what says how long they are is there.
    fn are_there(self) -> bool {
        match self.lengths {
            Lengths::Equal(_) => true,
            Lengths::Varied(counts, firsts) => !counts.is_null() && !firsts.is_null(),
        }
    }

    unsafe fn opaque(self, wide: &Wide) -> Result<Opaque, Failed> {
        // SAFETY: the caller's contract.
        unsafe {
            match self.lengths {
                Lengths::Equal(count) => Opaque::blocks(self.buffer, count, self.datatype, wide),
                Lengths::Varied(counts, firsts) => Opaque::varied(self.buffer, (counts, firsts), self.datatype, wide),
            }
        }
    }
}

/// Goes on with the lengths of the blocks that pass through this rank, which is not the root.
fn with_passing(
    wide: &Wide,
    root: u32,
    own: usize,
    lengths: Lengths,
    then: impl FnOnce(&[usize]) -> Result<Stage, Failed> + 'static,
) -> Result<Stage, Failed> {
    let size = wide.sites.size() as usize;
    if matches!(lengths, Lengths::Equal(_)) {
        return then(&vec![own; size]);
    }
    let (own, mut all) = (Box::new(own as u64), vec![0_u64; size]);
    all[wide.rank as usize] = *own;
    let given = (&raw const *own).cast_mut().cast();
    let memory = Memory::of(Element::length(), given, all.as_mut_ptr().cast());
    let schedule = counts(&wide.sites, wide.rank, root);
    Ok(Stage::moving(schedule, memory, move || {
        drop(own);
        let all: Vec<usize> = all.into_iter().map(|length| length as usize).collect();
        then(&all)
    }))
}

unsafe fn gathered(wide: &Arc<Wide>, root: u32, elements: Elements, blocks: Blocks) -> Result<Stage, Failed> {
    let me = wide.rank;
    // SAFETY: the caller's contract.
    unsafe {
        if me != root {
            let (buffer, count, datatype) = elements;
            let mut own = Opaque::new(buffer, count, datatype, wide)?;
            own.pack()?;
            let (length, over) = (own.length(), Arc::clone(wide));
            return with_passing(wide, root, length, blocks.lengths, move |lengths| {
                let memory = Memory::bytes(own.first(), ptr::null_mut());
                let schedule = gather(&over.sites, me, root, lengths);
                Ok(Stage::moving(schedule, memory, move || {
                    drop(own);
                    Ok(Stage::Done)
                }))
            });
        }
        let mut all = blocks.opaque(wide)?;
        let schedule = gather(&wide.sites, me, root, all.lengths());
        let mut own = given(wide, elements, &mut all)?;
        let memory = Memory::bytes(own.first(&mut all, me), all.first());
        Ok(Stage::moving(schedule, memory, move || {
            drop(own);
            all.unpack()?;
            Ok(Stage::Done)
        }))
    }
}

unsafe fn scattered(wide: &Arc<Wide>, root: u32, blocks: Blocks, elements: Elements) -> Result<Stage, Failed> {
    let (me, (buffer, count, datatype)) = (wide.rank, elements);
    // SAFETY: the caller's contract.
    unsafe {
        if me != root {
            let mut own = Opaque::new(buffer, count, datatype, wide)?;
            let (length, over) = (own.length(), Arc::clone(wide));
            return with_passing(wide, root, length, blocks.lengths, move |lengths| {
                let memory = Memory::bytes(ptr::null_mut(), own.first());
                let schedule = scatter(&over.sites, me, root, lengths);
                Ok(Stage::moving(schedule, memory, move || {
                    own.unpack()?;
                    Ok(Stage::Done)
                }))
            });
        }
        let mut all = blocks.opaque(wide)?;
        all.pack()?;
        let schedule = scatter(&wide.sites, me, root, all.lengths());
        let mut own = match buffer == mpi_abi::MPI_IN_PLACE {
            true => None,
            false => Some(Opaque::new(buffer, count, datatype, wide)?),
        };
        let first = own.as_mut().map(Opaque::first);
        let first = first.unwrap_or_else(|| all.block(me));
        let memory = Memory::bytes(all.first(), first);
        Ok(Stage::moving(schedule, memory, move || {
            drop(all);
            if let Some(mut own) = own {
                own.unpack()?;
            }
            Ok(Stage::Done)
        }))
    }
}

unsafe fn gathered_everywhere(wide: &Wide, elements: Elements, blocks: Blocks) -> Result<Stage, Failed> {
    // SAFETY: the caller's contract.
    let (mut own, mut all) = unsafe {
        let mut all = blocks.opaque(wide)?;
        (given(wide, elements, &mut all)?, all)
    };
    let schedule = allgather(&wide.sites, wide.rank, &in_turn(all.lengths()));
    let memory = Memory::bytes(own.first(&mut all, wide.rank), all.first());
    Ok(Stage::moving(schedule, memory, move || {
        drop(own);
        all.unpack()?;
        Ok(Stage::Done)
    }))
}

unsafe fn exchanged(wide: &Wide, given: Blocks, blocks: Blocks) -> Result<Stage, Failed> {
    // SAFETY: the caller's contract.
    let mut all = unsafe { blocks.opaque(wide)? };
    let receives = in_turn(all.lengths());
    if given.buffer == mpi_abi::MPI_IN_PLACE {
        all.pack()?;
        let mut given = all.copied();
        let memory = Memory::bytes(given.as_mut_ptr().cast(), all.first());
        let schedule = alltoall(wide.rank, &receives, &receives);
        return Ok(Stage::moving(schedule, memory, move || {
            drop(given);
            all.unpack()?;
            Ok(Stage::Done)
        }));
    }
    // SAFETY: the caller's contract.
    let mut given = unsafe { given.opaque(wide)? };
    given.pack()?;
    let schedule = alltoall(wide.rank, &in_turn(given.lengths()), &receives);
    let memory = Memory::bytes(given.first(), all.first());
    Ok(Stage::moving(schedule, memory, move || {
        drop(given);
        all.unpack()?;
        Ok(Stage::Done)
    }))
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

/// Whether MPI takes this rank's block and all blocks, as far as it looks at them here.
fn is_sound(member: Member, root: Option<c_int>, (own, _, of_own): Elements, blocks: Blocks) -> bool {
    let has_all = member.has_all(root);
    let is_own_meant = !has_all || own != mpi_abi::MPI_IN_PLACE;
    member.takes(0, root)
        && (!is_own_meant || trial::takes(of_own))
        && (!has_all || (blocks.are_there() && trial::takes(blocks.datatype)))
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

/// An operation on blocks.
fn operation<'a>(comm: MPI_Comm, which: Which, form: Form<'a>, datatypes: &'a [MPI_Datatype]) -> Operation<'a> {
    Operation {
        comm,
        which,
        form,
        datatypes,
        op: None,
    }
}

unsafe fn to_root(
    (elements, blocks, root, comm): (Elements, Blocks, c_int, MPI_Comm),
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let begin = move |wide: &Arc<Wide>| unsafe { gathered(wide, root.cast_unsigned(), elements, blocks) };
    let is_sound = |member| is_sound(member, Some(root), elements, blocks);
    // SAFETY: the caller's contract.
    unsafe { operation(comm, blocks.which(), form, &[elements.2, blocks.datatype]).go(is_sound, begin, own) }
}

unsafe fn from_root(
    (blocks, elements, root, comm): (Blocks, Elements, c_int, MPI_Comm),
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let begin = move |wide: &Arc<Wide>| unsafe { scattered(wide, root.cast_unsigned(), blocks, elements) };
    let is_sound = |member| is_sound(member, Some(root), elements, blocks);
    // SAFETY: the caller's contract.
    unsafe { operation(comm, blocks.which(), form, &[elements.2, blocks.datatype]).go(is_sound, begin, own) }
}

unsafe fn to_all(
    (elements, blocks, comm): (Elements, Blocks, MPI_Comm),
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let begin = move |wide: &Arc<Wide>| unsafe { gathered_everywhere(wide, elements, blocks) };
    let is_sound = |member: Member| blocks.has_count() && is_sound(member, None, elements, blocks);
    // SAFETY: the caller's contract.
    unsafe { operation(comm, Which::OverSites, form, &[elements.2, blocks.datatype]).go(is_sound, begin, own) }
}

unsafe fn between_all(
    (given, blocks, comm): (Blocks, Blocks, MPI_Comm),
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let begin = move |wide: &Arc<Wide>| unsafe { exchanged(wide, given, blocks) };
    let is_sound =
        |member: Member| blocks.has_count() && is_sound(member, None, (given.buffer, 0, given.datatype), blocks);
    // SAFETY: the caller's contract.
    unsafe { operation(comm, Which::OverSites, form, &[given.datatype, blocks.datatype]).go(is_sound, begin, own) }
}

pub(super) unsafe fn gather_equal(
    own_buffer: *mut c_void,
    own_count: c_int,
    own_type: MPI_Datatype,
    all: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        to_root(
            (
                (own_buffer, own_count, own_type),
                Blocks::equal((all, count, datatype)),
                root,
                comm,
            ),
            form,
            own,
        )
    }
}

pub(super) unsafe fn gather_varied(
    own_buffer: *mut c_void,
    own_count: c_int,
    own_type: MPI_Datatype,
    all: *mut c_void,
    counts: *mut c_int,
    firsts: *mut c_int,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        to_root(
            (
                (own_buffer, own_count, own_type),
                Blocks::varied(all, (counts, firsts), datatype),
                root,
                comm,
            ),
            form,
            own,
        )
    }
}

pub(super) unsafe fn scatter_equal(
    all: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    own_buffer: *mut c_void,
    own_count: c_int,
    own_type: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        from_root(
            (
                Blocks::equal((all, count, datatype)),
                (own_buffer, own_count, own_type),
                root,
                comm,
            ),
            form,
            own,
        )
    }
}

pub(super) unsafe fn scatter_varied(
    all: *mut c_void,
    counts: *mut c_int,
    firsts: *mut c_int,
    datatype: MPI_Datatype,
    own_buffer: *mut c_void,
    own_count: c_int,
    own_type: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        from_root(
            (
                Blocks::varied(all, (counts, firsts), datatype),
                (own_buffer, own_count, own_type),
                root,
                comm,
            ),
            form,
            own,
        )
    }
}

pub(super) unsafe fn allgather_equal(
    own_buffer: *mut c_void,
    own_count: c_int,
    own_type: MPI_Datatype,
    all: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        to_all(
            (
                (own_buffer, own_count, own_type),
                Blocks::equal((all, count, datatype)),
                comm,
            ),
            form,
            own,
        )
    }
}

pub(super) unsafe fn allgather_varied(
    own_buffer: *mut c_void,
    own_count: c_int,
    own_type: MPI_Datatype,
    all: *mut c_void,
    counts: *mut c_int,
    firsts: *mut c_int,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        to_all(
            (
                (own_buffer, own_count, own_type),
                Blocks::varied(all, (counts, firsts), datatype),
                comm,
            ),
            form,
            own,
        )
    }
}

pub(super) unsafe fn alltoall_equal(
    given: *mut c_void,
    given_count: c_int,
    given_type: MPI_Datatype,
    all: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        between_all(
            (
                Blocks::equal((given, given_count, given_type)),
                Blocks::equal((all, count, datatype)),
                comm,
            ),
            form,
            own,
        )
    }
}

pub(super) unsafe fn alltoall_varied(
    given: *mut c_void,
    given_counts: *mut c_int,
    given_firsts: *mut c_int,
    given_type: MPI_Datatype,
    all: *mut c_void,
    counts: *mut c_int,
    firsts: *mut c_int,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    form: Form<'_>,
    own: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        between_all(
            (
                Blocks::varied(given, (given_counts, given_firsts), given_type),
                Blocks::varied(all, (counts, firsts), datatype),
                comm,
            ),
            form,
            own,
        )
    }
}
