//! Which way a copy of a part takes from the node that has it, and who is told. Never copies.

use super::daemon::Daemon;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, JobId, NodeName};
use std::fmt;
use std::time::Duration;

/// Names the best way that may be taken, for measurements and tests; set it for `pcmctl up`.
pub(super) const COPIES_VARIABLE: &str = "PCM_COPIES";

/// A node from which a bulk transfer failed is asked for blocks for so long: where a firewall is in the way, each try costs five
/// seconds.
const BULK_AGAIN: Duration = Duration::from_secs(120);

/// A way, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Block by block over the link.
    Link,
    /// Over a connection for bulk transfers.
    Bulk,
    /// Through memory that both daemons have.
    Shared,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Link => "link",
            Self::Bulk => "bulk",
            Self::Shared => "shared",
        })
    }
}

/// The best way that may be taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllowedWays(Way);

impl Default for AllowedWays {
    fn default() -> Self {
        Self(Way::Shared)
    }
}

impl AllowedWays {
    /// As a person says it; empty for any.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::default()),
            _ => [Way::Link, Way::Bulk, Way::Shared]
                .into_iter()
                .find(|way| way.to_string() == text)
                .map(Self),
        }
    }
}

impl Daemon {
    /// The best way for copies from a node, and why it is none better.
    pub(super) fn copy_way(&self, from: &NodeName) -> (Way, &'static str) {
        let (best, why) = if self.nodes.host(from) == self.nodes.own().host {
            (Way::Shared, "it is on the same host")
        } else {
            (Way::Bulk, "it is on another host")
        };
        let AllowedWays(allowed) = self.kept.allowed;
        let (best, why) = if allowed < best {
            (allowed, "PCM_COPIES says so")
        } else {
            (best, why)
        };
        match best {
            Way::Bulk if self.has_bulk_failed(from) => (Way::Link, "bulk transfers from there failed lately"),
            Way::Bulk if self.kept.bulk.is_none() => (Way::Link, "no port for bulk transfers could be opened"),
            best => (best, why),
        }
    }

    fn has_bulk_failed(&self, from: &NodeName) -> bool {
        let failed = self.kept.bulk_failed.get(from);
        failed.is_some_and(|at| at.elapsed() < BULK_AGAIN)
    }

    /// A copy came; who looks at the events sees when others come another way.
    pub(super) fn note_copy_way(&mut self, (job, epoch): (JobId, Epoch), from: &NodeName, way: Way, reason: &str) {
        if self.kept.ways.insert((job, from.clone()), way) == Some(way) {
            return;
        }
        let changed = EventKind::CopyWayChanged {
            name: from.clone(),
            way: way.to_string(),
            reason: reason.to_owned(),
        };
        self.note(Some(job), epoch, changed);
    }

    pub(super) fn forget_ways(&mut self, job: JobId) {
        if !self.parts.contains_key(&job) {
            self.kept.ways.retain(|(of, _), _| *of != job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_named_as_events_name_it() {
        assert_eq!(AllowedWays::parse("").unwrap().0, Way::Shared);
        assert_eq!(AllowedWays::parse("link").unwrap().0, Way::Link);
        assert!(AllowedWays::parse("pigeon").is_none());
    }
}
