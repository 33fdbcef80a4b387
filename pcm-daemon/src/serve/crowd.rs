//! What the ranks here are told of the node they wait on: whether processes outnumber its CPUs, and whether one starts. MPI
//! polls while it starts, and never yields; beside it, ranks that sleep often can keep a CPU from everybody else.

use super::daemon::Daemon;
use super::parts::Part;
use pcm_proto::keeper::ProcessKey;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A process that has not initialised MPI by then may never do so.
const START_MAX: Duration = Duration::from_secs(30);

impl Daemon {
    /// Tells all ranks here, after a process came, went, or has initialised MPI.
    pub(super) fn tell_ranks_of_crowd(&self) {
        let is_crowded = self.ranks_here() > self.cpus.len();
        let since = self.parts.values().flat_map(Part::starting_since_ns).max();
        let until = since.map_or(0, |since| since + START_MAX.as_nanos() as u64);
        for local in self.parts.values().flat_map(|part| part.locals.values()) {
            let orders = &local.handle.page().page().head.orders;
            orders.is_crowded.store(is_crowded.into(), Relaxed);
            orders.starting_until.store(until, Relaxed);
        }
    }

    /// A process has initialised MPI.
    pub(super) fn on_initialized(&mut self, key: ProcessKey) {
        if let Some(local) = self.local_mut(key) {
            local.starting_since_ns = None;
        }
        self.tell_ranks_of_crowd();
    }
}

impl Part {
    /// When each process was first seen that is here, alive, and has not initialised MPI.
    fn starting_since_ns(&self) -> impl Iterator<Item = u64> + '_ {
        let processes = self.state.processes();
        self.locals.iter().filter_map(|(process, local)| {
            let is_alive = processes.get(process).is_some_and(|known| known.is_alive());
            local.starting_since_ns.filter(|_| is_alive)
        })
    }
}
