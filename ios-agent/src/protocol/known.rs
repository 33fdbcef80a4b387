//! Thieves that asked, for as long as that is worth remembering. Bounded. Pure.

use pcm_core::moment::Moment;
use pcm_proto::agent::Resources;
use pcm_proto::ids::NodeName;
use std::collections::BTreeMap;
use std::time::Duration;

/// Thieves remembered: more choice brings little, and every look considers all of them.
const KNOWN_MAX: usize = 32;

/// The thieves an agent knows.
#[derive(Clone, Debug, Default)]
pub struct Known {
    thieves: BTreeMap<NodeName, (Moment, Resources)>,
    refused: BTreeMap<NodeName, Moment>,
}

/// A thief that declined is not asked again for so long.
const REFUSED_FOR: Duration = Duration::from_secs(2);

impl Known {
    /// A thief asked.
    pub fn remember(&mut self, now: Moment, thief: Resources) {
        self.thieves.insert(thief.node.clone(), (now, thief));
        if self.thieves.len() > KNOWN_MAX {
            let oldest = self
                .thieves
                .iter()
                .min_by_key(|(_, (at, _))| *at)
                .map(|(node, _)| node.clone());
            if let Some(oldest) = oldest {
                self.thieves.remove(&oldest);
            }
        }
    }

    /// A node has no place, or did not answer.
    pub fn forget(&mut self, now: Moment, node: &NodeName) {
        self.thieves.remove(node);
        self.refused.insert(node.clone(), now);
    }

    /// A node was given something: what it said of itself is out of date.
    pub fn use_up(&mut self, node: &NodeName) {
        self.thieves.remove(node);
    }

    /// Drops what is out of date.
    pub fn expire(&mut self, now: Moment, after: Duration) {
        self.thieves.retain(|_, (at, _)| now.since(*at) < after);
        self.refused.retain(|_, at| now.since(*at) < REFUSED_FOR);
    }

    /// Whether a node declined a moment ago.
    pub fn has_refused(&self, node: &NodeName) -> bool {
        self.refused.contains_key(node)
    }

    /// All that are known.
    pub fn thieves(&self) -> impl Iterator<Item = &Resources> {
        self.thieves.values().map(|(_, thief)| thief)
    }

    pub fn len(&self) -> usize {
        self.thieves.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.thieves.is_empty()
    }
}
