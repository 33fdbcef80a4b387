//! The checkpoints of one job at its leader: feeds [`Lead`] with what nodes say, carries out what it decides, and finds
//! the data when the job is to be started again. Never holds data: the store of each node does.

use crate::checkpoint::{Filed, Known, Lead, LeadEffect, Part, Restorable, RolledBack};
use crate::job::coordinator::{Coordinator, Input};
use crate::job::placement::Placed;
use crate::job::recovery::Restarted;
use crate::moment::Moment;
use crate::node::context::Context;
use crate::node::requester::Requester;
use crate::node::timer::{JobTimer, Timer};
use pcm_proto::app::environment;
use pcm_proto::checkpoint::{CheckpointMessage, IntoFiles, Restores};
use pcm_proto::control::DaemonToControl;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Bytes, CheckpointId, Iteration, JobId, NodeName};
use pcm_proto::peer::JobMessage;
use pcm_proto::refusal;
use std::collections::BTreeSet;
use std::time::Duration;

/// A checkpoint that somebody asks for is complete within this time, unless the program does not get to an iteration.
const ASKED_WITHIN: Duration = Duration::from_secs(60);

/// The same in files, on a slow disk.
const FILED_WITHIN: Duration = Duration::from_secs(600);

/// An heir, or a coordinator that was started again, has heard within this time what nodes hold; they say so as soon as
/// they are linked.
const LEARNS_WITHIN: Duration = Duration::from_secs(5);

/// The checkpoints of one job, at its coordinator.
#[derive(Debug)]
pub(in crate::node) struct Leading {
    lead: Lead,
    asking: Vec<Asking>,
    asked: u64,
    armed: Option<Moment>,
    /// An heir waits until then for nodes to say what they hold, when the checkpoint it knows of is not among that.
    learns_until: Option<Moment>,
    /// Nodes that were told to hold something.
    holders: BTreeSet<NodeName>,
}

/// Somebody waits for a checkpoint.
#[derive(Debug)]
struct Asking {
    number: u64,
    from: Requester,
    in_files: bool,
    /// The first that was complete since, where files are still to come.
    made: Option<Made>,
    /// The last in files since.
    filed: Option<(Iteration, Vec<u8>)>,
}

impl Asking {
    /// What it is told, if all that it waits for is there.
    fn answer(&self) -> Option<DaemonToControl> {
        let made = self.made?;
        if !self.in_files {
            return Some(made.answer(None));
        }
        let (iteration, directory) = self.filed.as_ref()?;
        (*iteration >= made.iteration).then(|| made.answer(Some(directory.clone())))
    }
}

/// A checkpoint as it is told to whoever waits for it.
#[derive(Clone, Copy, Debug)]
struct Made {
    iteration: Iteration,
    ranks: u32,
    bytes: Bytes,
    held_ms: f64,
}

impl Made {
    fn event(self) -> EventKind {
        let Self {
            iteration,
            ranks,
            bytes,
            held_ms,
        } = self;
        EventKind::CheckpointComplete {
            iteration,
            ranks,
            bytes,
            held_ms,
        }
    }

    fn answer(self, directory: Option<Vec<u8>>) -> DaemonToControl {
        let Self {
            iteration,
            ranks,
            bytes,
            held_ms,
        } = self;
        DaemonToControl::Checkpointed {
            iteration,
            ranks,
            bytes,
            held_ms,
            directory,
        }
    }
}

impl Leading {
    /// For a job of which this is known.
    pub(in crate::node) fn new(known: Known, now: Moment) -> Self {
        Self {
            lead: Lead::new(known),
            asking: Vec::new(),
            asked: 0,
            armed: None,
            learns_until: known.newest.map(|_| now.plus(LEARNS_WITHIN)),
            holders: BTreeSet::new(),
        }
    }

    /// The job is taken over, or led on after a restart, with the checkpoints in files that its coordinator knew of.
    pub(super) fn take_over(&mut self, job: JobId, filed: Vec<Filed>, cx: &mut Context<'_>) {
        for one in filed {
            self.lead.on_filed(one);
        }
        self.arm(job, cx);
    }

    /// Whether somebody waits for a checkpoint.
    pub(in crate::node) fn is_asked(&self) -> bool {
        !self.asking.is_empty()
    }

    /// Checkpoints in files, oldest first.
    pub(in crate::node) fn filed(&self) -> Vec<Filed> {
        let mut filed: Vec<Filed> = self.lead.filed().cloned().collect();
        filed.reverse();
        filed
    }

    // What nodes say. The inputs are for the job's coordinator.

    /// A node says something about a checkpoint; hands back what is not for the job's leader.
    pub(super) fn on_message(
        &mut self,
        node: &NodeName,
        message: CheckpointMessage,
        coordinator: &Coordinator,
        cx: &mut Context<'_>,
    ) -> Result<Vec<Input>, CheckpointMessage> {
        let job = coordinator.job();
        let effects = match message {
            CheckpointMessage::Stored {
                stamp,
                rank,
                process,
                is_copy,
                tally,
                held_us,
            } => {
                let part = Part {
                    stamp,
                    rank,
                    process,
                    is_copy,
                    tally,
                    held_us,
                };
                self.holders.insert(node.clone());
                if !coordinator.counts(&stamp) {
                    let id = stamp.id;
                    tracing::info!(%job, %node, checkpoint = %id, "a part of a checkpoint is of a life given up");
                    return Ok(Vec::new());
                }
                let (now, partners) = (cx.now(), cx.cluster.partners());
                let stored = self.lead.on_stored(now, node, part, |node| partners.copy_to(node));
                stored.unwrap_or_else(|error| {
                    tracing::info!(%job, %node, %error, "a part of a checkpoint is not taken");
                    Vec::new()
                })
            }
            CheckpointMessage::NotStored { id, reason } => {
                tracing::warn!(%job, %node, checkpoint = %id, reason, "a checkpoint is given up");
                self.on_not_stored(job, id, &reason, cx)
            }
            CheckpointMessage::NotCopied { id, rank, reason } => {
                tracing::warn!(%job, %node, checkpoint = %id, %rank, reason, "a part of a checkpoint has no copy");
                let partners = cx.cluster.partners();
                self.lead.on_not_copied(id, rank, |node| partners.copy_to(node))
            }
            CheckpointMessage::Overwritten { id, rank, is_copy } => self.lead.on_overwritten(node, id, rank, is_copy),
            CheckpointMessage::NotFiled { reason } => {
                tracing::warn!(%job, reason, "a checkpoint did not get into files");
                self.answer_not_filed(job, &reason, cx);
                Vec::new()
            }
            CheckpointMessage::Filed { iteration, directory } => {
                self.answer_asking(|one| one.filed = Some((iteration, directory.clone())), cx);
                self.lead.on_filed(Filed { iteration, directory })
            }
            CheckpointMessage::NotRestored { id, is_unanswered, .. } => {
                let effects = self.lead.on_not_restored(id, is_unanswered);
                let mut inputs = self.carry_out(effects, coordinator, cx);
                inputs.push(Input::CheckpointSaid(message));
                return Ok(inputs);
            }
            CheckpointMessage::Reached { .. } | CheckpointMessage::Restored { .. } => {
                return Ok(vec![Input::CheckpointSaid(message)]);
            }
            message => return Err(message),
        };
        Ok(self.carry_out(effects, coordinator, cx))
    }

    /// What a node held is lost.
    pub(super) fn on_node_lost(
        &mut self,
        node: &NodeName,
        coordinator: &Coordinator,
        cx: &mut Context<'_>,
    ) -> Vec<Input> {
        let effects = self.lead.on_node_lost(node);
        self.carry_out(effects, coordinator, cx)
    }

    pub(super) fn on_timer(&mut self, coordinator: &Coordinator, cx: &mut Context<'_>) -> Vec<Input> {
        self.armed = None;
        let (now, partners) = (cx.now(), cx.cluster.partners());
        let mut effects = Vec::new();
        if self.learns_until.take_if(|until| *until <= now).is_some() {
            effects.extend(self.lead.on_learned());
        }
        effects.extend(self.lead.on_tick(now, |node| partners.copy_to(node)));
        self.carry_out(effects, coordinator, cx)
    }

    fn carry_out(&mut self, effects: Vec<LeadEffect>, coordinator: &Coordinator, cx: &mut Context<'_>) -> Vec<Input> {
        let job = coordinator.job();
        let mut inputs = Vec::new();
        for effect in effects {
            match effect {
                LeadEffect::Complete { stamp, bytes, held_us } => {
                    let made = Made {
                        iteration: stamp.iteration,
                        ranks: stamp.ranks,
                        bytes,
                        held_ms: held_us as f64 / 1000.0,
                    };
                    cx.note(Some(job), coordinator.epoch(), made.event());
                    self.answer_asking(|one| _ = one.made.get_or_insert(made), cx);
                }
                LeadEffect::Newest(iteration) => inputs.push(Input::Checkpoint { iteration }),
                LeadEffect::Copy {
                    to,
                    stamp,
                    rank,
                    process,
                    from,
                } => {
                    self.holders.insert(to.clone());
                    let copy = CheckpointMessage::Copy {
                        stamp,
                        rank,
                        process,
                        from,
                    };
                    say_checkpoint(cx, &to, job, copy);
                }
                LeadEffect::Settled(id) => self.say_to_holders(&CheckpointMessage::Settled { id }, coordinator, cx),
                LeadEffect::GivenUp(id) => self.say_to_holders(&CheckpointMessage::GivenUp { id }, coordinator, cx),
                LeadEffect::Drop { node, id, rank } => {
                    say_checkpoint(cx, &node, job, CheckpointMessage::Drop { id, rank });
                }
            }
        }
        self.arm(job, cx);
        inputs
    }

    /// A node that has processes of the job is linked again.
    pub(super) fn on_linked(&mut self, job: JobId, cx: &mut Context<'_>) {
        self.lead.on_linked();
        self.arm(job, cx);
    }

    fn arm(&mut self, job: JobId, cx: &mut Context<'_>) {
        self.learns_until.take_if(|_| !self.lead.is_learning());
        let deadline = self.lead.deadline().into_iter().chain(self.learns_until).min();
        if deadline != self.armed {
            self.armed = deadline;
            if let Some(deadline) = deadline {
                cx.out.arm_at(deadline, Timer::Job(job, JobTimer::Checkpoint));
            }
        }
    }

    fn say_to_holders(&self, message: &CheckpointMessage, coordinator: &Coordinator, cx: &mut Context<'_>) {
        let active = coordinator.active_nodes().cloned();
        // Another heir may have had a copy made here.
        let known = self.holders.iter().cloned().chain([cx.own()]);
        let nodes: BTreeSet<NodeName> = active.chain(known).collect();
        for node in nodes {
            say_checkpoint(cx, &node, coordinator.job(), message.clone());
        }
    }

    // Requests.

    /// A checkpoint is wanted now.
    pub(super) fn on_request(
        &mut self,
        from: Requester,
        into: Option<IntoFiles>,
        coordinator: &Coordinator,
        cx: &mut Context<'_>,
    ) {
        self.asked += 1;
        let (number, in_files, job) = (self.asked, into.is_some(), coordinator.job());
        self.asking.push(Asking {
            number,
            from,
            in_files,
            made: None,
            filed: None,
        });
        let first = coordinator.rank_rows().next().map(|(_, _, node, _)| node);
        if let Some(node) = first {
            say_checkpoint(cx, &node, job, CheckpointMessage::Make { into });
        }
        let within = if in_files { FILED_WITHIN } else { ASKED_WITHIN };
        cx.arm(within, Timer::Job(job, JobTimer::CheckpointAsked(number)));
    }

    pub(super) fn on_asked_timer(&mut self, job: JobId, number: u64, cx: &mut Context<'_>) {
        let late: Vec<Asking> = self.asking.extract_if(.., |one| one.number == number).collect();
        for Asking { from, in_files, .. } in late {
            let within = if in_files { FILED_WITHIN } else { ASKED_WITHIN };
            let message = format!(
                "job {job} made no checkpoint within {} s: does its program register data with libpcm and call \
                 pcm_iterate? See `pcmctl events {job}`",
                within.as_secs()
            );
            cx.refuse(from, refusal::DEADLINE, message);
        }
    }

    fn answer_asking(&mut self, note: impl Fn(&mut Asking), cx: &mut Context<'_>) {
        self.asking.iter_mut().for_each(note);
        let answered = self.asking.extract_if(.., |one| one.answer().is_some());
        for one in answered {
            if let Some(answer) = one.answer() {
                cx.answer(one.from, answer);
            }
        }
    }

    fn on_not_stored(&mut self, job: JobId, id: CheckpointId, reason: &str, cx: &mut Context<'_>) -> Vec<LeadEffect> {
        let effects = self.lead.on_not_stored(id);
        if !effects.contains(&LeadEffect::GivenUp(id)) {
            return effects;
        }
        for Asking { from, .. } in self.asking.extract_if(.., |one| one.made.is_none()) {
            cx.refuse(
                from,
                refusal::NOT_KEPT,
                format!("job {job} made no checkpoint: {reason}"),
            );
        }
        effects
    }

    fn answer_not_filed(&mut self, job: JobId, reason: &str, cx: &mut Context<'_>) {
        for Asking { from, .. } in self.asking.extract_if(.., |one| one.in_files) {
            let message = format!("the checkpoint of job {job} is in memory only: {reason}");
            cx.refuse(from, refusal::NOT_FILED, message);
        }
    }

    /// The job is over: its checkpoints in memory are of no use, and none is made any more.
    pub(super) fn on_ended(&mut self, coordinator: &Coordinator, cx: &mut Context<'_>) {
        self.say_to_holders(&CheckpointMessage::Forget { but: None }, coordinator, cx);
        let job = coordinator.job();
        for Asking { from, .. } in self.asking.drain(..) {
            let message = format!("job {job} ended before its checkpoint was made: see `pcmctl events {job}`");
            cx.refuse(from, refusal::JOB_ENDED, message);
        }
    }

    /// Another node leads the job: a checkpoint that is wanted does not come from here.
    pub(super) fn on_abdicated(&mut self, job: JobId, to: &NodeName, cx: &mut Context<'_>) {
        for Asking { from, .. } in self.asking.drain(..) {
            let message = format!("node {to} leads job {job} now: ask again");
            cx.refuse(from, refusal::NODE_UNREACHABLE, message);
        }
    }

    // Starting again.

    /// How many ranks made the checkpoint in memory that the job is started again from.
    pub(super) fn ranks_of_checkpoint(&self) -> Option<u32> {
        self.lead.restorable().map(|checkpoint| checkpoint.stamp.ranks)
    }

    /// What a job that crashed is started again from, on these places.
    pub(super) fn restarted(&self, placed: Placed) -> Result<Restarted, String> {
        if let Some(Restorable { stamp, sources, .. }) = self.lead.restorable() {
            let nodes = |places: Vec<crate::checkpoint::Place>| {
                let nodes = places.iter().filter_map(|place| place.node().cloned());
                nodes.collect()
            };
            return Ok(Restarted {
                placed,
                from: stamp.iteration,
                restores: Some(Restores {
                    stamp,
                    sources: sources.into_iter().map(nodes).collect(),
                }),
                variables: Vec::new(),
            });
        }
        let newest = self.lead.filed().next().ok_or("no checkpoint is left")?;
        let directories: Vec<&[u8]> = self.lead.filed().map(|filed| &filed.directory[..]).collect();
        Ok(Restarted {
            placed,
            from: newest.iteration,
            restores: None,
            variables: vec![(environment::RESTORE.to_owned(), directories.join(&b'\n'))],
        })
    }

    /// Whether nodes may still say that they hold the checkpoint that is known.
    pub(super) fn is_learning(&self) -> bool {
        self.learns_until.is_some() && self.lead.is_learning()
    }

    /// How a person can go on where no place is left.
    pub(super) fn hint(&self) -> String {
        let hint = self.lead.filed().next().map(|filed| {
            let directory = String::from_utf8_lossy(&filed.directory);
            format!("; `pcmctl restart {directory}` goes on from its files")
        });
        hint.unwrap_or_default()
    }

    /// The job is started again: nodes drop what is newer than what it is started from.
    pub(super) fn on_restart(&mut self, restarted: &Restarted, coordinator: &Coordinator, cx: &mut Context<'_>) {
        let from = restarted.restores.as_ref().map(|restores| restores.stamp.id);
        let said = match self.lead.on_restart(cx.now(), from) {
            RolledBack::ToFiles => CheckpointMessage::Forget { but: None },
            RolledBack::ToSettled(id) => CheckpointMessage::Forget { but: Some(id) },
            RolledBack::ToUncopied(to) => CheckpointMessage::RolledBack { to },
        };
        self.say_to_holders(&said, coordinator, cx);
        self.arm(coordinator.job(), cx);
    }
}

pub(super) fn say_checkpoint(cx: &mut Context<'_>, node: &NodeName, job: JobId, message: CheckpointMessage) {
    cx.send_job(node, job, JobMessage::Checkpoint(Box::new(message)));
}
