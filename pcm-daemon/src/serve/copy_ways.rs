//! Which way an image takes from the node that has it, and who is told. Never moves one.

use super::bulk_ends::End;
use super::daemon::Daemon;
use pcm_fabric::peers::RdmaReach;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, JobId, NodeName};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

/// Names the best way that may be taken, for measurements and tests; set it for `pcmctl up`.
pub(super) const COPIES_VARIABLE: &str = "PCM_COPIES";

/// A way on which nothing came from a node is not tried again for so long: where a firewall is in the way, each try
/// costs five seconds. What is refused at once costs nothing to be tried again.
const AGAIN: Duration = Duration::from_secs(120);

/// A way, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Block by block over the link.
    Link,
    /// Over a TCP connection for bulk transfers.
    Bulk,
    /// Written into memory here over InfiniBand or RoCE.
    Rdma,
    /// Through memory that both daemons have.
    Shared,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Link => "link",
            Self::Bulk => "bulk",
            Self::Rdma => "rdma",
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
            _ => [Way::Link, Way::Bulk, Way::Rdma, Way::Shared]
                .into_iter()
                .find(|way| way.to_string() == text)
                .map(Self),
        }
    }
}

impl Way {
    /// What carries it, where that is a bulk transfer.
    pub(super) fn end(self) -> Option<End> {
        match self {
            Self::Rdma => Some(End::Rdma),
            Self::Bulk => Some(End::Tcp),
            Self::Link | Self::Shared => None,
        }
    }
}

/// Ways on which nothing came from a node, and when that was.
#[derive(Debug, Default)]
pub(super) struct FailedWays(BTreeMap<(NodeName, Way), Instant>);

impl FailedWays {
    fn note(&mut self, now: Instant, from: NodeName, way: Way) {
        self.0.retain(|_, at| now.saturating_duration_since(*at) < AGAIN);
        if way.end().is_some() {
            self.0.insert((from, way), now);
        }
    }

    fn has(&self, now: Instant, from: &NodeName, way: Way) -> bool {
        let failed = self.0.get(&(from.clone(), way));
        failed.is_some_and(|at| now.saturating_duration_since(*at) < AGAIN)
    }

    /// The nodes from which nothing came on a way.
    fn on(&self, now: Instant, way: Way) -> impl Iterator<Item = &NodeName> {
        let nodes = self.0.keys().filter(move |(_, failed)| *failed == way);
        nodes.map(|(from, _)| from).filter(move |from| self.has(now, from, way))
    }

    /// A node is gone, or it is another daemon's.
    pub(super) fn forget(&mut self, from: &NodeName) {
        self.0.retain(|(of, _), _| of != from);
    }
}

/// What is known of the ways from one node: each that cannot be taken, with the reason.
#[derive(Clone, Copy, Debug)]
struct Known {
    is_same_host: bool,
    allowed: Way,
    /// No reason where it is no news that there is none: builds and machines without devices.
    rdma: Result<(), Option<&'static str>>,
    bulk: Result<(), &'static str>,
}

/// The best way, and why it is none better.
fn best(known: Known) -> (Way, &'static str) {
    let (way, why) = if known.is_same_host {
        (Way::Shared, "it is on the same host")
    } else {
        (Way::Rdma, "it is on another host")
    };
    let (way, why) = if known.allowed < way {
        (known.allowed, "PCM_COPIES says so")
    } else {
        (way, why)
    };
    let (way, why) = match known.rdma {
        Err(because) if way == Way::Rdma => (Way::Bulk, because.unwrap_or(why)),
        _ => (way, why),
    };
    match known.bulk {
        Err(because) if way == Way::Bulk => (Way::Link, because),
        _ => (way, why),
    }
}

impl Daemon {
    /// The best way for images from a node, and why it is none better.
    pub(super) fn copy_way(&self, from: &NodeName) -> (Way, &'static str) {
        let AllowedWays(allowed) = self.images.allowed;
        best(Known {
            is_same_host: self.nodes.host(from) == self.nodes.own().host,
            allowed,
            rdma: self.may_rdma(from),
            bulk: self.may_bulk(from),
        })
    }

    /// The way to take for an image that does not come on this one.
    pub(super) fn next_way(&self, from: &NodeName, after: Way) -> Way {
        match after {
            Way::Rdma if self.may_bulk(from).is_ok() => Way::Bulk,
            _ => Way::Link,
        }
    }

    fn may_bulk(&self, from: &NodeName) -> Result<(), &'static str> {
        match self.images.bulk {
            None => Err("no port for bulk transfers could be opened"),
            Some(_) if self.has_failed(from, Way::Bulk) => Err("bulk transfers from there failed lately"),
            Some(_) => Ok(()),
        }
    }

    fn may_rdma(&self, from: &NodeName) -> Result<(), Option<&'static str>> {
        let bulk = self.images.bulk.as_ref();
        if bulk.is_none_or(|bulk| bulk.address(End::Rdma).is_err()) {
            return Err(None);
        }
        match self.peers.rdma_reach(from) {
            RdmaReach::NoDevice => Err(Some("it has no InfiniBand or RoCE device in use")),
            RdmaReach::Silent => Err(Some("it confirms nothing over InfiniBand or RoCE")),
            RdmaReach::Reachable if self.has_failed(from, Way::Rdma) => {
                Err(Some("transfers from there over InfiniBand or RoCE failed lately"))
            }
            RdmaReach::Reachable => Ok(()),
        }
    }

    pub(super) fn has_failed(&self, from: &NodeName, way: Way) -> bool {
        self.images.failed_ways.has(Instant::now(), from, way)
    }

    /// Nothing came from there.
    pub(super) fn note_failed_way(&mut self, from: NodeName, way: Way) {
        self.images.failed_ways.note(Instant::now(), from, way);
    }

    /// Its device is heard again: it is worth a try.
    pub(super) fn on_rdma_heard(&mut self, from: &NodeName) {
        self.images.failed_ways.0.remove(&(from.clone(), Way::Rdma));
    }

    /// The ways that images take from the other nodes as things stand.
    pub(super) fn copy_ways_in_use(&self) -> String {
        let nodes = self.nodes.reachable();
        let ways: BTreeSet<Way> = nodes.iter().map(|node| self.copy_way(node).0).collect();
        let names: Vec<String> = ways.iter().rev().map(Way::to_string).collect();
        names.join("+")
    }

    /// Why copies do not come over InfiniBand or RoCE, where datagrams do.
    pub(super) fn why_not_rdma_copies(&self) -> Vec<String> {
        let bulk = self.images.bulk.as_ref();
        match bulk.map(|bulk| bulk.address(End::Rdma)) {
            Some(Err(why)) if self.peers.own_rdma_address().is_some() => vec![format!("rdma for copies: {why}")],
            Some(Ok(_)) => {
                let failed = self.images.failed_ways.on(Instant::now(), Way::Rdma);
                let why = |node: &NodeName| format!("rdma for copies from {node}: a transfer failed lately");
                failed.map(why).collect()
            }
            _ => Vec::new(),
        }
    }

    /// An image came; who looks at the events sees when others come another way.
    pub(super) fn note_copy_way(&mut self, (job, epoch): (JobId, Epoch), from: &NodeName, way: Way, reason: &str) {
        if self.images.ways.insert((job, from.clone()), way) == Some(way) {
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
            self.images.ways.retain(|(of, _), _| *of != job);
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

    fn far() -> Known {
        Known {
            is_same_host: false,
            allowed: Way::Shared,
            rdma: Ok(()),
            bulk: Ok(()),
        }
    }

    #[test]
    fn a_device_is_taken_where_there_is_one_and_memory_before_it() {
        assert_eq!(best(far()), (Way::Rdma, "it is on another host"));
        let near = Known {
            is_same_host: true,
            ..far()
        };
        assert_eq!(best(near).0, Way::Shared);
        let allowed = Way::Rdma;
        assert_eq!(best(Known { allowed, ..near }), (Way::Rdma, "PCM_COPIES says so"));
    }

    #[test]
    fn what_fails_is_followed_by_the_next_best_and_the_reason() {
        let silent = Known {
            rdma: Err(Some("it is silent")),
            ..far()
        };
        assert_eq!(best(silent), (Way::Bulk, "it is silent"));
        let blocked = Known {
            bulk: Err("it is blocked"),
            ..silent
        };
        assert_eq!(best(blocked), (Way::Link, "it is blocked"));
        let without = Known {
            rdma: Err(None),
            ..far()
        };
        assert_eq!(best(without), (Way::Bulk, "it is on another host"));
    }

    #[test]
    fn a_way_that_failed_is_left_alone_for_a_while_and_until_its_node_is_another() {
        let (mut failed, now) = (FailedWays::default(), Instant::now());
        let [a, b] = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        failed.note(now, a.clone(), Way::Bulk);
        failed.note(now, a.clone(), Way::Shared);
        failed.note(now, b.clone(), Way::Rdma);
        assert!(failed.has(now, &a, Way::Bulk) && !failed.has(now, &a, Way::Rdma) && !failed.has(now, &b, Way::Bulk));
        assert!(!failed.has(now, &a, Way::Shared), "it costs nothing to be tried");
        assert_eq!(failed.on(now, Way::Rdma).collect::<Vec<_>>(), [&b]);
        failed.forget(&a);
        assert!(!failed.has(now, &a, Way::Bulk) && failed.has(now, &b, Way::Rdma));
        assert!(!failed.has(now + AGAIN, &b, Way::Rdma));
        failed.note(now + AGAIN, a, Way::Bulk);
        assert_eq!(failed.0.len(), 1, "what is over is not remembered");
    }

    #[test]
    fn a_way_that_is_forbidden_is_none_to_fall_back_on() {
        for allowed in [Way::Link, Way::Bulk] {
            let known = Known { allowed, ..far() };
            assert_eq!(best(known), (allowed, "PCM_COPIES says so"));
        }
    }
}
