//! Which node holds copies for which: as far away as there is one.

use crate::checkpoint::CopyTo;
use pcm_proto::ids::NodeName;
use pcm_proto::peer::NodeReport;

/// What names the partner of a node.
#[derive(Debug)]
pub(in crate::node) struct Partners {
    /// Nodes that may hold copies, in order, each with its site and host.
    nodes: Vec<(NodeName, String, u64)>,
    /// Whether others may come: not all that there are have been heard of.
    may_grow: bool,
}

impl Partners {
    pub(in crate::node) fn among(reports: impl Iterator<Item = NodeReport>, may_grow: bool) -> Self {
        let mut nodes: Vec<_> = reports.map(|report| (report.node, report.site, report.host)).collect();
        nodes.sort();
        Self { nodes, may_grow }
    }

    /// Where copies of what a node has go.
    pub(in crate::node) fn copy_to(&self, node: &NodeName) -> CopyTo {
        match self.of(node) {
            Some(partner) => CopyTo::Node(partner),
            None if self.may_grow => CopyTo::NodeToCome,
            None => CopyTo::Nowhere,
        }
    }

    /// The next node after this one: of another site if there is one, else of another host, else any other.
    fn of(&self, node: &NodeName) -> Option<NodeName> {
        self.ring(node).into_iter().next()
    }

    /// All others, those of other sites first, then those of other hosts.
    pub(in crate::node) fn ring(&self, node: &NodeName) -> Vec<NodeName> {
        let own = self.nodes.iter().position(|(name, ..)| name == node);
        let (site, host) = own.map_or(("", 0), |own| (self.nodes[own].1.as_str(), self.nodes[own].2));
        let after = own.map_or(0, |own| own + 1);
        let others = self.nodes[after..].iter().chain(&self.nodes[..after]);
        let mut others: Vec<_> = others.filter(|(name, ..)| name != node).collect();
        others.sort_by_key(|(_, other, number)| (other == site, *number == host));
        others.into_iter().map(|(name, ..)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partners(nodes: &[(&str, &str, u64)]) -> Partners {
        let node = |(name, site, host): &(&str, &str, u64)| (NodeName::new(*name).unwrap(), (*site).to_owned(), *host);
        Partners {
            nodes: nodes.iter().map(node).collect(),
            may_grow: false,
        }
    }

    fn of(partners: &Partners, node: &str) -> Option<String> {
        let partner = partners.of(&NodeName::new(node).unwrap());
        partner.map(|node| node.as_str().to_owned())
    }

    #[test]
    fn a_partner_is_as_far_away_as_there_is_one() {
        let sites = partners(&[("a", "x", 1), ("b", "x", 2), ("c", "y", 3)]);
        assert_eq!(of(&sites, "a").as_deref(), Some("c"));
        assert_eq!(of(&sites, "c").as_deref(), Some("a"));
        let hosts = partners(&[("a", "", 1), ("b", "", 1), ("c", "", 2)]);
        assert_eq!(of(&hosts, "a").as_deref(), Some("c"));
        let alike = partners(&[("a", "", 1), ("b", "", 1), ("c", "", 1)]);
        assert_eq!(of(&alike, "a").as_deref(), Some("b"));
        assert_eq!(of(&alike, "c").as_deref(), Some("a"));
        assert_eq!(of(&partners(&[("a", "", 1)]), "a"), None);
        assert_eq!(of(&alike, "unknown").as_deref(), Some("a"));
    }
}
