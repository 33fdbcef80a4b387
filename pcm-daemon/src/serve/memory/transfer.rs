//! Bulk transfers of the daemon, in a thread of its own and of low priority: no message waits for the sealing of a
//! gigabyte. Offers memory, and writes images into memory that others offer. Every transfer ends: when it is whole,
//! when no block came for a while, when its deadline passed, or when whoever ordered it lets go of it.

use super::background::NICENESS;
use super::event::{CameTogether, MemoryEvent};
use super::memory_file::Memory;
use super::transfer_ends::{Ends, RdmaWish};
use crate::serve::event::Event;
use pcm_core::node::store::end::{End, EndAddresses};
use pcm_core::node::store::fetch::TOGETHER_BLOCKS;
use pcm_core::node::store::image_key::ImageKey;
use pcm_core::node::store::not_come::{NotCome, PATIENCE};
use pcm_core::parked::BlockSet;
use pcm_fabric::ClusterKey;
use pcm_fabric::bulk::{Ledger, RegionToken, wire::BLOCK_LENGTH};
use pcm_proto::fabric::BulkAddress;
use pcm_proto::handshake::Identity;
use pcm_proto::parked::BLOCK_BYTES;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// The store offers memory in these units.
const _: () = assert!(BLOCK_LENGTH as u64 == TOGETHER_BLOCKS * BLOCK_BYTES);

/// Orders on their way; each is of a copy under way, of which there are few.
const ORDERS_MAX: usize = 256;

/// How often keys are looked at; they hold for hours.
const TURN_PERIOD: Duration = Duration::from_secs(60);

/// What a transfer takes at most, besides its bytes at the rate below; its receiver gives up sooner when nothing comes.
const PUT_MAX: Duration = Duration::from_secs(20);
const RATE_MIN: u64 = 10 << 20;

/// Dropped by whoever ordered a transfer and no longer wants it.
#[derive(Debug)]
pub(super) struct Wanted {
    _alive: oneshot::Sender<()>,
}

enum Order {
    Receive {
        key: ImageKey,
        attempt: u64,
        over: End,
        memory: Memory,
        lacks: BlockSet,
        unwanted: oneshot::Receiver<()>,
    },
    Put {
        number: u64,
        host: String,
        at: BulkAddress,
        region: RegionToken,
        memory: Arc<Memory>,
        unwanted: oneshot::Receiver<()>,
    },
}

/// The way to the thread.
#[derive(Debug)]
pub(in super::super) struct Bulk {
    orders: mpsc::Sender<Order>,
    addresses: EndAddresses,
}

impl Bulk {
    /// Opens the endpoints: TCP at this address.
    pub(in super::super) async fn open(
        address: IpAddr,
        trust: (ClusterKey, Identity),
        rdma: RdmaWish,
        events: mpsc::Sender<Event>,
    ) -> io::Result<Self> {
        let (orders, ordered) = mpsc::channel(ORDERS_MAX);
        let (opened, addresses) = oneshot::channel();
        thread::Builder::new().name("pcm-bulk".to_owned()).spawn(move || {
            _ = rustix::process::nice(NICENESS);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => {
                    _ = opened.send(Err(error));
                    return;
                }
            };
            runtime.block_on(async {
                match Ends::open(address, trust, rdma).await {
                    Ok(ends) => {
                        _ = opened.send(Ok(ends.addresses()));
                        serve(ends, ordered, events).await;
                    }
                    Err(error) => _ = opened.send(Err(error)),
                }
            });
        })?;
        let addresses = addresses.await.map_err(io::Error::other)??;
        Ok(Self { orders, addresses })
    }

    /// Where others reach it.
    pub(in super::super) fn addresses(&self) -> &EndAddresses {
        &self.addresses
    }

    /// Offers memory of an image for what it lacks; what comes of it are the events `Offered` and `Came`.
    pub(super) fn receive(
        &self,
        (key, attempt): (ImageKey, u64),
        over: End,
        memory: Memory,
        lacks: BlockSet,
    ) -> io::Result<Wanted> {
        self.order(|unwanted| Order::Receive {
            key,
            attempt,
            over,
            memory,
            lacks,
            unwanted,
        })
    }

    /// Writes an image into a region that a host offers; what comes of it is the event `Put`.
    pub(super) fn put(
        &self,
        number: u64,
        (host, at): (String, BulkAddress),
        region: [u8; 16],
        memory: Arc<Memory>,
    ) -> io::Result<Wanted> {
        self.order(|unwanted| Order::Put {
            number,
            host,
            at,
            region: RegionToken(region),
            memory,
            unwanted,
        })
    }

    fn order(&self, order: impl FnOnce(oneshot::Receiver<()>) -> Order) -> io::Result<Wanted> {
        let (alive, unwanted) = oneshot::channel();
        let sent = self.orders.try_send(order(unwanted));
        sent.map_err(|_| io::Error::other("too many transfers are under way"))?;
        Ok(Wanted { _alive: alive })
    }
}

async fn serve(mut ends: Ends, mut orders: mpsc::Receiver<Order>, events: mpsc::Sender<Event>) {
    let mut transfers = JoinSet::new();
    let mut turn = tokio::time::interval(TURN_PERIOD);
    loop {
        let order = tokio::select! {
            order = orders.recv() => order,
            _ = turn.tick() => {
                ends.on_time().await;
                continue;
            }
        };
        let Some(order) = order else { return };
        while transfers.try_join_next().is_some() {}
        transfers.spawn(carry_out(order, ends.clone(), events.clone()));
    }
}

async fn carry_out(order: Order, ends: Ends, events: mpsc::Sender<Event>) {
    match order {
        Order::Receive {
            key,
            attempt,
            over,
            memory,
            lacks,
            unwanted,
        } => {
            let told = (key, attempt, &events);
            let came = tokio::select! {
                came = receive(&ends, over, (memory, lacks), told) => came,
                _ = unwanted => return,
            };
            let came = MemoryEvent::Came { key, attempt, came };
            let _ = events.send(Event::Memory(came)).await;
        }
        Order::Put {
            number,
            host,
            at,
            region,
            memory,
            unwanted,
        } => {
            let outcome = tokio::select! {
                outcome = put(&ends, (&host, at), region, memory) => outcome,
                _ = unwanted => Err("it is not wanted any more".to_owned()),
            };
            let put = MemoryEvent::Put { number, outcome };
            let _ = events.send(Event::Memory(put)).await;
        }
    }
}

async fn receive(
    ends: &Ends,
    over: End,
    (memory, lacks): (Memory, BlockSet),
    (key, attempt, events): (ImageKey, u64, &mpsc::Sender<Event>),
) -> CameTogether {
    let failed = |memory, error| CameTogether {
        memory,
        outcome: Err(error),
    };
    let ranges = lacks.runs().map(|run| {
        let end = run.first.saturating_add(run.count).saturating_mul(BLOCK_BYTES);
        run.first.saturating_mul(BLOCK_BYTES)..end
    });
    let there = Ledger::lacking(memory.bytes(), ranges);
    let offered = memory.open().and_then(|(file, map)| {
        let there = there.ok_or_else(|| io::Error::other("it is longer than a region may be"))?;
        Ok((file, ends.offer(over, map, there)?))
    });
    let (file, offer) = match offered {
        Ok(offered) => offered,
        Err(error) => return failed(None, NotCome::Refused(error.to_string())),
    };
    let region = offer.token().0;
    let offered = MemoryEvent::Offered { key, attempt, region };
    let _ = events.send(Event::Memory(offered)).await;
    match offer.filled_as_it_comes(PATIENCE).await {
        Ok(whole) => CameTogether {
            memory: Memory::opened(file, whole),
            outcome: Ok(None),
        },
        Err(given_back) => {
            let memory = given_back.and_then(|map| Memory::opened(file, map));
            let silence = format!("nothing came for {} s", PATIENCE.as_secs());
            failed(memory, NotCome::Silence(silence))
        }
    }
}

/// Says how many bytes were sent.
async fn put(ends: &Ends, to: (&str, BulkAddress), region: RegionToken, memory: Arc<Memory>) -> Result<u64, String> {
    memory.map().map_err(|error| error.to_string())?;
    let bytes = memory.bytes();
    let deadline = PUT_MAX + Duration::from_secs(bytes / RATE_MIN);
    let report = ends.put(to, region, memory, deadline).await?;
    if report.reconnects > 0 {
        tracing::debug!(?report, "an image went on after its connection had broken");
    }
    Ok((report.blocks_sent * BLOCK_LENGTH as u64).min(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::image_sums::{self, tests::image};
    use super::*;
    use pcm_proto::handshake::Role;
    use pcm_proto::ids::{CheckpointId, JobId, NodeName, Rank};
    use pcm_proto::image::ImageName;
    use pcm_proto::parked::BlockRun;
    use std::net::Ipv4Addr;

    const KEY: ImageKey = ImageKey {
        job: JobId(1),
        name: ImageName::Part {
            id: CheckpointId(2),
            rank: Rank(3),
        },
    };

    const LIMIT: Duration = Duration::from_secs(30);

    async fn end() -> (Bulk, mpsc::Receiver<Event>) {
        let (events, heard) = mpsc::channel(16);
        let key = ClusterKey::from_hex("5a5a5a5a5a5a5a5a", &"5a".repeat(32)).unwrap();
        let node = NodeName::new("a").unwrap();
        let identity = Identity::new(Role::Daemon { node });
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let wish = RdmaWish::Not("it is not tried here");
        (Bulk::open(address, (key, identity), wish, events).await.unwrap(), heard)
    }

    async fn next(heard: &mut mpsc::Receiver<Event>) -> Event {
        let event = tokio::time::timeout(LIMIT, heard.recv()).await;
        event.unwrap().unwrap()
    }

    fn there(bulk: &Bulk) -> (String, BulkAddress) {
        ("127.0.0.1".to_owned(), BulkAddress::Tcp(bulk.addresses().port))
    }

    /// Offers memory of this length for all of it but its first block.
    fn receive(bulk: &Bulk, attempt: u64, over: End, bytes: u64) -> Wanted {
        let (mut rest, blocks) = (BlockSet::default(), bytes.div_ceil(BLOCK_BYTES));
        let all = BlockRun {
            first: 1,
            count: blocks,
        };
        rest.insert_missing(all, blocks, &BlockSet::default(), &BlockSet::default());
        let memory = Memory::with_holes(bytes).unwrap();
        bulk.receive((KEY, attempt), over, memory, rest).unwrap()
    }

    async fn offered(heard: &mut mpsc::Receiver<Event>) -> [u8; 16] {
        match next(heard).await {
            Event::Memory(MemoryEvent::Offered { key: KEY, region, .. }) => region,
            other => panic!("{other:?}"),
        }
    }

    async fn came(heard: &mut mpsc::Receiver<Event>) -> (u64, CameTogether) {
        match next(heard).await {
            Event::Memory(MemoryEvent::Came { attempt, came, .. }) => (attempt, came),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn an_image_is_written_into_memory_on_offer() {
        let ((from, mut from_heard), (to, mut to_heard)) = (end().await, end().await);
        let part = image(40 * BLOCK_BYTES + 7);
        image_sums::complete(&part).unwrap();
        let part = Arc::new(part);
        let _wanted = receive(&to, 5, End::Tcp, part.bytes());
        let region = offered(&mut to_heard).await;
        let _putting = from.put(9, there(&to), region, Arc::clone(&part)).unwrap();
        let (attempt, came) = came(&mut to_heard).await;
        assert!(attempt == 5 && matches!(came.outcome, Ok(None)), "{came:?}");
        assert!(came.memory.unwrap().contents() == part.contents());
        let put = next(&mut from_heard).await;
        let (number, outcome) = match put {
            Event::Memory(MemoryEvent::Put { number, outcome }) => (number, outcome),
            other => panic!("{other:?}"),
        };
        // Units of which it lacks anything come whole.
        assert_eq!((number, outcome), (9, Ok(part.bytes())));
    }

    #[tokio::test]
    async fn an_offer_that_nobody_wants_any_more_is_withdrawn_and_one_that_nobody_takes_gives_its_memory_back() {
        let ((from, mut from_heard), (to, mut to_heard)) = (end().await, end().await);
        let part = Arc::new(image(BLOCK_BYTES + 9));
        let wanted = receive(&to, 5, End::Tcp, part.bytes());
        let region = offered(&mut to_heard).await;
        drop(wanted);
        let refused = loop {
            let _putting = from.put(9, there(&to), region, Arc::clone(&part)).unwrap();
            if let Event::Memory(MemoryEvent::Put {
                outcome: Err(reason), ..
            }) = next(&mut from_heard).await
            {
                break reason;
            }
        };
        assert!(refused.contains("does not offer"), "{refused}");
        let _wanted = receive(&to, 6, End::Tcp, part.bytes());
        offered(&mut to_heard).await;
        let (attempt, came) = came(&mut to_heard).await;
        assert!(
            attempt == 6 && matches!(came.outcome, Err(NotCome::Silence(_))),
            "{came:?}"
        );
        assert_eq!(came.memory.unwrap().bytes(), part.bytes());
    }

    #[tokio::test]
    async fn where_there_is_no_device_it_is_said_why_and_nothing_is_offered_on_one() {
        let (end, mut heard) = end().await;
        assert_eq!(end.addresses().rdma, Err("it is not tried here".to_owned()));
        let _wanted = receive(&end, 1, End::Rdma, 2 * BLOCK_BYTES);
        let (_, came) = came(&mut heard).await;
        let refused = NotCome::Refused("it is not tried here".to_owned());
        assert_eq!(came.outcome.unwrap_err(), refused, "which says nothing of the way");
    }
}
