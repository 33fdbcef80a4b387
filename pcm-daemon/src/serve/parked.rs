//! Parked data on this node: has the keeper hold what ranks hand over, and gives it to restored ranks and to who waits
//! for it. Never looks inside an image, and trusts none: a memory file is only read.

use super::beside::drop_beside;
use super::daemon::Daemon;
use super::images::ImageKey;
use super::memory::Memory;
use crate::keeper_link::HandedImage;
use pcm_core::node::ranks::effect::RankEffect;
use pcm_core::node::timer::Timer;
use pcm_core::reconfiguration::{effects::Input, meet_order};
use pcm_proto::app::DaemonToApp;
use pcm_proto::ids::{Bytes, JobId, NodeName, ProcessId};
use pcm_proto::image::{ImageMessage, ImageName};
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use pcm_proto::layout::{Mode, Plan};
use pcm_proto::parked::{Asked, IMAGE_BYTES_MAX, ParkKey, RestoreAnswer, RestoreAsk};
use pcm_proto::reconfiguration::{Attempt, ReconfigurationOrder, ReconfigurationReport, Tally};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// The order to drop an image may be lost with a link. Whoever could need it has it by then or is given up: the limits
/// of a relaunch's phases after the decision together are a quarter of this.
const NEEDED_MAX: Duration = Duration::from_secs(600);

/// Who waits for one image at most: every process of a job, and one block for each node.
const WANTING_MAX: usize = 8192;

/// Who waits for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanting {
    /// A process here.
    Process(ProcessKey, Asked),
    /// Another node, for this block.
    Node(NodeName, u64),
}

/// All parked data this daemon deals with.
#[derive(Debug, Default)]
pub(super) struct Parked {
    /// Those that the keeper holds.
    images: BTreeMap<ParkKey, Arc<Memory>>,
    /// Handed over by ranks, not yet confirmed by the keeper; with what the rank said since.
    awaited: BTreeMap<ParkKey, Option<ReconfigurationReport>>,
    /// Being copied out of processes that hang.
    salvaged: BTreeSet<ParkKey>,
    /// Of live attempts: who waits for an image that is still to come.
    wanted: BTreeMap<ParkKey, Vec<Wanting>>,
}

impl Parked {
    fn keep(&mut self, handed: HandedImage) {
        let HandedImage { key, bytes, file } = handed;
        match Memory::of(File::from(file), bytes) {
            Some(memory) => _ = self.images.insert(key, Arc::new(memory)),
            None => {
                tracing::error!(job = %key.job, process = %key.process, "the keeper holds something else than an image")
            }
        }
    }

    /// One that the keeper holds.
    pub(super) fn image(&self, key: ParkKey) -> Option<&Arc<Memory>> {
        self.images.get(&key)
    }

    fn forget(&mut self, is_over: impl Fn(&ParkKey) -> bool) {
        let over = self.images.extract_if(.., |key, _| is_over(key));
        drop_beside(over.map(|(_, memory)| memory).collect());
        self.awaited.retain(|key, _| !is_over(key));
        self.salvaged.retain(|key| !is_over(key));
        self.wanted.retain(|key, _| !is_over(key));
    }
}

impl Daemon {
    /// An image that the keeper holds.
    pub(super) fn take_over_image(&mut self, handed: HandedImage) {
        self.out.arm(NEEDED_MAX, Timer::Unneeded(handed.key));
        self.parked.keep(handed);
    }

    /// An image whose release was lost must not be held until the job ends.
    pub(super) fn on_unneeded_timer(&mut self, key: ParkKey) {
        if self.engaged(key.job).is_some_and(|(attempt, _)| attempt == key.attempt) {
            self.out.arm(NEEDED_MAX, Timer::Unneeded(key));
        } else if self.parked.images.contains_key(&key) {
            tracing::warn!(job = %key.job, attempt = %key.attempt, "parked data was never released and is dropped");
            self.drop_parked(key.job, key.attempt);
        }
    }

    /// A rank hands over its data.
    pub(super) fn on_parked(&mut self, process: ProcessKey, attempt: Attempt, bytes: u64, descriptors: Vec<OwnedFd>) {
        let key = ParkKey {
            job: process.job,
            attempt,
            process: process.process,
        };
        let file = descriptors.into_iter().next().filter(|file| is_image(file, bytes));
        let is_called = self.engaged(key.job).is_some_and(|(known, plan)| {
            known == attempt && plan.mode == Mode::Relaunch && plan.old.member(key.process).is_some()
        });
        match file {
            Some(file) if is_called => {
                self.parked.awaited.insert(key, None);
                self.keeper.park(key, bytes, file);
            }
            Some(_) => {}
            // Its report that it has moved would be a lie.
            None => self.park_failed(
                key,
                "what it handed over is no sealed memory file of the stated length".to_owned(),
            ),
        }
    }

    /// What others need of a rank's constant data can be copied while it computes on.
    pub(super) fn on_ahead(&mut self, process: ProcessKey, attempt: Attempt, table: u64, stretches: u32) {
        let key = ParkKey {
            job: process.job,
            attempt,
            process: process.process,
        };
        let is_planned = self.engaged(key.job).is_some_and(|(known, plan)| {
            known == attempt && plan.mode == Mode::Live && plan.old.member(key.process).is_some()
        });
        if is_planned {
            self.out.keeper(DaemonToKeeper::Salvage { key, table, stretches });
        }
    }

    /// Tells a process what is planned, so that constant data can travel ahead of the meeting.
    pub(super) fn tell_plan_ahead(&mut self, job: JobId, process: ProcessId) {
        let Some((attempt, plan)) = self.engaged(job).filter(|(_, plan)| plan.mode == Mode::Live) else {
            return;
        };
        let meeting = Box::new(meet_order(plan, &[]));
        let order = ReconfigurationOrder::Ahead { attempt, meeting };
        self.tell_app(job, process, DaemonToApp::Reconfiguration(order));
    }

    /// A rank says something about a reconfiguration. That its data is parked is true only when the keeper holds it.
    pub(super) fn on_reform_said(&mut self, process: ProcessKey, report: ReconfigurationReport) {
        if let ReconfigurationReport::Moved { attempt, .. } = &report {
            let key = ParkKey {
                job: process.job,
                attempt: *attempt,
                process: process.process,
            };
            if let Some(said) = self.parked.awaited.get_mut(&key) {
                *said = Some(report);
                return;
            }
        }
        if matches!(report, ReconfigurationReport::Ready { .. }) && !self.is_relaunching(process.job) {
            self.on_checkpoint_taken_up(process, Ok(()));
        }
        self.reform(
            process.job,
            Input::Report {
                process: process.process,
                report,
            },
        );
    }

    /// The keeper holds an image.
    pub(super) fn on_image(&mut self, handed: HandedImage) {
        let (key, bytes) = (handed.key, handed.bytes);
        self.take_over_image(handed);
        let process = key.process;
        if let Some(Some(report)) = self.parked.awaited.remove(&key) {
            self.reform(key.job, Input::Report { process, report });
        }
        if self.parked.salvaged.remove(&key) {
            let result = Ok(Tally {
                bytes: Bytes(bytes),
                ..Tally::default()
            });
            self.reform(key.job, Input::Salvaged { process, result });
        }
        for wanting in self.parked.wanted.remove(&key).unwrap_or_default() {
            match wanting {
                Wanting::Process(asker, asked) => self.give_image(asker, asked, key),
                Wanting::Node(node, block) => self.give_block(&node, key.into(), block),
            }
        }
    }

    /// The keeper does not hold an image.
    pub(super) fn on_no_image(&mut self, key: ParkKey, reason: String) {
        tracing::warn!(job = %key.job, process = %key.process, attempt = %key.attempt, reason, "data is not parked");
        let process = key.process;
        if self.parked.awaited.remove(&key).is_some() {
            self.park_failed(key, reason);
        } else if self.parked.salvaged.remove(&key) {
            let result = Err(reason);
            self.reform(key.job, Input::Salvaged { process, result });
        } else {
            for wanting in self.parked.wanted.remove(&key).unwrap_or_default() {
                match wanting {
                    Wanting::Process(asker, asked) => self.tell_lost(asker, asked, Some(key.attempt), reason.clone()),
                    Wanting::Node(node, _) => {
                        let reason = reason.clone();
                        self.say_of_image(&node, key.into(), ImageMessage::Gone { reason });
                    }
                }
            }
        }
    }

    fn park_failed(&mut self, key: ParkKey, reason: String) {
        let report = ReconfigurationReport::Failed {
            attempt: key.attempt,
            joining: false,
            reason,
        };
        let process = key.process;
        self.reform(key.job, Input::Report { process, report });
    }

    /// Data is to be copied out of a process that hangs.
    pub(super) fn salvage(&mut self, key: ParkKey) {
        self.parked.salvaged.insert(key);
        self.out.rank(RankEffect::FindData { key });
    }

    /// It is known where the data of a process is that hangs.
    pub(super) fn on_data_found(&mut self, key: ParkKey, table: u64, stretches: u32) {
        self.out.keeper(DaemonToKeeper::Salvage { key, table, stretches });
    }

    /// A job's images up to an attempt are not needed any more.
    pub(super) fn drop_parked(&mut self, job: JobId, attempt: Attempt) {
        self.parked.forget(|key| key.job == job && key.attempt <= attempt);
        let is_over = |key: &ImageKey| key.job == job && key.attempt().is_some_and(|of| of <= attempt);
        self.images.forget(is_over);
        self.out.keeper(DaemonToKeeper::DropParked { job, attempt });
    }

    /// The job is over here; the keeper drops what it holds with the job's end.
    pub(super) fn drop_parked_of(&mut self, job: JobId) {
        self.parked.forget(|key| key.job == job);
        self.images.forget(|key| key.job == job && key.attempt().is_some());
    }

    /// Whether a relaunch of the job is under way here.
    pub(super) fn is_relaunching(&self, job: JobId) -> bool {
        self.engaged(job).is_some_and(|(_, plan)| plan.mode == Mode::Relaunch)
    }

    /// The reconfiguration that this node takes part in.
    pub(super) fn engaged(&self, job: JobId) -> Option<(Attempt, &Plan)> {
        let engaged = self.parts.get(&job)?.reforming.record().engaged.as_ref()?;
        Some((engaged.attempt, &engaged.plan))
    }

    /// A restored rank asks for parked data, or one before a meeting for what travels ahead.
    pub(super) fn on_restore_ask(&mut self, asker: ProcessKey, ask: RestoreAsk) {
        let Some((attempt, plan)) = self.engaged(asker.job) else {
            return self.on_checkpoint_ask(asker, ask);
        };
        match ask {
            RestoreAsk::Plan if plan.mode == Mode::Live => self.tell_plan_ahead(asker.job, asker.process),
            RestoreAsk::Plan => {
                let answer = RestoreAnswer::Plan {
                    old_size: plan.old.size() as u32,
                    continues: plan.continues.clone(),
                    weights: plan.new.weights.clone(),
                };
                self.tell_app(asker.job, asker.process, DaemonToApp::Restore(answer));
            }
            RestoreAsk::Blocks { asked, runs } => {
                let rank = asked.rank;
                let Some(member) = plan.old.members.get(rank.0 as usize).cloned() else {
                    return self.tell_lost(asker, asked, Some(attempt), format!("there was no rank {rank}"));
                };
                let key = ParkKey {
                    job: asker.job,
                    attempt,
                    process: member.process,
                };
                if member.node == self.own {
                    self.give_image(asker, asked, key);
                } else {
                    let sources = VecDeque::from([member.node]);
                    self.fetch_image(key.into(), (attempt.epoch, sources), (asker.process, asked), runs);
                }
            }
        }
    }

    fn give_image(&mut self, asker: ProcessKey, asked: Asked, key: ParkKey) {
        let Some(image) = self.parked.images.get(&key) else {
            if self.is_to_come(key) {
                return self.want(key, Wanting::Process(asker, asked));
            }
            let reason = format!(
                "node {} does not hold the data of rank {} any more",
                self.own, asked.rank
            );
            return self.tell_lost(asker, asked, Some(key.attempt), reason);
        };
        let (bytes, file) = (image.bytes(), image.file().try_clone());
        self.hand_image(asker, asked, Some(key.attempt), (bytes, file));
    }

    /// Whether an image may still come: in a relaunch all are there before anybody asks.
    fn is_to_come(&self, key: ParkKey) -> bool {
        self.engaged(key.job)
            .is_some_and(|(attempt, plan)| attempt == key.attempt && plan.mode == Mode::Live)
    }

    /// Another node waits for a block of an image that may still come; false when none will.
    pub(super) fn await_image(&mut self, key: ImageKey, node: &NodeName, block: u64) -> bool {
        let ImageName::Parked { attempt, process } = key.name else {
            return false;
        };
        let key = ParkKey {
            job: key.job,
            attempt,
            process,
        };
        let is_to_come = self.is_to_come(key);
        if is_to_come {
            self.want(key, Wanting::Node(node.clone(), block));
        }
        is_to_come
    }

    fn want(&mut self, key: ParkKey, wanting: Wanting) {
        let all = self.parked.wanted.entry(key).or_default();
        if all.len() < WANTING_MAX && !all.contains(&wanting) {
            all.push(wanting);
        }
    }

    pub(super) fn hand_image(
        &mut self,
        asker: ProcessKey,
        asked: Asked,
        attempt: Option<Attempt>,
        image: (u64, io::Result<File>),
    ) {
        let (bytes, file) = image;
        match file {
            Ok(file) => {
                let answer = DaemonToApp::Restore(RestoreAnswer::Image { attempt, asked, bytes });
                let memory = Some(self.rank_table.lend(file.into()));
                self.out.rank(RankEffect::Tell {
                    key: asker,
                    message: Box::new(answer),
                    memory,
                });
            }
            Err(error) => self.tell_lost(asker, asked, attempt, error.to_string()),
        }
    }

    pub(super) fn tell_lost(&mut self, asker: ProcessKey, asked: Asked, attempt: Option<Attempt>, reason: String) {
        tracing::error!(job = %asker.job, process = %asker.process, rank = %asked.rank, reason, "data of another rank cannot be had");
        let answer = DaemonToApp::Restore(RestoreAnswer::Lost { attempt, asked, reason });
        self.tell_app(asker.job, asker.process, answer);
    }
}

/// Whether a file is as long as it is said to be and cannot become shorter or other under a reader.
fn is_image(file: &OwnedFd, bytes: u64) -> bool {
    let wanted = SealFlags::SHRINK | SealFlags::WRITE;
    let is_sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(wanted));
    let length = fstat(file).ok().and_then(|stat| u64::try_from(stat.st_size).ok());
    is_sealed && bytes > 0 && bytes <= IMAGE_BYTES_MAX && length == Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, fcntl_add_seals, memfd_create};

    #[test]
    fn only_a_sealed_file_of_the_stated_length_is_an_image() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, 100).unwrap();
        assert!(!is_image(&file, 100));
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::WRITE).unwrap();
        assert!(is_image(&file, 100));
        assert!(!is_image(&file, 99));
        let other = File::open("/dev/null").unwrap().into();
        assert!(!is_image(&other, 0));
    }
}
