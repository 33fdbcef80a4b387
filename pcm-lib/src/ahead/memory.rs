//! Memory for what a rank that stays is going to get: opened when a plan is made, and made by a thread while the rank
//! iterates, so that nobody waits for the kernel at the meeting. Never touches a byte of an array.

use super::{
    Trip,
    need::{needs, own_divisions},
};
use crate::region::{
    Registry,
    memory::{MemoryError, Storage, Unmade},
};
use pcm_core::partition::Partition;
use pcm_proto::ids::RegionId;
use std::{
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

/// Arrays that get less are left to the meeting: this is made in a few milliseconds at worst.
const BYTES_MIN: u64 = 2 << 20;

/// Made between two looks whether the meeting has begun: one large page, a few milliseconds at worst.
const STEP_BYTES: usize = 2 << 20;

/// What is called when something ahead is done, or given up, by whichever thread finds out.
pub(crate) type WhenDone = Arc<dyn Fn() + Send + Sync>;

/// Memory that is being made for one attempt. Dropped, it leaves windows open that [`Registry::settle`] closes.
#[derive(Debug)]
pub(crate) struct Memory {
    // First, so that the thread has ended before storages go.
    making: Option<Making>,
    fresh: Vec<Fresh>,
}

/// New storage for one array, as one rank of one partition has it.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) id: RegionId,
    pub(crate) after: Partition,
    pub(crate) rank: u32,
    pub(crate) storage: Storage,
}

#[derive(Debug)]
struct Making {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    is_stopped: AtomicBool,
    made: AtomicU64,
}

impl Memory {
    /// Opens what this rank will need and begins to have it made. What cannot be had is not missed before the vote of
    /// the meeting, which says why.
    pub(crate) fn begin(registry: &mut Registry, trip: &Trip, when_made: WhenDone) -> Self {
        let (mut fresh, mut unmade) = (Vec::new(), Vec::new());
        // What was opened before a failure is of use all the same.
        _ = open(registry, trip, &mut fresh, &mut unmade);
        let making = if unmade.is_empty() {
            when_made();
            None
        } else {
            Making::begin(unmade, when_made)
        };
        Self { fresh, making }
    }

    /// Where an array will begin in new storage.
    pub(super) fn fresh_of(&self, id: RegionId) -> Option<NonNull<u8>> {
        let fresh = self.fresh.iter().find(|fresh| fresh.id == id)?;
        Some(fresh.storage.pointer())
    }

    /// Whether anything was opened.
    pub(crate) fn has_opened(&self) -> bool {
        self.making.is_some() || !self.fresh.is_empty()
    }

    /// Nothing more is made from here on.
    pub(crate) fn stop(&mut self) {
        if let Some(making) = &mut self.making {
            making.stop();
        }
    }

    /// Stops. Bytes that are there, and new storages.
    pub(crate) fn into_made(mut self) -> (u64, Vec<Fresh>) {
        self.stop();
        let made = self.making.map_or(0, |making| making.shared.made.load(Relaxed));
        (made, self.fresh)
    }
}

impl Making {
    fn begin(unmade: Vec<Unmade>, when_made: WhenDone) -> Option<Self> {
        let shared = Arc::<Shared>::default();
        let (of_thread, tell) = (Arc::clone(&shared), Arc::clone(&when_made));
        let make = move || {
            of_thread.make(unmade);
            tell();
        };
        match thread::Builder::new().name("pcm-memory".to_owned()).spawn(make) {
            Ok(thread) => Some(Self {
                thread: Some(thread),
                shared,
            }),
            Err(_) => {
                when_made();
                None
            }
        }
    }

    fn stop(&mut self) {
        self.shared.is_stopped.store(true, Relaxed);
        // It panics nowhere, and what it made is there in any case.
        _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The thread must not outlive what it works on.
impl Drop for Making {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn make(&self, unmade: Vec<Unmade>) {
        for mut pages in unmade {
            while !self.is_stopped.load(Relaxed) {
                match pages.make_some(STEP_BYTES) {
                    0 => break,
                    made => self.made.fetch_add(made, Relaxed),
                };
            }
        }
    }
}

fn open(
    registry: &mut Registry,
    trip: &Trip,
    fresh: &mut Vec<Fresh>,
    unmade: &mut Vec<Unmade>,
) -> Result<(), MemoryError> {
    let Some(rank) = trip.rank_after() else {
        return Ok(());
    };
    let divisions = own_divisions(registry, |form| !form.is_scratch);
    // Whatever is wrong with the plan the meeting will say.
    let Ok(needs) = needs(registry, trip, &divisions) else {
        return Ok(());
    };
    registry.capacity_renew();
    for need in needs {
        let (array, capacity) = registry.array_mut(need.id);
        let length = need.after.local_bytes(rank);
        let wanted = length.saturating_sub(need.plan.totals().keep);
        match array.slide_to(need.plan.reuse(), length) {
            _ if wanted < BYTES_MIN => {}
            Some(shift) => {
                capacity.promise(wanted)?;
                array.storage_mut().prepare_slide(shift, length)?;
                unmade.extend(array.storage().opened_beside());
            }
            None => {
                let storage = array.storage_for(&need.after, rank, capacity)?;
                unmade.extend(storage.opened());
                let (id, after) = (need.id, need.after);
                fresh.push(Fresh {
                    id,
                    after,
                    rank,
                    storage,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        redistribute::NextLayout,
        region::{ArrayForm, ElementType, Home},
    };
    use pcm_core::{
        partition::{ArraySpec, AxisSpec},
        redistribution::HaloFill,
    };
    use pcm_proto::{
        ids::{Epoch, Term},
        reconfiguration::Attempt,
    };
    use std::{sync::mpsc, time::Duration};

    const MIB: u64 = 1 << 20;

    /// An array of so many bytes divided by rows or columns between two ranks, and the plan that the first has it
    /// alone.
    fn shrinking(rows: AxisSpec, cols: AxisSpec) -> (Registry, Trip) {
        let home = Home {
            rank: 0,
            size: 2,
            ranks_here: 1,
            is_first: true,
        };
        let mut registry = Registry::new(home);
        let spec = ArraySpec::new(1, [rows, cols]);
        let form = ArrayForm {
            element: ElementType::Uint8,
            spec,
            halo: HaloFill::Stale,
            is_scratch: false,
            is_constant: false,
        };
        registry.array("a", form).expect("there is room");
        let trip = Trip {
            attempt: Attempt {
                epoch: Epoch(1),
                term: Term(0),
                number: 1,
            },
            next: NextLayout {
                old_size: 2,
                order: vec![0],
                weights: Vec::new(),
            },
            transfer_size: 2,
            process: 0,
        };
        (registry, trip)
    }

    /// Begins, and waits until it is said to be made.
    fn made(registry: &mut Registry, trip: &Trip) -> (u64, Vec<Fresh>) {
        let (tell, told) = mpsc::channel();
        let when_made: WhenDone = Arc::new(move || _ = tell.send(()));
        let memory = Memory::begin(registry, trip, when_made);
        told.recv_timeout(Duration::from_secs(60)).expect("it is said");
        assert!(told.try_recv().is_err(), "and only once");
        memory.into_made()
    }

    #[test]
    fn a_window_that_will_slide_is_opened_and_made_beside_what_the_program_has() {
        let (mut registry, trip) = shrinking(AxisSpec::block(16 * MIB), AxisSpec::whole(1));
        let first = registry.array_named("a").expect("it is there").storage().pointer();
        let (bytes, fresh) = made(&mut registry, &trip);
        assert_eq!((bytes, fresh.len()), (8 * MIB, 0));
        let storage = registry.array_named("a").expect("it is there").storage();
        assert_eq!((storage.pointer(), storage.length() as u64), (first, 8 * MIB));
        assert_eq!(storage.opened_beside().map(|pages| pages.bytes()).sum::<u64>(), 8 * MIB);
        registry.settle();
        let storage = registry.array_named("a").expect("it is there").storage();
        assert_eq!(storage.opened_beside().count(), 0);
    }

    #[test]
    fn storage_that_cannot_slide_is_made_anew() {
        let (mut registry, trip) = shrinking(AxisSpec::whole(4096), AxisSpec::block(4096));
        let (bytes, fresh) = made(&mut registry, &trip);
        assert_eq!(bytes, 16 * MIB);
        assert_eq!(fresh[0].storage.length() as u64, 16 * MIB);
        let storage = registry.array_named("a").expect("it is there").storage();
        assert_eq!(storage.opened_beside().count(), 0);
    }

    #[test]
    fn little_memory_is_left_to_the_meeting() {
        let (mut registry, trip) = shrinking(AxisSpec::block(2 * MIB), AxisSpec::whole(1));
        let (bytes, fresh) = made(&mut registry, &trip);
        assert_eq!((bytes, fresh.len()), (0, 0));
    }
}
