//! Which layout of the job counts, as far as communicators go: before the first one a newcomer has no job, after a
//! change every communicator of an older layout is stale. Costs one load while the job has never changed.
#![allow(unsafe_code, reason = "asks MPI about communicators")]

use super::handle_table::HandleTable;
use crate::mpi::handle;
use mpi_abi::MPI_Comm;
use std::{
    ffi::CStr,
    os::raw::c_int,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// See the file head.
#[derive(Debug)]
pub(crate) struct Era {
    /// Whether there is nothing to look at: no prelude, no change yet.
    is_plain: AtomicBool,
    /// Rank and size planned for a process that joins, as one word; 0 once it has joined.
    planned: AtomicU64,
    /// Changes of the job's communicator so far.
    changes: AtomicU64,
    /// The number of changes before each communicator, where that is not 0.
    made_after: HandleTable,
}

impl Era {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            is_plain: AtomicBool::new(true),
            planned: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            made_after: HandleTable::new(slots),
        }
    }

    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.is_plain.load(Relaxed)
    }

    pub(super) fn prelude_begin(&mut self, rank: u32, size: u32) {
        self.planned.store(u64::from(rank) << 32 | u64::from(size), Relaxed);
        self.is_plain.store(false, Relaxed);
    }

    /// Rank and size that a process that joins will have.
    #[inline]
    pub(super) fn planned(&self) -> Option<(u32, u32)> {
        let planned = self.planned.load(Relaxed);
        (planned != 0).then_some(((planned >> 32) as u32, planned as u32))
    }

    /// Another communicator is the job's.
    pub(super) fn next(&self) {
        self.planned.store(0, Relaxed);
        self.changes.fetch_add(1, Relaxed);
        self.is_plain.store(false, Relaxed);
    }

    pub(super) fn made(&self, communicator: MPI_Comm) {
        let changes = self.changes.load(Relaxed);
        if changes > 0 {
            self.made_after.set(handle::word(communicator), changes);
        }
    }

    pub(super) fn ended(&self, communicator: MPI_Comm) {
        if self.changes.load(Relaxed) > 0 {
            self.made_after.remove(handle::word(communicator));
        }
    }

    /// Why MPI_COMM_WORLD cannot be used now, if it cannot.
    pub(super) fn refusal_of_world(&self) -> Option<String> {
        self.planned().map(|(rank, size)| {
            format!(
                "this process joins a running job as rank {rank} of {size} and has no MPI_COMM_WORLD before pcm_start: \
                 register what this call would give it (pcm_value), or leave the call out if pcm_joining()"
            )
        })
    }

    /// Why a communicator that the application made cannot be used now, if it cannot. One of this process alone never
    /// gets stale.
    pub(super) fn refusal_of(&self, communicator: MPI_Comm) -> Option<String> {
        let made_after = self.made_after.value(handle::word(communicator)).unwrap_or(0);
        let changes = self.changes.load(Relaxed);
        if made_after == changes || is_alone(communicator) {
            return None;
        }
        let name = name_of(communicator);
        let named = if name.is_empty() {
            "a communicator without a name (give it one with MPI_Comm_set_name)".to_owned()
        } else {
            format!("communicator \"{name}\"")
        };
        Some(format!(
            "{named} was made before the ranks of the job changed and has processes that left: free it and make it \
             anew when pcm_iterate returns PCM_CHANGED, or in the change hook (pcm_on_change)"
        ))
    }
}

fn is_alone(communicator: MPI_Comm) -> bool {
    let (mut size, mut between): (c_int, c_int) = (0, 0);
    // SAFETY: the communicator is one that MPI made and the application has not freed; outputs are locals.
    unsafe {
        mpi_abi::PMPI_Comm_size(communicator, &mut size) == 0
            && size == 1
            && mpi_abi::PMPI_Comm_test_inter(communicator, &mut between) == 0
            && between == 0
    }
}

fn name_of(communicator: MPI_Comm) -> String {
    let mut name = [0_u8; mpi_abi::MPI_MAX_OBJECT_NAME + 1];
    let mut length: c_int = 0;
    // SAFETY: as in `is_alone`; the buffer has the length MPI asks for, and one byte more that stays zero.
    let told = unsafe { mpi_abi::PMPI_Comm_get_name(communicator, name.as_mut_ptr().cast(), &mut length) };
    match CStr::from_bytes_until_nul(&name) {
        Ok(name) if told == 0 => name.to_string_lossy().into_owned(),
        _ => String::new(),
    }
}
