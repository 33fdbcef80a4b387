//! The order of a rank's collectives and the identity of its communicators, as `pcm_proto::record` keeps them. Asks MPI
//! for a communicator's ranks once, when it is made; never says anything to another rank.
#![allow(unsafe_code, reason = "keeps boxes behind numbers, asks MPI for groups")]

use super::handle_table::HandleTable;
use super::ranks::Ranks;
use crate::mpi::handle;
use mpi_abi::MPI_Comm;
use pcm_proto::{fnv, other_communicators::OtherCommunicators, page::Page, record::Record};
use std::collections::BTreeMap;
use std::os::raw::c_int;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Marks identities that were computed, so that none is 0 or the job's.
const COMPUTED: u64 = 1 << 63;

/// See the file head.
#[derive(Debug)]
pub(super) struct Order {
    known: HandleTable,
    on_job: AtomicU64,
    /// How many communicators of the same ranks were made so far, by the ranks' hash.
    made: Mutex<BTreeMap<u64, u64>>,
}

struct Known {
    identity: u64,
    collectives: AtomicU64,
}

impl Order {
    /// With room for this many communicators.
    pub(super) fn new(communicators_max: usize) -> Self {
        Self {
            known: HandleTable::new(communicators_max),
            on_job: AtomicU64::new(0),
            made: Mutex::default(),
        }
    }

    /// Identity of a communicator that is not the job's; 0 where it has none.
    #[inline]
    pub(super) fn identity(&self, communicator: u64) -> u64 {
        self.find(communicator).map_or(0, |known| known.identity)
    }

    /// Identity of a communicator and the number its next collective has.
    #[inline]
    pub(super) fn next(&self, communicator: u64) -> Option<(u64, u64)> {
        let known = self.find(communicator)?;
        Some((known.identity, known.collectives.fetch_add(1, Relaxed) + 1))
    }

    /// The number the next collective of the job's communicator has.
    #[inline]
    pub(super) fn next_on_job(&self) -> u64 {
        self.on_job.fetch_add(1, Relaxed) + 1
    }

    fn find(&self, communicator: u64) -> Option<&Known> {
        let known = self.known.value(communicator).filter(|known| *known != 0)?;
        // SAFETY: a box of `made`, dropped only when its communicator ends, which MPI forbids during a call with it.
        Some(unsafe { &*(known as *const Known) })
    }

    /// The application has a new communicator.
    ///
    /// # Safety
    /// MPI is initialised, both communicators exist.
    pub(super) unsafe fn made(&self, communicator: MPI_Comm, job: MPI_Comm, record: &Record) {
        // SAFETY: the caller's contract.
        let Some(ranks) = (unsafe { members(communicator, job) }) else {
            return;
        };
        let hash = ranks
            .iter()
            .fold(fnv::BASIS, |hash, rank| fnv::step(hash, *rank as u32 as u64));
        let ordinal = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            let ordinal = made.entry(hash).or_default();
            *ordinal += 1;
            *ordinal
        };
        let identity = fnv::step(hash, ordinal) | COMPUTED;
        record.communicator_made(identity, &ranks);
        let known = Box::into_raw(Box::new(Known {
            identity,
            collectives: AtomicU64::new(0),
        }));
        known_drop(self.known.set(handle::word(communicator), known as u64));
    }

    /// The application ends a communicator.
    pub(super) fn ended(&self, communicator: MPI_Comm, others: &OtherCommunicators) {
        let identity = self.identity(handle::word(communicator));
        if identity != 0 {
            others.ended(identity);
        }
        known_drop(self.known.remove(handle::word(communicator)));
    }

    /// The job has another communicator, and ranks that know nothing of what was before.
    pub(super) fn begin_anew(&self, page: Page<'static>) {
        self.on_job.store(0, Relaxed);
        self.made.lock().unwrap_or_else(PoisonError::into_inner).clear();
        page.head.record.clear();
        page.head.other_communicators.clear();
        // Rows are by rank, and ranks are others now.
        for row in (0..=page.peers_max()).map(|rank| page.peer(rank)) {
            let counts = [
                &row.messages_sent,
                &row.bytes_sent,
                &row.messages_received,
                &row.bytes_received,
            ];
            counts.into_iter().for_each(|count| count.store(0, Relaxed));
        }
    }
}

fn known_drop(known: Option<u64>) {
    if let Some(known) = known.filter(|known| *known != 0) {
        // SAFETY: a box of `made`; its communicator has ended, so nobody looks it up any more.
        drop(unsafe { Box::from_raw(known as *mut Known) });
    }
}

/// Ranks in the job, where all members have one.
unsafe fn members(communicator: MPI_Comm, job: MPI_Comm) -> Option<Vec<i32>> {
    let mut between: c_int = 0;
    // SAFETY: the caller's contract.
    let ranks = unsafe {
        let code = mpi_abi::PMPI_Comm_test_inter(communicator, &mut between);
        if code != 0 || between != 0 {
            return None;
        }
        Ranks::translate(communicator, job)
    };
    let ranks = ranks.into_list();
    (!ranks.is_empty() && ranks.iter().all(|rank| *rank >= 0)).then_some(ranks)
}
