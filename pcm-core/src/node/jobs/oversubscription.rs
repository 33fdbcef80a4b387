//! When the ranks here are told of the node they wait on ([`crate::node::ranks::oversubscription`]).

use crate::moment::Moment;
use crate::node::jobs::parts::Part;
use crate::node::machine::Node;
use crate::node::ranks::oversubscription;
use pcm_proto::keeper::ProcessKey;

impl Node {
    /// Tells all ranks here, after a process came, went, or has initialised MPI.
    pub(in crate::node) fn tell_ranks_of_oversubscription(&mut self) {
        let processes = self.ranks_here();
        let starting = self.parts.values().flat_map(Part::starting_since);
        oversubscription::tell_ranks(processes, self.cpus.len(), starting, &mut self.out);
    }

    /// A process has initialised MPI.
    pub(in crate::node) fn on_initialized(&mut self, key: ProcessKey) {
        if let Some(part) = self.parts.get_mut(&key.job) {
            part.ranks.on_initialized(key.process);
        }
        self.tell_ranks_of_oversubscription();
    }
}

impl Part {
    /// When each process was first seen that is here, alive, and has not initialised MPI.
    fn starting_since(&self) -> impl Iterator<Item = Moment> + '_ {
        let alive = self.state.alive();
        alive.filter_map(|process| self.ranks.starting_since(process))
    }
}
