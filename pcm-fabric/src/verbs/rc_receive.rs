//! The receiving side of bulk transfers over RC: opens offered memory to one writer at a time, checks what was written
//! and gives whole regions back. Nothing of a block counts before its check; when a writer is replaced, its connection
//! is gone before the next one's exists.

use super::{
    completions::Completions,
    device::Device,
    memory::Memory,
    pair::{End, Pair},
    rc_message::{KEY_LENGTH, Protector, Said, Written, token},
};
use crate::{
    bulk::{Opened, Protection, Reason, RegionMemory, Regions},
    datagram::{Datagram, DatagramService as _},
};
use pcm_proto::fabric::UdAddress;
use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// Regions that are being filled at a time.
const FILLING_MAX: usize = 64;

/// A writer that says nothing for so long is given up.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What we tell a writer must reach it within this.
pub(super) const TELL_DEADLINE: Duration = Duration::from_secs(5);

type Name = (UdAddress, u64);
type Connected = (Pair, Arc<Memory>, End);

struct Incoming {
    // Before the memory, so that nobody writes when it is given back.
    pair: Pair,
    memory: Arc<Memory>,
    filling: crate::bulk::Filling,
    protector: Protector,
    heard: Instant,
}

impl Incoming {
    /// Ends the connection and gives the region, with what is there, back to its registry.
    fn end(self) {
        let Self {
            pair,
            memory,
            mut filling,
            ..
        } = self;
        drop(pair);
        if let Ok(memory) = Arc::try_unwrap(memory) {
            filling.memory = memory.into_bytes();
        }
    }
}

/// All regions that are being filled here.
pub(super) struct Receiving {
    device: Arc<Device>,
    completions: Arc<Completions>,
    regions: Regions,
    talk: Datagram<UdAddress>,
    least: Protection,
    incoming: BTreeMap<Name, Incoming>,
    unwanted: mpsc::Sender<Name>,
}

impl Receiving {
    pub(super) fn new(
        device: &Arc<Device>,
        regions: Regions,
        talk: Datagram<UdAddress>,
        least: Protection,
    ) -> io::Result<(Self, mpsc::Receiver<Name>)> {
        let (unwanted, unwanted_out) = mpsc::channel(FILLING_MAX);
        let receiving = Self {
            device: Arc::clone(device),
            completions: Arc::new(Completions::new(device, 16)?),
            regions,
            talk,
            least,
            incoming: BTreeMap::new(),
            unwanted,
        };
        Ok((receiving, unwanted_out))
    }

    /// Takes what a sender said, and answers it.
    pub(super) async fn on_said(&mut self, from: UdAddress, said: Said) {
        let answer = match said {
            Said::Open {
                transfer,
                token,
                length,
                end,
                key,
                is_sealed,
            } => {
                let protection = if is_sealed {
                    Protection::Sealed
                } else {
                    Protection::Plain
                };
                let opened = self.open((from, transfer), (token, length), &end, (&key, protection));
                let answer = opened.await;
                Some(answer.unwrap_or_else(|reason| Said::refused(transfer, reason)))
            }
            Said::Written { transfer, blocks } => self.on_written((from, transfer), &blocks),
            _ => None,
        };
        if let Some(answer) = answer {
            let talk = self.talk.clone();
            // A sender that does not hear it opens the region again.
            tokio::spawn(async move { talk.exchange(from, answer.to_bytes(), TELL_DEADLINE).await });
        }
    }

    pub(super) fn on_unwanted(&mut self, name: Name) {
        if let Some(incoming) = self.incoming.remove(&name) {
            incoming.end();
        }
    }

    pub(super) fn on_time(&mut self) {
        let silent: Vec<Name> = self
            .incoming
            .iter()
            .filter(|(_, incoming)| incoming.heard.elapsed() >= SILENCE_MAX)
            .map(|(name, _)| *name)
            .collect();
        for name in silent {
            self.on_unwanted(name);
        }
    }

    async fn open(
        &mut self,
        name: Name,
        (region, length): ([u8; 16], u64),
        peer: &End,
        (key, protection): (&[u8; KEY_LENGTH], Protection),
    ) -> Result<Said, Reason> {
        let transfer = name.1;
        if self.least == Protection::Sealed && protection != Protection::Sealed {
            return Err(Reason::Protection);
        }
        self.on_unwanted(name);
        // Whoever has the region lets go of it here, since only this task could hear that it should.
        let holder = self.holder(region);
        if let Some(holder) = holder {
            self.on_unwanted(holder);
        }
        if self.incoming.len() >= FILLING_MAX {
            return Err(Reason::Busy);
        }
        let mut filling = match self.regions.open(token(region), length).await? {
            Opened::Whole => return Ok(Said::Done { transfer }),
            Opened::Filling(filling) => filling,
        };
        if filling.ledger.is_complete() {
            return Ok(Said::Done { transfer });
        }
        let protector = Protector::new(key, protection).ok_or(Reason::Busy)?;
        let bytes = std::mem::take(&mut filling.memory);
        let opened = self.connect(bytes, peer);
        let (pair, memory, mine) = match opened {
            Ok(opened) => opened,
            Err((bytes, error)) => {
                tracing::warn!(%error, "memory could not be opened to a writer");
                filling.memory = bytes;
                return Err(Reason::Unregistered);
            }
        };
        let said = Said::Opened {
            transfer,
            end: mine,
            address: memory.address(),
            remote_key: memory.remote_key(),
            ledger: filling.ledger.bytes().to_vec(),
        };
        let (unwanted, tell) = (filling.is_unwanted(), self.unwanted.clone());
        tokio::spawn(async move {
            unwanted.await;
            let _ = tell.send(name).await;
        });
        let incoming = Incoming {
            pair,
            memory,
            filling,
            protector,
            heard: Instant::now(),
        };
        self.incoming.insert(name, incoming);
        Ok(said)
    }

    fn holder(&self, region: [u8; 16]) -> Option<Name> {
        self.incoming
            .iter()
            .find(|(_, incoming)| incoming.filling.token() == token(region))
            .map(|(name, _)| *name)
    }

    /// Registers memory and connects to its writer; gives the memory back when that fails.
    fn connect(&self, bytes: RegionMemory, peer: &End) -> Result<Connected, (RegionMemory, io::Error)> {
        let memory = Arc::new(Memory::own(&self.device, bytes, true)?);
        let connected = Pair::reliable(&self.device, &self.completions, 16).and_then(|mut pair| {
            pair.give(&memory);
            pair.connect(peer, 0)?;
            Ok(pair)
        });
        match connected {
            Ok(pair) => {
                let mine = End {
                    gid: self.device.gid(),
                    pair: pair.number(),
                    first_packet: 0,
                };
                Ok((pair, memory, mine))
            }
            // The pair is gone, and with it the only other hold on the memory.
            Err(error) => Err((
                Arc::into_inner(memory).map(Memory::into_bytes).unwrap_or_default(),
                error,
            )),
        }
    }

    fn on_written(&mut self, name: Name, blocks: &[Written]) -> Option<Said> {
        let transfer = name.1;
        let Some(incoming) = self.incoming.get_mut(&name) else {
            return Some(Said::Lost { transfer });
        };
        incoming.heard = Instant::now();
        let mut damaged = Vec::new();
        let mut block_bytes = Vec::new();
        for written in blocks {
            let block = written.block;
            let Some(range) = incoming.filling.ledger.range(block) else {
                continue;
            };
            if incoming.filling.ledger.has(block) {
                continue;
            }
            block_bytes.resize(range.len(), 0);
            let is_good = incoming.memory.copy_out(range.clone(), &mut block_bytes)
                && incoming.protector.open(written, &mut block_bytes)
                && (!incoming.protector.is_sealing() || incoming.memory.copy_in(range.start, &block_bytes));
            if is_good {
                incoming.filling.note(block);
            } else {
                damaged.push(block);
            }
        }
        if !damaged.is_empty() {
            return Some(Said::Damaged {
                transfer,
                blocks: damaged,
            });
        }
        if !incoming.filling.ledger.is_complete() {
            return None;
        }
        self.on_unwanted(name);
        Some(Said::Done { transfer })
    }
}
