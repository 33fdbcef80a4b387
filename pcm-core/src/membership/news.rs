//! Which beliefs still have to be told, and how often. Holds names only: what is told is always the belief of the
//! moment of sending.

use super::timing;
use pcm_proto::ids::NodeName;
use std::{collections::BTreeMap, mem, time::Duration};

#[derive(Debug, Default)]
pub(super) struct News {
    repeats_left: BTreeMap<NodeName, u32>,
    fresh: Vec<NodeName>,
    flushed: Option<Duration>,
}

impl News {
    /// A belief changed: it goes out at once, then rides on other messages.
    pub(super) fn add(&mut self, node: &NodeName, cluster_size: usize) {
        let repeats = timing::REPEATS_FACTOR * (cluster_size + 1).ilog2().max(1);
        self.repeats_left.insert(node.clone(), repeats);
        if !self.fresh.contains(node) {
            self.fresh.push(node.clone());
        }
    }

    /// What has not gone out at all yet, unless the last burst was a moment ago.
    pub(super) fn take_fresh(&mut self, now: Duration) -> Vec<NodeName> {
        let too_soon = self.flushed.is_some_and(|flushed| now < flushed + timing::FLUSH_PERIOD);
        if self.fresh.is_empty() || too_soon {
            return Vec::new();
        }
        self.flushed = Some(now);
        mem::take(&mut self.fresh)
    }

    /// The least told beliefs, for one message that is sent anyway.
    pub(super) fn take_for_message(&mut self) -> Vec<NodeName> {
        let mut waiting: Vec<(u32, NodeName)> = self
            .repeats_left
            .iter()
            .map(|(node, left)| (*left, node.clone()))
            .collect();
        waiting.sort_by(|a, b| b.cmp(a));
        waiting.truncate(timing::UPDATES_PER_MESSAGE);
        for (left, node) in &waiting {
            if *left <= 1 {
                self.repeats_left.remove(node);
            } else {
                self.repeats_left.insert(node.clone(), left - 1);
            }
        }
        waiting.into_iter().map(|(_, node)| node).collect()
    }

    /// Whether everything has been told often enough.
    pub(super) fn is_quiet(&self) -> bool {
        self.repeats_left.is_empty()
    }
}
