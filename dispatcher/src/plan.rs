//! What an order would do, before it is carried out: what moves, how much, how long the change will hold the
//! program, and the order that brings back what was before. Must never order anything.

use crate::commands::{Order, Returning};
use crate::failure::Failure;
use pcm_proto::ids::{JobId, NodeName, Rank};
use pcm_proto::job::RankStatus;
use pcm_view::dashboard::RunningJob;
use pcm_view::table::bytes;
use std::collections::BTreeMap;

/// Changes of a job that a prediction looks at, the newest.
const CHANGES_READ: usize = 5;
/// Ranks that an undone drain brings back; more of them would not fit into an order of the page.
const BACK_MAX: usize = 512;

/// An order in words, and its reverse.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) text: String,
    pub(crate) undo: Option<Order>,
}

/// A change that a job has made: what it was, and how long it held the program.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) plan: String,
    pub(crate) pause_ms: f64,
}

/// The jobs that an order would change.
pub(crate) fn jobs_of(order: &Order, jobs: &[RunningJob]) -> Vec<JobId> {
    match order {
        Order::Migrate { job, .. } | Order::Expand { job, .. } | Order::Shrink { job, .. } => vec![*job],
        Order::Drain { node } => jobs_on(node, jobs).map(|job| job.status.job).collect(),
        Order::Undrain { back, .. } => back.iter().map(|returning| returning.job).collect(),
        Order::Checkpoint { .. } => Vec::new(),
    }
}

/// The plan of an order. `held` are the changes that its jobs have made, the oldest first.
pub(crate) fn plan(order: &Order, jobs: &[RunningJob], held: &BTreeMap<JobId, Vec<Held>>) -> Result<Planned, Failure> {
    let (text, undo) = match order {
        Order::Migrate { job, rank, to } => moved(named(*job, jobs)?, *rank, to)?,
        Order::Expand { job, to } | Order::Shrink { job, to } => resized(named(*job, jobs)?, *to)?,
        Order::Drain { node } => drained(node, jobs),
        Order::Undrain { node, back } => undrained(node, back, jobs),
        Order::Checkpoint { job } => {
            let all = data(&named(*job, jobs)?.ranks);
            let text = format!(
                "Make a checkpoint of job {job}: {}, in memory of two nodes.",
                bytes(all)
            );
            return Ok(Planned { text, undo: None });
        }
    };
    let kind = match order {
        Order::Expand { .. } => "expand",
        Order::Shrink { .. } => "shrink",
        _ => "migrate",
    };
    let changed = jobs_of(order, jobs);
    let names_jobs = changed.len() > 1;
    let pauses = changed.into_iter().map(|job| {
        let of = if names_jobs {
            format!(" of job {job}")
        } else {
            String::new()
        };
        predicted(&of, kind, held.get(&job).map_or(&[], Vec::as_slice))
    });
    let text = std::iter::once(text).chain(pauses).collect::<Vec<_>>().join(" ");
    Ok(Planned { text, undo })
}

/// How long a change will hold the program: the median of the last changes of its kind, else of the last of any.
fn predicted(of: &str, kind: &str, held: &[Held]) -> String {
    let alike: Vec<&Held> = held.iter().filter(|change| change.plan == kind).collect();
    let (word, read) = match alike.is_empty() {
        true => ("changes", held.iter().collect()),
        false => (
            if kind == "migrate" {
                "moves"
            } else {
                "changes of this kind"
            },
            alike,
        ),
    };
    let mut pauses: Vec<f64> = read
        .iter()
        .rev()
        .take(CHANGES_READ)
        .map(|change| change.pause_ms)
        .collect();
    pauses.sort_by(f64::total_cmp);
    let median = pauses.get(pauses.len() / 2);
    match (median, pauses.first(), pauses.last()) {
        (Some(median), Some(least), Some(most)) if pauses.len() > 1 => format!(
            "Predicted pause{of}: {median:.1} ms, as in its last {} {word} ({least:.1} to {most:.1} ms).",
            pauses.len()
        ),
        (Some(median), ..) => format!("Predicted pause{of}: {median:.1} ms, as in its last change."),
        _ => format!("Predicted pause{of}: not known before its first change."),
    }
}

fn jobs_on<'a>(node: &'a NodeName, jobs: &'a [RunningJob]) -> impl Iterator<Item = &'a RunningJob> {
    let is_there = move |job: &&RunningJob| {
        let counted = job.status.nodes.iter().any(|(on, ranks)| on == node && *ranks > 0);
        counted || job.ranks.iter().any(|rank| rank.node == *node)
    };
    jobs.iter().filter(is_there)
}

fn named(job: JobId, jobs: &[RunningJob]) -> Result<&RunningJob, Failure> {
    let found = jobs.iter().find(|one| one.status.job == job);
    found.ok_or_else(|| Failure::usage(format!("job {job} does not run")))
}

fn data<'a>(ranks: impl IntoIterator<Item = &'a RankStatus>) -> u64 {
    ranks.into_iter().map(|rank| rank.registered.0).sum()
}

fn moved(job: &RunningJob, rank: Rank, to: &NodeName) -> Result<(String, Option<Order>), Failure> {
    let RunningJob { status, ranks } = job;
    let (job, name) = (status.job, &status.name);
    let found = ranks.iter().find(|one| one.rank == rank);
    let row = found.ok_or_else(|| Failure::usage(format!("job {job} has no rank {rank}")))?;
    if row.node == *to {
        return Err(Failure::usage(format!(
            "rank {rank} of job {job} is on node {to} already"
        )));
    }
    let (from, size) = (row.node.clone(), bytes(row.registered.0));
    let text = format!("Move rank {rank} of job {job} ({name}) from {from} to {to}: {size} of data.");
    Ok((text, Some(Order::Migrate { job, rank, to: from })))
}

/// Where arrays are divided in equal blocks, as most are, this much changes its rank.
fn resized(job: &RunningJob, to: u32) -> Result<(String, Option<Order>), Failure> {
    let RunningJob { status, ranks } = job;
    let (job, name, from) = (status.job, &status.name, status.size);
    let (less, more) = (from.min(to), from.max(to));
    if less == more || to == 0 {
        return Err(Failure::usage(format!(
            "job {job} has {from} ranks; {to} are no change"
        )));
    }
    let part = data(ranks) as f64 * f64::from(more - less) / f64::from(more);
    let part = bytes(part as u64);
    let (text, undo) = match to > from {
        true => (
            format!(
                "Grow job {job} ({name}) from {from} to {to} ranks, on the nodes with most room; about {part} go to \
                 the new ranks."
            ),
            Order::Shrink { job, to: from },
        ),
        false => (
            format!("Shrink job {job} ({name}) from {from} to {to} ranks; about {part} go to those that stay."),
            Order::Expand { job, to: from },
        ),
    };
    Ok((text, Some(undo)))
}

fn drained(node: &NodeName, jobs: &[RunningJob]) -> (String, Option<Order>) {
    let there = |job: &RunningJob| -> Vec<RankStatus> {
        let on = job.ranks.iter().filter(|rank| rank.node == *node);
        on.cloned().collect()
    };
    let (mut back, mut count, mut size) = (Vec::new(), 0, 0);
    for job in jobs_on(node, jobs) {
        let ranks = there(job);
        count += ranks.len();
        size += data(&ranks);
        let (job, ranks): (JobId, Vec<Rank>) = (job.status.job, ranks.iter().map(|rank| rank.rank).collect());
        back.extend((!ranks.is_empty()).then_some(Returning { job, ranks }));
    }
    let text = format!(
        "Move {} off node {node}: {} of data. The node takes no ranks until the drain is undone.",
        counted(count),
        bytes(size)
    );
    if count > BACK_MAX {
        back.clear();
    }
    let node = node.clone();
    (text, Some(Order::Undrain { node, back }))
}

/// What of these ranks still runs elsewhere goes back.
fn undrained(node: &NodeName, back: &[Returning], jobs: &[RunningJob]) -> (String, Option<Order>) {
    let (mut count, mut size) = (0, 0);
    for returning in back {
        let job = jobs.iter().find(|job| job.status.job == returning.job);
        let ranks = job.map_or(&[][..], |job| job.ranks.as_slice());
        let moved: Vec<&RankStatus> = ranks
            .iter()
            .filter(|rank| returning.ranks.contains(&rank.rank))
            .collect();
        count += moved.len();
        size += data(moved);
    }
    let text = match count {
        0 => format!("Let node {node} take ranks again. None is moved."),
        _ => format!(
            "Let node {node} take ranks again, and move {} back to it: {} of data.",
            counted(count),
            bytes(size)
        ),
    };
    let node = node.clone();
    (text, Some(Order::Drain { node }))
}

fn counted(ranks: usize) -> String {
    format!("{ranks} rank{}", if ranks == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank_words;
    use pcm_proto::ids::{Bytes, Epoch};
    use pcm_proto::job::{JobState, JobStatus};

    const JOB: JobId = JobId(3);

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn rank(number: u32, on: &str) -> RankStatus {
        RankStatus {
            rank: Rank(number),
            node: node(on),
            registered: Bytes(1 << 20),
            ..rank_words::tests::rank()
        }
    }

    fn jobs() -> Vec<RunningJob> {
        let status = JobStatus {
            job: JOB,
            name: "heat".to_owned(),
            state: JobState::Running,
            epoch: Epoch(0),
            size: 2,
            nodes: Vec::new(),
            started_us: 0,
            end: None,
            coordinator: node("n0"),
            reign: 0,
            spares: Vec::new(),
        };
        let ranks = vec![rank(0, "n0"), rank(1, "n1")];
        vec![RunningJob { status, ranks }]
    }

    #[test]
    fn a_plan_says_what_moves_and_its_reverse_brings_it_back() {
        let change = |plan: &str, pause_ms| Held {
            plan: plan.to_owned(),
            pause_ms,
        };
        let made = ["migrate", "migrate", "expand", "migrate"]
            .into_iter()
            .zip([12.5, 40.0, 99.0, 10.0]);
        let made = made.map(|(plan, pause_ms)| change(plan, pause_ms)).collect();
        let held = BTreeMap::from([(JOB, made)]);
        let planned = |order| plan(&order, &jobs(), &held).unwrap();
        let (job, rank, to) = (JOB, Rank(1), node("n2"));
        let migrate = planned(Order::Migrate { job, rank, to });
        let words = "Move rank 1 of job 3 (heat) from n1 to n2: 1.0 MiB of data. Predicted pause: 12.5 ms, as in its \
                     last 3 moves (10.0 to 40.0 ms).";
        assert_eq!(migrate.text, words);
        let to = node("n1");
        assert_eq!(migrate.undo, Some(Order::Migrate { job, rank, to }));
        let grown = planned(Order::Expand { job, to: 4 });
        assert!(grown.text.contains("from 2 to 4 ranks") && grown.text.contains("1.0 MiB"));
        assert!(grown.text.ends_with("Predicted pause: 99.0 ms, as in its last change."));
        assert_eq!(grown.undo, Some(Order::Shrink { job, to: 2 }));
        assert_eq!(
            planned(Order::Shrink { job, to: 1 }).undo,
            Some(Order::Expand { job, to: 2 })
        );
    }

    #[test]
    fn an_undone_drain_brings_back_the_ranks_that_left() {
        let node = node("n1");
        let planned = |order: &Order| plan(order, &jobs(), &BTreeMap::new()).unwrap();
        let drain = Order::Drain { node: node.clone() };
        let drained = planned(&drain);
        let words = "Move 1 rank off node n1: 1.0 MiB of data. The node takes no ranks until the drain is undone. \
                     Predicted pause: not known before its first change.";
        assert_eq!(drained.text, words);
        let (job, ranks) = (JOB, vec![Rank(1)]);
        let back = vec![Returning { job, ranks }];
        let undo = drained.undo.unwrap();
        let wanted = Order::Undrain {
            node: node.clone(),
            back,
        };
        assert_eq!(undo, wanted);
        let undone = planned(&undo);
        assert!(
            undone
                .text
                .starts_with("Let node n1 take ranks again, and move 1 rank back to it: 1.0 MiB")
        );
        assert_eq!(undone.undo, Some(drain));
        let back = Vec::new();
        let alone = planned(&Order::Undrain { node, back });
        assert_eq!(alone.text, "Let node n1 take ranks again. None is moved.");
    }

    #[test]
    fn what_changes_nothing_or_names_nothing_has_no_plan() {
        let refused = |order| plan(&order, &jobs(), &BTreeMap::new()).unwrap_err().message;
        let (job, rank) = (JOB, Rank(1));
        assert!(
            refused(Order::Migrate {
                job,
                rank,
                to: node("n1")
            })
            .contains("is on node n1 already")
        );
        let (rank, to) = (Rank(9), node("n2"));
        assert!(refused(Order::Migrate { job, rank, to }).contains("has no rank 9"));
        assert!(refused(Order::Expand { job, to: 2 }).contains("2 are no change"));
        assert!(refused(Order::Shrink { job, to: 0 }).contains("no change"));
        assert!(refused(Order::Checkpoint { job: JobId(7) }).contains("job 7 does not run"));
    }
}
