//! When the ranks here are told of the node they wait on ([`crate::node::ranks::oversubscription`]).

use crate::job::participant::Participant;
use crate::moment::Moment;
use crate::node::jobs::table::Job;
use crate::node::machine::Node;
use crate::node::ranks::oversubscription;
use pcm_proto::keeper::ProcessKey;

impl Node {
    /// Tells all ranks here, after a process came, went, or has initialised MPI.
    pub(in crate::node) fn tell_ranks_of_oversubscription(&mut self) {
        let processes = self.ranks_here();
        let starting = self.jobs.all().flat_map(|(_, known)| starting_since(known));
        oversubscription::tell_ranks(processes, self.cpus.len(), starting, &mut self.out);
    }

    /// A process has initialised MPI.
    pub(in crate::node) fn on_initialized(&mut self, key: ProcessKey) {
        if let Some(part) = self.jobs.local_mut(key.job) {
            part.ranks.on_initialized(key.process);
        }
        self.tell_ranks_of_oversubscription();
    }
}

/// When each process was first seen that is here, alive, and has not initialised MPI.
fn starting_since(known: &Job) -> impl Iterator<Item = Moment> + '_ {
    let alive = known.machine.part().into_iter().flat_map(Participant::alive);
    alive.filter_map(|process| known.local.as_ref()?.ranks.starting_since(process))
}
