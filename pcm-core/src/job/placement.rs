//! Where new ranks go: to the nodes that are fastest for one more rank. Decides on numbers it is given and knows
//! nothing of how they were measured.

use pcm_proto::ids::NodeName;
use pcm_proto::node_end::NodeEnd;

/// What placement knows of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    pub name: NodeName,
    /// Whether it takes new ranks.
    pub is_open: bool,
    /// How many CPUs it has.
    pub cpus: u32,
    /// Speed of one CPU; 0 when not known, which counts as 1.
    pub speed: f64,
    /// CPU time others take there, in CPUs.
    pub load_by_others: f64,
    /// Ranks it has already.
    pub ranks: u32,
    /// Nodes with the same number share memory.
    pub host: u64,
    /// When it ends, where that is too soon for new ranks.
    pub near_end: Option<NodeEnd>,
}

/// What becomes of nodes that end too soon for new ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// No rank goes there.
    Shunned,
    /// Ranks go there where no other node is open, for as long as half the time is left in which the node is left: for
    /// those that have no choice but not to run.
    LastResort,
}

/// Ranks on one node.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Share {
    pub node: NodeName,
    /// The host it stands on.
    pub host: u64,
    /// How many ranks; never 0.
    pub count: u32,
}

/// Where ranks begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Placed {
    pub shares: Vec<Share>,
    /// Whether they outnumber the CPUs of a host, or are going to.
    pub is_crowded: bool,
    /// What each node had when they were placed.
    pub why: String,
}

impl Placed {
    /// On these nodes, which have room for them; nothing is said of what else was looked at.
    #[must_use]
    pub fn on(shares: Vec<Share>) -> Self {
        Self {
            shares,
            ..Self::default()
        }
    }
}

/// Why ranks could not be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// A node that was asked for does not exist.
    #[error("node {name} is not part of the cluster: `pcmctl nodes` lists those that are")]
    UnknownNode { name: String },
    /// No node that may be used is open.
    #[error("none of the {known} nodes that may be used is up and takes ranks: see `pcmctl nodes`")]
    NoOpenNode {
        /// Nodes there are.
        known: usize,
    },
    /// The open ones among them end too soon.
    #[error(
        "the {open} nodes that may be used and are up end too soon for new ranks, the last in {left_s} s: see LEFT in \
         `pcmctl nodes`, or bring a node that lasts longer with `pcmctl grow`"
    )]
    AllEndSoon {
        /// Nodes that are up.
        open: usize,
        /// Time that the one with most has left.
        left_s: u64,
    },
}

/// Most nodes that a placement is explained for.
const NODES_TOLD_MAX: usize = 8;

/// A node counts with at least this share of a CPU, so that a fully loaded node is slow and not infinitely slow.
const FREE_CPUS_MIN: f64 = 0.05;

/// The speed one more rank would find on a node that was given `given` ranks in this placement.
fn speed_for_next(view: &NodeView, given: u32) -> f64 {
    let speed = if view.speed > 0.0 { view.speed } else { 1.0 };
    let free = (f64::from(view.cpus) - view.load_by_others).max(FREE_CPUS_MIN);
    speed * (free / f64::from(view.ranks + given + 1)).min(1.0)
}

/// The speed one more rank would find on a node.
pub fn speed_for_one_more(view: &NodeView) -> f64 {
    speed_for_next(view, 0)
}

/// Distributes `count` ranks over the open ones among `allowed` (all nodes when empty). Shares come in the order of
/// `allowed`, or of `views`; ranks of one node are neighbours.
///
/// Each rank goes where it finds the most speed; among equals to the node with the fewest ranks, then to the first.
pub fn place(
    views: &[NodeView],
    allowed: &[NodeName],
    count: u32,
    ending: Ending,
) -> Result<Vec<Share>, PlacementError> {
    let candidates = candidates(views, allowed, ending)?;
    let mut given = vec![0; candidates.len()];
    for _ in 0..count {
        let mut best = 0;
        for index in 1..candidates.len() {
            let (challenger, holder) = (candidates[index], candidates[best]);
            let gain = speed_for_next(challenger, given[index]) - speed_for_next(holder, given[best]);
            let is_emptier = challenger.ranks + given[index] < holder.ranks + given[best];
            // Measured speeds of equal nodes differ by a few per cent; that much must not pile ranks up.
            let margin = 0.1 * speed_for_next(holder, given[best]);
            if gain > margin || (gain >= -margin && is_emptier) {
                best = index;
            }
        }
        given[best] += 1;
    }
    let shares = candidates.iter().zip(given).filter(|(_, count)| *count > 0);
    Ok(shares
        .map(|(view, count)| Share {
            node: view.name.clone(),
            host: view.host,
            count,
        })
        .collect())
}

/// Why ranks are where they are: how many each node has of them, and what else is there. Nodes with ranks come first.
pub fn why(mut placed: Vec<(&NodeView, usize)>) -> String {
    placed.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let ranks = |count: usize, none: &str| match count {
        0 => none.to_owned(),
        1 => "1 rank".to_owned(),
        count => format!("{count} ranks"),
    };
    let told = placed.iter().take(NODES_TOLD_MAX).map(|(view, count)| {
        let free = (f64::from(view.cpus) - view.load_by_others).max(0.0);
        let there = ranks(view.ranks as usize, "0 ranks");
        let end = if view.near_end.is_some() { ", ends soon" } else { "" };
        format!(
            "{} on {} ({free:.1} of {} CPUs free, {there} there{end})",
            ranks(*count, "none"),
            view.name,
            view.cpus
        )
    });
    let mut words: Vec<String> = told.collect();
    if placed.len() > NODES_TOLD_MAX {
        words.push(format!("and {} more nodes", placed.len() - NODES_TOLD_MAX));
    }
    words.join(", ")
}

/// The nodes that ranks may go to.
fn candidates<'a>(
    views: &'a [NodeView],
    allowed: &[NodeName],
    ending: Ending,
) -> Result<Vec<&'a NodeView>, PlacementError> {
    let mut candidates = Vec::new();
    if allowed.is_empty() {
        candidates.extend(views.iter().filter(|view| view.is_open));
    }
    for name in allowed {
        let view = views.iter().find(|view| view.name == *name);
        let view = view.ok_or_else(|| PlacementError::UnknownNode { name: name.to_string() })?;
        if view.is_open && !candidates.iter().any(|other: &&NodeView| other.name == *name) {
            candidates.push(view);
        }
    }
    if candidates.is_empty() {
        return Err(PlacementError::NoOpenNode {
            known: if allowed.is_empty() { views.len() } else { allowed.len() },
        });
    }
    let lasts = |view: &&NodeView| view.near_end.is_none();
    if candidates.iter().any(lasts) {
        candidates.retain(lasts);
        return Ok(candidates);
    }
    let open = candidates.clone();
    candidates
        .retain(|view| ending == Ending::LastResort && view.near_end.is_some_and(|end| end.left() > end.leaves() / 2));
    if candidates.is_empty() {
        let left = open.iter().filter_map(|view| view.near_end).map(|end| end.left_ms);
        return Err(PlacementError::AllEndSoon {
            open: open.len(),
            left_s: left.max().unwrap_or(0) / 1000,
        });
    }
    Ok(candidates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(name: &str, cpus: u32) -> NodeView {
        NodeView {
            name: NodeName::new(name).unwrap(),
            is_open: true,
            cpus,
            speed: 1.0,
            load_by_others: 0.0,
            ranks: 0,
            host: 1,
            near_end: None,
        }
    }

    fn counts(shares: &[Share]) -> Vec<(&str, u32)> {
        shares.iter().map(|share| (share.node.as_str(), share.count)).collect()
    }

    #[test]
    fn equal_nodes_get_equal_shares_in_their_order() {
        let views = [view("a", 2), view("b", 2), view("c", 2), view("d", 2)];
        assert_eq!(
            counts(&place(&views, &[], 4, Ending::Shunned).unwrap()),
            [("a", 1), ("b", 1), ("c", 1), ("d", 1)]
        );
        assert_eq!(
            counts(&place(&views, &[], 7, Ending::Shunned).unwrap()),
            [("a", 2), ("b", 2), ("c", 2), ("d", 1)]
        );
    }

    #[test]
    fn a_loaded_or_slow_node_is_filled_last() {
        let mut views = [view("a", 2), view("b", 2)];
        views[0].load_by_others = 2.0;
        assert_eq!(counts(&place(&views, &[], 4, Ending::Shunned).unwrap()), [("b", 4)]);
        views[0].load_by_others = 0.0;
        views[0].speed = 0.25;
        assert_eq!(counts(&place(&views, &[], 2, Ending::Shunned).unwrap()), [("b", 2)]);
    }

    #[test]
    fn only_open_nodes_that_were_asked_for_are_used() {
        let mut views = [view("a", 1), view("b", 1), view("c", 1)];
        views[1].is_open = false;
        let allowed = [views[2].name.clone(), views[1].name.clone()];
        assert_eq!(
            counts(&place(&views, &allowed, 3, Ending::Shunned).unwrap()),
            [("c", 3)]
        );
        assert_eq!(
            place(&views, &allowed[1..], 1, Ending::Shunned),
            Err(PlacementError::NoOpenNode { known: 1 })
        );
        let strange = [NodeName::new("z").unwrap()];
        assert_eq!(
            place(&views, &strange, 1, Ending::Shunned),
            Err(PlacementError::UnknownNode { name: "z".into() })
        );
    }

    #[test]
    fn a_node_that_ends_soon_gets_no_rank_unless_there_is_no_other_and_no_choice() {
        let mut views = [view("a", 8), view("b", 1), view("c", 1)];
        let ends_in = |left_ms| NodeEnd {
            at_us: 0,
            left_ms,
            leaves_ms: 60_000,
        };
        views[0].near_end = Some(ends_in(50_000));
        for ending in [Ending::Shunned, Ending::LastResort] {
            assert_eq!(counts(&place(&views, &[], 4, ending).unwrap()), [("b", 2), ("c", 2)]);
        }
        views[1].near_end = Some(ends_in(70_000));
        views[2].is_open = false;
        let refused = place(&views, &[], 4, Ending::Shunned).unwrap_err();
        assert_eq!(refused, PlacementError::AllEndSoon { open: 2, left_s: 70 });
        assert_eq!(
            counts(&place(&views, &[], 2, Ending::LastResort).unwrap()),
            [("a", 1), ("b", 1)]
        );
        let named = [views[0].name.clone(), views[2].name.clone()];
        assert!(place(&views, &named, 1, Ending::Shunned).is_err());
        views[0].near_end = Some(ends_in(29_000));
        assert!(place(&views, &named, 1, Ending::LastResort).is_err());
    }

    #[test]
    fn a_placement_says_what_each_node_had() {
        let mut views = [view("a", 2), view("b", 4)];
        views[0].load_by_others = 3.0;
        views[0].ranks = 1;
        views[1].load_by_others = 0.24;
        let told = why(vec![(&views[0], 0), (&views[1], 2)]);
        assert_eq!(
            told,
            "2 ranks on b (3.8 of 4 CPUs free, 0 ranks there), none on a (0.0 of 2 CPUs free, 1 rank there)"
        );
        let many = why(vec![(&views[0], 1); 10]);
        assert!(many.ends_with("there), and 2 more nodes"), "{many}");
    }

    #[test]
    fn every_rank_is_placed_once() {
        let views = [view("a", 3), view("b", 1), view("c", 64)];
        for count in 1..200 {
            let placed: u32 = place(&views, &[], count, Ending::Shunned)
                .unwrap()
                .iter()
                .map(|share| share.count)
                .sum();
            assert_eq!(placed, count);
        }
    }
}
