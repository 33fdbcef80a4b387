//! What happened to a job in order of time: who was where from when to when, how fast it went, what was changed. Made
//! of what the event log and the coordinator's samples say, nothing else.

use pcm_proto::event::{Event, EventKind, Reconfigured, Recovered};
use pcm_proto::ids::NodeName;
use pcm_proto::job::JobStatus;
use pcm_proto::series::{Series, Traffic};
use pcm_proto::time_use::TimeUse;
use std::collections::BTreeMap;

/// A rank's stay on a node, in seconds since the job was accepted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stay {
    pub(super) rank: u32,
    pub(super) node: NodeName,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// A reconfiguration that was committed.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) at: f64,
    pub(super) done: Reconfigured,
}

/// A change that an agent chose, and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) at: f64,
    pub(super) policy: String,
    pub(super) chosen: String,
    /// Seconds it was to gain, its cost not taken off.
    pub(super) predicted_s: f64,
    pub(super) cost_s: f64,
    /// Seconds it has gained by the last time anybody looked, before the next change; nothing while nobody has.
    pub(super) achieved_s: Option<f64>,
}

/// A checkpoint that is complete.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    pub(super) at: f64,
    pub(super) iteration: u64,
    pub(super) ranks: u32,
    pub(super) bytes: u64,
    pub(super) held_ms: f64,
}

/// A crash, and how the job came back, where it did.
#[derive(Clone, Debug)]
pub(super) struct Crash {
    pub(super) at: f64,
    pub(super) reason: String,
    pub(super) back: Option<Recovered>,
}

/// See the file head.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub(super) status: JobStatus,
    /// Length in seconds; more than 0.
    pub(super) seconds: f64,
    pub(super) stays: Vec<Stay>,
    pub(super) changes: Vec<Change>,
    pub(super) choices: Vec<Choice>,
    pub(super) checkpoints: Vec<Checkpoint>,
    pub(super) crashes: Vec<Crash>,
    /// Second and iterations per second up to it.
    pub(super) rates: Vec<(f64, f64)>,
    /// By node: second and CPUs taken by others.
    pub(super) loads: BTreeMap<NodeName, Vec<(f64, f64)>>,
    /// How time was used, by the number of ranks.
    pub(super) uses: Vec<TimeUse>,
    pub(super) traffic: Vec<Traffic>,
    /// Microseconds since 1970 of second 0.
    pub(super) begin_us: u64,
}

impl Story {
    /// Puts it together; `now_us` is the end of a job that still runs.
    pub(super) fn new(status: JobStatus, events: &[Event], series: &Series, now_us: u64) -> Self {
        let begin_us = status.started_us;
        let second = |time_us: u64| time_us.saturating_sub(begin_us) as f64 / 1e6;
        let ended = events
            .iter()
            .find(|event| matches!(event.kind, EventKind::JobEnded { .. }));
        let last = series.samples.last().map_or(0, |sample| sample.time_us);
        let end_us = match (ended, &status.end) {
            (Some(event), _) => event.time_us,
            (None, Some(_)) => last.max(events.last().map_or(0, |event| event.time_us)),
            (None, None) => now_us,
        };
        let seconds = second(end_us).max(0.001);
        let changes: Vec<Change> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::Reconfigured(done) => Some(Change {
                    at: second(event.time_us).min(seconds),
                    done: (**done).clone(),
                }),
                _ => None,
            })
            .collect();
        let mut loads: BTreeMap<NodeName, Vec<(f64, f64)>> = BTreeMap::new();
        for sample in &series.samples {
            for (node, load) in &sample.loads {
                loads
                    .entry(node.clone())
                    .or_default()
                    .push((second(sample.time_us), *load));
            }
        }
        let crashes = crashes(events, second);
        Self {
            choices: choices(events, second),
            checkpoints: checkpoints(events, second),
            stays: stays(events, &changes, seconds),
            rates: rates(series, &crashes, second),
            uses: series.uses.clone(),
            traffic: series.traffic.clone(),
            crashes,
            status,
            seconds,
            changes,
            loads,
            begin_us,
        }
    }

    /// Nodes in order of their first appearance in the name's order, for colours.
    pub(super) fn nodes(&self) -> Vec<&NodeName> {
        let mut nodes: Vec<&NodeName> = self
            .stays
            .iter()
            .map(|stay| &stay.node)
            .chain(self.loads.keys())
            .collect();
        nodes.sort();
        nodes.dedup();
        nodes
    }
}

fn choices(events: &[Event], second: impl Fn(u64) -> f64) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    for event in events {
        let EventKind::Decision(decision) = &event.kind else {
            continue;
        };
        // A decision tells what the change before it has gained so far, also when it chooses the next one.
        if let (Some(last), Some(achieved_s)) = (choices.last_mut(), decision.achieved_gain_s) {
            last.achieved_s = Some(achieved_s);
        }
        if let Some(chosen) = &decision.chosen {
            choices.push(Choice {
                at: second(event.time_us),
                policy: decision.policy.clone(),
                chosen: chosen.clone(),
                predicted_s: decision.predicted_gain_s,
                cost_s: decision.cost_s,
                achieved_s: None,
            });
        }
    }
    choices
}

fn checkpoints(events: &[Event], second: impl Fn(u64) -> f64) -> Vec<Checkpoint> {
    let made = events.iter().filter_map(|event| match &event.kind {
        EventKind::CheckpointComplete {
            iteration,
            ranks,
            bytes,
            held_ms,
        } => Some(Checkpoint {
            at: second(event.time_us),
            iteration: iteration.0,
            ranks: *ranks,
            bytes: bytes.0,
            held_ms: *held_ms,
        }),
        _ => None,
    });
    made.collect()
}

fn crashes(events: &[Event], second: impl Fn(u64) -> f64) -> Vec<Crash> {
    let mut crashes: Vec<Crash> = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::Crashed { reason, .. } => crashes.push(Crash {
                at: second(event.time_us),
                reason: reason.clone(),
                back: None,
            }),
            EventKind::Recovered(back) => {
                if let Some(last) = crashes.last_mut() {
                    last.back = Some((**back).clone());
                }
            }
            _ => {}
        }
    }
    crashes
}

fn stays(events: &[Event], changes: &[Change], seconds: f64) -> Vec<Stay> {
    let placement = events.iter().find_map(|event| match &event.kind {
        EventKind::JobAccepted { placement, .. } => Some(placement.clone()),
        _ => None,
    });
    let mut here: Here = (0..)
        .zip(placement.unwrap_or_default().into_iter().map(|node| (node, 0.0)))
        .collect();
    let mut stays = Vec::new();
    for change in changes {
        here = after(here, change, &mut stays);
    }
    stays.extend(here.into_iter().map(|(rank, (node, from))| Stay {
        rank,
        node,
        from,
        to: seconds,
    }));
    stays.sort_by(|a, b| a.rank.cmp(&b.rank).then(a.from.total_cmp(&b.from)));
    stays
}

/// By rank: its node, and since when.
type Here = BTreeMap<u32, (NodeName, f64)>;

/// Who is where after a change. It names ranks by their number after it, and those that left by the one before; ranks
/// it does not name stay where they are and in their order, but newcomers among them shift their numbers.
fn after(mut here: Here, change: &Change, stays: &mut Vec<Stay>) -> Here {
    let done = &change.done;
    let mut end = |rank: u32, (node, from): (NodeName, f64)| {
        let to = change.at;
        stays.push(Stay { rank, node, from, to });
    };
    let mut next = Here::new();
    for moved in &done.moved {
        let rank = moved.rank.0;
        let before = match (&moved.from, &moved.to) {
            (Some(_), None) => Some(rank),
            (Some(_), Some(_)) if done.ranks_before == done.ranks_after => Some(rank),
            (Some(from), Some(_)) => here.iter().find(|(_, (node, _))| node == from).map(|(rank, _)| *rank),
            (None, _) => None,
        };
        if let Some((before, stay)) = before.and_then(|before| here.remove_entry(&before)) {
            end(before, stay);
        }
        if let Some(to) = &moved.to {
            next.insert(rank, (to.clone(), change.at));
        }
    }
    let mut free: Vec<u32> = (0..done.ranks_after).filter(|rank| !next.contains_key(rank)).collect();
    free.reverse();
    for (before, (node, from)) in here {
        match free.pop() {
            Some(rank) if rank == before => drop(next.insert(rank, (node, from))),
            Some(rank) => {
                end(before, (node.clone(), from));
                next.insert(rank, (node, change.at));
            }
            None => end(before, (node, from)),
        }
    }
    next
}

/// After a crash the count of iterations goes back and jumps forward again; that is no speed.
fn rates(series: &Series, crashes: &[Crash], second: impl Fn(u64) -> f64) -> Vec<(f64, f64)> {
    // Samples around it may already, or still, be those of the dying ranks.
    let slack = 1.5 * series.thinning.max(1) as f64;
    let is_disturbed = |from: f64, to: f64| {
        crashes.iter().any(|crash| {
            let away = crash.back.as_ref().map_or(f64::INFINITY, |back| back.total_ms / 1000.0);
            to >= crash.at && from <= crash.at + away + slack
        })
    };
    let pairs = series.samples.windows(2);
    let rates = pairs.filter_map(|pair| {
        let (from, to) = (second(pair[0].time_us), second(pair[1].time_us));
        let done = pair[1].iteration.checked_sub(pair[0].iteration)?;
        (to > from && !is_disturbed(from, to)).then(|| (to, done as f64 / (to - from)))
    });
    rates.collect()
}
