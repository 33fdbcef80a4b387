//! Carries out what the store wants done with memory files, most of it in the background, and turns what comes of it
//! into inputs of the store.

use super::background::beside;
use super::event::{CameTogether, MemoryEvent};
use super::image_sums;
use super::lending::{self, lending_name};
use super::memory_file::{Memory, is_image};
use super::table::MemoryTable;
use super::transfer::{Bulk, Wanted};
use crate::keeper_link::HandedBuffer;
use crate::serve::event::Event;
use pcm_core::node::memory::{MemoryFile, MemoryId};
use pcm_core::node::store::checkpoint_store::HeldBuffer;
use pcm_core::node::store::effect::{StoreEffect, Sums};
use pcm_core::node::store::image_key::ImageKey;
use pcm_core::node::store::input::StoreInput;
use pcm_core::node::store::route::End;
use pcm_core::node::store::transfer::NotCome;
use pcm_core::parked::BlockSet;
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::fabric::BulkAddress;
use pcm_proto::ids::CheckpointId;
use pcm_proto::image::ImageMessage;
use pcm_proto::parked::BLOCK_BYTES;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// See the file head.
#[derive(Debug)]
pub(in super::super) struct MemoryCarrier {
    table: MemoryTable,
    bulk: Option<Bulk>,
    /// By the number of a try: the memory that is being filled, and the transfer if it is one.
    filling: BTreeMap<u64, (MemoryId, Option<Wanted>)>,
    puts: BTreeMap<u64, Wanted>,
    /// Daemons that wait for an image, by a number.
    borrowers: BTreeMap<u64, oneshot::Sender<Option<Arc<Memory>>>>,
    /// Counts those daemons.
    borrowed: u64,
    reports: VecDeque<StoreInput>,
    cluster_id: String,
    events: mpsc::Sender<Event>,
}

impl MemoryCarrier {
    pub(in super::super) fn new(cluster_id: String, events: mpsc::Sender<Event>) -> Self {
        Self {
            table: MemoryTable::default(),
            bulk: None,
            filling: BTreeMap::new(),
            puts: BTreeMap::new(),
            borrowers: BTreeMap::new(),
            borrowed: 0,
            reports: VecDeque::new(),
            cluster_id,
            events,
        }
    }

    pub(in super::super) fn use_bulk(&mut self, bulk: Bulk) {
        self.bulk = Some(bulk);
    }

    /// What the store has to hear before it takes another event.
    pub(in super::super) fn take_report(&mut self) -> Option<StoreInput> {
        self.reports.pop_front()
    }

    pub(in super::super) fn report(&mut self, input: StoreInput) {
        self.reports.push_back(input);
    }

    /// Takes in a memory file that was handed over, if it is of this length for good.
    pub(in super::super) fn receive(&mut self, file: Option<OwnedFd>, bytes: u64) -> Option<MemoryFile> {
        let memory = Memory::of(File::from(file?), bytes)?;
        Some(self.table.receive(memory))
    }

    /// The same, if the file is sealed against writing.
    pub(in super::super) fn receive_sealed(&mut self, file: Option<OwnedFd>, bytes: u64) -> Option<MemoryFile> {
        self.receive(file.filter(|file| is_image(file, bytes)), bytes)
    }

    /// Takes in a buffer that the keeper held for an earlier daemon.
    pub(in super::super) fn receive_buffer(&mut self, handed: HandedBuffer) -> HeldBuffer {
        let HandedBuffer { key, bytes, file } = handed;
        let memory = Memory::of(File::from(file), bytes);
        let stated = memory
            .as_ref()
            .and_then(|memory| image_sums::stated_tally(memory.file(), bytes));
        let memory = memory.map(|memory| self.table.receive(memory));
        HeldBuffer { key, memory, stated }
    }

    /// Another descriptor of a memory file, and its length.
    pub(in super::super) fn file(&self, id: MemoryId) -> io::Result<(File, u64)> {
        let file = self.table.file(id)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    }

    /// A memory file that is given away.
    pub(in super::super) fn give_away(&mut self, id: MemoryId) -> io::Result<(File, u64)> {
        let given = self.file(id);
        self.table.release(&[id]);
        given
    }

    /// A block of an image, for another node.
    pub(in super::super) fn block(&self, id: MemoryId, block: u64) -> io::Result<ImageMessage> {
        let memory = self.table.read(id)?;
        let image_bytes = memory.bytes();
        let begin = block.saturating_mul(BLOCK_BYTES).min(image_bytes);
        let mut bytes = vec![0; (image_bytes - begin).min(BLOCK_BYTES) as usize];
        memory.file().read_exact_at(&mut bytes, begin)?;
        Ok(ImageMessage::Block {
            block,
            image_bytes,
            checksum: pcm_core::parked::block_checksum(&bytes),
            bytes,
        })
    }

    /// Writes an image into memory that a host offers, or says why not.
    pub(in super::super) fn put(
        &mut self,
        number: u64,
        to: Result<(String, BulkAddress), String>,
        region: [u8; 16],
        memory: MemoryId,
    ) {
        let begun = to.and_then(|to| {
            let bulk = self.bulk.as_ref().ok_or("it has no port for bulk transfers")?;
            let memory = self.table.read(memory);
            let wanted = memory.and_then(|memory| bulk.put(number, to, region, memory));
            wanted.map_err(|error| error.to_string())
        });
        match begun {
            Ok(wanted) => _ = self.puts.insert(number, wanted),
            Err(reason) => self.report(StoreInput::PutEnded {
                number,
                outcome: Err(reason),
            }),
        }
    }

    /// Carries out an effect that concerns memory files alone.
    pub(in super::super) fn carry_out(&mut self, effect: StoreEffect) {
        match effect {
            StoreEffect::Make { memory, has_holes } => self.table.make(memory, has_holes),
            StoreEffect::Release { memories } => self.table.release(&memories),
            StoreEffect::Write {
                key,
                attempt,
                memory,
                at,
                bytes,
            } => {
                if let Err(error) = self.table.write(memory, at, &bytes) {
                    let reason = error.to_string();
                    self.report(StoreInput::Unwritable { key, attempt, reason });
                }
            }
            StoreEffect::Sum { key, id, memory, sums } => self.sum((key, id), memory, sums),
            StoreEffect::Lend { number, memory } => {
                let lent = memory.and_then(|id| self.table.read(id).ok());
                if let Some(borrower) = self.borrowers.remove(&number) {
                    // The borrower may have gone.
                    _ = borrower.send(lent);
                }
            }
            StoreEffect::Borrow { key, attempt, node } => {
                let (events, name) = (self.events.clone(), lending_name(&self.cluster_id, &node));
                tokio::spawn(async move {
                    let lent = lending::borrow(&name, key).await;
                    let lent = MemoryEvent::Lent { key, attempt, lent };
                    let _ = events.send(Event::Memory(lent)).await;
                });
            }
            StoreEffect::Copy {
                key,
                attempt,
                from,
                into,
            } => {
                if let Err(error) = self.copy((key, attempt), from, into) {
                    self.report_refused(key, attempt, &error);
                }
            }
            StoreEffect::Receive {
                key,
                attempt,
                end,
                memory,
                lacks,
            } => {
                if let Err(error) = self.offer((key, attempt), end, memory, lacks) {
                    self.report_refused(key, attempt, &error);
                }
            }
            StoreEffect::Withdraw { attempt } => _ = self.filling.remove(&attempt),
            StoreEffect::CancelPut { number } => _ = self.puts.remove(&number),
            effect => tracing::error!(?effect, "an effect of the store is not for here"),
        }
    }

    fn report_refused(&mut self, key: ImageKey, attempt: u64, error: &io::Error) {
        self.report(StoreInput::Came {
            key,
            attempt,
            is_memory_left: false,
            outcome: Err(NotCome::Refused(error.to_string())),
        });
    }

    fn sum(&mut self, (key, id): (BufferKey, CheckpointId), memory: MemoryId, sums: Sums) {
        let memory = match self.table.read(memory) {
            Ok(memory) => memory,
            Err(error) => {
                let tally = Err(error.to_string());
                return self.report(StoreInput::Summed { key, id, tally });
            }
        };
        let events = self.events.clone();
        tokio::spawn(async move {
            let tally = beside(move || match sums {
                Sums::Complete => image_sums::complete(&memory),
                Sums::Verify => image_sums::verify(&memory),
            });
            let tally = tally.await;
            let summed = MemoryEvent::Summed { key, id, tally };
            let _ = events.send(Event::Memory(summed)).await;
        });
    }

    fn copy(&mut self, (key, attempt): (ImageKey, u64), from: MemoryId, into: MemoryId) -> io::Result<()> {
        let lent = self.table.read(from)?;
        let mut own = self.table.lend_out(into)?;
        self.filling.insert(attempt, (into, None));
        let events = self.events.clone();
        tokio::spawn(async move {
            let copied = beside(move || {
                let tally = image_sums::copy(&lent, &mut own);
                Ok((own, tally))
            });
            let refused = |error: io::Error| NotCome::Refused(error.to_string());
            let came = match copied.await {
                Ok((own, tally)) => CameTogether {
                    memory: Some(own),
                    outcome: tally.map(Some).map_err(refused),
                },
                Err(error) => CameTogether {
                    memory: None,
                    outcome: Err(refused(error)),
                },
            };
            let came = MemoryEvent::Came { key, attempt, came };
            let _ = events.send(Event::Memory(came)).await;
        });
        Ok(())
    }

    fn offer(&mut self, of: (ImageKey, u64), end: End, memory: MemoryId, lacks: BlockSet) -> io::Result<()> {
        let bulk = self.bulk.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let away = self.table.lend_out(memory)?;
        let (_, attempt) = of;
        let wanted = bulk.receive(of, end, away, lacks)?;
        self.filling.insert(attempt, (memory, Some(wanted)));
        Ok(())
    }

    /// What an event of background work is for the store.
    pub(in super::super) fn on_event(&mut self, event: MemoryEvent) -> StoreInput {
        match event {
            MemoryEvent::Summed { key, id, tally } => StoreInput::Summed {
                key,
                id,
                tally: tally.map_err(|error| error.to_string()),
            },
            MemoryEvent::Wanted { key, lend } => {
                self.borrowed += 1;
                let number = self.borrowed;
                self.borrowers.insert(number, lend);
                StoreInput::BorrowerAsks { number, key }
            }
            MemoryEvent::Lent { key, attempt, lent } => {
                let lent = lent.map(|memory| self.table.receive(memory));
                let lent = lent.map_err(|error| error.to_string());
                StoreInput::Lent { key, attempt, lent }
            }
            MemoryEvent::Offered { key, attempt, region } => StoreInput::Offered { key, attempt, region },
            MemoryEvent::Came { key, attempt, came } => {
                let CameTogether { memory, outcome } = came;
                let is_memory_left = match self.filling.remove(&attempt) {
                    Some((id, _)) => self.table.give_back(id, memory),
                    None => {
                        super::background::drop_beside(memory.into_iter().collect());
                        false
                    }
                };
                StoreInput::Came {
                    key,
                    attempt,
                    is_memory_left,
                    outcome,
                }
            }
            MemoryEvent::Put { number, outcome } => {
                self.puts.remove(&number);
                StoreInput::PutEnded { number, outcome }
            }
        }
    }
}
