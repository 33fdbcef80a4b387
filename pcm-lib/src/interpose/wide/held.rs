//! Types and operators of operations under way. The program may free them; MPI may not yet.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(non_snake_case, reason = "the names are those of MPI")]

use crate::mpi::handle;
use mpi_abi::{MPI_Datatype, MPI_Op};
use std::{
    collections::BTreeMap,
    os::raw::c_int,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Datatype,
    Op,
}

/// A kind of handle, and the handle.
type Name = (Kind, u64);

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    holders: usize,
    /// The program has freed it.
    is_freed: bool,
}

static USES: Mutex<BTreeMap<Name, Use>> = Mutex::new(BTreeMap::new());

/// How many there are: none, most of the time.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn lock() -> MutexGuard<'static, BTreeMap<Name, Use>> {
    USES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handles that are in use.
#[derive(Debug)]
pub(super) struct Held(Vec<Name>);

impl Held {
    pub(super) fn new(datatypes: &[MPI_Datatype], op: Option<MPI_Op>) -> Self {
        let is_made = |datatype: &&MPI_Datatype| {
            **datatype != mpi_abi::MPI_DATATYPE_NULL() && !mpi_abi::predefined().contains(datatype)
        };
        let datatypes = datatypes.iter().filter(is_made);
        let datatypes = datatypes.map(|datatype| (Kind::Datatype, handle::word(*datatype)));
        let names: Vec<Name> = datatypes
            .chain(op.filter(|op| !is_own(*op)).map(|op| (Kind::Op, handle::word(op))))
            .collect();
        let mut uses = lock();
        for name in &names {
            uses.entry(*name).or_default().holders += 1;
        }
        COUNT.store(uses.len(), Relaxed);
        Self(names)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for name in self.0.drain(..) {
            let is_freed = let_go(name);
            if is_freed {
                free(name);
            }
        }
    }
}

/// Whether the handle is to be freed now.
fn let_go(name: Name) -> bool {
    let mut uses = lock();
    let Some(found) = uses.get_mut(&name) else { return false };
    found.holders -= 1;
    let Use { holders, is_freed } = *found;
    if holders == 0 {
        uses.remove(&name);
        COUNT.store(uses.len(), Relaxed);
    }
    holders == 0 && is_freed
}

fn free((kind, word): Name) {
    // SAFETY: the word is that of such a handle, which the program has freed and no operation uses any more.
    unsafe {
        match kind {
            Kind::Datatype => mpi_abi::PMPI_Type_free(&mut handle::from_word(word)),
            Kind::Op => mpi_abi::PMPI_Op_free(&mut handle::from_word(word)),
        };
    }
}

/// Whether an operator is MPI's own, as MPICH numbers them.
fn is_own(op: MPI_Op) -> bool {
    handle::word(op) & 0xfc00_0000 == 0x5800_0000
}

/// Whether an operation uses the handle: it is freed when that is over.
fn is_freed_later(name: Name) -> bool {
    COUNT.load(Relaxed) > 0 && lock().get_mut(&name).map(|found| found.is_freed = true).is_some()
}

/// As MPI says.
///
/// # Safety
/// The caller's argument of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Type_free(datatype: *mut MPI_Datatype) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if datatype.is_null() || !is_freed_later((Kind::Datatype, handle::word(*datatype))) {
            return mpi_abi::PMPI_Type_free(datatype);
        }
        *datatype = mpi_abi::MPI_DATATYPE_NULL();
    }
    0
}

/// As MPI says.
///
/// # Safety
/// The caller's argument of the MPI function.
pub(in crate::interpose) unsafe fn MPI_Op_free(op: *mut MPI_Op) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if op.is_null() || !is_freed_later((Kind::Op, handle::word(*op))) {
            return mpi_abi::PMPI_Op_free(op);
        }
        *op = mpi_abi::MPI_OP_NULL();
    }
    0
}
