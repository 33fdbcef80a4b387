//! Messages between the machines of nodes on their way. A broken link or a daemon that is killed may lose some, and a
//! machine waits for each of them: so they are numbered, and said again until the other side has heard them.

use pcm_proto::ids::NodeName;
use std::collections::{BTreeMap, VecDeque};

/// Messages that wait at most for a node out of reach. A rank has one or two under way at a time.
const UNHEARD_MAX: usize = 65_536;

#[derive(Debug, Default)]
struct Correspondent {
    unheard: VecDeque<(u64, Vec<u8>)>,
    last_sent: u64,
    last_heard: u64,
}

/// What a message from another node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    New,
    Known,
    /// Others before it are lost: they are said again over a new link, and this one with them.
    Early,
}

#[derive(Debug, Default)]
pub(crate) struct Mail(BTreeMap<NodeName, Correspondent>);

impl Mail {
    /// The number of a message for another node; none where too many wait for that.
    pub(crate) fn send(&mut self, node: &NodeName, bytes: Vec<u8>) -> Option<u64> {
        let to = self.0.entry(node.clone()).or_default();
        if to.unheard.len() >= UNHEARD_MAX {
            return None;
        }
        to.last_sent += 1;
        to.unheard.push_back((to.last_sent, bytes));
        Some(to.last_sent)
    }

    pub(crate) fn on_letter(&mut self, node: &NodeName, number: u64) -> Arrival {
        let from = self.0.entry(node.clone()).or_default();
        if number <= from.last_heard {
            return Arrival::Known;
        }
        if number > from.last_heard + 1 {
            return Arrival::Early;
        }
        from.last_heard = number;
        Arrival::New
    }

    pub(crate) fn on_heard(&mut self, node: &NodeName, heard: u64) {
        if let Some(to) = self.0.get_mut(node) {
            to.unheard.retain(|(number, _)| *number > heard);
        }
    }

    /// What a node may have missed.
    pub(crate) fn again(&self, node: &NodeName) -> Vec<(u64, Vec<u8>)> {
        let unheard = self.0.get(node).map(|to| to.unheard.iter());
        unheard.into_iter().flatten().cloned().collect()
    }

    /// The nodes that may have missed something.
    pub(crate) fn late(&self) -> Vec<NodeName> {
        let late = self.0.iter().filter(|(_, to)| !to.unheard.is_empty());
        late.map(|(node, _)| node.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeName {
        NodeName::new("n1").unwrap()
    }

    #[test]
    fn what_a_broken_link_lost_is_said_again_in_order_until_it_was_heard() {
        let mut mail = Mail::default();
        assert_eq!(mail.send(&node(), vec![7]), Some(1));
        assert_eq!(mail.send(&node(), vec![8]), Some(2));
        assert_eq!(mail.again(&node()), [(1, vec![7]), (2, vec![8])]);
        mail.on_heard(&node(), 1);
        assert_eq!(mail.again(&node()), [(2, vec![8])]);
        assert_eq!(mail.late(), [node()]);
        mail.on_heard(&node(), 2);
        assert_eq!(mail.late(), []);
    }

    #[test]
    fn a_message_is_taken_once_and_one_that_others_should_precede_waits_for_them() {
        let mut mail = Mail::default();
        assert_eq!(mail.on_letter(&node(), 1), Arrival::New);
        assert_eq!(mail.on_letter(&node(), 1), Arrival::Known);
        assert_eq!(mail.on_letter(&node(), 3), Arrival::Early);
        assert_eq!(mail.on_letter(&node(), 2), Arrival::New);
        assert_eq!(mail.on_letter(&node(), 3), Arrival::New);
    }

    #[test]
    fn a_node_out_of_reach_does_not_take_all_memory() {
        let mut mail = Mail::default();
        for _ in 0..UNHEARD_MAX {
            assert!(mail.send(&node(), Vec::new()).is_some());
        }
        assert_eq!(mail.send(&node(), Vec::new()), None);
    }
}
