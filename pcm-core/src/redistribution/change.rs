//! The ranks of a job before and after a reconfiguration, as lists of processes. Never decides the order: that is
//! the rank order's work.

use pcm_proto::ids::{ProcessId, Rank};

/// Which process has which rank, before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankChange {
    before: Vec<ProcessId>,
    after: Vec<ProcessId>,
    by_process_before: Vec<(ProcessId, Rank)>,
    by_process_after: Vec<(ProcessId, Rank)>,
}

/// Why two lists of processes are no rank change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// One of the lists is empty.
    #[error("a rank change needs at least one rank before and one after")]
    NoRanks,
    /// A process stands twice in one list.
    #[error("process {process} stands at ranks {first} and {second}; a process has one rank")]
    ProcessTwice {
        process: ProcessId,
        /// Its lower rank.
        first: Rank,
        /// Its higher rank.
        second: Rank,
    },
}

impl RankChange {
    /// Checks and indexes the two lists: index = rank.
    pub fn new(before: Vec<ProcessId>, after: Vec<ProcessId>) -> Result<Self, ChangeError> {
        if before.is_empty() || after.is_empty() {
            return Err(ChangeError::NoRanks);
        }
        Ok(Self {
            by_process_before: by_process(&before)?,
            by_process_after: by_process(&after)?,
            before,
            after,
        })
    }

    /// Processes by rank before the change.
    pub fn before(&self) -> &[ProcessId] {
        &self.before
    }

    /// Processes by rank after the change.
    pub fn after(&self) -> &[ProcessId] {
        &self.after
    }

    /// The rank a process had before; none for a newcomer.
    pub fn rank_before(&self, process: ProcessId) -> Option<Rank> {
        rank_of(&self.by_process_before, process)
    }

    /// The rank a process has afterwards; none for a leaver.
    pub fn rank_after(&self, process: ProcessId) -> Option<Rank> {
        rank_of(&self.by_process_after, process)
    }

    /// Every process that takes part, once, in rising order.
    pub fn processes(&self) -> Vec<ProcessId> {
        let mut all: Vec<ProcessId> = self.before.iter().chain(&self.after).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn by_process(processes: &[ProcessId]) -> Result<Vec<(ProcessId, Rank)>, ChangeError> {
    let mut index: Vec<(ProcessId, Rank)> = (0..).map(Rank).zip(processes).map(|(rank, &p)| (p, rank)).collect();
    index.sort_unstable();
    match index.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(ChangeError::ProcessTwice {
            process: pair[0].0,
            first: pair[0].1,
            second: pair[1].1,
        }),
        None => Ok(index),
    }
}

fn rank_of(index: &[(ProcessId, Rank)], process: ProcessId) -> Option<Rank> {
    let at = index.binary_search_by_key(&process, |(p, _)| *p).ok()?;
    Some(index[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(ids: &[u32]) -> Vec<ProcessId> {
        ids.iter().copied().map(ProcessId).collect()
    }

    #[test]
    fn ranks_are_found_by_process_on_both_sides() {
        let change = RankChange::new(processes(&[7, 3]), processes(&[3, 9])).expect("two valid lists");
        assert_eq!(change.rank_before(ProcessId(3)), Some(Rank(1)));
        assert_eq!(change.rank_after(ProcessId(3)), Some(Rank(0)));
        assert_eq!(change.rank_after(ProcessId(7)), None);
        assert_eq!(change.processes(), processes(&[3, 7, 9]));
    }

    #[test]
    fn a_process_at_two_ranks_is_refused_with_both() {
        let refused = RankChange::new(processes(&[1]), processes(&[4, 2, 4]));
        assert_eq!(
            refused,
            Err(ChangeError::ProcessTwice {
                process: ProcessId(4),
                first: Rank(0),
                second: Rank(2)
            })
        );
        assert_eq!(RankChange::new(vec![], processes(&[1])), Err(ChangeError::NoRanks));
    }
}
