//! How a daemon carries out what its store wants done with memory files: at once, or in the background.

use super::happening::{Background, Happening, Life};
use super::image::{self, File};
use super::keeper::KeeperWord;
use super::machine::machine_named;
use super::memory::{Borrower, Borrowing, Copying, Offer, Putting, Summing};
use super::scenario::Plant;
use super::seen::Seen;
use super::simulation::Simulation;
use pcm_core::node::event::Event;
use pcm_core::node::store::effect::{StoreEffect, Sums};
use pcm_core::node::store::image_key::ImageKey;
use pcm_core::node::store::input::StoreInput;
use pcm_core::node::store::not_come::{NotCome, PATIENCE};
use pcm_core::parked::block_checksum;
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::image::ImageMessage;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::BLOCK_BYTES;
use pcm_proto::peer::{DaemonToDaemon, JobMessage};

fn came(key: ImageKey, attempt: u64, reason: &str) -> StoreInput {
    StoreInput::Came {
        key,
        attempt,
        is_memory_left: false,
        outcome: Err(NotCome::Refused(reason.to_owned())),
    }
}

impl Simulation {
    /// Carries out an effect of the store; what there is to report of it at once.
    pub(super) fn carry_out_store(&mut self, machine: usize, effect: StoreEffect) -> Option<StoreInput> {
        let delay = self.random.between(100, 4_000);
        let daemon = self.machines[machine].daemon.as_mut()?;
        let of = daemon.life();
        match effect {
            StoreEffect::Make { memory, .. } => daemon.memory.make(memory),
            StoreEffect::Release { memories } => daemon.memory.release(&memories),
            StoreEffect::Write {
                key,
                attempt,
                memory,
                at,
                bytes,
            } => {
                let is_written = daemon.memory.file(memory).is_some_and(|file| {
                    let mut file = file.borrow_mut();
                    let place = file.get_mut(at as usize..at as usize + bytes.len());
                    place.map(|place| place.copy_from_slice(&bytes)).is_some()
                });
                if !is_written {
                    let reason = "there is no such memory".to_owned();
                    return Some(StoreInput::Unwritable { key, attempt, reason });
                }
            }
            StoreEffect::Sum { key, id, memory, sums } => {
                let Some(file) = daemon.memory.file(memory) else {
                    let tally = Err("there is no such memory".to_owned());
                    return Some(StoreInput::Summed { key, id, tally });
                };
                let work = Box::new(Summing { key, id, file, sums });
                self.queue
                    .after(delay, Happening::Store(Background::Summed { of, work }));
            }
            StoreEffect::Keep { key, memory } => {
                let Some(file) = daemon.memory.file(memory) else {
                    let outcome = Err("there is no such memory".to_owned());
                    return Some(StoreInput::Kept { key, outcome });
                };
                self.keep_buffer(machine, key, file);
            }
            StoreEffect::Park { key, memory } => {
                let file = daemon.memory.file(memory);
                daemon.memory.release(&[memory]);
                let Some(file) = file else {
                    let reason = "there is no such memory".to_owned();
                    return Some(StoreInput::NotParked { key, reason });
                };
                self.park_image(machine, key, file);
            }
            StoreEffect::TellRanks { job, message } => {
                let keys: Vec<ProcessKey> = daemon.attached.keys().copied().filter(|key| key.job == job).collect();
                for key in keys {
                    self.tell_rank(key, (*message).clone(), None);
                }
            }
            StoreEffect::GiveBlock {
                node,
                key,
                block,
                memory,
            } => self.give_block(machine, &node, key, block, memory),
            StoreEffect::Withdraw { attempt } => _ = daemon.memory.offers.remove(&attempt),
            StoreEffect::CancelPut { number } => _ = daemon.memory.puts.remove(&number),
            effect => return self.carry_out_transfer(machine, effect, delay),
        }
        None
    }

    fn keep_buffer(&mut self, machine: usize, key: BufferKey, file: File) {
        let is_planted = self.has_plant(Plant::KeeperForgetsBuffers);
        let Some(keeper) = &mut self.machines[machine].keeper else {
            return;
        };
        if !is_planted {
            keeper.buffers.insert(key, file);
        }
        self.ledger.see(Seen::BuffersChanged { job: key.job });
        self.keeper_says(machine, 50, KeeperWord::Holds(key));
    }

    /// The same for images that go between machines, and between files.
    fn carry_out_transfer(&mut self, machine: usize, effect: StoreEffect, delay: u64) -> Option<StoreInput> {
        let daemon = self.machines[machine].daemon.as_mut()?;
        let of = daemon.life();
        match effect {
            StoreEffect::Borrow { key, attempt, node } => self.borrow_image(of, key, attempt, &node, delay),
            StoreEffect::Lend { number, memory } => {
                let file = memory.and_then(|id| daemon.memory.file(id));
                let borrower = daemon.memory.borrowers.remove(&number)?;
                let work = Box::new(Borrowing {
                    key: borrower.key,
                    attempt: borrower.attempt,
                    file,
                });
                let of = borrower.of;
                self.queue
                    .after(delay, Happening::Store(Background::Borrowed { of, work }));
            }
            StoreEffect::Copy {
                key,
                attempt,
                from,
                into,
            } => {
                let Some(from) = daemon.memory.file(from) else {
                    return Some(came(key, attempt, "there is no such memory"));
                };
                let work = Box::new(Copying {
                    key,
                    attempt,
                    from,
                    into,
                });
                self.queue
                    .after(delay, Happening::Store(Background::Copied { of, work }));
            }
            StoreEffect::Receive {
                key, attempt, memory, ..
            } => {
                let region = region(of, attempt);
                daemon.memory.offers.insert(attempt, Offer { key, memory, region });
                for (after, background) in offer(of, attempt, delay) {
                    self.queue.after(after, Happening::Store(background));
                }
            }
            StoreEffect::Put {
                number,
                node,
                region,
                memory,
                ..
            } => {
                let (file, to) = (daemon.memory.file(memory), machine_named(&node));
                let (Some(file), Some(to)) = (file, to) else {
                    let outcome = Err("there is no such memory".to_owned());
                    return Some(StoreInput::PutEnded { number, outcome });
                };
                daemon.memory.puts.insert(number, ());
                let work = Box::new(Putting {
                    number,
                    file,
                    to,
                    region,
                });
                self.queue.after(delay, Happening::Store(Background::Put { of, work }));
            }
            _ => {}
        }
        None
    }

    fn give_block(
        &mut self,
        machine: usize,
        node: &pcm_proto::ids::NodeName,
        key: ImageKey,
        block: u64,
        memory: pcm_core::node::memory::MemoryId,
    ) {
        let daemon = self.machines[machine].daemon.as_ref();
        let file = daemon.and_then(|daemon| daemon.memory.file(memory));
        let message = match file {
            Some(file) => {
                let file = file.borrow();
                let begin = (block.saturating_mul(BLOCK_BYTES) as usize).min(file.len());
                let end = (begin + BLOCK_BYTES as usize).min(file.len());
                let bytes = file[begin..end].to_vec();
                ImageMessage::Block {
                    block,
                    image_bytes: file.len() as u64,
                    checksum: block_checksum(&bytes),
                    bytes,
                }
            }
            None => ImageMessage::Gone {
                reason: "it cannot be read".to_owned(),
            },
        };
        let ImageKey { job, name } = key;
        let message = Box::new(JobMessage::Image { name, message });
        if let Some(to) = machine_named(node) {
            self.send(machine, to, DaemonToDaemon::Job { job, message });
        }
    }

    fn borrow_image(&mut self, of: Life, key: ImageKey, attempt: u64, node: &pcm_proto::ids::NodeName, delay: u64) {
        let lender = machine_named(node).and_then(|lender| self.machines[lender].daemon.as_mut());
        let Some(lender) = lender.filter(|lender| !lender.is_ending) else {
            let work = Box::new(Borrowing {
                key,
                attempt,
                file: None,
            });
            return self
                .queue
                .after(delay, Happening::Store(Background::Borrowed { of, work }));
        };
        let number = lender.memory.borrower(Borrower { of, key, attempt });
        let event = Box::new(Event::Store(StoreInput::BorrowerAsks { number, key }));
        let of = lender.life();
        self.queue.after(50, Happening::Event { of, event });
    }

    pub(super) fn on_background(&mut self, work: Background) {
        match work {
            Background::Summed { of, work } => self.on_summed(of, &work),
            Background::Borrowed { of, work } => self.on_borrowed(of, *work),
            Background::Copied { of, work } => self.on_copied(of, &work),
            Background::Offered { of, attempt } => {
                let offer = self
                    .daemon_of(of)
                    .and_then(|daemon| daemon.memory.offers.get(&attempt).cloned());
                if let Some(Offer { key, region, .. }) = offer {
                    self.event_of(of, Event::Store(StoreInput::Offered { key, attempt, region }));
                }
            }
            Background::OfferEnds { of, attempt } => {
                let ended = self
                    .daemon_of(of)
                    .and_then(|daemon| daemon.memory.offers.remove(&attempt));
                if let Some(Offer { key, .. }) = ended {
                    let input = StoreInput::Came {
                        key,
                        attempt,
                        is_memory_left: true,
                        outcome: Err(NotCome::Silence("nothing came".to_owned())),
                    };
                    self.event_of(of, Event::Store(input));
                }
            }
            Background::Put { of, work } => self.on_put(of, &work),
        }
    }

    fn on_summed(&mut self, of: Life, work: &Summing) {
        if self.daemon_of(of).is_none() {
            return;
        }
        let mut bytes = work.file.borrow_mut();
        let tally = match work.sums {
            Sums::Complete => image::sum(&mut bytes),
            Sums::Verify => image::tally(&bytes).filter(|_| image::is_summed(&bytes)),
        };
        drop(bytes);
        let tally = tally.ok_or_else(|| "its checksums are not those of its data".to_owned());
        let (key, id) = (work.key, work.id);
        self.event_of(of, Event::Store(StoreInput::Summed { key, id, tally }));
    }

    fn on_borrowed(&mut self, of: Life, work: Borrowing) {
        let Some(daemon) = self.daemon_of(of) else { return };
        let lent = work.file.map(|file| daemon.memory.receive(file));
        let lent = lent.ok_or_else(|| "it is not lent".to_owned());
        let Borrowing { key, attempt, .. } = work;
        self.event_of(of, Event::Store(StoreInput::Lent { key, attempt, lent }));
    }

    fn on_copied(&mut self, of: Life, work: &Copying) {
        let Some(daemon) = self.daemon_of(of) else { return };
        let into = daemon.memory.file(work.into);
        let tally = into.as_ref().and_then(|into| {
            let from = work.from.borrow();
            let tally = image::tally(&from).filter(|_| image::is_summed(&from))?;
            let mut into = into.borrow_mut();
            (into.len() == from.len()).then(|| into.copy_from_slice(&from))?;
            Some(tally)
        });
        let input = StoreInput::Came {
            key: work.key,
            attempt: work.attempt,
            is_memory_left: into.is_some(),
            outcome: tally
                .map(Some)
                .ok_or_else(|| NotCome::Refused("its checksums are not those of its data".to_owned())),
        };
        self.event_of(of, Event::Store(input));
    }

    fn on_put(&mut self, of: Life, work: &Putting) {
        let Some(daemon) = self.daemon_of(of) else { return };
        if daemon.memory.puts.remove(&work.number).is_none() {
            return;
        }
        let is_cut = self.network.is_cut(of.machine, work.to);
        let target = self.machines[work.to].daemon.as_mut().filter(|_| !is_cut);
        let offer = target.and_then(|target| {
            let attempt = u64::from_le_bytes(work.region[..8].try_into().ok()?);
            let life = u64::from_le_bytes(work.region[8..].try_into().ok()?);
            let offer = target
                .memory
                .offers
                .remove(&attempt)
                .filter(|_| target.life().number == life)?;
            let into = target.memory.file(offer.memory)?;
            let (from, mut into) = (work.file.borrow(), into.borrow_mut());
            (into.len() == from.len()).then(|| into.copy_from_slice(&from))?;
            Some((target.life(), attempt, offer.key, from.len() as u64))
        });
        let number = work.number;
        let Some((to, attempt, key, bytes)) = offer else {
            let outcome = Err("nothing is on offer there".to_owned());
            return self.event_of(of, Event::Store(StoreInput::PutEnded { number, outcome }));
        };
        let input = StoreInput::Came {
            key,
            attempt,
            is_memory_left: true,
            outcome: Ok(None),
        };
        self.event_of(to, Event::Store(input));
        let outcome = Ok(bytes);
        self.event_of(of, Event::Store(StoreInput::PutEnded { number, outcome }));
    }

    fn daemon_of(&mut self, of: Life) -> Option<&mut super::daemon::Daemon> {
        let daemon = self.machines[of.machine].daemon.as_mut();
        daemon.filter(|daemon| daemon.life() == of && !daemon.is_ending)
    }
}

/// The name of memory on offer: the try, and the daemon's life.
fn region(of: Life, attempt: u64) -> [u8; 16] {
    let mut region = [0; 16];
    region[..8].copy_from_slice(&attempt.to_le_bytes());
    region[8..].copy_from_slice(&of.number.to_le_bytes());
    region
}

/// Memory is on offer after a moment, until nothing was written into it for too long.
fn offer(of: Life, attempt: u64, delay: u64) -> [(u64, Background); 2] {
    [
        (delay / 8 + 1, Background::Offered { of, attempt }),
        (PATIENCE.as_micros() as u64, Background::OfferEnds { of, attempt }),
    ]
}
