//! Communicators with ranks at several sites, and what is known of each: found when one is first used for a collective
//! operation, in which all its ranks take part.
#![allow(unsafe_code, reason = "calls MPI")]

use crate::mpi::handle;
use mpi_abi::MPI_Comm;
use pcm_core::wide::sites::Sites;
use pcm_proto::app::environment;
use pcm_proto::fnv::fnv1a;
use std::{
    collections::BTreeMap,
    env,
    os::raw::c_int,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// A communicator over several sites, or one whose sums are ours.
#[derive(Debug)]
pub(super) struct Wide {
    pub(super) sites: Sites,
    pub(super) rank: u32,
    pub(super) is_reproducible: bool,
    /// Messages of the operations go here, so that the program's receives do not get them.
    pub(super) apart: MPI_Comm,
}

/// What a handle is known to be: a communicator of which some operations are ours, or another one.
static KNOWN: Mutex<BTreeMap<u64, Option<Arc<Wide>>>> = Mutex::new(BTreeMap::new());

/// This rank's site, where collective operations are not all MPI's own: all are of one where only sums are not.
fn own_site() -> Option<u64> {
    static SITE_NUMBER: OnceLock<Option<u64>> = OnceLock::new();
    *SITE_NUMBER.get_or_init(|| match env::var_os(environment::WIDE) {
        Some(value) if value != environment::NEVER_WIDE => {
            let name = env::var(environment::SITE).unwrap_or_default();
            Some(fnv1a(name.bytes()))
        }
        _ => is_reproducible().then_some(0),
    })
}

fn is_reproducible() -> bool {
    static IS_SO: OnceLock<bool> = OnceLock::new();
    *IS_SO.get_or_init(|| env::var_os(environment::REPRODUCIBLE).is_some())
}

/// What to know of a communicator that is used for a collective operation; None where MPI's own serves.
///
/// # Safety
/// All ranks of the communicator call the same operation.
#[inline]
pub(super) unsafe fn over_sites(communicator: MPI_Comm) -> Option<Arc<Wide>> {
    // SAFETY: the caller's contract.
    unsafe { known(communicator) }.filter(|wide| wide.sites.count() > 1)
}

/// The same for sums, which are also ours where their bits must not depend on where ranks are.
///
/// # Safety
/// As [`over_sites`].
#[inline]
pub(super) unsafe fn for_sums(communicator: MPI_Comm) -> Option<Arc<Wide>> {
    // SAFETY: the caller's contract.
    unsafe { known(communicator) }
}

unsafe fn known(communicator: MPI_Comm) -> Option<Arc<Wide>> {
    let site = own_site()?;
    let word = handle::word(communicator);
    if let Some(known) = lock().get(&word) {
        return known.clone();
    }
    // SAFETY: the caller's contract.
    let found = unsafe { look(communicator, site) }.map(Arc::new);
    lock().insert(word, found.clone());
    found
}

fn lock() -> std::sync::MutexGuard<'static, BTreeMap<u64, Option<Arc<Wide>>>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe fn look(communicator: MPI_Comm, site: u64) -> Option<Wide> {
    let (mut rank, mut size, mut is_between): (c_int, c_int, c_int) = (0, 0, 0);
    // SAFETY: outputs are locals; MPI refuses a communicator that is none, and then the operation, too.
    unsafe {
        if communicator == mpi_abi::MPI_COMM_NULL
            || mpi_abi::PMPI_Comm_test_inter(communicator, &mut is_between) != 0
            || is_between != 0
            || mpi_abi::PMPI_Comm_rank(communicator, &mut rank) != 0
            || mpi_abi::PMPI_Comm_size(communicator, &mut size) != 0
        {
            return None;
        }
        let mut names = vec![0_u64; usize::try_from(size).ok()?];
        let (count, of_bytes) = (size_of::<u64>() as c_int, mpi_abi::MPI_BYTE);
        let all = names.as_mut_ptr().cast();
        let own = (&raw const site).cast();
        if mpi_abi::PMPI_Allgather(own, count, of_bytes, all, count, of_bytes, communicator) != 0 {
            return None;
        }
        let sites = Sites::new(&names);
        if sites.count() < 2 && !(is_reproducible() && size > 1) {
            return None;
        }
        let mut apart = mpi_abi::MPI_COMM_NULL;
        (mpi_abi::PMPI_Comm_dup(communicator, &mut apart) == 0).then(|| Wide {
            sites,
            rank: rank.cast_unsigned(),
            is_reproducible: is_reproducible(),
            apart,
        })
    }
}

/// The program ends a communicator.
pub(in crate::interpose) fn ended(communicator: MPI_Comm) {
    if own_site().is_some() {
        drop(lock().remove(&handle::word(communicator)));
    }
}

/// The job's communicator is another one: all that were there before are stale.
pub(in crate::interpose) fn job_changed() {
    if own_site().is_some() {
        lock().clear();
    }
}

impl Drop for Wide {
    fn drop(&mut self) {
        // SAFETY: its operations are complete. In MPICH and its relatives this waits for no other rank, so ranks that
        // have left do not matter.
        unsafe { mpi_abi::PMPI_Comm_free(&mut self.apart) };
    }
}
