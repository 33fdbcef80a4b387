//! Bulk transfers over TCP: a listener that fills offered regions, and senders that keep connections for the next
//! transfer. Many transfers run beside each other, each on a connection of its own; a transfer's blocks follow each
//! other without waiting.

use super::{
    channel::{Broken, Channel, Protection},
    ledger::Ledger,
    memory::{Lent, RegionMemory},
    regions::{Filling, Offer, Opened, Regions},
    service::{BulkService, PutError, PutReport},
    wire::{self, Kind, Reason, RegionToken},
};
use crate::{door::Door, handshake::Failure, key::ClusterKey, limits::Limits};
use pcm_proto::handshake::Identity;
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::{self, Instant},
};

/// Connections kept for the next transfer to the same peer, and to all.
const IDLE_PER_PEER_MAX: usize = 4;
const IDLE_MAX: usize = 64;

/// A connection nobody uses for so long is closed.
const IDLE_DEADLINE: Duration = Duration::from_secs(60);

/// First pause after a broken connection; it doubles up to the second.
const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_millis(500);

struct Shared {
    key: ClusterKey,
    local: Identity,
    protection: Protection,
    limits: Limits,
    regions: Regions,
    address: SocketAddr,
    idle: Mutex<BTreeMap<SocketAddr, Vec<Channel>>>,
    listening: AbortHandle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// One endpoint for bulk transfers; clones are the same endpoint, the last one stops it.
#[derive(Clone)]
pub struct TcpBulk {
    shared: Arc<Shared>,
}

impl TcpBulk {
    /// Listens at `address` (port 0 lets the system choose). `protection` is what this endpoint uses to send, and the
    /// least it accepts.
    pub async fn start(
        address: SocketAddr,
        key: ClusterKey,
        local: Identity,
        protection: Protection,
        limits: Limits,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let regions = Regions::default();
        let receiving = Receiving {
            key: key.clone(),
            local: local.clone(),
            least: protection,
            limits,
            regions: regions.clone(),
        };
        let listening = tokio::spawn(receiving.run(listener)).abort_handle();
        Ok(Self {
            shared: Arc::new(Shared {
                key,
                local,
                protection,
                limits,
                regions,
                address,
                idle: Mutex::default(),
                listening,
            }),
        })
    }

    fn take_idle(&self, to: SocketAddr) -> Option<Channel> {
        let mut idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.get_mut(&to)?.pop()
    }

    fn keep_idle(&self, to: SocketAddr, channel: Channel) {
        let mut idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.values().map(Vec::len).sum::<usize>() >= IDLE_MAX {
            idle.clear();
        }
        let kept = idle.entry(to).or_default();
        if kept.len() < IDLE_PER_PEER_MAX {
            kept.push(channel);
        }
    }

    async fn connect(&self, to: SocketAddr) -> Result<Channel, Broken> {
        let shared = &self.shared;
        let stream = TcpStream::connect(to).await?;
        let stall = shared.limits.stall_deadline;
        let made = Channel::initiate(stream, &shared.key, &shared.local, shared.protection, stall);
        time::timeout(shared.limits.handshake_deadline, made)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// One connection's part of a transfer.
    async fn attempt(
        &self,
        to: SocketAddr,
        region: RegionToken,
        data: &dyn Lent,
        report: &mut PutReport,
    ) -> Result<(), Ended> {
        let mut channel = match self.take_idle(to) {
            Some(channel) => channel,
            None => self.connect(to).await?,
        };
        fill(&mut channel, region, data, self.shared.limits.stall_deadline, report).await?;
        self.keep_idle(to, channel);
        Ok(())
    }
}

/// How one connection's part of a transfer ended.
enum Ended {
    /// Another connection may go on.
    Broken(Broken),
    /// No connection will help.
    Refused(Reason),
}

impl From<Broken> for Ended {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

async fn fill(
    channel: &mut Channel,
    region: RegionToken,
    data: &dyn Lent,
    patience: Duration,
    report: &mut PutReport,
) -> Result<(), Ended> {
    let length = u64::try_from(data.length()).map_err(|_| Broken::Damaged)?;
    channel.send(Kind::Open, 0, &wire::open_payload(region, length)).await?;
    let (header, payload) = channel.short(patience).await?;
    match header.kind {
        Kind::Done => return Ok(()),
        Kind::Refused => {
            let reason = Reason::from_number(header.number).ok_or(Broken::Damaged)?;
            return Err(Ended::Refused(reason));
        }
        Kind::State => {}
        _ => return Err(Broken::Damaged.into()),
    }
    let ledger = Ledger::from_bytes(length, &payload).ok_or(Broken::Damaged)?;
    for block in ledger.missing() {
        let range = ledger.range(block).ok_or(Broken::Damaged)?;
        let copied = |place: &mut [u8]| data.copy_out(range.start, place);
        channel.send_made(Kind::Block, block, range.len(), copied).await?;
        report.blocks_sent += 1;
    }
    let (header, _) = channel.short(patience).await?;
    (header.kind == Kind::Done).then_some(()).ok_or(Broken::Damaged.into())
}

impl BulkService for TcpBulk {
    type Address = SocketAddr;
    type Offer = Offer;

    fn local(&self) -> SocketAddr {
        self.shared.address
    }

    fn offer_rest(&self, memory: impl Into<RegionMemory>, there: Ledger) -> Option<Offer> {
        let mut token = [0; 16];
        getrandom::fill(&mut token).ok()?;
        self.shared.regions.offer(RegionToken(token), memory.into(), there)
    }

    async fn put<D: Lent + 'static>(
        &self,
        to: SocketAddr,
        region: RegionToken,
        data: Arc<D>,
        deadline: Duration,
    ) -> Result<PutReport, PutError> {
        let end = Instant::now() + deadline;
        let mut report = PutReport::default();
        let mut pause = RETRY_FIRST;
        let mut last = None;
        loop {
            let attempt = time::timeout_at(end, self.attempt(to, region, &*data, &mut report)).await;
            let broken = match attempt {
                Err(_) => return Err(PutError::Deadline { last }),
                Ok(Ok(())) => return Ok(report),
                Ok(Err(Ended::Refused(reason))) => return Err(PutError::Refused(reason)),
                Ok(Err(Ended::Broken(broken))) => broken,
            };
            last = Some(match broken {
                Broken::Protection => return Err(PutError::Protection),
                Broken::Handshake(Failure::Rejected(rejection)) => {
                    return Err(PutError::Stranger(rejection.to_string()));
                }
                Broken::Handshake(Failure::Refused) => {
                    return Err(PutError::Stranger("it does not share this cluster's key".into()));
                }
                Broken::Handshake(Failure::Io(error)) | Broken::Io(error) => error.to_string(),
                Broken::Damaged => "a frame was damaged".into(),
            });
            report.reconnects += 1;
            if Instant::now() + pause >= end {
                return Err(PutError::Deadline { last });
            }
            time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
    }
}

/// The receiving side.
#[derive(Clone)]
struct Receiving {
    key: ClusterKey,
    local: Identity,
    least: Protection,
    limits: Limits,
    regions: Regions,
}

impl Receiving {
    async fn run(self, listener: TcpListener) {
        let door = Door::new(listener, &self.limits, Arc::default());
        let (made_by, mut served) = (self.clone(), Served::default());
        door.run(
            move |stream, _| made_by.clone().make(stream),
            move |channel| served.begin(&self, channel),
        )
        .await;
    }

    async fn make(self, stream: TcpStream) -> Option<Channel> {
        let stall = self.limits.stall_deadline;
        let made = Channel::respond(stream, &self.key, &self.local, self.least, stall);
        match time::timeout(self.limits.handshake_deadline, made).await {
            Ok(Ok(channel)) => return Some(channel),
            Ok(Err(broken)) => tracing::debug!(?broken, "a bulk connection was not made"),
            Err(_) => tracing::debug!("a bulk connection was not made in time"),
        }
        None
    }

    async fn serve(self, mut channel: Channel, is_busy: Arc<AtomicBool>) {
        loop {
            if let Err(broken) = self.serve_one(&mut channel, &is_busy).await {
                tracing::debug!(?broken, "a bulk connection ended");
                return;
            }
        }
    }

    async fn serve_one(&self, channel: &mut Channel, is_busy: &AtomicBool) -> Result<(), Broken> {
        is_busy.store(false, Ordering::Relaxed);
        let (header, payload) = channel.short(IDLE_DEADLINE).await?;
        is_busy.store(true, Ordering::Relaxed);
        let opened = wire::parse_open(&payload).filter(|_| header.kind == Kind::Open);
        let (token, length) = opened.ok_or(Broken::Damaged)?;
        match self.regions.open(token, length).await {
            Err(reason) => channel.send(Kind::Refused, reason as u32, &[]).await,
            Ok(Opened::Whole) => channel.send(Kind::Done, 0, &[]).await,
            Ok(Opened::Filling(mut filling)) => {
                channel.send(Kind::State, 0, filling.ledger.bytes()).await?;
                let unwanted = filling.is_unwanted();
                tokio::select! {
                    received = receive_blocks(channel, &mut filling, self.limits.stall_deadline) => received?,
                    () = unwanted => return Err(Broken::Io(io::ErrorKind::ConnectionAborted.into())),
                }
                drop(filling);
                channel.send(Kind::Done, 0, &[]).await
            }
        }
    }
}

async fn receive_blocks(channel: &mut Channel, filling: &mut Filling, patience: Duration) -> Result<(), Broken> {
    while !filling.ledger.is_complete() {
        let header = channel.header(patience).await?;
        let range = filling
            .ledger
            .range(header.number)
            .filter(|range| header.kind == Kind::Block && u32::try_from(range.len()) == Ok(header.length))
            // A block that is there is checked and must not be overwritten with what is not.
            .filter(|_| !filling.ledger.has(header.number))
            .ok_or(Broken::Damaged)?;
        channel.payload(&header, &mut filling.memory[range]).await?;
        filling.note(header.number);
    }
    Ok(())
}

/// Connections of members, those in use and those kept for the next transfer, the oldest first. Dropping it ends them.
#[derive(Default)]
struct Served {
    tasks: JoinSet<()>,
    places: VecDeque<(Arc<AtomicBool>, AbortHandle)>,
}

impl Served {
    /// Without a place, an idle connection makes room; its sender makes another when it needs one. When all
    /// are in use the newcomer is closed, and its sender comes again.
    fn begin(&mut self, receiving: &Receiving, channel: Channel) {
        while self.tasks.try_join_next().is_some() {}
        self.places.retain(|(_, task)| !task.is_finished());
        if self.places.len() >= receiving.limits.bulk_max {
            let idle = self
                .places
                .iter()
                .position(|(is_busy, _)| !is_busy.load(Ordering::Relaxed));
            let Some((_, idle)) = idle.and_then(|at| self.places.remove(at)) else {
                return;
            };
            idle.abort();
        }
        let is_busy = Arc::new(AtomicBool::new(true));
        let task = self.tasks.spawn(receiving.clone().serve(channel, Arc::clone(&is_busy)));
        self.places.push_back((is_busy, task));
    }
}
