//! Bulk transfers of the daemon, in a thread of its own and of low priority: no message waits for the sealing of a gigabyte.
//! Offers memory, and writes parts into memory that others offer. Every transfer ends: when it is whole, when no block came
//! for a while, when its deadline passed, or when whoever ordered it lets go of it.

use super::beside::{NICENESS, beside};
use super::bulk_ends::{Addresses, End, Ends, RdmaWish};
use super::event::Event;
use super::image_sums;
use super::kept::PartKey;
use super::memory::Memory;
use pcm_fabric::ClusterKey;
use pcm_fabric::bulk::RegionToken;
use pcm_proto::checkpoint::PartTally;
use pcm_proto::fabric::BulkAddress;
use pcm_proto::handshake::Identity;
use pcm_proto::ids::NodeName;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Orders on their way; each is of a copy under way, of which there are few.
const ORDERS_MAX: usize = 256;

/// A region of which no block comes for so long is withdrawn: the sender tries again by itself where a connection broke, and
/// waits half a second at most before it does.
const PATIENCE: Duration = Duration::from_secs(5);

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
        key: PartKey,
        attempt: u64,
        over: End,
        memory: Memory,
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
pub(super) struct Bulk {
    orders: mpsc::Sender<Order>,
    addresses: Addresses,
}

impl Bulk {
    /// Opens the endpoints: TCP at this address.
    pub(super) async fn open(
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

    /// Where others reach it; or why there is no way there.
    pub(super) fn address(&self, end: End) -> Result<BulkAddress, &str> {
        match (end, &self.addresses.rdma) {
            (End::Tcp, _) => Ok(BulkAddress::Tcp(self.addresses.port)),
            (End::Rdma, Ok(address)) => Ok(BulkAddress::Rdma(*address)),
            (End::Rdma, Err(why)) => Err(why),
        }
    }

    /// Offers memory for a part; what comes of it are the events `PartOffered` and `PartCopied`.
    pub(super) fn receive(&self, key: PartKey, attempt: u64, over: End, memory: Memory) -> io::Result<Wanted> {
        self.order(|unwanted| Order::Receive {
            key,
            attempt,
            over,
            memory,
            unwanted,
        })
    }

    /// Writes a part into a region that a host offers; what comes of it is the event `PartPut`.
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
            unwanted,
        } => {
            let told = (key, attempt, &events);
            let copied = tokio::select! {
                copied = receive(&ends, over, memory, told) => copied,
                _ = unwanted => return,
            };
            let _ = events.send(Event::PartCopied { key, attempt, copied }).await;
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
            let _ = events.send(Event::PartPut { number, outcome }).await;
        }
    }
}

async fn receive(
    ends: &Ends,
    over: End,
    memory: Memory,
    (key, attempt, events): (PartKey, u64, &mpsc::Sender<Event>),
) -> io::Result<(Memory, PartTally)> {
    let (file, map) = memory.open()?;
    let offer = ends.offer(over, map)?;
    let region = offer.token().0;
    let _ = events.send(Event::PartOffered { key, attempt, region }).await;
    let whole = offer.filled_as_it_comes(PATIENCE).await;
    let whole = whole.ok_or_else(|| io::Error::other(format!("nothing came for {} s", PATIENCE.as_secs())))?;
    let memory = Memory::opened(file, whole).ok_or(io::ErrorKind::InvalidData)?;
    beside(move || image_sums::verify(&memory).map(|tally| (memory, tally))).await
}

async fn put(ends: &Ends, to: (&str, BulkAddress), region: RegionToken, memory: Arc<Memory>) -> Result<(), String> {
    memory.read().map_err(|error| error.to_string())?;
    let deadline = PUT_MAX + Duration::from_secs(memory.bytes() / RATE_MIN);
    let report = ends.put(to, region, memory, deadline).await?;
    if report.reconnects > 0 {
        tracing::debug!(
            ?report,
            "a copy of a checkpoint went on after its connection had broken"
        );
    }
    Ok(())
}

/// A part that is being written to another node.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) number: u64,
    pub(super) node: NodeName,
    pub(super) key: PartKey,
    pub(super) region: [u8; 16],
    pub(super) _wanted: Wanted,
}

#[cfg(test)]
mod tests {
    use super::super::image_sums::tests::image;
    use super::*;
    use pcm_proto::handshake::Role;
    use pcm_proto::ids::{CheckpointId, JobId, Rank};
    use pcm_proto::parked::BLOCK_BYTES;
    use std::net::Ipv4Addr;

    const KEY: PartKey = (JobId(1), CheckpointId(2), Rank(3));

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
        ("127.0.0.1".to_owned(), bulk.address(End::Tcp).unwrap())
    }

    async fn offered(heard: &mut mpsc::Receiver<Event>) -> [u8; 16] {
        match next(heard).await {
            Event::PartOffered { key: KEY, region, .. } => region,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_part_is_written_into_memory_on_offer_and_verified() {
        let ((from, mut from_heard), (to, mut to_heard)) = (end().await, end().await);
        let part = image(40 * BLOCK_BYTES + 7);
        let tally = image_sums::complete(&part).unwrap();
        let part = Arc::new(part);
        let _wanted = to
            .receive(KEY, 5, End::Tcp, Memory::new(part.bytes()).unwrap())
            .unwrap();
        let region = offered(&mut to_heard).await;
        let _putting = from.put(9, there(&to), region, Arc::clone(&part)).unwrap();
        let Event::PartCopied {
            attempt: 5,
            copied: Ok((copy, copied)),
            ..
        } = next(&mut to_heard).await
        else {
            panic!("it is whole");
        };
        assert_eq!(copied, tally);
        assert!(copy.read().unwrap() == part.read().unwrap());
        let put = next(&mut from_heard).await;
        assert!(
            matches!(
                put,
                Event::PartPut {
                    number: 9,
                    outcome: Ok(())
                }
            ),
            "{put:?}"
        );
    }

    #[tokio::test]
    async fn a_part_that_is_damaged_is_no_copy() {
        let ((from, _heard), (to, mut to_heard)) = (end().await, end().await);
        let part = Arc::new(image(BLOCK_BYTES + 9));
        let _wanted = to
            .receive(KEY, 5, End::Tcp, Memory::new(part.bytes()).unwrap())
            .unwrap();
        let region = offered(&mut to_heard).await;
        let _putting = from.put(9, there(&to), region, part).unwrap();
        let copied = next(&mut to_heard).await;
        assert!(matches!(copied, Event::PartCopied { copied: Err(_), .. }), "{copied:?}");
    }

    #[tokio::test]
    async fn an_offer_that_nobody_takes_or_wants_is_withdrawn() {
        let ((from, mut from_heard), (to, mut to_heard)) = (end().await, end().await);
        let part = Arc::new(image(BLOCK_BYTES + 9));
        let wanted = to
            .receive(KEY, 5, End::Tcp, Memory::new(part.bytes()).unwrap())
            .unwrap();
        let region = offered(&mut to_heard).await;
        drop(wanted);
        let refused = loop {
            let _putting = from.put(9, there(&to), region, Arc::clone(&part)).unwrap();
            if let Event::PartPut {
                outcome: Err(reason), ..
            } = next(&mut from_heard).await
            {
                break reason;
            }
        };
        assert!(refused.contains("does not offer"), "{refused}");
        let _wanted = to
            .receive(KEY, 6, End::Tcp, Memory::new(part.bytes()).unwrap())
            .unwrap();
        offered(&mut to_heard).await;
        let copied = next(&mut to_heard).await;
        assert!(
            matches!(
                copied,
                Event::PartCopied {
                    attempt: 6,
                    copied: Err(_),
                    ..
                }
            ),
            "{copied:?}"
        );
    }

    #[tokio::test]
    async fn where_there_is_no_device_it_is_said_why_and_nothing_is_offered_on_one() {
        let (end, mut heard) = end().await;
        assert_eq!(end.address(End::Rdma), Err("it is not tried here"));
        let _wanted = end.receive(KEY, 1, End::Rdma, Memory::new(9).unwrap()).unwrap();
        let copied = next(&mut heard).await;
        let Event::PartCopied { copied: Err(error), .. } = copied else {
            panic!("{copied:?}")
        };
        assert_eq!(error.to_string(), "it is not tried here");
    }
}
