//! What an order would do, before it is carried out: what moves, how much, how long the job was held by its last
//! change, and the order that brings back what was before. Must never order anything.

use crate::commands::Order;
use crate::failure::Failure;
use pcm_proto::ids::{JobId, NodeName, Rank};
use pcm_proto::job::RankStatus;
use pcm_view::dashboard::RunningJob;
use pcm_view::table::bytes;

/// An order in words, and its reverse.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) text: String,
    pub(crate) undo: Option<Order>,
}

/// The plan of an order. `held_ms` is how long the last change of its job held it, as far as there was one.
pub(crate) fn plan(order: &Order, jobs: &[RunningJob], held_ms: Option<f64>) -> Result<Planned, Failure> {
    let (text, undo) = match order {
        Order::Migrate { job, rank, to } => moved(named(*job, jobs)?, *rank, to)?,
        Order::Expand { job, to } | Order::Shrink { job, to } => resized(named(*job, jobs)?, *to)?,
        Order::Drain { node } => return Ok(drained(node, jobs)),
        Order::Checkpoint { job } => {
            let all = data(&named(*job, jobs)?.ranks);
            let text = format!(
                "Make a checkpoint of job {job}: {}, in memory of two nodes.",
                bytes(all)
            );
            return Ok(Planned { text, undo: None });
        }
    };
    let held = match held_ms {
        Some(ms) => format!("Its last change held the program for {ms:.1} ms."),
        None => "It has not changed yet: how long a change holds it is not known.".to_owned(),
    };
    let text = format!("{text} {held}");
    Ok(Planned { text, undo })
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

fn drained(node: &NodeName, jobs: &[RunningJob]) -> Planned {
    let there = jobs.iter().flat_map(|job| &job.ranks).filter(|rank| rank.node == *node);
    let there: Vec<&RankStatus> = there.collect();
    let text = format!(
        "Move all {} ranks off node {node}: {} of data. The node takes no ranks from then on; to use it again, remove \
         and join it.",
        there.len(),
        bytes(data(there))
    );
    Planned { text, undo: None }
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
        let planned = |order| plan(&order, &jobs(), Some(12.5)).unwrap();
        let (job, rank, to) = (JOB, Rank(1), node("n2"));
        let migrate = planned(Order::Migrate { job, rank, to });
        let words = "Move rank 1 of job 3 (heat) from n1 to n2: 1.0 MiB of data. Its last change held the program for \
                     12.5 ms.";
        assert_eq!(migrate.text, words);
        let to = node("n1");
        assert_eq!(migrate.undo, Some(Order::Migrate { job, rank, to }));
        let grown = planned(Order::Expand { job, to: 4 });
        assert!(grown.text.contains("from 2 to 4 ranks") && grown.text.contains("1.0 MiB"));
        assert_eq!(grown.undo, Some(Order::Shrink { job, to: 2 }));
        assert_eq!(
            planned(Order::Shrink { job, to: 1 }).undo,
            Some(Order::Expand { job, to: 2 })
        );
        let drain = planned(Order::Drain { node: node("n1") });
        assert!(drain.text.contains("all 1 ranks off node n1: 1.0 MiB") && drain.undo.is_none());
    }

    #[test]
    fn what_changes_nothing_or_names_nothing_has_no_plan() {
        let refused = |order| plan(&order, &jobs(), None).unwrap_err().message;
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
