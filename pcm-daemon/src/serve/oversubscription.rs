//! Writes to the pages of the ranks here whether processes outnumber the node's CPUs, and whether one starts.

use super::daemon::Daemon;
use super::parts::Part;
use pcm_core::node::oversubscription::Oversubscription;
use pcm_proto::keeper::ProcessKey;
use std::sync::atomic::Ordering::Relaxed;

impl Daemon {
    /// Tells all ranks here, after a process came, went, or has initialised MPI.
    pub(super) fn tell_ranks_of_oversubscription(&self) {
        let starting = self.parts.values().flat_map(Part::starting_since_ns);
        let Oversubscription {
            is_crowded,
            starting_until_ns,
        } = Oversubscription::of(self.ranks_here(), self.cpus.len(), starting);
        for local in self.parts.values().flat_map(|part| part.locals.values()) {
            let orders = &local.handle.page().page().head.orders;
            orders.is_crowded.store(is_crowded.into(), Relaxed);
            orders.starting_until.store(starting_until_ns, Relaxed);
        }
    }

    /// A process has initialised MPI.
    pub(super) fn on_initialized(&mut self, key: ProcessKey) {
        if let Some(local) = self.local_mut(key) {
            local.starting_since_ns = None;
        }
        self.tell_ranks_of_oversubscription();
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
