//! What happened to a job in order of time: who was where from when to when, how fast it went, what was changed. Made
//! of what the event log and the coordinator's samples say, nothing else.

use pcm_proto::event::{Event, EventKind, Reconfigured};
use pcm_proto::ids::NodeName;
use pcm_proto::job::JobStatus;
use pcm_proto::series::{Series, Traffic};
use std::collections::BTreeMap;

/// A rank's stay on a node, in seconds since the job was accepted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stay {
    pub(crate) rank: u32,
    pub(crate) node: NodeName,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// A reconfiguration that was committed.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) at: f64,
    pub(crate) done: Reconfigured,
}

/// See the file head.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    pub(crate) status: JobStatus,
    /// Length in seconds; more than 0.
    pub(crate) seconds: f64,
    pub(crate) stays: Vec<Stay>,
    pub(crate) changes: Vec<Change>,
    /// Second and iterations per second up to it.
    pub(crate) rates: Vec<(f64, f64)>,
    /// By node: second and CPUs taken by others.
    pub(crate) loads: BTreeMap<NodeName, Vec<(f64, f64)>>,
    pub(crate) traffic: Vec<Traffic>,
    /// Microseconds since 1970 of second 0.
    pub(crate) begin_us: u64,
}

impl Story {
    /// Puts it together; `now_us` is the end of a job that still runs.
    pub(crate) fn new(status: JobStatus, events: &[Event], series: &Series, now_us: u64) -> Self {
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
        Self {
            stays: stays(events, &changes, seconds),
            rates: rates(series, second),
            traffic: series.traffic.clone(),
            status,
            seconds,
            changes,
            loads,
            begin_us,
        }
    }

    /// Nodes in order of their first appearance in the name's order, for colours.
    pub(crate) fn nodes(&self) -> Vec<&NodeName> {
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

fn stays(events: &[Event], changes: &[Change], seconds: f64) -> Vec<Stay> {
    let placement = events.iter().find_map(|event| match &event.kind {
        EventKind::JobAccepted { placement, .. } => Some(placement.clone()),
        _ => None,
    });
    let mut here: BTreeMap<u32, (NodeName, f64)> = BTreeMap::new();
    for (rank, node) in (0..).zip(placement.unwrap_or_default()) {
        here.insert(rank, (node, 0.0));
    }
    let mut stays = Vec::new();
    let mut end = |rank: u32, at: f64, here: &mut BTreeMap<u32, (NodeName, f64)>| {
        if let Some((node, from)) = here.remove(&rank) {
            let to = at;
            stays.push(Stay { rank, node, from, to });
        }
    };
    for change in changes {
        for moved in &change.done.moved {
            end(moved.rank.0, change.at, &mut here);
            if let Some(to) = &moved.to {
                here.insert(moved.rank.0, (to.clone(), change.at));
            }
        }
        let gone: Vec<u32> = here.range(change.done.ranks_after..).map(|(rank, _)| *rank).collect();
        for rank in gone {
            end(rank, change.at, &mut here);
        }
    }
    for rank in here.keys().copied().collect::<Vec<_>>() {
        end(rank, seconds, &mut here);
    }
    stays.sort_by(|a, b| {
        (a.rank, a.from)
            .partial_cmp(&(b.rank, b.from))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    stays
}

fn rates(series: &Series, second: impl Fn(u64) -> f64) -> Vec<(f64, f64)> {
    let pairs = series.samples.windows(2);
    let rates = pairs.filter_map(|pair| {
        let span = second(pair[1].time_us) - second(pair[0].time_us);
        let done = pair[1].iteration.checked_sub(pair[0].iteration)?;
        (span > 0.0).then(|| (second(pair[1].time_us), done as f64 / span))
    });
    rates.collect()
}
