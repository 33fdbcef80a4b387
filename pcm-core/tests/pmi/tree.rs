//! One world over a tree of nodes, with messages that come late, twice and in any order.

use crate::world::{get, process, put, world};
use pcm_core::pmi::gather::{Gather, GatherEffect, Puts};
use pcm_core::pmi::wire::Request;
use pcm_core::pmi::world::{Effect, World};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Message {
    Up { from: usize, generation: u64, puts: Puts },
    Release { generation: u64, puts: Puts },
}

struct Node {
    world: World,
    gather: Gather<usize>,
    ranks: Vec<u32>,
    out: BTreeMap<u32, u64>,
}

/// Nodes 0…n-1, the parent of `i` is `(i - 1) / 2`; node `i` has the ranks `2i` and `2i + 1`.
struct Tree {
    nodes: Vec<Node>,
    on_the_way: Vec<(usize, Message)>,
}

impl Tree {
    fn new(count: usize) -> Self {
        let size = u32::try_from(2 * count).unwrap();
        let node = |index: usize| {
            let first = u32::try_from(2 * index).unwrap();
            Node {
                world: world(size, first..first + 2),
                gather: Gather::new(
                    index == 0,
                    [2 * index + 1, 2 * index + 2].into_iter().filter(|i| *i < count),
                ),
                ranks: vec![first, first + 1],
                out: BTreeMap::new(),
            }
        };
        Self {
            nodes: (0..count).map(node).collect(),
            on_the_way: vec![],
        }
    }

    fn request(&mut self, node: usize, rank: u32, request: Request) {
        let effects = self.nodes[node].world.on_request(process(rank), request);
        self.world_effects(node, effects);
    }

    fn world_effects(&mut self, node: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Answer { process: to, line } => {
                    if line.starts_with("cmd=barrier_out") {
                        *self.nodes[node].out.entry(to.0 - 100).or_default() += 1;
                    }
                    self.nodes[node].world.on_answered(to);
                }
                Effect::BarrierUp { generation, puts } => {
                    let effect = self.nodes[node].gather.on_own(generation, puts);
                    self.gather_effect(node, effect);
                }
                Effect::AllFinalized => {
                    let effect = self.nodes[node].gather.on_own_gone();
                    self.gather_effect(node, effect);
                }
                _ => {}
            }
        }
    }

    fn gather_effect(&mut self, node: usize, effect: Option<GatherEffect>) {
        match effect {
            Some(GatherEffect::TellParent { generation, puts }) => {
                self.on_the_way.push((
                    (node - 1) / 2,
                    Message::Up {
                        from: node,
                        generation,
                        puts,
                    },
                ));
            }
            Some(GatherEffect::Release { generation, puts }) => self.release(node, generation, puts),
            Some(GatherEffect::TooLarge { bytes }) => panic!("{bytes} bytes of values"),
            None => {}
        }
    }

    fn release(&mut self, node: usize, generation: u64, puts: Puts) {
        if !self.nodes[node].gather.on_release(generation) {
            return;
        }
        let children: Vec<usize> = self.nodes[node].gather.children().copied().collect();
        for child in children {
            self.on_the_way.push((
                child,
                Message::Release {
                    generation,
                    puts: puts.clone(),
                },
            ));
        }
        let effects = self.nodes[node].world.on_release(generation, puts);
        self.world_effects(node, effects);
    }

    /// Delivers a message chosen by `choice`; sometimes it stays on the way, to come again.
    fn deliver(&mut self, choice: usize, is_twice: bool) {
        let at = choice % self.on_the_way.len();
        let (node, message) = if is_twice {
            self.on_the_way[at].clone()
        } else {
            self.on_the_way.swap_remove(at)
        };
        match message {
            Message::Up { from, generation, puts } => {
                let effect = self.nodes[node].gather.on_child(&from, generation, puts);
                self.gather_effect(node, effect);
            }
            Message::Release { generation, puts } => self.release(node, generation, puts),
        }
    }

    fn barriers_passed(&self) -> Vec<u64> {
        let each = |node: &Node| {
            node.ranks
                .iter()
                .map(|rank| node.out.get(rank).copied().unwrap_or(0))
                .collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(each).collect()
    }
}

proptest! {
    #[test]
    fn every_rank_passes_each_barrier_once_and_sees_all_values_after_it(
        count in 1_usize..8,
        choices in prop::collection::vec((any::<usize>(), prop::bool::weighted(0.3)), 400),
    ) {
        let mut tree = Tree::new(count);
        let mut choices = choices.into_iter();
        for generation in 1..=3_u64 {
            for node in 0..count {
                for rank in tree.nodes[node].ranks.clone() {
                    prop_assert!(tree.barriers_passed().iter().all(|passed| *passed == generation - 1), "nobody early");
                    tree.request(node, rank, put(&format!("k{rank}-{generation}"), "v"));
                    tree.request(node, rank, Request::BarrierIn);
                }
            }
            while let Some((choice, is_twice)) = choices.next().filter(|_| !tree.on_the_way.is_empty()) {
                tree.deliver(choice, is_twice);
            }
            while !tree.on_the_way.is_empty() {
                tree.deliver(0, false);
            }
            prop_assert!(tree.barriers_passed().iter().all(|passed| *passed == generation));
            for node in 0..count {
                for rank in 0..2 * u32::try_from(count).unwrap() {
                    let asker = process(tree.nodes[node].ranks[0]);
                    let effects = tree.nodes[node].world.on_request(asker, get(&format!("k{rank}-{generation}")));
                    let found = matches!(&effects[..], [Effect::Answer { line, .. }] if line.contains("rc=0"));
                    prop_assert!(found, "rank {rank} on node {node}");
                }
            }
        }
    }
}

#[test]
fn a_node_whose_ranks_all_finalized_is_not_waited_for() {
    let mut tree = Tree::new(3);
    for rank in tree.nodes[1].ranks.clone() {
        tree.request(1, rank, Request::Finalize);
    }
    let effect = tree.nodes[0].gather.on_child_gone(&1);
    tree.gather_effect(0, effect);
    for node in [0, 2] {
        for rank in tree.nodes[node].ranks.clone() {
            tree.request(node, rank, Request::BarrierIn);
        }
    }
    while !tree.on_the_way.is_empty() {
        tree.deliver(0, false);
    }
    assert_eq!(tree.barriers_passed(), [1, 1, 0, 0, 1, 1]);
}
