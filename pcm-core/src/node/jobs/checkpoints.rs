//! The checkpoints of the jobs led here: feeds [`Lead`] with what nodes say, carries out what it decides, and
//! finds places and data when a job is to be started again. Never holds data: [`super::kept`] does, on each node.

use crate::checkpoint::{Filed, Lead, LeadEffect, Part, Restorable, RolledBack};
use crate::job::coordinator::Input;
use crate::job::recovering::Restarted;
use crate::moment::Moment;
use crate::node::jobs::coordinating::Audience;
use crate::node::machine::Node;
use crate::node::requester::Requester;
use crate::node::store::input::StoreInput;
use crate::node::timer::Timer;
use pcm_proto::app::environment;
use pcm_proto::checkpoint::{CheckpointMessage, IntoFiles, Restores};
use pcm_proto::control::{DaemonToControl, NodeState, Refusal};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Bytes, Iteration, JobId, NodeName};
use pcm_proto::refusal;
use std::collections::BTreeSet;
use std::time::Duration;

/// A checkpoint that somebody asks for is complete within this time, unless the program does not get to an iteration.
const ASKED_WITHIN: Duration = Duration::from_secs(60);

/// The same in files, on a slow disk.
const FILED_WITHIN: Duration = Duration::from_secs(600);

/// Lines kept for a reader that is away: a crash and its end, twice.
const UNTOLD_MAX: usize = 4;

/// An heir has heard within this time what nodes hold; they say so as soon as they are linked.
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
    /// For a job of which this is the newest checkpoint.
    pub(in crate::node) fn new(known: Option<Iteration>) -> Self {
        Self {
            lead: Lead::new(known),
            asking: Vec::new(),
            asked: 0,
            armed: None,
            learns_until: None,
            holders: BTreeSet::new(),
        }
    }

    /// For a job that is taken over, with the checkpoints in files that its coordinator knew of.
    pub(in crate::node) fn inherited(known: Option<Iteration>, filed: Vec<Filed>, now: Moment) -> Self {
        let mut leading = Self::new(known);
        for one in filed {
            leading.lead.on_filed(one);
        }
        leading.learns_until = Some(now.plus(LEARNS_WITHIN));
        leading
    }

    /// Whether somebody waits for a checkpoint.
    pub(in crate::node) fn is_asked(&self) -> bool {
        !self.asking.is_empty()
    }

    /// Those who wait for a checkpoint that does not come from here.
    pub(in crate::node) fn into_requesters(self) -> impl Iterator<Item = Requester> {
        self.asking.into_iter().map(|one| one.from)
    }

    /// Checkpoints in files, oldest first.
    pub(in crate::node) fn filed(&self) -> Vec<Filed> {
        let mut filed: Vec<Filed> = self.lead.filed().cloned().collect();
        filed.reverse();
        filed
    }
}

/// What names the partner of a node.
#[derive(Debug)]
struct Partners {
    /// Nodes that may hold copies, in order, each with its site and host.
    nodes: Vec<(NodeName, String, u64)>,
}

impl Partners {
    /// The next node after this one: of another site if there is one, else of another host, else any other.
    fn of(&self, node: &NodeName) -> Option<NodeName> {
        self.ring(node).into_iter().next()
    }

    /// All others, those of other sites first, then those of other hosts.
    fn ring(&self, node: &NodeName) -> Vec<NodeName> {
        let own = self.nodes.iter().position(|(name, ..)| name == node);
        let (site, host) = own.map_or(("", 0), |own| (self.nodes[own].1.as_str(), self.nodes[own].2));
        let after = own.map_or(0, |own| own + 1);
        let others = self.nodes[after..].iter().chain(&self.nodes[..after]);
        let mut others: Vec<_> = others.filter(|(name, ..)| name != node).collect();
        others.sort_by_key(|(_, other, number)| (other == site, *number == host));
        others.into_iter().map(|(name, ..)| name.clone()).collect()
    }
}

impl Node {
    fn partners(&self) -> Partners {
        let reports = self.nodes.others().chain([self.nodes.own().clone()]);
        let open = reports.filter(|report| report.state == NodeState::Up);
        let mut nodes: Vec<_> = open.map(|report| (report.node, report.site, report.host)).collect();
        nodes.sort();
        Partners { nodes }
    }

    /// Nodes that would lead a job of this one, the first that lives: such as hold copies of its checkpoints.
    pub(in crate::node) fn heirs(&self, count: usize) -> Vec<NodeName> {
        let mut ring = self.partners().ring(&self.own);
        ring.truncate(count);
        ring
    }

    /// A node says something about a checkpoint to the job's coordinator; or to a node that holds some.
    pub(in crate::node) fn on_checkpoint_message(&mut self, job: JobId, node: &NodeName, message: CheckpointMessage) {
        let now = self.out.now();
        let partners = self.partners();
        match message {
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
                let Some(led) = self.jobs.led_mut(job) else {
                    // The job is over.
                    return self.say_checkpoint(node, job, CheckpointMessage::Forget { but: None });
                };
                led.leading.holders.insert(node.clone());
                let stored = led.leading.lead.on_stored(now, node, part, |node| partners.of(node));
                match stored {
                    Ok(effects) => self.carry_out_checkpoints(job, effects),
                    Err(error) => tracing::info!(%job, %node, %error, "a part of a checkpoint is not taken"),
                }
            }
            CheckpointMessage::NotStored { id, reason } => {
                tracing::warn!(%job, %node, checkpoint = %id, reason, "a checkpoint is given up");
                self.lead(job, |lead| lead.on_not_stored(id));
            }
            CheckpointMessage::Overwritten { id, rank, is_copy } => {
                self.lead(job, |lead| lead.on_overwritten(node, id, rank, is_copy));
            }
            CheckpointMessage::NotFiled { reason } => {
                tracing::warn!(%job, reason, "a checkpoint did not get into files");
                self.answer_not_filed(job, &reason);
            }
            CheckpointMessage::Filed { iteration, directory } => {
                self.answer_filed(job, iteration, &directory);
                self.lead(job, |lead| lead.on_filed(Filed { iteration, directory }));
                self.leave_will(job);
            }
            CheckpointMessage::NotRestored { id, .. } => {
                self.lead(job, |lead| lead.on_not_restored(id));
                self.coordinate(job, Input::CheckpointSaid(message));
            }
            CheckpointMessage::Reached { .. } | CheckpointMessage::Restored { .. } => {
                self.coordinate(job, Input::CheckpointSaid(message));
            }
            message => {
                let node = node.clone();
                self.store_input(StoreInput::Checkpoint { job, node, message });
            }
        }
    }

    fn lead(&mut self, job: JobId, act: impl FnOnce(&mut Lead) -> Vec<LeadEffect>) {
        if let Some(led) = self.jobs.led_mut(job) {
            let effects = act(&mut led.leading.lead);
            self.carry_out_checkpoints(job, effects);
        }
    }

    /// A node is gone: what it held is lost. Before the jobs hear of it.
    pub(in crate::node) fn on_lead_node_gone(&mut self, node: &NodeName) {
        for job in self.jobs.led_ids() {
            self.lead(job, |lead| lead.on_node_lost(node));
        }
        self.store_input(StoreInput::NodeGone { node: node.clone() });
    }

    fn carry_out_checkpoints(&mut self, job: JobId, effects: Vec<LeadEffect>) {
        for effect in effects {
            match effect {
                LeadEffect::Complete { stamp, bytes, held_us } => {
                    let held_ms = held_us as f64 / 1000.0;
                    let (iteration, ranks) = (stamp.iteration, stamp.ranks);
                    let epoch = self.jobs.epoch(job);
                    let complete = EventKind::CheckpointComplete {
                        iteration,
                        ranks,
                        bytes,
                        held_ms,
                    };
                    self.note(Some(job), epoch, complete);
                    let made = Made {
                        iteration,
                        ranks,
                        bytes,
                        held_ms,
                    };
                    self.answer_made(job, made);
                }
                LeadEffect::Newest(iteration) => self.coordinate(job, Input::Checkpoint { iteration }),
                LeadEffect::Copy {
                    to,
                    stamp,
                    rank,
                    process,
                    from,
                } => {
                    if let Some(led) = self.jobs.led_mut(job) {
                        led.leading.holders.insert(to.clone());
                    }
                    let copy = CheckpointMessage::Copy {
                        stamp,
                        rank,
                        process,
                        from,
                    };
                    self.say_checkpoint(&to, job, copy);
                }
                LeadEffect::Settled(id) => self.say_to_holders(job, &CheckpointMessage::Settled { id }),
                LeadEffect::GivenUp(id) => self.say_to_holders(job, &CheckpointMessage::GivenUp { id }),
                LeadEffect::Drop { node, id, rank } => {
                    self.say_checkpoint(&node, job, CheckpointMessage::Drop { id, rank });
                }
            }
        }
        self.arm_lead(job);
    }

    /// A checkpoint is complete: whoever waits for it is told, or still waits for its files.
    fn answer_made(&mut self, job: JobId, made: Made) {
        self.answer_asking(job, |one| _ = one.made.get_or_insert(made));
    }

    /// A checkpoint got into files, perhaps before its parts in memory were all told.
    fn answer_filed(&mut self, job: JobId, iteration: Iteration, directory: &[u8]) {
        self.answer_asking(job, |one| one.filed = Some((iteration, directory.to_vec())));
    }

    fn answer_asking(&mut self, job: JobId, note: impl Fn(&mut Asking)) {
        let Some(led) = self.jobs.led_mut(job) else {
            return;
        };
        let asking = &mut led.leading.asking;
        asking.iter_mut().for_each(note);
        let told: Vec<(Requester, DaemonToControl)> = asking
            .iter()
            .filter_map(|one| Some((one.from.clone(), one.answer()?)))
            .collect();
        asking.retain(|one| one.answer().is_none());
        for (from, answer) in told {
            self.answer(from, answer);
        }
    }

    /// A checkpoint did not get into files.
    fn answer_not_filed(&mut self, job: JobId, reason: &str) {
        let Some(led) = self.jobs.led_mut(job) else {
            return;
        };
        let asking = &mut led.leading.asking;
        let told: Vec<Asking> = asking.extract_if(.., |one| one.in_files).collect();
        for Asking { from, .. } in told {
            let message = format!("the checkpoint of job {job} is in memory only: {reason}");
            self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::NOT_FILED, message)),
            );
        }
    }

    fn say_to_holders(&mut self, job: JobId, message: &CheckpointMessage) {
        let Some((coordinator, led)) = self.jobs.led_with(job) else {
            return;
        };
        let active = coordinator.active_nodes().cloned();
        let nodes: BTreeSet<NodeName> = active.chain(led.leading.holders.iter().cloned()).collect();
        for node in nodes {
            self.say_checkpoint(&node, job, message.clone());
        }
    }

    /// The job is over: nobody needs its checkpoints in memory.
    pub(in crate::node) fn drop_checkpoints_of_ended(&mut self, job: JobId) {
        self.say_to_holders(job, &CheckpointMessage::Forget { but: None });
    }

    fn arm_lead(&mut self, job: JobId) {
        let now = self.out.now();
        let Some(led) = self.jobs.led_mut(job) else {
            return;
        };
        let deadline = led.leading.lead.deadline();
        if deadline != led.leading.armed {
            led.leading.armed = deadline;
            if let Some(deadline) = deadline {
                self.out.arm(deadline.since(now), Timer::Checkpoint(job));
            }
        }
    }

    pub(in crate::node) fn on_checkpoint_timer(&mut self, job: JobId) {
        let now = self.out.now();
        let partners = self.partners();
        if let Some(led) = self.jobs.led_mut(job) {
            led.leading.armed = None;
        }
        self.lead(job, |lead| lead.on_tick(now, |node| partners.of(node)));
        self.arm_lead(job);
    }

    /// Somebody wants a checkpoint now.
    pub(in crate::node) fn on_checkpoint_request(&mut self, from: Requester, job: JobId, into: Option<IntoFiles>) {
        let Some((coordinator, led)) = self.jobs.led_with(job) else {
            return self.refuse_unknown_job(from, job);
        };
        let leading = &mut led.leading;
        leading.asked += 1;
        let in_files = into.is_some();
        leading.asking.push(Asking {
            number: leading.asked,
            from,
            in_files,
            made: None,
            filed: None,
        });
        let number = leading.asked;
        let first = coordinator.rank_rows().next().map(|(_, _, node, _)| node);
        if let Some(node) = first {
            self.say_checkpoint(&node, job, CheckpointMessage::Make { into });
        }
        let within = if in_files { FILED_WITHIN } else { ASKED_WITHIN };
        self.out.arm(within, Timer::CheckpointAsked(job, number));
    }

    pub(in crate::node) fn on_checkpoint_asked_timer(&mut self, job: JobId, number: u64) {
        let Some(led) = self.jobs.led_mut(job) else {
            return;
        };
        let asking = &mut led.leading.asking;
        let late: Vec<Asking> = asking.extract_if(.., |one| one.number == number).collect();
        for Asking { from, in_files, .. } in late {
            let within = if in_files { FILED_WITHIN } else { ASKED_WITHIN };
            let message = format!(
                "job {job} made no checkpoint within {} s: does its program register data with libpcm and call \
                 pcm_iterate? See `pcmctl events {job}`",
                within.as_secs()
            );
            self.answer(from, DaemonToControl::Refused(Refusal::new(refusal::DEADLINE, message)));
        }
    }

    /// A job that crashed is to be started again: where, and from what.
    pub(in crate::node) fn restart(&mut self, job: JobId, count: u32) {
        self.note_rejoined();
        let restarted = self.restarted(job, count);
        let from = restarted.as_ref().ok().map(|restarted| {
            let restores = restarted.restores.as_ref();
            restores.map(|restores| restores.stamp.id)
        });
        if let (Some(from), Some(led)) = (from, self.jobs.led_mut(job)) {
            let said = match led.leading.lead.on_restart(from) {
                RolledBack::ToFiles => CheckpointMessage::Forget { but: None },
                RolledBack::ToSettled(id) => CheckpointMessage::Forget { but: Some(id) },
                RolledBack::ToUncopied(to) => CheckpointMessage::RolledBack { to },
            };
            self.say_to_holders(job, &said);
            self.arm_lead(job);
        }
        self.coordinate(job, Input::Restarted(restarted));
    }

    fn restarted(&self, job: JobId, count: u32) -> Result<Restarted, String> {
        let led = self.jobs.led(job).ok_or("the job is over")?;
        let coordinator = self.jobs.coordinator(job).ok_or("the job is over")?;
        if self.is_cut_off() {
            return Err("most nodes of the cluster cannot be reached from its coordinator's".to_owned());
        }
        let known = coordinator.checkpoint();
        let held = led.leading.lead.restorable().map(|known| known.stamp.iteration);
        let is_learning = |until: Moment| self.out.now() < until && held < known;
        if led.leading.learns_until.is_some_and(is_learning) {
            return Err("its nodes have not all said which checkpoints they hold".to_owned());
        }
        let spec = coordinator.spec();
        let shares = self.place(&spec.nodes, count).map_err(|refusal| {
            let filed = led.leading.lead.filed().next();
            let hint = filed.map(|filed| {
                let directory = String::from_utf8_lossy(&filed.directory);
                format!("; `pcmctl restart {directory}` goes on from its files")
            });
            refusal.message + &hint.unwrap_or_default()
        })?;
        let is_crowded = self.is_crowded(spec, &shares);
        let lead = &led.leading.lead;
        if let Some(Restorable { stamp, sources, .. }) = lead.restorable() {
            let nodes = |places: Vec<crate::checkpoint::Place>| {
                let nodes = places.iter().filter_map(|place| place.node().cloned());
                nodes.collect()
            };
            return Ok(Restarted {
                shares,
                is_crowded,
                from: stamp.iteration,
                restores: Some(Restores {
                    stamp,
                    sources: sources.into_iter().map(nodes).collect(),
                }),
                variables: Vec::new(),
            });
        }
        let newest = lead.filed().next().ok_or("no checkpoint is left")?;
        let directories: Vec<&[u8]> = lead.filed().map(|filed| &filed.directory[..]).collect();
        Ok(Restarted {
            shares,
            is_crowded,
            from: newest.iteration,
            restores: None,
            variables: vec![(environment::RESTORE.to_owned(), directories.join(&b'\n'))],
        })
    }

    /// A person who is attached reads what happened, and that output will be repeated.
    pub(in crate::node) fn tell_of_crash(&mut self, job: JobId, kind: &EventKind) {
        let text = match kind {
            EventKind::Crashed { reason, verdict, .. } => format!("{reason}; {verdict}"),
            EventKind::Recovered(recovered) => format!(
                "all {} ranks run again, from iteration {} on, after {:.1} s",
                recovered.ranks,
                recovered.from,
                recovered.total_ms / 1000.0
            ),
            _ => return,
        };
        if let Some(link) = self.controls.attached_to(job) {
            self.answer(Requester::Control(link), DaemonToControl::Notice { job, text });
        } else if let Some(led) = self.jobs.led_mut(job)
            && matches!(
                led.audience,
                Audience::Awaited | Audience::Sought | Audience::OutOfReach
            )
            && led.untold.len() < UNTOLD_MAX
        {
            led.untold.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partners(nodes: &[(&str, &str, u64)]) -> Partners {
        let node = |(name, site, host): &(&str, &str, u64)| (NodeName::new(*name).unwrap(), (*site).to_owned(), *host);
        Partners {
            nodes: nodes.iter().map(node).collect(),
        }
    }

    fn of(partners: &Partners, node: &str) -> Option<String> {
        let partner = partners.of(&NodeName::new(node).unwrap());
        partner.map(|node| node.as_str().to_owned())
    }

    #[test]
    fn a_partner_is_as_far_away_as_there_is_one() {
        let sites = partners(&[("a", "x", 1), ("b", "x", 2), ("c", "y", 3)]);
        assert_eq!(of(&sites, "a").as_deref(), Some("c"));
        assert_eq!(of(&sites, "c").as_deref(), Some("a"));
        let hosts = partners(&[("a", "", 1), ("b", "", 1), ("c", "", 2)]);
        assert_eq!(of(&hosts, "a").as_deref(), Some("c"));
        let alike = partners(&[("a", "", 1), ("b", "", 1), ("c", "", 1)]);
        assert_eq!(of(&alike, "a").as_deref(), Some("b"));
        assert_eq!(of(&alike, "c").as_deref(), Some("a"));
        assert_eq!(of(&partners(&[("a", "", 1)]), "a"), None);
        assert_eq!(of(&alike, "unknown").as_deref(), Some("a"));
    }
}
