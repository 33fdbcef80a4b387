//! Bulk transfers over InfiniBand's reliable connections: the sender writes straight into the receiver's memory. Each
//! transfer has a connection of its own; setting it up, announcing what is written and confirming it go over datagrams.

use super::{
    completions::{Completion, Completions},
    device::Device,
    memory::{Memory, Source},
    pair::{End, Pair},
    rc_message::{ANNOUNCED_MAX, KEY_LENGTH, Protector, Said, Written},
    rc_receive::{Receiving, TELL_DEADLINE},
};
use crate::{
    bulk::{
        BulkService, Ledger, Lent, Offer, Protection, PutError, PutReport, Reason, RegionMemory, RegionToken, Regions,
        wire::BLOCK_LENGTH,
    },
    datagram::{Datagram, DatagramLimits, DatagramService as _},
    key::ClusterKey,
};
use pcm_proto::fabric::UdAddress;
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{self, Instant},
};
use zeroize::Zeroizing;

/// Blocks that are being written at a time: 4 MiB, more than any path between two machines holds.
const WRITES: usize = 16;

/// How often silent writers are looked for.
const SWEEP_PERIOD: Duration = Duration::from_secs(5);

const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_millis(500);

/// A receiver that neither confirms nor complains for so long has forgotten us.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

type Replies = Arc<Mutex<BTreeMap<u64, mpsc::Sender<Said>>>>;

struct Shared {
    device: Arc<Device>,
    talk: Datagram<UdAddress>,
    regions: Regions,
    replies: Replies,
    protection: Protection,
    task: AbortHandle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One endpoint for bulk transfers on a device; clones are the same endpoint, the last one stops it.
#[derive(Clone)]
pub struct RcBulk {
    shared: Arc<Shared>,
}

impl RcBulk {
    /// Starts an endpoint with datagrams of its own. `protection` is what it uses to send, and the least it accepts.
    pub fn start(device: &Arc<Device>, key: &ClusterKey, epoch: u32, protection: Protection) -> io::Result<Self> {
        let talk = Datagram::ud(device, key, epoch, DatagramLimits::default())?;
        let regions = Regions::default();
        let replies = Replies::default();
        let (receiving, unwanted) = Receiving::new(device, regions.clone(), talk.clone(), protection)?;
        let task = tokio::spawn(listen(talk.clone(), receiving, unwanted, Arc::clone(&replies))).abort_handle();
        Ok(Self {
            shared: Arc::new(Shared {
                device: Arc::clone(device),
                talk,
                regions,
                replies,
                protection,
                task,
            }),
        })
    }

    /// Turns to the keys of another epoch.
    pub async fn turn(&self, epoch: u32) {
        self.shared.talk.turn(epoch).await;
    }

    /// One connection's part of a transfer.
    async fn attempt(
        &self,
        to: UdAddress,
        region: RegionToken,
        data: &Source,
        report: &mut PutReport,
    ) -> Result<(), Ended> {
        let transfer = random_number()?;
        let (tell, replies) = mpsc::channel(64);
        let _listening = Listening::begin(&self.shared.replies, transfer, tell);
        let mut writer = Writer::new(self, to, transfer, data, replies)?;
        writer.open(region).await?;
        writer.write(report).await
    }
}

/// How one connection's part of a transfer ended.
enum Ended {
    Broken(String),
    Refused(Reason),
    Unregistered(String),
    Whole,
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// Passes on what a receiver says, until it is dropped.
struct Listening<'a> {
    replies: &'a Replies,
    transfer: u64,
}

impl<'a> Listening<'a> {
    fn begin(replies: &'a Replies, transfer: u64, tell: mpsc::Sender<Said>) -> Self {
        let mut table = replies.lock().unwrap_or_else(PoisonError::into_inner);
        table.insert(transfer, tell);
        Self { replies, transfer }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let mut table = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        table.remove(&self.transfer);
    }
}

fn random_number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u64::from_le_bytes(bytes))
}

async fn listen(
    talk: Datagram<UdAddress>,
    mut receiving: Receiving,
    mut unwanted: mpsc::Receiver<(UdAddress, u64)>,
    replies: Replies,
) {
    let mut sweep = time::interval(SWEEP_PERIOD);
    loop {
        tokio::select! {
            received = talk.receive() => {
                let Some(received) = received else { return };
                let Some(said) = Said::parse(&received.message) else { continue };
                match said {
                    Said::Open { .. } | Said::Written { .. } => receiving.on_said(received.from, said).await,
                    reply => {
                        let table = replies.lock().unwrap_or_else(PoisonError::into_inner);
                        if let Some(tell) = table.get(&reply.transfer()) {
                            // A sender that does not keep up asks again.
                            let _ = tell.try_send(reply);
                        }
                    }
                }
            }
            Some(name) = unwanted.recv() => receiving.on_unwanted(name),
            _ = sweep.tick() => receiving.on_time(),
        }
    }
}

/// What the device reads while it writes.
enum Read {
    /// The data where they are.
    Source(Arc<Memory>),
    /// Blocks of them, copied: to be encrypted, or where the device does not take the data's own memory.
    Staged(Arc<Memory>),
}

impl Read {
    fn memory(&self) -> &Arc<Memory> {
        match self {
            Self::Source(memory) | Self::Staged(memory) => memory,
        }
    }
}

/// The sending end of one connection.
struct Writer {
    // Before the memory it reaches.
    pair: Pair,
    completions: Arc<Completions>,
    read: Read,
    talk: Datagram<UdAddress>,
    to: UdAddress,
    transfer: u64,
    length: u64,
    data: Source,
    key: Zeroizing<[u8; KEY_LENGTH]>,
    protection: Protection,
    /// Writes so far: no number is used twice with the key.
    writes: u32,
    replies: mpsc::Receiver<Said>,
    remote: (u64, u32),
    todo: VecDeque<u32>,
    under_way: BTreeMap<u64, Written>,
    idle: Vec<u64>,
    written: Vec<Written>,
    ledger: Option<Ledger>,
}

impl Writer {
    fn new(
        bulk: &RcBulk,
        to: UdAddress,
        transfer: u64,
        data: &Source,
        replies: mpsc::Receiver<Said>,
    ) -> Result<Self, Ended> {
        let (device, protection) = (&bulk.shared.device, bulk.shared.protection);
        let unregistered = |error: io::Error| Ended::Unregistered(error.to_string());
        let completions = Arc::new(Completions::new(device, 2 * WRITES)?);
        let mut pair = Pair::reliable(device, &completions, WRITES as u32)?;
        let mut key = Zeroizing::new([0; KEY_LENGTH]);
        getrandom::fill(key.as_mut_slice()).map_err(io::Error::other)?;
        let source = match protection {
            Protection::Sealed => None,
            // Memory that is read-only is taken by Linux from 6.2 on.
            Protection::Plain => Memory::shared(device, Arc::clone(data)).ok(),
        };
        let read = match source {
            Some(source) => Read::Source(Arc::new(source)),
            None => {
                let blocks = Memory::own(device, vec![0; WRITES * BLOCK_LENGTH].into(), false);
                Read::Staged(Arc::new(blocks.map_err(|(_, error)| unregistered(error))?))
            }
        };
        pair.give(read.memory());
        Ok(Self {
            pair,
            completions,
            read,
            talk: bulk.shared.talk.clone(),
            to,
            transfer,
            length: data.length() as u64,
            data: Arc::clone(data),
            key,
            protection,
            writes: 0,
            replies,
            remote: (0, 0),
            todo: VecDeque::new(),
            under_way: BTreeMap::new(),
            idle: (0..WRITES as u64).collect(),
            written: Vec::new(),
            ledger: None,
        })
    }

    async fn tell(&self, said: &Said) -> Result<(), Ended> {
        let told = self.talk.exchange(self.to, said.to_bytes(), TELL_DEADLINE).await;
        told.map_err(|error| Ended::Broken(error.to_string()))
    }

    async fn hear(&mut self) -> Result<Said, Ended> {
        match time::timeout(ANSWER_DEADLINE, self.replies.recv()).await {
            Ok(Some(Said::Done { .. })) => Err(Ended::Whole),
            Ok(Some(Said::Refused { reason, .. })) => {
                let reason = Reason::from_number(reason).unwrap_or(Reason::Unknown);
                Err(Ended::Refused(reason))
            }
            Ok(Some(Said::Lost { .. })) => Err(Ended::Broken("the receiver gave the connection up".into())),
            Ok(Some(said)) => Ok(said),
            Ok(None) | Err(_) => Err(Ended::Broken("the receiver does not answer".into())),
        }
    }

    async fn open(&mut self, region: RegionToken) -> Result<(), Ended> {
        let said = Said::Open {
            transfer: self.transfer,
            token: region.0,
            length: self.length,
            end: End {
                gid: self.talk.local().gid,
                pair: self.pair.number(),
                first_packet: 0,
            },
            key: *self.key,
            is_sealed: self.protection == Protection::Sealed,
        };
        self.tell(&said).await?;
        let Said::Opened {
            end,
            address,
            remote_key,
            ledger,
            ..
        } = self.hear().await?
        else {
            return Err(Ended::Broken("the receiver answers something else".into()));
        };
        self.pair.connect(&end, 0)?;
        self.remote = (address, remote_key);
        let ledger = Ledger::from_bytes(self.length, &ledger);
        let ledger = ledger.ok_or_else(|| Ended::Broken("the receiver's ledger does not fit".into()))?;
        self.todo = ledger.missing().collect();
        self.ledger = Some(ledger);
        Ok(())
    }

    /// Writes every missing block, keeps telling what is written, and ends when the receiver has checked all.
    async fn write(&mut self, report: &mut PutReport) -> Result<(), Ended> {
        let protector = Protector::new(&self.key, self.protection);
        let protector = protector.ok_or_else(|| Ended::Broken("no key".into()))?;
        let completions = Arc::clone(&self.completions);
        let mut finished = Vec::new();
        loop {
            while let (false, Some(block)) = (self.idle.is_empty(), self.todo.front().copied()) {
                self.todo.pop_front();
                self.post(block, &protector)?;
                report.blocks_sent += 1;
            }
            if self.under_way.is_empty() {
                self.announce().await?;
                if let Said::Damaged { blocks, .. } = self.hear().await? {
                    self.todo.extend(blocks);
                }
                continue;
            }
            let waited = time::timeout(ANSWER_DEADLINE, completions.wait(&mut finished)).await;
            waited.map_err(|_| Ended::Broken("the device does not finish its writes".into()))??;
            for one in finished.drain(..) {
                self.on_finished(&one)?;
            }
            if self.written.len() >= ANNOUNCED_MAX / 2 {
                self.announce().await?;
            }
            while let Ok(said) = self.replies.try_recv() {
                match said {
                    Said::Damaged { blocks, .. } => self.todo.extend(blocks),
                    Said::Done { .. } => return Err(Ended::Whole),
                    _ => return Err(Ended::Broken("the receiver gave the connection up".into())),
                }
            }
        }
    }

    fn post(&mut self, block: u32, protector: &Protector) -> Result<(), Ended> {
        let odd = || Ended::Broken("a block lies outside the data".into());
        let range = self
            .ledger
            .as_ref()
            .and_then(|ledger| ledger.range(block))
            .ok_or_else(odd)?;
        let mut copied = vec![0; range.len()];
        if !self.data.copy_out(range.start, &mut copied) {
            return Err(odd());
        }
        let slot = self.idle.pop().ok_or_else(odd)?;
        let address = self.remote.0 + range.start as u64;
        self.writes = self.writes.checked_add(1).ok_or_else(odd)?;
        let number = self.writes;
        let check = match &self.read {
            Read::Source(source) => {
                self.pair.write(source, range.clone(), slot, address, self.remote.1)?;
                protector.prove(block, number, &copied)
            }
            Read::Staged(staging) => {
                let check = match self.protection {
                    Protection::Sealed => protector.seal(block, number, &mut copied),
                    Protection::Plain => protector.prove(block, number, &copied),
                };
                let start = usize::try_from(slot).map_err(io::Error::other)? * BLOCK_LENGTH;
                staging.copy_in(start, &copied);
                let staged = start..start + copied.len();
                self.pair.write(staging, staged, slot, address, self.remote.1)?;
                check
            }
        };
        let check = check.ok_or_else(odd)?;
        self.under_way.insert(slot, Written { block, number, check });
        Ok(())
    }

    fn on_finished(&mut self, one: &Completion) -> Result<(), Ended> {
        if !one.is_good {
            return Err(Ended::Broken("a write failed: the connection is broken".into()));
        }
        if let Some(written) = self.under_way.remove(&one.request) {
            self.idle.push(one.request);
            self.written.push(written);
        }
        Ok(())
    }

    async fn announce(&mut self) -> Result<(), Ended> {
        while !self.written.is_empty() {
            let count = self.written.len().min(ANNOUNCED_MAX);
            let said = Said::Written {
                transfer: self.transfer,
                blocks: self.written.drain(..count).collect(),
            };
            self.tell(&said).await?;
        }
        Ok(())
    }
}

impl BulkService for RcBulk {
    type Address = UdAddress;
    type Offer = Offer;

    fn local(&self) -> UdAddress {
        self.shared.talk.local()
    }

    fn offer_rest(&self, memory: impl Into<RegionMemory>, there: Ledger) -> Option<Offer> {
        let mut token = [0; 16];
        getrandom::fill(&mut token).ok()?;
        self.shared.regions.offer(RegionToken(token), memory.into(), there)
    }

    async fn put<D: Lent + 'static>(
        &self,
        to: UdAddress,
        region: RegionToken,
        data: Arc<D>,
        deadline: Duration,
    ) -> Result<PutReport, PutError> {
        let data: Source = data;
        if Ledger::new(data.length() as u64).is_none() {
            return Err(PutError::TooLong);
        }
        let end = Instant::now() + deadline;
        let (mut report, mut pause, mut last) = (PutReport::default(), RETRY_FIRST, None);
        loop {
            match time::timeout_at(end, self.attempt(to, region, &data, &mut report)).await {
                Err(_) => return Err(PutError::Deadline { last }),
                Ok(Ok(()) | Err(Ended::Whole)) => return Ok(report),
                Ok(Err(Ended::Refused(Reason::Protection))) => return Err(PutError::Protection),
                Ok(Err(Ended::Refused(reason))) => return Err(PutError::Refused(reason)),
                Ok(Err(Ended::Unregistered(why))) => return Err(PutError::Unregistered(why)),
                Ok(Err(Ended::Broken(what))) => last = Some(what),
            }
            report.reconnects += 1;
            if Instant::now() + pause >= end {
                return Err(PutError::Deadline { last });
            }
            time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
    }
}
