//! Who watches whom: every node stands in several rings, each ordered by another hash of the names, and watches its
//! successor in each. All nodes compute the same rings from the same names, every node is watched by as many as it
//! watches, a change of membership moves few edges, and news crosses the resulting graph in a logarithm of its size.

use super::timing::SUBJECTS;
use pcm_proto::{fnv, ids::NodeName};
use std::collections::BTreeSet;

/// FNV-1a with a final mix; spreads names, resists nobody (all members are trusted with the key).
pub(super) fn hash(seed: u64, name: &str) -> u64 {
    let begin = fnv::BASIS ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut state = name.bytes().fold(begin, |state, byte| fnv::step(state, byte.into()));
    state ^= state >> 33;
    state = state.wrapping_mul(0xff51_afd7_ed55_8ccd);
    state ^ (state >> 33)
}

/// The nodes that `local` watches among `others`: all of them in a small cluster, else one from each ring.
pub(super) fn subjects(local: &NodeName, others: &[&NodeName]) -> BTreeSet<NodeName> {
    let mut chosen = BTreeSet::new();
    for seed in (0..).take(SUBJECTS) {
        let here = hash(seed, local.as_str());
        let distance = |node: &NodeName| hash(seed, node.as_str()).wrapping_sub(here);
        let not_chosen = others.iter().filter(|node| !chosen.contains(**node));
        match not_chosen.min_by_key(|node| (distance(node), **node)) {
            Some(node) => chosen.insert((*node).clone()),
            None => break,
        };
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, VecDeque};

    fn names(count: usize) -> Vec<NodeName> {
        (0..count)
            .map(|index| NodeName::new(format!("n{index}")).unwrap())
            .collect()
    }

    fn graph(names: &[NodeName]) -> BTreeMap<NodeName, BTreeSet<NodeName>> {
        names
            .iter()
            .map(|local| {
                let others: Vec<&NodeName> = names.iter().filter(|other| *other != local).collect();
                (local.clone(), subjects(local, &others))
            })
            .collect()
    }

    #[test]
    fn every_node_is_watched_and_watches_the_same_number_whatever_the_size() {
        for count in [2, 3, 5, 6, 17, 64, 300] {
            let names = names(count);
            let graph = graph(&names);
            for name in &names {
                assert_eq!(graph[name].len(), SUBJECTS.min(count - 1));
                assert!(!graph[name].contains(name));
                assert!(
                    graph.values().any(|subjects| subjects.contains(name)),
                    "{name} of {count} is not watched"
                );
            }
        }
    }

    #[test]
    fn news_reaches_three_hundred_nodes_in_few_hops() {
        let names = names(300);
        let graph = graph(&names);
        let mut hops = BTreeMap::from([(&names[0], 0)]);
        let mut queue = VecDeque::from([&names[0]]);
        while let Some(node) = queue.pop_front() {
            let hop = hops[node] + 1;
            let watchers = graph
                .iter()
                .filter(|(_, subjects)| subjects.contains(node))
                .map(|(name, _)| name);
            for next in graph[node].iter().chain(watchers) {
                if !hops.contains_key(next) {
                    hops.insert(next, hop);
                    queue.push_back(next);
                }
            }
        }
        assert_eq!(hops.len(), 300);
        assert!(*hops.values().max().unwrap() <= 5);
    }

    #[test]
    fn a_newcomer_changes_few_edges() {
        let before = graph(&names(100));
        let after = graph(&names(101));
        let moved = before
            .iter()
            .filter(|(name, subjects)| after[*name] != **subjects)
            .count();
        assert!(moved <= 3 * SUBJECTS, "{moved} nodes watch others than before");
    }
}
