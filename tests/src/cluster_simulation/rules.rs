//! What must be true after every step, whatever happened. Each rule looks at what was seen since the step before and at
//! the ledger of everything before that.

use super::ledger::{Complete, Ledger};
use super::rules_of_data::{
    checkpoint_can_be_restored, no_element_lost_or_doubled, one_lost_machine_leaves_a_checkpoint,
    the_end_tells_the_truth,
};
use super::rules_of_layouts::{
    never_two_layouts, no_rank_at_two_places, no_rank_past_a_committed_ceiling, none_dismissed_while_one_is_called,
    none_left_behind_in_a_meeting, one_reconfiguration_at_a_time, same_iteration,
};
use super::seen::Seen;
use super::simulation::Simulation;
use super::violation::Violation;
use pcm_proto::event::EventKind;
use pcm_proto::ids::JobId;
use pcm_proto::job::JobEnd;

type Rule = fn(&mut Ledger, &Seen) -> Result<(), String>;

const RULES: [(&str, Rule); 12] = [
    ("no_process_twice", no_process_twice),
    ("no_job_twice", no_job_twice),
    ("an_heir_keeps_an_end_that_it_knows", an_heir_keeps_an_end_that_it_knows),
    ("never_two_layouts", never_two_layouts),
    ("no_rank_at_two_places", no_rank_at_two_places),
    ("same_iteration", same_iteration),
    ("no_rank_past_a_committed_ceiling", no_rank_past_a_committed_ceiling),
    ("no_element_lost_or_doubled", no_element_lost_or_doubled),
    ("one_reconfiguration_at_a_time", one_reconfiguration_at_a_time),
    ("none_dismissed_while_one_is_called", none_dismissed_while_one_is_called),
    ("none_left_behind_in_a_meeting", none_left_behind_in_a_meeting),
    ("the_end_tells_the_truth", the_end_tells_the_truth),
];

impl Simulation {
    /// Looks at the rules after a step.
    pub(super) fn check(&mut self) -> Result<(), Violation> {
        self.ledger.now = self.queue.now();
        for seen in self.ledger.take_seen() {
            for (rule, check) in RULES {
                check(&mut self.ledger, &seen).map_err(|text| Violation::new(rule, text))?;
            }
            self.note_for_checkpoints(&seen);
        }
        let changed = std::mem::take(&mut self.ledger.buffers_changed);
        for job in changed {
            checkpoint_can_be_restored(self, job)
                .map_err(|text| Violation::new("a_complete_checkpoint_can_be_restored", text))?;
            one_lost_machine_leaves_a_checkpoint(self, job)
                .map_err(|text| Violation::new("one_lost_machine_leaves_a_checkpoint", text))?;
        }
        Ok(())
    }

    fn note_for_checkpoints(&mut self, seen: &Seen) {
        let now = self.queue.now();
        let machines = &self.machines;
        let is_out_of_reach = |job: &JobId| {
            machines
                .iter()
                .any(|machine| machine.is_without_daemon() && machine.holds(*job))
        };
        let ledger = &mut self.ledger;
        ledger.note_survivors(seen);
        match seen {
            Seen::BuffersChanged { job } => _ = ledger.buffers_changed.insert(*job),
            Seen::Noted {
                job: Some(job),
                epoch,
                kind,
                ..
            } => match **kind {
                // The heir cannot know what was complete behind a cut, and what is so for the coordinator before it
                // is without meaning.
                EventKind::Inherited { .. } => {
                    ledger.heirs_begin.insert(*job, *epoch);
                    ledger.complete.remove(job);
                }
                // What lies behind a cut is given up, and what a node holds whose daemon is away for so long that it
                // counts as dead: nobody can ask its keeper.
                EventKind::Crashed { .. } if ledger.has_cut || is_out_of_reach(job) => {
                    ledger.complete.remove(job);
                }
                EventKind::CheckpointComplete { .. } if ledger.heirs_begin.get(job) > Some(epoch) => {}
                EventKind::CheckpointComplete { iteration, ranks, .. } => {
                    let complete = Complete {
                        iteration: iteration.0,
                        ranks,
                        // That parts of it are lost may not be known yet; a node that counts as dead is out of reach.
                        is_excused: ledger.is_loss_unnoticed() || is_out_of_reach(job),
                    };
                    ledger.complete.insert(*job, complete);
                    ledger.buffers_changed.insert(*job);
                }
                EventKind::JobEnded { .. } => _ = ledger.complete.remove(job),
                _ => {}
            },
            Seen::MachineLost { .. } | Seen::MachineDown => {
                ledger.down_at = Some(now);
                ledger
                    .complete
                    .values_mut()
                    .for_each(|complete| complete.is_excused = true);
            }
            _ => {}
        }
    }
}

/// A process of a job is started once, on one machine.
fn no_process_twice(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Starts { key, on } => {
            ledger.living.insert(*key);
            match ledger.started.insert(*key, *on) {
                Some(before) => Err(format!("{key:?} was started on {before:?} and is started on {on:?}")),
                None => Ok(()),
            }
        }
        Seen::Ends { key, .. } => {
            ledger.living.remove(key);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A job has its number alone, and ends once.
fn no_job_twice(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    match seen {
        Seen::Accepted { job, request } => match ledger.accepted.insert(*job, *request) {
            Some(before) if before != *request => Err(format!("job {job} is the job of two requests")),
            _ => Ok(()),
        },
        Seen::Noted {
            machine,
            job: Some(job),
            kind,
            ..
        } => {
            let EventKind::JobEnded { code, .. } = **kind else {
                return Ok(());
            };
            ledger.ended_at.entry(*job).or_insert((*machine, ledger.now));
            match ledger.ends.insert(*job, code) {
                // Known: a coordinator in a minority ends a job that it had begun to end, and so does its heir. So does
                // the heir of one whose machine is lost, or whose daemon is for long, while its last words are on their
                // way, unless it was told; and one whose daemon was away until the cluster, and with it the heir, was
                // taken down.
                Some(before)
                    if before != code
                        && !ledger.has_cut
                        && !ledger.is_end_forgotten(*job, *machine)
                        && (ledger.known_ends.contains_key(job) || !ledger.is_lost_at_end(*job)) =>
                {
                    Err(format!("job {job} ended with {before} and with {code}"))
                }
                _ => Ok(()),
            }
        }
        Seen::ToldEnd { job, code } => match ledger.ends.get(job) {
            Some(noted) if noted != code && !ledger.has_cut => {
                Err(format!("job {job} ended with {noted}, a person hears {code}"))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// An heir that was told how its job is to end ends it so, and does not start it again. What it adds to the reason, and
/// a worse code, are of nodes that do not answer.
fn an_heir_keeps_an_end_that_it_knows(ledger: &mut Ledger, seen: &Seen) -> Result<(), String> {
    let (machine, job, kind) = match seen {
        Seen::Willed {
            machine,
            job,
            reign,
            end,
        } => {
            let known = ledger.willed.entry((*job, *machine)).or_default();
            if *reign >= known.0 {
                *known = (*reign, end.clone());
            }
            return Ok(());
        }
        Seen::Noted {
            machine,
            job: Some(job),
            kind,
            ..
        } => (machine, job, &**kind),
        _ => return Ok(()),
    };
    if matches!(kind, EventKind::Inherited { .. }) {
        match ledger.willed.remove(&(*job, *machine)).and_then(|(_, end)| end) {
            Some(end) => ledger.known_ends.insert(*job, (*machine, end)),
            None => ledger.known_ends.remove(job),
        };
        return Ok(());
    }
    let Some((_, known)) = ledger.known_ends.get(job).filter(|(heir, _)| heir == machine) else {
        return Ok(());
    };
    let happened = match kind {
        EventKind::Crashed { .. } => "starts it again".to_owned(),
        EventKind::JobEnded { code, reason } if *code < known.code || !reason.starts_with(&known.reason) => {
            format!("ends it with {code} ({reason})")
        }
        _ => return Ok(()),
    };
    let JobEnd { code, reason } = known;
    Err(format!(
        "n{machine} inherited job {job}, which was ending with {code} ({reason}), and {happened}"
    ))
}
