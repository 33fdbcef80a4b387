//! What ranks know of the CPUs of their node: whether processes outnumber the CPUs, and whether one starts. MPI polls
//! while it starts, and never yields; beside it, ranks that sleep often can keep a CPU from all others.

use std::time::Duration;

/// A process that has not initialised MPI by then may never do so.
const START_MAX: Duration = Duration::from_secs(30);

/// What every rank of the node is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversubscription {
    pub is_crowded: bool,
    /// Until when, in nanoseconds of the node's monotonic clock, a process may be starting; 0 when none is.
    pub starting_until_ns: u64,
}

impl Oversubscription {
    /// Of a node with so many ranks and CPUs; `starting_since_ns` names the processes that have not initialised MPI.
    pub fn of(ranks: usize, cpus: usize, starting_since_ns: impl Iterator<Item = u64>) -> Self {
        let until = |since: u64| since.saturating_add(START_MAX.as_nanos() as u64);
        Self {
            is_crowded: ranks > cpus,
            starting_until_ns: starting_since_ns.max().map_or(0, until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_began_last_says_how_long_one_may_be_starting() {
        let told = Oversubscription::of(3, 2, [5, 9, 7].into_iter());
        assert_eq!((told.is_crowded, told.starting_until_ns), (true, 30_000_000_009));
        let quiet = Oversubscription::of(2, 2, std::iter::empty());
        assert_eq!((quiet.is_crowded, quiet.starting_until_ns), (false, 0));
    }
}
