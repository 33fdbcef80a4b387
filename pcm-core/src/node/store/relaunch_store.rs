//! Parked data on this node: has the keeper hold what ranks hand over, and gives it to the restored ranks and nodes
//! that wait for it. Never looks inside an image.

use super::effect::StoreEffect;
use super::image_key::ImageKey;
use super::step::Step;
use crate::node::memory::MemoryFile;
use crate::node::ranks::effect::RankEffect;
use crate::node::timer::Timer;
use crate::reconfiguration::effects::Input;
use pcm_proto::ids::{Bytes, JobId, NodeName};
use pcm_proto::image::{ImageMessage, ImageName};
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use pcm_proto::layout::Mode;
use pcm_proto::parked::{Asked, ParkKey};
use pcm_proto::reconfiguration::{Attempt, ReconfigurationReport, Tally, Trouble};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The order to drop an image may be lost with a link. A process that could need it has it by then or is given up: the
/// limits of the phases of a relaunch in which images are needed are together a third of this.
const NEEDED_MAX: Duration = Duration::from_secs(600);

/// Requests that wait for one image at most: of every process of a job, and of each node for one block.
const WANTING_MAX: usize = 8192;

/// A request that waits for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanting {
    /// Of a process here.
    Process(ProcessKey, Asked),
    /// Of another node, for this block.
    Node(NodeName, u64),
}

/// All parked data that this node deals with.
#[derive(Debug, Default)]
pub(super) struct RelaunchStore {
    /// Those that the keeper holds.
    images: BTreeMap<ParkKey, MemoryFile>,
    /// Handed over by ranks, not yet confirmed by the keeper; with what the rank said since.
    awaited: BTreeMap<ParkKey, Option<ReconfigurationReport>>,
    /// Being copied out of processes that hang.
    salvaged: BTreeSet<ParkKey>,
    /// Of live attempts: the requests that wait for an image that is still to come.
    wanted: BTreeMap<ParkKey, Vec<Wanting>>,
}

impl RelaunchStore {
    /// One that the keeper holds.
    pub(super) fn image(&self, key: ParkKey) -> Option<MemoryFile> {
        self.images.get(&key).copied()
    }

    /// The keeper holds an image, also one of before the daemon started.
    pub(super) fn take_over(&mut self, key: ParkKey, memory: Option<MemoryFile>, step: &mut Step<'_>) {
        step.out.arm(NEEDED_MAX, Timer::Unneeded(key));
        let Some(memory) = memory else {
            tracing::error!(job = %key.job, process = %key.process, "the keeper holds something else than an image");
            return;
        };
        let before = self.images.insert(key, memory);
        step.release(before);
    }

    /// A rank hands over its data, if it is an image.
    pub(super) fn on_handed(&mut self, key: ParkKey, handed: Option<MemoryFile>, step: &mut Step<'_>) {
        let is_called = step
            .relaunch(key.job)
            .is_some_and(|(known, plan)| known == key.attempt && plan.old.member(key.process).is_some());
        match handed {
            Some(memory) if is_called => {
                self.awaited.insert(key, None);
                step.push(StoreEffect::Park { key, memory: memory.id });
            }
            Some(memory) => step.release([memory]),
            // Its report that it has moved would be a lie.
            None => step.report_failed(
                key,
                Trouble::Moving,
                "what it handed over is no sealed memory file of the stated length".to_owned(),
            ),
        }
    }

    /// A rank says that its data has moved. Of data that is parked this is true only when the keeper holds it: then the
    /// report waits here.
    pub(super) fn hold_back(&mut self, key: ParkKey, report: &ReconfigurationReport) -> bool {
        match self.awaited.get_mut(&key) {
            Some(said) => {
                *said = Some(report.clone());
                true
            }
            None => false,
        }
    }

    /// The keeper holds an image.
    pub(super) fn on_parked(&mut self, key: ParkKey, memory: Option<MemoryFile>, step: &mut Step<'_>) {
        self.take_over(key, memory, step);
        let process = key.process;
        if let Some(Some(report)) = self.awaited.remove(&key) {
            step.reconfigure(key.job, Input::Report { process, report });
        }
        if self.salvaged.remove(&key) {
            let result = Ok(Tally {
                bytes: Bytes(memory.map_or(0, |memory| memory.bytes)),
                ..Tally::default()
            });
            step.reconfigure(key.job, Input::Salvaged { process, result });
        }
        for wanting in self.wanted.remove(&key).unwrap_or_default() {
            match (wanting, memory) {
                (Wanting::Process(asker, asked), _) => self.give(asker, asked, key, step),
                (Wanting::Node(node, block), Some(memory)) => step.push(StoreEffect::GiveBlock {
                    node,
                    key: key.into(),
                    block,
                    memory: memory.id,
                }),
                (Wanting::Node(node, _), None) => {
                    let reason = format!("node {} does not hold the data of process {process}", step.out.own());
                    step.say_of_image(&node, key.into(), ImageMessage::Gone { reason });
                }
            }
        }
    }

    /// The keeper does not hold an image.
    pub(super) fn on_not_parked(&mut self, key: ParkKey, reason: String, step: &mut Step<'_>) {
        tracing::warn!(job = %key.job, process = %key.process, attempt = %key.attempt, reason, "data is not parked");
        let process = key.process;
        if self.awaited.remove(&key).is_some() {
            return step.report_failed(key, Trouble::Moving, reason);
        }
        if self.salvaged.remove(&key) {
            let result = Err(reason);
            return step.reconfigure(key.job, Input::Salvaged { process, result });
        }
        for wanting in self.wanted.remove(&key).unwrap_or_default() {
            let reason = reason.clone();
            match wanting {
                Wanting::Process(asker, asked) => step.tell_lost(asker, asked, Some(key.attempt), reason),
                Wanting::Node(node, _) => step.say_of_image(&node, key.into(), ImageMessage::Gone { reason }),
            }
        }
    }

    /// Data is to be copied out of a process that hangs.
    pub(super) fn salvage(&mut self, key: ParkKey, step: &mut Step<'_>) {
        self.salvaged.insert(key);
        step.out.rank(RankEffect::FindData { key });
    }

    /// An image whose release was lost must not be held until the job ends.
    pub(super) fn is_unneeded(&self, key: ParkKey, step: &mut Step<'_>) -> bool {
        if step.engaged(key.job).is_some_and(|(attempt, _)| attempt == key.attempt) {
            step.out.arm(NEEDED_MAX, Timer::Unneeded(key));
            return false;
        }
        self.images.contains_key(&key)
    }

    /// A job's images up to an attempt are not needed any more.
    pub(super) fn drop_up_to(&mut self, job: JobId, attempt: Attempt, step: &mut Step<'_>) {
        self.forget(|key| key.job == job && key.attempt <= attempt, step);
        step.out.keeper(DaemonToKeeper::DropParked { job, attempt });
    }

    /// A job has no process here any more; the keeper drops what it holds with the job's end.
    pub(super) fn forget_job(&mut self, job: JobId, step: &mut Step<'_>) {
        self.forget(|key| key.job == job, step);
    }

    fn forget(&mut self, is_over: impl Fn(&ParkKey) -> bool, step: &mut Step<'_>) {
        let over = self.images.extract_if(.., |key, _| is_over(key));
        step.release(over.map(|(_, memory)| memory));
        self.awaited.retain(|key, _| !is_over(key));
        self.salvaged.retain(|key| !is_over(key));
        self.wanted.retain(|key, _| !is_over(key));
    }

    /// Gives an image to a rank, now or when it comes.
    pub(super) fn give(&mut self, asker: ProcessKey, asked: Asked, key: ParkKey, step: &mut Step<'_>) {
        if let Some(memory) = self.images.get(&key) {
            return step.hand(asker, asked, Some(key.attempt), *memory);
        }
        if is_to_come(key, step) {
            return self.want(key, Wanting::Process(asker, asked));
        }
        let reason = format!(
            "node {} does not hold the data of rank {} any more",
            step.out.own(),
            asked.rank
        );
        step.tell_lost(asker, asked, Some(key.attempt), reason);
    }

    /// Another node waits for a block of an image that may still come; false when none will.
    pub(super) fn await_image(&mut self, key: ImageKey, node: &NodeName, block: u64, step: &Step<'_>) -> bool {
        let ImageName::Parked { attempt, process } = key.name else {
            return false;
        };
        let key = ParkKey {
            job: key.job,
            attempt,
            process,
        };
        let is_awaited = is_to_come(key, step);
        if is_awaited {
            self.want(key, Wanting::Node(node.clone(), block));
        }
        is_awaited
    }

    fn want(&mut self, key: ParkKey, wanting: Wanting) {
        let all = self.wanted.entry(key).or_default();
        if all.len() < WANTING_MAX && !all.contains(&wanting) {
            all.push(wanting);
        }
    }
}

/// Whether an image may still come: in a relaunch all are there before any of them is asked for.
fn is_to_come(key: ParkKey, step: &Step<'_>) -> bool {
    step.engaged(key.job)
        .is_some_and(|(attempt, plan)| attempt == key.attempt && plan.mode == Mode::Live)
}
