//! Memory that was offered to a sender: who fills it now, what is there, and the moment it is whole. A region belongs
//! to its receiver; while a connection fills it, to that connection alone.

use super::{
    ledger::Ledger,
    memory::RegionMemory,
    wire::{Reason, RegionToken},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot},
    time,
};

/// Regions offered at a time; a job's ranks on one node, several times over.
const REGIONS_MAX: usize = 1024;

/// Regions that were filled lately, so that a sender whose connection broke before it heard so is told.
const REMEMBERED_MAX: usize = 1024;

/// How long a new connection waits for the one it follows to let go.
const HANDOVER_DEADLINE: Duration = Duration::from_secs(2);

struct Slot {
    memory: Option<(RegionMemory, Ledger)>,
    length: u64,
    here: Arc<AtomicU32>,
    let_go: Arc<Notify>,
    returned: Arc<Notify>,
    whole: oneshot::Sender<RegionMemory>,
}

#[derive(Default)]
struct Table {
    slots: BTreeMap<RegionToken, Slot>,
    filled: VecDeque<(RegionToken, u64)>,
}

/// All regions of one endpoint.
#[derive(Clone, Default)]
pub(crate) struct Regions {
    table: Arc<Mutex<Table>>,
}

impl std::fmt::Debug for Regions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Regions({})", self.lock().slots.len())
    }
}

/// Memory on offer; dropping it withdraws the offer.
#[derive(Debug)]
pub struct Offer {
    token: RegionToken,
    whole: oneshot::Receiver<RegionMemory>,
    here: Arc<AtomicU32>,
    regions: Regions,
}

impl Offer {
    /// What the sender has to be told, over a channel nobody else reads.
    pub fn token(&self) -> RegionToken {
        self.token
    }

    /// Waits until the region is whole, and gives the memory back; `None` when the deadline passed first.
    pub async fn filled(mut self, deadline: Duration) -> Option<RegionMemory> {
        time::timeout(deadline, &mut self.whole).await.ok()?.ok()
    }

    /// The same as long as blocks come. When none came for `patience` the offer is withdrawn, and unless the last came
    /// meanwhile the memory is given back with nobody left who may write into it; not even that where a connection does
    /// not let go.
    pub async fn filled_as_it_comes(mut self, patience: Duration) -> Result<RegionMemory, Option<RegionMemory>> {
        loop {
            let before = self.here.load(Relaxed);
            if let Ok(whole) = time::timeout(patience, &mut self.whole).await {
                return whole.map_err(|_| None);
            }
            if self.here.load(Relaxed) == before {
                let given_back = self.withdrawn().await;
                return self.whole.try_recv().map_err(|_| given_back);
            }
        }
    }

    async fn withdrawn(&self) -> Option<RegionMemory> {
        let given_back = async {
            loop {
                let returned = {
                    let mut table = self.regions.lock();
                    let slot = table.slots.get_mut(&self.token)?;
                    if let Some((memory, _)) = slot.memory.take() {
                        table.slots.remove(&self.token);
                        return Some(memory);
                    }
                    slot.let_go.notify_one();
                    Arc::clone(&slot.returned).notified_owned()
                };
                returned.await;
            }
        };
        time::timeout(HANDOVER_DEADLINE, given_back).await.ok()?
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if let Some(slot) = self.regions.lock().slots.remove(&self.token) {
            slot.let_go.notify_one();
        }
    }
}

/// What a sender that opens a region finds.
pub(crate) enum Opened {
    /// It may fill the region.
    Filling(Filling),
    /// Somebody filled it already.
    Whole,
}

/// A region in the hands of one connection; it is given back when this is dropped.
pub(crate) struct Filling {
    token: RegionToken,
    regions: Regions,
    pub(crate) memory: RegionMemory,
    pub(crate) ledger: Ledger,
    here: Arc<AtomicU32>,
    let_go: Arc<Notify>,
}

impl Filling {
    /// Which region it is.
    #[cfg(feature = "rdma")]
    pub(crate) fn token(&self) -> RegionToken {
        self.token
    }

    /// A block is here, whole and checked.
    pub(crate) fn note(&mut self, block: u32) {
        self.ledger.note(block);
        self.here.fetch_add(1, Relaxed);
    }

    /// Another connection wants to go on, or the offer was withdrawn.
    pub(crate) fn is_unwanted(&self) -> impl Future<Output = ()> + use<> {
        let let_go = Arc::clone(&self.let_go);
        async move { let_go.notified().await }
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        let mut table = self.regions.lock();
        let memory = std::mem::take(&mut self.memory);
        if !self.ledger.is_complete() {
            if let (Some(slot), Some(empty)) = (table.slots.get_mut(&self.token), Ledger::new(0)) {
                slot.memory = Some((memory, std::mem::replace(&mut self.ledger, empty)));
                slot.returned.notify_waiters();
            }
            return;
        }
        if let Some(slot) = table.slots.remove(&self.token) {
            slot.returned.notify_waiters();
            if table.filled.len() == REMEMBERED_MAX {
                table.filled.pop_front();
            }
            table.filled.push_back((self.token, slot.length));
            // Who offered it may have stopped waiting; then the memory is freed here.
            let _ = slot.whole.send(memory);
        }
    }
}

impl Regions {
    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing between lock and unlock panics.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens memory to one sender, who fills what this ledger lacks; `None` when too much is on offer, or when the
    /// ledger is of another length.
    pub(crate) fn offer(&self, token: RegionToken, memory: RegionMemory, ledger: Ledger) -> Option<Offer> {
        let length = u64::try_from(memory.len()).ok()?;
        if ledger.length() != length {
            return None;
        }
        let (whole, filled) = oneshot::channel();
        let here = Arc::<AtomicU32>::default();
        let mut table = self.lock();
        if table.slots.len() >= REGIONS_MAX {
            return None;
        }
        let slot = Slot {
            memory: Some((memory, ledger)),
            length,
            here: Arc::clone(&here),
            let_go: Arc::default(),
            returned: Arc::default(),
            whole,
        };
        table.slots.insert(token, slot);
        drop(table);
        Some(Offer {
            token,
            whole: filled,
            here,
            regions: self.clone(),
        })
    }

    /// Hands a region to a connection, taking it from the one that had it.
    pub(crate) async fn open(&self, token: RegionToken, length: u64) -> Result<Opened, Reason> {
        let taken = async {
            loop {
                let returned = {
                    let mut table = self.lock();
                    if table.filled.contains(&(token, length)) {
                        return Ok(Opened::Whole);
                    }
                    let slot = table.slots.get_mut(&token).ok_or(Reason::Unknown)?;
                    if slot.length != length {
                        return Err(Reason::Length);
                    }
                    if let Some((memory, ledger)) = slot.memory.take() {
                        // A wish of an earlier connection must not end this one.
                        slot.let_go = Arc::default();
                        return Ok(Opened::Filling(Filling {
                            token,
                            regions: self.clone(),
                            memory,
                            ledger,
                            here: Arc::clone(&slot.here),
                            let_go: Arc::clone(&slot.let_go),
                        }));
                    }
                    slot.let_go.notify_one();
                    Arc::clone(&slot.returned).notified_owned()
                };
                returned.await;
            }
        };
        time::timeout(HANDOVER_DEADLINE, taken)
            .await
            .unwrap_or(Err(Reason::Busy))
    }
}

#[cfg(test)]
mod tests {
    use super::super::mapped::zeros;
    use super::*;

    const TOKEN: RegionToken = RegionToken([1; 16]);

    fn offer(regions: &Regions, memory: impl Into<RegionMemory>) -> Offer {
        let memory = memory.into();
        let ledger = Ledger::new(memory.len() as u64).unwrap();
        regions.offer(TOKEN, memory, ledger).unwrap()
    }

    #[tokio::test]
    async fn a_region_is_given_to_one_connection_at_a_time_and_keeps_what_it_has() {
        let regions = Regions::default();
        let offer = offer(&regions, vec![0; 600_000]);
        let Ok(Opened::Filling(mut first)) = regions.open(TOKEN, 600_000).await else {
            panic!("it is on offer");
        };
        first.ledger.note(1);
        let unwanted = first.is_unwanted();
        let (second, ()) = tokio::join!(regions.open(TOKEN, 600_000), async {
            unwanted.await;
            drop(first);
        });
        let Ok(Opened::Filling(mut second)) = second else {
            panic!("it was let go");
        };
        assert_eq!(second.ledger.missing().collect::<Vec<u32>>(), [0, 2]);
        second.ledger.note(0);
        second.ledger.note(2);
        drop(second);
        assert_eq!(offer.filled(Duration::from_secs(1)).await.unwrap().len(), 600_000);
        assert!(matches!(regions.open(TOKEN, 600_000).await, Ok(Opened::Whole)));
    }

    #[tokio::test]
    async fn what_is_not_on_offer_is_refused() {
        let regions = Regions::default();
        assert!(matches!(regions.open(TOKEN, 5).await, Err(Reason::Unknown)));
        let offer = offer(&regions, vec![0; 5]);
        assert!(matches!(regions.open(TOKEN, 6).await, Err(Reason::Length)));
        drop(offer);
        assert!(matches!(regions.open(TOKEN, 5).await, Err(Reason::Unknown)));
    }

    #[tokio::test]
    async fn a_region_is_waited_for_as_long_as_blocks_come() {
        let regions = Regions::default();
        let offer = offer(&regions, vec![0; 600_000]);
        let Ok(Opened::Filling(mut filling)) = regions.open(TOKEN, 600_000).await else {
            panic!("it is on offer");
        };
        let fill = async {
            for block in 0..2 {
                time::sleep(Duration::from_millis(60)).await;
                filling.note(block);
            }
            filling
        };
        let (whole, filling) = tokio::join!(offer.filled_as_it_comes(Duration::from_millis(100)), fill);
        assert_eq!(
            whole,
            Err(None),
            "the last block never came, and its connection never let go"
        );
        drop(filling);
        assert!(
            matches!(regions.open(TOKEN, 600_000).await, Err(Reason::Unknown)),
            "it is withdrawn"
        );
    }

    #[tokio::test]
    async fn memory_whose_rest_never_came_is_given_back_when_nobody_writes_into_it_any_more() {
        let regions = Regions::default();
        let offer = offer(&regions, vec![0; 600_000]);
        let Ok(Opened::Filling(mut filling)) = regions.open(TOKEN, 600_000).await else {
            panic!("it is on offer");
        };
        filling.memory[0] = 7;
        let unwanted = filling.is_unwanted();
        let (given_back, ()) = tokio::join!(offer.filled_as_it_comes(Duration::from_millis(50)), async {
            unwanted.await;
            drop(filling);
        });
        assert_eq!(given_back.unwrap_err().unwrap()[0], 7);
        assert!(matches!(regions.open(TOKEN, 600_000).await, Err(Reason::Unknown)));
    }

    #[tokio::test]
    async fn a_region_whose_last_block_comes_while_it_is_withdrawn_is_whole() {
        let regions = Regions::default();
        let offer = offer(&regions, vec![0; 600_000]);
        let Ok(Opened::Filling(mut filling)) = regions.open(TOKEN, 600_000).await else {
            panic!("it is on offer");
        };
        let unwanted = filling.is_unwanted();
        let (whole, ()) = tokio::join!(offer.filled_as_it_comes(Duration::from_millis(50)), async {
            unwanted.await;
            (0..3).for_each(|block| filling.note(block));
            drop(filling);
        });
        assert_eq!(whole.map(|memory| memory.len()), Ok(600_000));
    }

    #[tokio::test]
    async fn a_mapped_file_is_filled_where_it_is() {
        let map = zeros(1000);
        let regions = Regions::default();
        let offer = offer(&regions, map);
        let Ok(Opened::Filling(mut filling)) = regions.open(TOKEN, 1000).await else {
            panic!("it is on offer");
        };
        filling.memory[999] = 7;
        filling.note(0);
        drop(filling);
        let Some(RegionMemory::Mapped(map)) = offer.filled(Duration::from_secs(1)).await else {
            panic!("it is whole, and the map that was offered");
        };
        assert_eq!(map[999], 7);
    }
}
