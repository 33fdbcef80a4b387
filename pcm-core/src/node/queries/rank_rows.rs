//! Rows of a job's ranks: what the nodes saw beside what the coordinator knows. Pure functions, no state.

use pcm_proto::ids::{Bytes, Iteration, NodeName, ProcessId, Rank};
use pcm_proto::job::RankStatus;
use pcm_proto::rank_snapshot::RankLook;
use pcm_proto::stack::{ProcessStack, RankStack};

/// A rank as its coordinator knows it.
pub type Known = (Rank, ProcessId, NodeName, u32);

/// One row for each rank; the call of a rank that no node reported is `?`.
pub fn with_statuses(known: impl Iterator<Item = Known>, mut seen: Vec<RankStatus>) -> Vec<RankStatus> {
    let rows = known.map(|(rank, process, node, pid)| {
        let row = take(&mut seen, |row| row.process == process);
        let row = row.unwrap_or_else(|| unseen(rank, process, node.clone(), pid));
        RankStatus { rank, node, pid, ..row }
    });
    rows.collect()
}

/// The looks in the order of ranks, each with the rank of its process; a rank that no node reported is left out.
pub fn with_looks(known: impl Iterator<Item = Known>, mut seen: Vec<RankLook>) -> Vec<RankLook> {
    let rows = known.filter_map(|(rank, process, ..)| {
        let look = take(&mut seen, |look| look.process == process)?;
        Some(RankLook { rank, ..look })
    });
    rows.collect()
}

/// The stacks in the order of ranks; a rank that no node reported has a note.
pub fn with_stacks(known: impl Iterator<Item = Known>, mut seen: Vec<RankStack>) -> Vec<RankStack> {
    let rows = known.map(|(rank, process, node, _)| {
        let stack = take(&mut seen, |one| one.process == process).map(|one| one.stack);
        let stack = stack.unwrap_or_else(|| ProcessStack {
            note: Some(format!("node {node} did not answer in time")),
            ..ProcessStack::default()
        });
        RankStack {
            rank,
            process,
            node,
            stack,
        }
    });
    rows.collect()
}

fn take<T>(seen: &mut Vec<T>, is_it: impl Fn(&T) -> bool) -> Option<T> {
    let position = seen.iter().position(is_it)?;
    Some(seen.swap_remove(position))
}

/// The row of a rank whose node did not answer.
pub(super) fn unseen(rank: Rank, process: ProcessId, node: NodeName, pid: u32) -> RankStatus {
    RankStatus {
        rank,
        process,
        node,
        pid,
        iteration: Iteration(0),
        iterations_here: 0,
        useful_ms: 0.0,
        wait_ms: 0.0,
        memory: Bytes(0),
        iterations_declared: None,
        restored: Bytes(0),
        call: "?".to_owned(),
        call_since_ms: 0.0,
        peer: None,
        tag: None,
        bytes: None,
        sent: Bytes(0),
        received: Bytes(0),
        registered: Bytes(0),
        constant: Bytes(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_coordinator_and_a_silent_node_leaves_a_question_mark() {
        let node = |name: &str| NodeName::new(name).unwrap();
        let mut seen = unseen(Rank(9), ProcessId(4), node("old"), 1);
        seen.call = "Recv".to_owned();
        let known = vec![
            (Rank(0), ProcessId(7), node("n0"), 70),
            (Rank(1), ProcessId(4), node("n1"), 40),
        ];
        let rows = with_statuses(known.into_iter(), vec![seen]);
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.rank.0, row.node.as_str(), row.call.as_str()))
            .collect();
        assert_eq!(rows, [(0, "n0", "?"), (1, "n1", "Recv")]);
    }
}
