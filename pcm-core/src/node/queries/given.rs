//! Answers to requests that other nodes passed on. They are kept for a while and said again over each new link: on the
//! one before they may have been lost, and the other node may not have noticed that it ended.

use crate::moment::Moment;
use crate::node::outbox::Outbox;
use pcm_proto::control::DaemonToControl;
use pcm_proto::ids::NodeName;
use pcm_proto::peer::{Answer, DaemonToDaemon};
use std::collections::VecDeque;
use std::time::Duration;

/// A link that ended is noticed within this time.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// Answers that are kept.
const KEPT_MAX: usize = 32;

#[derive(Debug)]
struct One {
    at: Moment,
    node: NodeName,
    ask: u64,
    answer: DaemonToControl,
}

/// See the file head.
#[derive(Debug, Default)]
pub struct Given {
    kept: VecDeque<One>,
}

impl Given {
    /// Answers the question of a node.
    pub fn give(&mut self, node: NodeName, ask: u64, answer: DaemonToControl, out: &mut Outbox) {
        let at = out.now();
        let one = One { at, node, ask, answer };
        one.say(out);
        self.forget_old(at);
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(one);
    }

    /// There is a new link to a node.
    pub fn on_linked(&mut self, node: &NodeName, out: &mut Outbox) {
        self.forget_old(out.now());
        let of_node = self.kept.iter().filter(|one| one.node == *node);
        of_node.for_each(|one| one.say(out));
    }

    fn forget_old(&mut self, now: Moment) {
        self.kept.retain(|one| now.since(one.at) < KEPT_FOR);
    }
}

impl One {
    fn say(&self, out: &mut Outbox) {
        let (ask, answer) = (self.ask, Box::new(Answer::Control(Box::new(self.answer.clone()))));
        out.send(&self.node, DaemonToDaemon::Answer { ask, answer });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::outbox::Effect;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn said(out: &mut Outbox) -> Vec<(NodeName, u64)> {
        let said = out.take().into_iter().filter_map(|effect| match effect {
            Effect::Send {
                node,
                message: DaemonToDaemon::Answer { ask, .. },
            } => Some((node, ask)),
            _ => None,
        });
        said.collect()
    }

    #[test]
    fn an_answer_is_said_again_over_the_next_link_to_its_node_for_a_while() {
        let mut given = Given::default();
        let mut out = Outbox::new(node("n0"), Moment(0));
        for (name, ask) in [("n1", 7), ("n2", 9)] {
            given.give(node(name), ask, DaemonToControl::Jobs(Vec::new()), &mut out);
        }
        assert_eq!(said(&mut out), [(node("n1"), 7), (node("n2"), 9)]);
        given.on_linked(&node("n2"), &mut out);
        assert_eq!(said(&mut out), [(node("n2"), 9)]);
        let mut later = Outbox::new(node("n0"), Moment(0).plus(KEPT_FOR));
        given.on_linked(&node("n2"), &mut later);
        assert_eq!(said(&mut later), []);
    }

    #[test]
    fn only_the_last_answers_are_kept() {
        let mut given = Given::default();
        let mut out = Outbox::new(node("n0"), Moment(0));
        for ask in 0..2 * KEPT_MAX as u64 {
            given.give(node("n1"), ask, DaemonToControl::Jobs(Vec::new()), &mut out);
        }
        said(&mut out);
        given.on_linked(&node("n1"), &mut out);
        assert_eq!(said(&mut out).len(), KEPT_MAX);
    }
}
