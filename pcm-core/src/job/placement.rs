//! Where new ranks go: to the nodes that are fastest for one more rank. Decides on numbers it is given and knows
//! nothing of how they were measured.

use pcm_proto::ids::NodeName;
use pcm_proto::job::JobSpec;
use pcm_proto::node_end::NodeEnd;
use pcm_proto::refusal;

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

/// Ranks that want places.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub count: u32,
    /// Where they may go; empty: to all nodes.
    pub allowed: &'a [NodeName],
    pub ending: Ending,
    /// Nodes get as many ranks each, one after the other.
    pub per_node: Option<PerNode<'a>>,
}

/// How many ranks of its job a node takes.
#[derive(Clone, Copy, Debug)]
pub struct PerNode<'a> {
    pub most: u32,
    /// The nodes of the ranks that the job has.
    pub taken: &'a [NodeName],
}

impl<'a> PerNode<'a> {
    /// What a job asked for whose ranks are on these nodes.
    #[must_use]
    pub fn of(spec: &JobSpec, taken: &'a [NodeName]) -> Option<Self> {
        spec.per_node.map(|most| Self { most, taken })
    }

    fn room(&self, node: &NodeName) -> u32 {
        let taken = self.taken.iter().filter(|taken| *taken == node).count();
        self.most.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX))
    }
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
    /// They take fewer ranks than are wanted.
    #[error(
        "with {most} ranks on a node the {open} nodes that may be used and are up take {room} more, and {count} are \
         wanted: ask for fewer, for more on a node (`run --ppn`), or bring nodes with `pcmctl grow`"
    )]
    NoRoom {
        /// Ranks of the job on a node.
        most: u32,
        /// Nodes that are up.
        open: usize,
        /// Ranks that they take.
        room: u32,
        count: u32,
    },
}

impl PlacementError {
    /// The code of the refusal.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoRoom { .. } => refusal::BAD_SIZE,
            _ => refusal::NO_NODES,
        }
    }
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

/// Distributes ranks over open nodes. Shares come in the order of the nodes that are allowed, or of `views`; ranks of
/// one node are neighbours.
///
/// Each rank goes where it finds the most speed; among equals to the node with the fewest ranks, then to the first.
/// With a number for each node a node is filled before the next one is chosen, first those with ranks of the job.
pub fn place(views: &[NodeView], wanted: &Wanted<'_>) -> Result<Vec<Share>, PlacementError> {
    let candidates = candidates(views, wanted.allowed, wanted.ending)?;
    let mut given = vec![0; candidates.len()];
    match wanted.per_node {
        None => {
            for _ in 0..wanted.count {
                if let Some(best) = best_of(&candidates, &given, |_| true) {
                    given[best] += 1;
                }
            }
        }
        Some(per_node) => fill(&candidates, wanted.count, per_node, &mut given)?,
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

/// The node where one more rank finds the most speed.
fn best_of(candidates: &[&NodeView], given: &[u32], may: impl Fn(usize) -> bool) -> Option<usize> {
    (0..candidates.len()).filter(|index| may(*index)).reduce(|best, index| {
        let (challenger, holder) = (candidates[index], candidates[best]);
        let gain = speed_for_next(challenger, given[index]) - speed_for_next(holder, given[best]);
        let is_emptier = challenger.ranks + given[index] < holder.ranks + given[best];
        // Measured speeds of equal nodes differ by a few per cent; that much must not pile ranks up.
        let margin = 0.1 * speed_for_next(holder, given[best]);
        if gain > margin || (gain >= -margin && is_emptier) {
            index
        } else {
            best
        }
    })
}

/// Gives ranks to one node after the other.
fn fill(candidates: &[&NodeView], count: u32, per_node: PerNode<'_>, given: &mut [u32]) -> Result<(), PlacementError> {
    let rooms: Vec<u32> = candidates.iter().map(|view| per_node.room(&view.name)).collect();
    let room = rooms.iter().fold(0, |sum: u32, room| sum.saturating_add(*room));
    if room < count {
        return Err(PlacementError::NoRoom {
            most: per_node.most,
            open: candidates.len(),
            room,
            count,
        });
    }
    let mut left = count;
    while left > 0 {
        let is_free = |index: usize| given[index] == 0 && rooms[index] > 0;
        let is_begun = |index: usize| is_free(index) && rooms[index] < per_node.most;
        let next = best_of(candidates, given, is_begun).or_else(|| best_of(candidates, given, is_free));
        let Some(next) = next else { break };
        given[next] = rooms[next].min(left);
        left -= given[next];
    }
    Ok(())
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

    fn placed(
        views: &[NodeView],
        allowed: &[NodeName],
        count: u32,
        ending: Ending,
    ) -> Result<Vec<Share>, PlacementError> {
        let wanted = Wanted {
            count,
            allowed,
            ending,
            per_node: None,
        };
        place(views, &wanted)
    }

    fn counts(shares: &[Share]) -> Vec<(&str, u32)> {
        shares.iter().map(|share| (share.node.as_str(), share.count)).collect()
    }

    #[test]
    fn equal_nodes_get_equal_shares_in_their_order() {
        let views = [view("a", 2), view("b", 2), view("c", 2), view("d", 2)];
        assert_eq!(
            counts(&placed(&views, &[], 4, Ending::Shunned).unwrap()),
            [("a", 1), ("b", 1), ("c", 1), ("d", 1)]
        );
        assert_eq!(
            counts(&placed(&views, &[], 7, Ending::Shunned).unwrap()),
            [("a", 2), ("b", 2), ("c", 2), ("d", 1)]
        );
    }

    #[test]
    fn a_loaded_or_slow_node_is_filled_last() {
        let mut views = [view("a", 2), view("b", 2)];
        views[0].load_by_others = 2.0;
        assert_eq!(counts(&placed(&views, &[], 4, Ending::Shunned).unwrap()), [("b", 4)]);
        views[0].load_by_others = 0.0;
        views[0].speed = 0.25;
        assert_eq!(counts(&placed(&views, &[], 2, Ending::Shunned).unwrap()), [("b", 2)]);
    }

    #[test]
    fn nodes_are_filled_one_after_the_other_where_each_is_to_have_so_many() {
        let mut views = [view("a", 8), view("b", 8), view("c", 8), view("d", 8)];
        views[1].load_by_others = 7.5;
        let of_job = |count, most, taken: &[NodeName]| {
            let wanted = Wanted {
                count,
                allowed: &[],
                ending: Ending::Shunned,
                per_node: Some(PerNode { most, taken }),
            };
            place(&views, &wanted)
        };
        let placed = |count, most, taken: &[NodeName]| of_job(count, most, taken).unwrap();
        assert_eq!(
            counts(&placed(4, 2, &[])),
            [("a", 2), ("c", 2)],
            "the slow one is left out"
        );
        assert_eq!(counts(&placed(7, 2, &[])), [("a", 2), ("b", 1), ("c", 2), ("d", 2)]);
        let taken = [&views[0].name, &views[0].name, &views[1].name].map(Clone::clone);
        assert_eq!(
            counts(&placed(2, 2, &taken)),
            [("b", 1), ("c", 1)],
            "a begun node is filled first"
        );
        let refused = of_job(6, 2, &taken).unwrap_err();
        assert_eq!(refused.code(), refusal::BAD_SIZE);
        assert!(
            refused.to_string().contains("take 5 more, and 6 are wanted"),
            "{refused}"
        );
    }

    #[test]
    fn only_open_nodes_that_were_asked_for_are_used() {
        let mut views = [view("a", 1), view("b", 1), view("c", 1)];
        views[1].is_open = false;
        let allowed = [views[2].name.clone(), views[1].name.clone()];
        assert_eq!(
            counts(&placed(&views, &allowed, 3, Ending::Shunned).unwrap()),
            [("c", 3)]
        );
        assert_eq!(
            placed(&views, &allowed[1..], 1, Ending::Shunned),
            Err(PlacementError::NoOpenNode { known: 1 })
        );
        let strange = [NodeName::new("z").unwrap()];
        assert_eq!(
            placed(&views, &strange, 1, Ending::Shunned),
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
            assert_eq!(counts(&placed(&views, &[], 4, ending).unwrap()), [("b", 2), ("c", 2)]);
        }
        views[1].near_end = Some(ends_in(70_000));
        views[2].is_open = false;
        let refused = placed(&views, &[], 4, Ending::Shunned).unwrap_err();
        assert_eq!(refused, PlacementError::AllEndSoon { open: 2, left_s: 70 });
        assert_eq!(
            counts(&placed(&views, &[], 2, Ending::LastResort).unwrap()),
            [("a", 1), ("b", 1)]
        );
        let named = [views[0].name.clone(), views[2].name.clone()];
        assert!(placed(&views, &named, 1, Ending::Shunned).is_err());
        views[0].near_end = Some(ends_in(29_000));
        assert!(placed(&views, &named, 1, Ending::LastResort).is_err());
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
            let placed: u32 = placed(&views, &[], count, Ending::Shunned)
                .unwrap()
                .iter()
                .map(|share| share.count)
                .sum();
            assert_eq!(placed, count);
        }
    }
}
