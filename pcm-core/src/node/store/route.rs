//! Which route an image takes from the node that has it, and which events say so. Moves none.

use super::end::{End, EndAddresses};
use super::step::{Step, Surroundings};
use crate::moment::Moment;
use crate::node::reach::RdmaReach;
use pcm_proto::event::EventKind;
use pcm_proto::fabric::BulkAddress;
use pcm_proto::ids::{Epoch, JobId, NodeName};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// A route on which nothing came from a node is not tried again for so long: where a firewall is in the way, each try
/// costs five seconds. What is refused at once costs nothing to be tried again.
const AGAIN: Duration = Duration::from_secs(120);

/// A route, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Route {
    /// Block by block over the link.
    Link,
    /// Over a TCP connection for bulk transfers.
    Bulk,
    /// Written into memory here over InfiniBand or RoCE.
    Rdma,
    /// Through memory that both daemons have.
    Shared,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Link => "link",
            Self::Bulk => "bulk",
            Self::Rdma => "rdma",
            Self::Shared => "shared",
        })
    }
}

/// The best route that may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedRoutes(Route);

impl Default for AllowedRoutes {
    fn default() -> Self {
        Self(Route::Shared)
    }
}

impl AllowedRoutes {
    /// As a person says it; empty for any.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::default()),
            _ => [Route::Link, Route::Bulk, Route::Rdma, Route::Shared]
                .into_iter()
                .find(|route| route.to_string() == text)
                .map(Self),
        }
    }
}

impl Route {
    /// What carries it, where that is a bulk transfer.
    pub(super) fn end(self) -> Option<End> {
        match self {
            Self::Rdma => Some(End::Rdma),
            Self::Bulk => Some(End::Tcp),
            Self::Link | Self::Shared => None,
        }
    }
}

/// Routes on which nothing came from a node, and when that was.
#[derive(Debug, Default)]
struct FailedRoutes(BTreeMap<(NodeName, Route), Moment>);

impl FailedRoutes {
    fn note(&mut self, now: Moment, from: NodeName, route: Route) {
        self.0.retain(|_, at| now.since(*at) < AGAIN);
        if route.end().is_some() {
            self.0.insert((from, route), now);
        }
    }

    fn has(&self, now: Moment, from: &NodeName, route: Route) -> bool {
        let failed = self.0.get(&(from.clone(), route));
        failed.is_some_and(|at| now.since(*at) < AGAIN)
    }

    /// The nodes from which nothing came on a route.
    fn on(&self, now: Moment, route: Route) -> impl Iterator<Item = &NodeName> {
        let nodes = self.0.keys().filter(move |(_, failed)| *failed == route);
        nodes
            .map(|(from, _)| from)
            .filter(move |from| self.has(now, from, route))
    }

    /// A node is gone, or it is another daemon's.
    fn forget(&mut self, from: &NodeName) {
        self.0.retain(|(of, _), _| of != from);
    }
}

/// What is known of the routes from one node: each that cannot be taken, with the reason.
#[derive(Clone, Copy, Debug)]
struct Known {
    is_same_host: bool,
    allowed: Route,
    /// No reason where it is no news that there is none: builds and machines without devices.
    rdma: Result<(), Option<&'static str>>,
    bulk: Result<(), &'static str>,
}

/// The best route, and why it is none better.
fn best(known: Known) -> (Route, &'static str) {
    let (route, why) = if known.is_same_host {
        (Route::Shared, "it is on the same host")
    } else {
        (Route::Rdma, "it is on another host")
    };
    let (route, why) = if known.allowed < route {
        (known.allowed, "PCM_COPIES says so")
    } else {
        (route, why)
    };
    let (route, why) = match known.rdma {
        Err(because) if route == Route::Rdma => (Route::Bulk, because.unwrap_or(why)),
        _ => (route, why),
    };
    match known.bulk {
        Err(because) if route == Route::Bulk => (Route::Link, because),
        _ => (route, why),
    }
}

/// What is known of the routes to this node.
#[derive(Debug, Default)]
pub(super) struct Routes {
    allowed: AllowedRoutes,
    /// Where bulk transfers come in, if there is a port for them.
    ends: Option<EndAddresses>,
    failed: FailedRoutes,
    /// How the last image of a job came from a node.
    last: BTreeMap<(JobId, NodeName), Route>,
}

impl Routes {
    pub(super) fn allow(&mut self, allowed: AllowedRoutes) {
        self.allowed = allowed;
    }

    pub(super) fn open(&mut self, ends: EndAddresses) {
        self.ends = Some(ends);
    }

    /// Where other nodes reach an endpoint of this one.
    pub(super) fn address(&self, end: End) -> Option<BulkAddress> {
        self.ends.as_ref()?.of(end).ok()
    }

    /// The best route for images from a node, and why it is none better.
    pub(super) fn choose(&self, now: Moment, around: &dyn Surroundings, from: &NodeName) -> (Route, &'static str) {
        let AllowedRoutes(allowed) = self.allowed;
        best(Known {
            is_same_host: around.is_same_host(from),
            allowed,
            rdma: self.may_rdma(now, around, from),
            bulk: self.may_bulk(now, from),
        })
    }

    /// The route to take for an image that does not come on this one.
    pub(super) fn next(&self, now: Moment, from: &NodeName, after: Route) -> Route {
        match after {
            Route::Rdma if self.may_bulk(now, from).is_ok() => Route::Bulk,
            _ => Route::Link,
        }
    }

    fn may_bulk(&self, now: Moment, from: &NodeName) -> Result<(), &'static str> {
        match self.ends {
            None => Err("no port for bulk transfers could be opened"),
            Some(_) if self.has_failed(now, from, Route::Bulk) => Err("bulk transfers from there failed lately"),
            Some(_) => Ok(()),
        }
    }

    fn may_rdma(&self, now: Moment, around: &dyn Surroundings, from: &NodeName) -> Result<(), Option<&'static str>> {
        if self.address(End::Rdma).is_none() {
            return Err(None);
        }
        match around.rdma_reach(from) {
            RdmaReach::NoDevice => Err(Some("it has no InfiniBand or RoCE device in use")),
            RdmaReach::Silent => Err(Some("it confirms nothing over InfiniBand or RoCE")),
            RdmaReach::There if self.has_failed(now, from, Route::Rdma) => {
                Err(Some("transfers from there over InfiniBand or RoCE failed lately"))
            }
            RdmaReach::There => Ok(()),
        }
    }

    pub(super) fn has_failed(&self, now: Moment, from: &NodeName, route: Route) -> bool {
        self.failed.has(now, from, route)
    }

    /// Nothing came from there.
    pub(super) fn note_failed(&mut self, now: Moment, from: NodeName, route: Route) {
        self.failed.note(now, from, route);
    }

    /// A node is gone, or has another daemon, with other ports.
    pub(super) fn forget_node(&mut self, node: &NodeName) {
        self.failed.forget(node);
    }

    /// Its device is heard again: it is worth a try.
    pub(super) fn on_rdma_heard(&mut self, from: &NodeName) {
        self.failed.0.remove(&(from.clone(), Route::Rdma));
    }

    /// The routes that images take from these nodes now.
    pub(super) fn in_use(&self, now: Moment, around: &dyn Surroundings, nodes: &[NodeName]) -> String {
        let routes: BTreeSet<Route> = nodes.iter().map(|node| self.choose(now, around, node).0).collect();
        let names: Vec<String> = routes.iter().rev().map(Route::to_string).collect();
        names.join("+")
    }

    /// Why copies do not come over InfiniBand or RoCE, where datagrams may.
    pub(super) fn why_not_rdma(&self, now: Moment, has_device: bool) -> Vec<String> {
        match self.ends.as_ref().map(|ends| ends.of(End::Rdma)) {
            Some(Err(why)) if has_device => vec![format!("rdma for copies: {why}")],
            Some(Ok(_)) => {
                let failed = self.failed.on(now, Route::Rdma);
                let why = |node: &NodeName| format!("rdma for copies from {node}: a transfer failed lately");
                failed.map(why).collect()
            }
            _ => Vec::new(),
        }
    }

    /// An image came; the events show when others come another way.
    pub(super) fn note_taken(
        &mut self,
        (job, epoch): (JobId, Epoch),
        from: &NodeName,
        (route, reason): (Route, &str),
        step: &mut Step<'_>,
    ) {
        if self.last.insert((job, from.clone()), route) == Some(route) {
            return;
        }
        let changed = EventKind::CopyWayChanged {
            name: from.clone(),
            way: route.to_string(),
            reason: reason.to_owned(),
        };
        step.note(job, epoch, changed);
    }

    pub(super) fn forget_job(&mut self, job: JobId) {
        self.last.retain(|(of, _), _| *of != job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_named_as_events_name_it() {
        assert_eq!(AllowedRoutes::parse("").unwrap().0, Route::Shared);
        assert_eq!(AllowedRoutes::parse("link").unwrap().0, Route::Link);
        assert!(AllowedRoutes::parse("pigeon").is_none());
    }

    fn far() -> Known {
        Known {
            is_same_host: false,
            allowed: Route::Shared,
            rdma: Ok(()),
            bulk: Ok(()),
        }
    }

    #[test]
    fn a_device_is_taken_where_there_is_one_and_memory_before_it() {
        assert_eq!(best(far()), (Route::Rdma, "it is on another host"));
        let near = Known {
            is_same_host: true,
            ..far()
        };
        assert_eq!(best(near).0, Route::Shared);
        let allowed = Route::Rdma;
        assert_eq!(best(Known { allowed, ..near }), (Route::Rdma, "PCM_COPIES says so"));
    }

    #[test]
    fn what_fails_is_followed_by_the_next_best_and_the_reason() {
        let silent = Known {
            rdma: Err(Some("it is silent")),
            ..far()
        };
        assert_eq!(best(silent), (Route::Bulk, "it is silent"));
        let blocked = Known {
            bulk: Err("it is blocked"),
            ..silent
        };
        assert_eq!(best(blocked), (Route::Link, "it is blocked"));
        let without = Known {
            rdma: Err(None),
            ..far()
        };
        assert_eq!(best(without), (Route::Bulk, "it is on another host"));
    }

    #[test]
    fn a_route_that_failed_is_left_alone_for_a_while_and_until_its_node_is_another() {
        let (mut failed, now) = (FailedRoutes::default(), Moment(1_000_000));
        let [a, b] = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        failed.note(now, a.clone(), Route::Bulk);
        failed.note(now, a.clone(), Route::Shared);
        failed.note(now, b.clone(), Route::Rdma);
        assert!(
            failed.has(now, &a, Route::Bulk) && !failed.has(now, &a, Route::Rdma) && !failed.has(now, &b, Route::Bulk)
        );
        assert!(!failed.has(now, &a, Route::Shared), "it costs nothing to be tried");
        assert_eq!(failed.on(now, Route::Rdma).collect::<Vec<_>>(), [&b]);
        failed.forget(&a);
        assert!(!failed.has(now, &a, Route::Bulk) && failed.has(now, &b, Route::Rdma));
        assert!(!failed.has(now.plus(AGAIN), &b, Route::Rdma));
        failed.note(now.plus(AGAIN), a, Route::Bulk);
        assert_eq!(failed.0.len(), 1, "what is over is not remembered");
    }

    #[test]
    fn a_route_that_is_forbidden_is_none_to_fall_back_on() {
        for allowed in [Route::Link, Route::Bulk] {
            let known = Known { allowed, ..far() };
            assert_eq!(best(known), (allowed, "PCM_COPIES says so"));
        }
    }
}
