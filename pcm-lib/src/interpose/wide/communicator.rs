//! Communicators with ranks at several sites, and what is known of each: found when one is first used for a collective
//! operation, in which all its ranks take part.
#![allow(unsafe_code, reason = "calls MPI")]

use super::extensions;
use super::failed::Failed;
use super::inquiry::Inquiry;
use super::turns::{Slots, Turns};
use crate::mpi::handle;
use mpi_abi::MPI_Comm;
use pcm_core::wide::{link::Link, sites::Sites};
use pcm_proto::app::environment;
use pcm_proto::fnv::fnv1a;
use std::{
    collections::BTreeMap,
    env,
    os::raw::c_int,
    ptr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// A communicator over several sites, or one whose sums are ours.
#[derive(Debug)]
pub(super) struct Wide {
    pub(super) sites: Sites,
    pub(super) rank: u32,
    pub(super) is_reproducible: bool,
    /// The slowest one between sites.
    pub(super) link: Link,
    /// Messages of the operations go here, so that the program's receives do not get them.
    pub(super) apart: MPI_Comm,
    pub(super) turns: Arc<Turns>,
    pub(super) slots: Slots,
}

/// This rank in a communicator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) rank: u32,
    pub(super) size: u32,
}

/// What a handle is known to be.
#[derive(Clone, Debug)]
enum Known {
    /// A communicator of which some operations are ours, or another one.
    Settled(Option<Arc<Wide>>),
    /// So far only nonblocking operations were begun. Until the first blocking one all are ours: whether the ranks are
    /// at one site is something that a rank may know when another does not, and all must decide alike.
    Coming(Arc<Inquiry>),
}

/// Which communicators have operations that are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    OverSites,
    /// Where sites have so many ranks that joining their blocks pays.
    OverLargeSites,
    /// Also those within a site, where bits must not depend on where ranks are.
    Sums,
}

/// What a nonblocking operation is begun with.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Known(Arc<Wide>),
    Coming(Arc<Inquiry>),
}

impl Found {
    pub(super) fn member(&self) -> Member {
        match self {
            Self::Known(wide) => wide.member(),
            Self::Coming(look) => look.member,
        }
    }

    pub(super) fn turns(&self) -> Arc<Turns> {
        match self {
            Self::Known(wide) => Arc::clone(&wide.turns),
            Self::Coming(look) => Arc::clone(&look.turns),
        }
    }

    /// None if it has not come yet.
    pub(super) fn wide(&self) -> Result<Option<Arc<Wide>>, Failed> {
        match self {
            Self::Known(wide) => Ok(Some(Arc::clone(wide))),
            Self::Coming(look) => look.found(),
        }
    }
}

static KNOWN: Mutex<BTreeMap<u64, Known>> = Mutex::new(BTreeMap::new());

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

/// The slowest link between sites, as all ranks of the job know it.
fn link() -> Link {
    static LINK: OnceLock<Link> = OnceLock::new();
    let known = || env::var(environment::LINK).ok()?.parse().ok();
    *LINK.get_or_init(|| known().unwrap_or_default())
}

impl Which {
    fn is_meant(self, sites: &Sites) -> bool {
        match self {
            Self::OverSites => sites.count() > 1,
            Self::OverLargeSites => sites.count() > 1 && (link().joining_pays(sites) || is_always()),
            Self::Sums => true,
        }
    }
}

/// Whether the user leaves no operation over sites to MPI.
fn is_always() -> bool {
    static IS_SO: OnceLock<bool> = OnceLock::new();
    *IS_SO.get_or_init(|| env::var_os(environment::WIDE).is_some_and(|value| value == environment::ALWAYS_WIDE))
}

/// What to know of a communicator that is used for a collective operation; None where MPI's own serves.
///
/// # Safety
/// All ranks of the communicator call the same operation.
#[inline]
pub(super) unsafe fn settled(communicator: MPI_Comm, which: Which) -> Option<Arc<Wide>> {
    // SAFETY: the caller's contract.
    unsafe { known(communicator) }.filter(|wide| which.is_meant(&wide.sites))
}

unsafe fn known(communicator: MPI_Comm) -> Option<Arc<Wide>> {
    let site = own_site()?;
    let word = handle::word(communicator);
    let known = lock().get(&word).cloned();
    let found = match known {
        Some(Known::Settled(known)) => return known,
        // All ranks are here, and so all answers come.
        Some(Known::Coming(look)) => look.wait().ok().filter(|wide| wide.is_needed()),
        // SAFETY: the caller's contract.
        None => unsafe { look(communicator, site) }.map(Arc::new),
    };
    lock().insert(word, Known::Settled(found.clone()));
    found
}

/// What to know of a communicator that is used for a nonblocking operation; None where MPI's own serves.
///
/// # Safety
/// All ranks of the communicator call the same operation, in the same order.
#[inline]
pub(super) unsafe fn coming(communicator: MPI_Comm, which: Which) -> Option<Found> {
    let site = own_site().filter(|_| extensions::is_possible())?;
    let word = handle::word(communicator);
    let known = lock().get(&word).cloned();
    match known {
        Some(Known::Settled(known)) => {
            return known.filter(|wide| which.is_meant(&wide.sites)).map(Found::Known);
        }
        Some(Known::Coming(look)) => return Some(Found::Coming(look)),
        None => {}
    }
    // SAFETY: the caller's contract.
    unsafe {
        let member = member(communicator).filter(|member| member.size > 1);
        let look = member.and_then(|member| Inquiry::begin(communicator, member, site).ok());
        let look = look.map(Arc::new);
        let known = look.clone().map_or(Known::Settled(None), Known::Coming);
        lock().insert(word, known);
        look.map(Found::Coming)
    }
}

fn lock() -> std::sync::MutexGuard<'static, BTreeMap<u64, Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// None of a communicator between two groups, and of none.
unsafe fn member(communicator: MPI_Comm) -> Option<Member> {
    let (mut rank, mut size, mut is_between): (c_int, c_int, c_int) = (0, 0, 0);
    // SAFETY: outputs are locals; MPI refuses a communicator that is none, and then the operation, too.
    let is_one = unsafe {
        communicator != mpi_abi::MPI_COMM_NULL()
            && mpi_abi::PMPI_Comm_test_inter(communicator, &mut is_between) == 0
            && is_between == 0
            && mpi_abi::PMPI_Comm_rank(communicator, &mut rank) == 0
            && mpi_abi::PMPI_Comm_size(communicator, &mut size) == 0
    };
    is_one.then_some(Member {
        rank: rank.cast_unsigned(),
        size: size.cast_unsigned(),
    })
}

unsafe fn look(communicator: MPI_Comm, site: u64) -> Option<Wide> {
    // SAFETY: the caller's contract.
    unsafe {
        let member = member(communicator)?;
        let mut names = vec![0_u64; member.size as usize];
        let (count, of_bytes) = (size_of::<u64>() as c_int, mpi_abi::MPI_BYTE());
        let all = names.as_mut_ptr().cast();
        let own = (&raw const site).cast();
        if mpi_abi::PMPI_Allgather(own, count, of_bytes, all, count, of_bytes, communicator) != 0 {
            return None;
        }
        if !is_needed(&Sites::new(&names)) {
            return None;
        }
        let mut apart = mpi_abi::MPI_COMM_NULL();
        (mpi_abi::PMPI_Comm_dup(communicator, &mut apart) == 0)
            .then(|| Wide::new(member.rank, &names, apart, Arc::default()))
    }
}

/// Whether some operations are ours.
fn is_needed(sites: &Sites) -> bool {
    sites.count() > 1 || (is_reproducible() && sites.size() > 1)
}

/// How many operations have tags of their own. Where none is nonblocking they follow each other.
fn slots(apart: MPI_Comm) -> Slots {
    let (mut highest, mut is_there): (*mut c_int, c_int) = (ptr::null_mut(), 0);
    // SAFETY: outputs are locals; MPI's own attribute is the address of a number.
    unsafe {
        let out = (&raw mut highest).cast();
        let code = mpi_abi::PMPI_Comm_get_attr(apart, mpi_abi::MPI_TAG_UB, out, &mut is_there);
        let is_known = code == 0 && is_there != 0 && !highest.is_null();
        Slots::new(if is_known { *highest } else { 0 })
    }
}

impl Wide {
    pub(super) fn new(rank: u32, names: &[u64], apart: MPI_Comm, turns: Arc<Turns>) -> Self {
        Self {
            sites: Sites::new(names),
            rank,
            is_reproducible: is_reproducible(),
            link: link(),
            apart,
            turns,
            slots: slots(apart),
        }
    }

    pub(super) fn member(&self) -> Member {
        Member {
            rank: self.rank,
            size: self.sites.size(),
        }
    }

    fn is_needed(&self) -> bool {
        is_needed(&self.sites)
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
