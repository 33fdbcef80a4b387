//! Which processes there are, on which nodes, and which of them are lost.

use crate::names::Process;
use pcm_proto::{ids::NodeName, pmix::Namespace};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Namespaces {
    known: BTreeMap<String, Namespace>,
    /// Of this node.
    connected: BTreeSet<Process>,
    finalized: BTreeSet<Process>,
    lost: BTreeSet<Process>,
    /// At the keeper: the namespaces that it has named to other nodes.
    said: BTreeSet<(NodeName, String)>,
}

impl Namespaces {
    pub(super) fn add(&mut self, namespace: Namespace) {
        self.known.insert(namespace.name.clone(), namespace);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.known.remove(name);
        self.said.retain(|(_, said)| said != name);
        self.connected.retain(|process| process.namespace != name);
        self.finalized.retain(|process| process.namespace != name);
        self.lost.retain(|process| process.namespace != name);
    }

    pub(super) fn connected(&mut self, process: Process) {
        self.connected.insert(process);
    }

    pub(super) fn finalized(&mut self, process: Process) {
        self.finalized.insert(process);
    }

    /// Processes of this node that initialised PMIx, and those that are done with MPI.
    pub(super) fn seen(&self) -> (&BTreeSet<Process>, &BTreeSet<Process>) {
        (&self.connected, &self.finalized)
    }

    pub(super) fn is_known(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// For other nodes the namespaces without processes there that were not named to them. They count as named now.
    pub(super) fn unsaid(&mut self, own: &NodeName) -> Vec<(NodeName, Namespace)> {
        let mut unsaid = Vec::new();
        for node in self.others(own) {
            let elsewhere = self
                .known
                .values()
                .filter(|namespace| namespace.ranks_on(&node).is_empty());
            for namespace in elsewhere {
                if self.said.insert((node.clone(), namespace.name.clone())) {
                    unsaid.push((node.clone(), namespace.clone()));
                }
            }
        }
        unsaid
    }

    /// Notes the end of a process; whether that is a loss, and was not known.
    pub(super) fn is_lost_now(&mut self, process: &Process) -> bool {
        let is_known = self.node_of(process).is_some();
        is_known && !self.finalized.contains(process) && self.lost.insert(process.clone())
    }

    pub(super) fn is_lost(&self, process: &Process) -> bool {
        self.lost.contains(process)
    }

    pub(super) fn node_of(&self, process: &Process) -> Option<&NodeName> {
        self.known.get(&process.namespace)?.node_of(process.rank)
    }

    /// The nodes of these processes; none if one of them is not known.
    pub(super) fn nodes_of(&self, members: &[Process]) -> Option<BTreeSet<NodeName>> {
        let mut nodes = BTreeSet::new();
        for member in members {
            let namespace = self.known.get(&member.namespace)?;
            let all = namespace.places.iter().filter(|place| !place.ranks.is_empty());
            let before = nodes.len();
            let of_member = all.filter(|place| {
                let mut of_place = place.ranks.iter().map(|rank| Process::new(&namespace.name, *rank));
                of_place.any(|process| member.includes(&process))
            });
            let mut count = 0;
            for place in of_member {
                nodes.insert(place.node.clone());
                count += 1;
            }
            if count == 0 {
                debug_assert_eq!(nodes.len(), before);
                return None;
            }
        }
        Some(nodes)
    }

    /// Nodes of lost processes among these.
    pub(super) fn lost_among(&self, members: &[Process]) -> BTreeSet<NodeName> {
        let lost = self
            .lost
            .iter()
            .filter(|lost| members.iter().any(|member| member.includes(lost)));
        lost.filter_map(|lost| self.node_of(lost)).cloned().collect()
    }

    /// All nodes that have processes, but one.
    pub(super) fn others(&self, own: &NodeName) -> BTreeSet<NodeName> {
        let places = self.known.values().flat_map(|namespace| &namespace.places);
        places
            .map(|place| &place.node)
            .filter(|node| *node != own)
            .cloned()
            .collect()
    }

    /// The processes of a node, finalized or not.
    pub(super) fn on(&self, node: &NodeName) -> Vec<Process> {
        let of_namespace = |namespace: &Namespace| {
            let process = |rank: &u32| Process::new(&namespace.name, *rank);
            namespace.ranks_on(node).iter().map(process).collect::<Vec<_>>()
        };
        self.known.values().flat_map(of_namespace).collect()
    }
}
