//! What was measured of the links between the nodes of a view, and what that makes of the numbers of `agents.toml`. A
//! measurement says how long a link may be at most, and how long it is at least when the part of the daemons is taken
//! off. Two links that meet in a node bound the third. Within its bounds the number of the file stays. Values only.

use pcm_proto::ids::NodeName;
use pcm_proto::link::LinkMeasured;
use std::collections::BTreeMap;

/// What a link costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkCost {
    /// Microseconds for a message.
    pub message_us: f64,
    /// Microseconds for each byte.
    pub byte_us: f64,
}

impl LinkCost {
    /// What so many messages and bytes cost, in milliseconds.
    pub fn of_traffic_ms(self, messages: f64, bytes: f64) -> f64 {
        (messages * self.message_us + bytes * self.byte_us) / 1e3
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    message_us: Option<f64>,
    byte_us: Option<f64>,
}

/// Links that were measured, by indices of the view's nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Links {
    /// Of each node those to a few others: policies look at links more often than at anything else.
    of: Vec<Vec<(usize, Measured)>>,
    /// Of each node that to the leader's node, which all nodes of the job measure.
    to_leader: Vec<Measured>,
    leader: Option<usize>,
}

const NOTHING: Measured = Measured {
    message_us: None,
    byte_us: None,
};

impl Links {
    /// What nodes told of the links from them; `nodes` are those of the view in order.
    pub fn of<'a>(
        nodes: &[&NodeName],
        leader: &NodeName,
        told: impl Iterator<Item = (&'a NodeName, &'a [LinkMeasured])>,
    ) -> Self {
        let indices = nodes.iter().enumerate().map(|(index, name)| (*name, index));
        let indices: BTreeMap<&NodeName, usize> = indices.collect();
        let mut links = Self {
            of: vec![Vec::new(); nodes.len()],
            to_leader: vec![NOTHING; nodes.len()],
            leader: indices.get(leader).copied(),
        };
        for (from, link) in told.flat_map(|(from, links)| links.iter().map(move |link| (from, link))) {
            if let (Some(from), Some(to)) = (indices.get(from), indices.get(&link.node)) {
                links.note(*from, *to, link);
            }
        }
        links
    }

    fn note(&mut self, from: usize, to: usize, link: &LinkMeasured) {
        let sane = |value: &f64| value.is_finite() && *value > 0.0;
        let measured = Measured {
            message_us: link.latency_us.filter(sane),
            byte_us: link.megabytes_per_s.filter(sane).map(f64::recip),
        };
        for (one, other) in [(from, to), (to, from)] {
            if self.leader == Some(other) {
                self.to_leader[one].join(measured);
            } else if let Some((_, known)) = self.of[one].iter_mut().find(|(known, _)| *known == other) {
                known.join(measured);
            } else {
                self.of[one].push((other, measured));
            }
        }
    }

    fn leaders_link(&self, node: usize) -> Measured {
        self.to_leader.get(node).copied().unwrap_or(NOTHING)
    }

    fn measured(&self, a: usize, b: usize) -> Measured {
        if self.leader == Some(b) {
            return self.leaders_link(a);
        }
        if self.leader == Some(a) {
            return self.leaders_link(b);
        }
        let known = self.of.get(a).and_then(|of| of.iter().find(|(other, _)| *other == b));
        known.map_or(NOTHING, |(_, measured)| *measured)
    }

    /// What a link costs that is taken to cost `assumed` where nothing says otherwise; `daemons` is the most that
    /// daemons add.
    pub fn cost(&self, a: usize, b: usize, assumed: LinkCost, daemons: LinkCost) -> LinkCost {
        let (direct, one, other) = (self.measured(a, b), self.leaders_link(a), self.leaders_link(b));
        let held = |assumed, daemons, of: fn(Measured) -> Option<f64>| {
            let bounds = |measured| Some(Bounds::of(of(measured)?, daemons));
            let found = bounds(direct).or_else(|| Some(bounds(one)?.and(bounds(other)?)));
            found.map_or(assumed, |bounds: Bounds| bounds.hold(assumed))
        };
        LinkCost {
            message_us: held(assumed.message_us, daemons.message_us, |link| link.message_us),
            byte_us: held(assumed.byte_us, daemons.byte_us, |link| link.byte_us),
        }
    }

    /// Whether the time of a message between two nodes was measured there.
    pub fn is_measured(&self, a: usize, b: usize) -> bool {
        self.measured(a, b).message_us.is_some()
    }
}

impl Measured {
    /// A link is as long one way as the other: what disturbed one of its ends does not count.
    fn join(&mut self, other: Self) {
        let least = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).min_by(f64::total_cmp);
        self.message_us = least(self.message_us, other.message_us);
        self.byte_us = least(self.byte_us, other.byte_us);
    }
}

/// Between which values a cost lies.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    least: f64,
    most: f64,
}

impl Bounds {
    fn of(measured: f64, daemons: f64) -> Self {
        Self {
            least: (measured - daemons).max(0.0),
            most: measured,
        }
    }

    /// The third side of a triangle.
    fn and(self, other: Self) -> Self {
        Self {
            least: (self.least - other.most).max(other.least - self.most).max(0.0),
            most: self.most + other.most,
        }
    }

    fn hold(self, assumed: f64) -> f64 {
        assumed.max(self.least).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: LinkCost = LinkCost {
        message_us: 50.0,
        byte_us: 0.001,
    };

    const DAEMONS: LinkCost = LinkCost {
        message_us: 300.0,
        byte_us: 0.004,
    };

    fn name(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    /// Links of node `a`, which leads, to `b`, `c` …
    fn star(latencies: &[f64], megabytes_per_s: Option<f64>) -> Links {
        let names: Vec<NodeName> = ["a", "b", "c", "d"].map(name).to_vec();
        let link = |(latency, node): (&f64, &NodeName)| LinkMeasured {
            node: node.clone(),
            latency_us: Some(*latency),
            megabytes_per_s,
        };
        let links: Vec<LinkMeasured> = latencies.iter().zip(&names[1..]).map(link).collect();
        let nodes: Vec<&NodeName> = names.iter().collect();
        Links::of(&nodes, &names[0], [(&names[0], links.as_slice())].into_iter())
    }

    fn message_us(links: &Links, a: usize, b: usize, assumed: f64) -> f64 {
        let assumed = LinkCost {
            message_us: assumed,
            ..SITE
        };
        links.cost(a, b, assumed, DAEMONS).message_us
    }

    #[test]
    fn what_the_daemons_may_have_added_contradicts_nothing() {
        let links = star(&[280.0], None);
        assert_eq!(message_us(&links, 0, 1, 50.0), 50.0);
        assert_eq!(message_us(&links, 1, 0, 50.0), 50.0);
        assert_eq!(links.cost(0, 1, SITE, DAEMONS).byte_us, SITE.byte_us);
    }

    #[test]
    fn a_link_is_neither_longer_than_was_measured_nor_much_shorter() {
        let links = star(&[280.0, 9000.0], None);
        assert_eq!(message_us(&links, 0, 1, 10_000.0), 280.0);
        assert_eq!(message_us(&links, 0, 2, 50.0), 8700.0);
    }

    #[test]
    fn two_links_bound_the_third() {
        let links = star(&[100.0, 9000.0, 9100.0], None);
        assert_eq!(message_us(&links, 1, 2, 50.0), 8600.0, "one is near and one is far");
        assert_eq!(message_us(&links, 2, 3, 50.0), 50.0, "both are far, maybe at one place");
        assert_eq!(message_us(&links, 2, 3, 50_000.0), 18_100.0);
    }

    #[test]
    fn a_link_that_was_measured_itself_needs_no_others() {
        let mut links = star(&[9000.0, 9000.0], None);
        let far = LinkMeasured {
            node: name("c"),
            latency_us: Some(18_000.0),
            megabytes_per_s: None,
        };
        links.note(1, 2, &far);
        assert_eq!(message_us(&links, 1, 2, 50.0), 17_700.0);
        links.note(
            2,
            1,
            &LinkMeasured {
                latency_us: Some(500.0),
                ..far
            },
        );
        assert_eq!(message_us(&links, 2, 1, 50.0), 200.0, "one end was disturbed");
    }

    #[test]
    fn a_slow_copy_says_that_the_link_is_slow_and_a_fast_one_how_slow_it_is_at_most() {
        let rate = |links: &Links, assumed: f64| {
            let assumed = LinkCost {
                byte_us: 1.0 / assumed,
                ..SITE
            };
            1.0 / links.cost(0, 1, assumed, DAEMONS).byte_us
        };
        let (slow, fast) = (star(&[100.0], Some(20.0)), star(&[100.0], Some(400.0)));
        assert!((rate(&slow, 1000.0) - 21.74).abs() < 0.01);
        assert!((rate(&fast, 1000.0) - 1000.0).abs() < 1e-9);
        assert!((rate(&fast, 20.0) - 400.0).abs() < 1e-9);
    }

    #[test]
    fn nonsense_and_nodes_that_are_not_there_are_not_taken() {
        let links = star(&[f64::NAN, -1.0], Some(0.0));
        assert_eq!(links.cost(0, 1, SITE, DAEMONS), SITE);
        let (a, elsewhere) = (name("a"), name("elsewhere"));
        let link = LinkMeasured {
            node: elsewhere.clone(),
            latency_us: Some(9000.0),
            megabytes_per_s: None,
        };
        let links = Links::of(&[&a], &elsewhere, [(&a, [link].as_slice())].into_iter());
        assert_eq!(links.cost(0, 0, SITE, DAEMONS), SITE);
        assert_eq!(links.cost(0, 7, SITE, DAEMONS), SITE, "a node that is only imagined");
    }
}
