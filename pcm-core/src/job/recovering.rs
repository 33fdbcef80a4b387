//! How a job comes back after a crash: what is left of it is ended, the crash policy says whether and when it starts
//! again, and new processes continue the ranks from the newest checkpoint. Knows that there is a checkpoint and of
//! which iteration, not where it is.

use super::coordinator::{Coordinator, Effect, RESEND_US};
use super::ending::{ENDING_US_MAX, GRACE_MS};
use super::phase::{NodeStage, Phase};
use super::process::Role;
use super::recovery::{Go, Recovering, Restart, RestartEvent, Restarted};
use super::spawn_requests::Spawning;
use super::worlds;
use crate::checkpoint::{Crash, Fault, Known, Verdict};
use crate::moment::Moment;
use pcm_proto::app::environment;
use pcm_proto::checkpoint::{CheckpointMessage, Stamp};
use pcm_proto::event::{EventKind, Recovered};
use pcm_proto::ids::{Epoch, Iteration, NodeName, ProcessId, WorldId};
use pcm_proto::job::{JobEnd, WorldShape};
use std::{collections::BTreeSet, fmt};

/// While there is no place for the ranks it is asked again this often: a node may come back.
const PLACE_AGAIN_US: u64 = 1_000_000;

/// A job that finds no place, or whose checkpoint nobody offers, is given up after this time.
const PLACE_US_MAX: u64 = 60_000_000;

/// A layout of a reconfiguration that was under way may have taken the next epoch; this one is above it.
const EPOCHS_AHEAD: u64 = 2;

fn is_left(stage: &NodeStage) -> bool {
    matches!(stage, NodeStage::Active | NodeStage::Emptied)
}

fn not_started_again(JobEnd { code, reason }: JobEnd, why: &dyn fmt::Display) -> JobEnd {
    let reason = format!("{reason}; it was not started again: {why}");
    JobEnd { code, reason }
}

/// For a job that was lost without need.
const CHECKPOINTS_HINT: &str =
    "; with `pcmctl run --checkpoint-every auto` such a job starts again from its newest checkpoint";

impl Coordinator {
    /// The job cannot go on as it is. It is started again where that is possible, and ended otherwise.
    pub(super) fn crash(
        &mut self,
        now_us: u64,
        cause: String,
        (mut end, fault): (JobEnd, Fault),
        effects: &mut Vec<Effect>,
    ) {
        // Where another may lead the job, checkpoints that are out of reach here are not lost.
        let may_be_elsewhere = self.recovery.announced.is_some() && self.is_in_doubt(now_us);
        let is_possible = (self.recovery.checkpoint.is_some() || may_be_elsewhere) && self.spec.restarts_max > 0;
        match self.phase {
            Phase::Starting | Phase::Running if is_possible => {}
            Phase::Starting | Phase::Running if self.has_lost_all() => {
                let end = not_started_again(end, &Verdict::NoCheckpoint);
                return self.begin_ending(now_us, end, GRACE_MS, effects);
            }
            Phase::Recovering(_) => return,
            _ => {
                if self.could_keep_checkpoints() {
                    end.reason += CHECKPOINTS_HINT;
                }
                return self.begin_ending(now_us, end, GRACE_MS, effects);
            }
        }
        self.phase = Phase::Recovering(Recovering {
            end,
            cause,
            fault,
            since_us: now_us,
            sent_us: now_us,
            go: None,
        });
        self.orders.clear();
        self.enlisting.clear();
        self.failure = None;
        self.recovery.hearsay = None;
        self.recovery.under_way = None;
        self.send_end(0, effects);
    }

    /// The program registers its data, and no checkpoints were asked for.
    fn could_keep_checkpoints(&self) -> bool {
        let is_asked = |(name, _): &(Vec<u8>, Vec<u8>)| name == environment::CHECKPOINT_EVERY.as_bytes();
        !self.spec.registered.is_empty()
            && self.spec.restarts_max > 0
            && !self.spec.env.iter().any(is_asked)
            && matches!(self.phase, Phase::Starting | Phase::Running)
    }

    /// There were checkpoints, and none is left.
    fn has_lost_all(&self) -> bool {
        self.recovery.announced.is_some() && self.recovery.checkpoint.is_none()
    }

    /// Another checkpoint is the newest that counts, or none is left.
    pub(super) fn on_checkpoint(&mut self, iteration: Option<Iteration>) {
        self.recovery.checkpoint = iteration;
        self.recovery.announced = self.recovery.announced.max(iteration);
    }

    /// A process that was started could not take its data up.
    pub(super) fn on_not_restored(&mut self, now_us: u64, reason: &str, effects: &mut Vec<Effect>) {
        if self.recovery.under_way.is_none() {
            return;
        }
        let cause = format!("the checkpoint could not be restored: {reason}");
        let end = JobEnd {
            code: 1,
            reason: cause.clone(),
        };
        self.crash(now_us, cause, (end, Fault::Node), effects);
    }

    pub(super) fn on_checkpoint_said(&mut self, now_us: u64, message: &CheckpointMessage, effects: &mut Vec<Effect>) {
        match message {
            CheckpointMessage::Reached { iteration } => {
                self.recovery.reached = self.recovery.reached.max(*iteration);
            }
            CheckpointMessage::Restored { process } => {
                if let Some(restart) = &mut self.recovery.under_way {
                    restart.waiting.remove(process);
                }
                self.note_recovered(now_us, effects);
            }
            CheckpointMessage::NotRestored { reason, .. } => self.on_not_restored(now_us, reason, effects),
            _ => {}
        }
    }

    /// All processes of a restart run; those that read files say nothing more.
    pub(super) fn on_restart_started(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        if let Some(restart) = &mut self.recovery.under_way {
            restart.event.started_us.get_or_insert(now_us);
        }
        self.note_recovered(now_us, effects);
    }

    fn note_recovered(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        let is_done = |restart: &Restart| restart.waiting.is_empty() && restart.event.started_us.is_some();
        let Some(Restart { event, .. }) = self.recovery.under_way.take_if(|restart| is_done(restart)) else {
            return;
        };
        let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1000.0;
        let started_us = event.started_us.unwrap_or(now_us);
        let phases = [
            ("ended", ms(event.since_us, event.ended_us)),
            ("placed", ms(event.ended_us, event.ordered_us)),
            ("started", ms(event.ordered_us, started_us)),
            ("restored", ms(started_us, now_us)),
        ];
        effects.push(Effect::Note(EventKind::Recovered(Box::new(Recovered {
            cause: event.cause,
            restart: event.restart,
            from: event.from,
            rolled_back: event.rolled_back,
            placement: event.placement,
            ranks: self.layout.len() as u32,
            total_ms: ms(event.since_us, now_us),
            phases_ms: phases.iter().map(|(name, ms)| ((*name).to_owned(), *ms)).collect(),
        }))));
    }

    /// What the passing of time decides while it is brought back.
    pub(super) fn recovering_on_time(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        let Phase::Recovering(recovering) = &mut self.phase else {
            return;
        };
        if recovering.go.is_none() {
            if now_us >= recovering.since_us + ENDING_US_MAX {
                // What does not confirm in time is not waited for; it is told again should it come back.
                for stage in self.nodes.values_mut().filter(|stage| is_left(stage)) {
                    *stage = NodeStage::Gone;
                }
            }
            if self.nodes.values().any(is_left) {
                if now_us >= recovering.sent_us + RESEND_US {
                    recovering.sent_us = now_us;
                    self.send_end(0, effects);
                }
                return;
            }
            self.decide(now_us, effects);
        }
        self.ask_for_places(now_us, effects);
    }

    /// Nothing runs any more: what follows?
    fn decide(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        let is_in_doubt = self.is_in_doubt(now_us);
        let Phase::Recovering(recovering) = &mut self.phase else {
            return;
        };
        let reached = self.recovery.reached;
        let mut policy = self.recovery.policy.clone();
        let verdict = policy.on_crash(
            Moment(now_us),
            Crash {
                fault: recovering.fault,
                reached,
                checkpoint: self.recovery.checkpoint,
            },
        );
        if is_in_doubt && !matches!(verdict, Verdict::Restart { .. }) {
            return;
        }
        self.recovery.policy = policy;
        effects.push(Effect::Note(EventKind::Crashed {
            reason: recovering.cause.clone(),
            reached,
            verdict: verdict.to_string(),
        }));
        if let Verdict::Restart {
            not_before,
            restart,
            rolled_back,
            ..
        } = verdict
        {
            recovering.go = Some(Go {
                ended_us: now_us,
                not_before_us: not_before.0,
                asked_us: None,
                waits_since_us: now_us,
                restart,
                rolled_back,
            });
            return;
        }
        let end = not_started_again(recovering.end.clone(), &verdict);
        self.begin_ending(now_us, end, 0, effects);
    }

    fn ask_for_places(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        let count = self.layout.len() as u32;
        let Phase::Recovering(Recovering { go: Some(go), .. }) = &mut self.phase else {
            return;
        };
        let is_due = go
            .asked_us
            .map_or(go.not_before_us, |asked_us| asked_us + PLACE_AGAIN_US)
            <= now_us;
        if is_due {
            go.asked_us = Some(now_us);
            effects.push(Effect::Restart { count });
        }
    }

    /// The ranks have places and a checkpoint, or not.
    pub(super) fn on_restarted(
        &mut self,
        now_us: u64,
        restarted: Result<Restarted, String>,
        effects: &mut Vec<Effect>,
    ) {
        let is_in_doubt = self.is_in_doubt(now_us);
        let Phase::Recovering(Recovering {
            go: Some(go),
            cause,
            since_us,
            end,
            ..
        }) = &self.phase
        else {
            return;
        };
        let restarted = match restarted {
            Ok(restarted) => restarted,
            Err(_) if is_in_doubt || now_us < go.waits_since_us + PLACE_US_MAX => return,
            Err(why) => {
                let end = not_started_again(end.clone(), &why);
                return self.begin_ending(now_us, end, 0, effects);
            }
        };
        let event = RestartEvent {
            cause: cause.clone(),
            restart: go.restart,
            from: restarted.from,
            placement: restarted.placed.why.clone(),
            rolled_back: go.rolled_back,
            since_us: *since_us,
            ended_us: go.ended_us,
            ordered_us: now_us,
            started_us: None,
        };
        self.relaunch(now_us, restarted, event, effects);
    }

    /// New processes take the places of all ranks. What was of the old ones is forgotten.
    fn relaunch(&mut self, now_us: u64, restarted: Restarted, event: RestartEvent, effects: &mut Vec<Effect>) {
        let (process, world) = (ProcessId(self.process_next), WorldId(self.world_next));
        let worlds = worlds::worlds(WorldShape::Job, &restarted.placed.shares, process, world);
        let ranks = worlds.iter().flat_map(worlds::ranks_of);
        self.layout = ranks.map(|(process, _)| process).collect();
        self.epoch = Epoch(self.epoch.0 + EPOCHS_AHEAD);
        self.processes.clear();
        self.names.clear();
        self.spawning = Spawning::default();
        self.spares.forget_processes();
        self.worlds_met = self.met_at_start(&worlds);
        self.order_next = 0;
        self.is_crowded = restarted.placed.is_crowded;
        for (name, value) in restarted.variables {
            self.spec.env.retain(|(known, _)| known != name.as_bytes());
            self.spec.env.push((name.into_bytes(), value));
        }
        let waiting = if restarted.restores.is_some() {
            self.layout.iter().copied().collect()
        } else {
            BTreeSet::new()
        };
        self.recovery.announced = Some(event.from);
        self.recovery.under_way = Some(Restart {
            event: Box::new(event),
            waiting,
        });
        self.recovery.life = self.epoch;
        self.recovery.restarts += 1;
        self.recovery.restores = restarted.restores;
        self.recovery.reached = Iteration(0);
        self.nodes.insert(self.own.clone(), NodeStage::Active);
        self.phase = Phase::Starting;
        self.order_worlds(worlds, Role::Member, now_us, effects);
    }

    /// There is no doubt any more: a place may be found that could not be before.
    pub(super) fn wait_for_places_anew(&mut self, now_us: u64) {
        if let Phase::Recovering(Recovering { go: Some(go), .. }) = &mut self.phase {
            go.waits_since_us = now_us;
        }
    }

    pub(super) fn recovering_deadline(&self) -> Option<u64> {
        let Phase::Recovering(recovering) = &self.phase else {
            return None;
        };
        if recovering.go.is_none() && !self.nodes.values().any(is_left) {
            // Nothing but doubt keeps it from deciding.
            return self.doubts_until();
        }
        Some(match &recovering.go {
            None => (recovering.since_us + ENDING_US_MAX).min(recovering.sent_us + RESEND_US),
            Some(go) => go
                .asked_us
                .map_or(go.not_before_us, |asked_us| asked_us + PLACE_AGAIN_US),
        })
    }

    /// Whether a checkpoint counts. One of an earlier life of the job does only up to the one that the present life
    /// began with: what was computed after it was given up, and its ranks may go on unseen behind a cut.
    pub fn counts(&self, stamp: &Stamp) -> bool {
        let first = self.recovery.restores.as_ref().map(|restores| restores.stamp);
        match first {
            Some(first) if stamp.id == first.id => *stamp == first,
            Some(first) if stamp.id < first.id => true,
            _ => stamp.epoch >= self.recovery.life,
        }
    }

    /// The iteration of the newest checkpoint that counts.
    pub fn checkpoint(&self) -> Option<Iteration> {
        self.recovery.checkpoint
    }

    /// What the leader of its checkpoints has to know.
    pub fn known_checkpoints(&self) -> Known {
        Known {
            newest: self.recovery.checkpoint,
            announced: self.recovery.announced,
        }
    }

    /// How often the job was started again.
    pub fn restarts(&self) -> u32 {
        self.recovery.restarts
    }

    /// Nodes that were lost or given up.
    pub fn is_gone(&self, node: &NodeName) -> bool {
        self.nodes.get(node) == Some(&NodeStage::Gone)
    }
}
