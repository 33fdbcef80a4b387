//! What must hold for every operation, wherever the ranks are and in whatever order steps are taken.

use super::all::{Block, allgather, alltoall, equal};
use super::bcast::{barrier, bcast};
use super::gather::{counts, gather, scatter};
use super::link::{Link, Pieces, Way};
use super::machine::{Outcome, Rank, run};
use super::reduce::{allreduce, reduce, reduce_scatter};
use super::scan::{Grouping, Prefix, ordered, scan};
use super::schedule::Schedule;
use super::sites::Sites;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }
}

/// Some ranks at some sites; in half of all cases each site is one run.
fn some_sites(random: &mut Random) -> Sites {
    let (size, count) = (1 + random.below(12), 1 + random.below(4));
    let mut names: Vec<u64> = (0..size).map(|_| random.below(count) as u64).collect();
    if random.below(2) == 0 {
        names.sort_unstable();
    }
    Sites::new(&names)
}

/// Pieces of some length, and how many slow links one may cross.
fn some_pieces(random: &mut Random, length_max: usize) -> (Pieces, usize) {
    let length = 1 + random.below(length_max);
    let (way, links) = [(Way::Direct, 1), (Way::Shared, 2)][random.below(2)];
    (Pieces { length, way }, links)
}

fn word(rank: u32, index: usize) -> String {
    format!("<{rank}.{index}>")
}

fn words(rank: u32, count: usize) -> Vec<String> {
    (0..count).map(|index| word(rank, index)).collect()
}

fn all(
    sites: &Sites,
    random: &mut Random,
    send: impl Fn(u32) -> Vec<String>,
    receive: impl Fn(u32) -> usize,
    plan: impl Fn(u32) -> Schedule,
) -> Outcome {
    let ranks = (0..sites.size()).map(|rank| Rank {
        schedule: plan(rank),
        send: send(rank),
        receive: vec![String::from("-"); receive(rank)],
    });
    run(sites, ranks.collect(), |bound| random.below(bound))
}

/// The parts of a sum, whatever their order.
fn sorted(sum: &str) -> Vec<String> {
    let mut parts: Vec<String> = sum.split_inclusive('>').map(str::to_owned).collect();
    parts.sort();
    parts
}

fn sum(ranks: std::ops::Range<u32>, index: usize) -> String {
    ranks.map(|rank| word(rank, index)).collect()
}

fn assert_sum(found: &str, ranks: std::ops::Range<u32>, index: usize) {
    assert_eq!(sorted(found), sorted(&sum(ranks, index)));
}

const CASES: usize = 400;

#[test]
fn what_one_has_all_have() {
    let mut random = Random(1);
    for _ in 0..CASES {
        let sites = some_sites(&mut random);
        let (root, count) = (random.below(sites.size() as usize) as u32, random.below(9));
        let (pieces, depth) = some_pieces(&mut random, 9);
        let ranks = (0..sites.size()).map(|rank| Rank {
            schedule: bcast(&sites, rank, root, count, pieces),
            send: Vec::new(),
            receive: if rank == root {
                words(root, count)
            } else {
                vec!["-".into(); count]
            },
        });
        let outcome = run(&sites, ranks.collect(), |bound| random.below(bound));
        assert!(outcome.receive.iter().all(|got| *got == words(root, count)));
        assert!(outcome.depth <= depth);
        for site in sites.others(sites.of(root)) {
            let into = outcome.crossed.iter().filter(|((_, to), _)| *to == site);
            let elements: usize = into.map(|(_, (_, elements))| elements).sum();
            assert_eq!(elements, count, "once to each site");
        }
        let home = sites.of(root);
        assert!(outcome.crossed.keys().all(|(_, to)| *to != home), "none back");
        if pieces.way == Way::Direct {
            assert!(outcome.crossed.keys().all(|(from, _)| *from == home));
        } else {
            let passing = sites.count().saturating_sub(1).max(1);
            let most = count.div_ceil(pieces.length).div_ceil(passing) * pieces.length;
            assert!(outcome.crossed.values().all(|(_, elements)| *elements <= most));
        }
    }
}

#[test]
fn none_leaves_a_barrier_before_all_are_there() {
    let mut random = Random(2);
    for _ in 0..CASES {
        let sites = some_sites(&mut random);
        let outcome = all(&sites, &mut random, |_| Vec::new(), |_| 0, |rank| barrier(&sites, rank));
        assert!(outcome.depth <= 1);
        let count = sites.count();
        assert_eq!(outcome.crossed.len(), count * (count - 1));
        assert!(outcome.crossed.values().all(|crossed| *crossed == (1, 0)));
        // Its last steps follow the first ones of all: otherwise one without a message would end it.
        for late in 0..sites.size() {
            let ranks = (0..sites.size()).map(|rank| barrier(&sites, rank));
            assert!(waits_for(&ranks.collect::<Vec<_>>(), late));
        }
    }
}

/// Whether no rank gets to its end when one never begins.
fn waits_for(schedules: &[Schedule], late: u32) -> bool {
    use super::schedule::Act;
    let mut done: Vec<Vec<bool>> = schedules
        .iter()
        .map(|schedule| vec![false; schedule.steps.len()])
        .collect();
    let mut sent = std::collections::BTreeSet::new();
    loop {
        let mut has_changed = false;
        for (rank, schedule) in schedules.iter().enumerate().filter(|(rank, _)| *rank != late as usize) {
            for (number, step) in schedule.steps.iter().enumerate() {
                let may = !done[rank][number] && step.after.iter().all(|at| done[rank][at.0]);
                let goes = match step.act {
                    Act::Receive { from, key, .. } => sent.contains(&(from, rank as u32, key)),
                    Act::Send { to, key, .. } if may => {
                        sent.insert((rank as u32, to, key));
                        true
                    }
                    _ => true,
                };
                if may && goes {
                    done[rank][number] = true;
                    has_changed = true;
                }
            }
        }
        if !has_changed {
            break;
        }
    }
    let others = done.iter().enumerate().filter(|(rank, _)| *rank != late as usize);
    others
        .into_iter()
        .all(|(_, done)| done.is_empty() || done.iter().any(|done| !done))
}

#[test]
fn sums_are_of_all_and_cross_once() {
    let mut random = Random(3);
    for _ in 0..CASES {
        let sites = some_sites(&mut random);
        let size = sites.size();
        let (root, count) = (random.below(size as usize) as u32, random.below(7));
        let (pieces, depth) = some_pieces(&mut random, 7);
        let send = |rank| words(rank, count);
        let one = all(
            &sites,
            &mut random,
            send,
            |_| count,
            |rank| reduce(&sites, rank, root, count, pieces),
        );
        let every = all(
            &sites,
            &mut random,
            send,
            |_| count,
            |rank| allreduce(&sites, rank, count, pieces),
        );
        for index in 0..count {
            assert_sum(&one.receive[root as usize][index], 0..size, index);
            for got in &every.receive {
                assert_sum(&got[index], 0..size, index);
                assert_eq!(got[index], every.receive[0][index], "all have the same bits");
            }
        }
        assert!(one.depth <= depth && every.depth <= depth);
        let crossed = || one.crossed.values().chain(every.crossed.values());
        if pieces.way == Way::Direct {
            assert!(crossed().all(|(_, elements)| *elements == count));
        } else {
            let share = count.div_ceil(pieces.length).div_ceil(sites.count()) * pieces.length;
            assert!(crossed().all(|(_, elements)| *elements <= 2 * share));
        }
        let counts: Vec<usize> = (0..size).map(|_| random.below(4)).collect();
        let whole: usize = counts.iter().sum();
        let parts = all(
            &sites,
            &mut random,
            |rank| words(rank, whole),
            |rank| counts[rank as usize],
            |rank| reduce_scatter(&sites, rank, &counts),
        );
        let mut index = 0;
        for (rank, count) in counts.iter().enumerate() {
            for at in 0..*count {
                assert_sum(&parts.receive[rank][at], 0..size, index);
                index += 1;
            }
        }
        assert!(parts.depth <= 1);
        for ((_, to), (messages, elements)) in &parts.crossed {
            let theirs: usize = sites.members(*to).iter().map(|rank| counts[*rank as usize]).sum();
            assert_eq!((*messages, *elements), (1, theirs));
        }
    }
}

#[test]
fn sums_in_the_order_of_ranks_do_not_depend_on_sites() {
    let mut random = Random(4);
    for _ in 0..CASES {
        let sites = some_sites(&mut random);
        let size = sites.size();
        let (root, count) = (random.below(size as usize) as u32, random.below(4));
        for grouping in [Grouping::Runs, Grouping::Ranks] {
            for root in [Some(root), None] {
                let outcome = all(
                    &sites,
                    &mut random,
                    |rank| words(rank, count),
                    |_| count,
                    |rank| ordered(&sites, rank, root, count, grouping),
                );
                for (rank, got) in (0..).zip(&outcome.receive) {
                    let wanted = if root.is_none_or(|root| root == rank) { "" } else { "-" };
                    for (index, word) in got.iter().enumerate() {
                        let sum = if wanted.is_empty() {
                            sum(0..size, index)
                        } else {
                            wanted.to_owned()
                        };
                        assert_eq!(*word, sum);
                    }
                }
                assert!(outcome.depth <= 1);
            }
        }
    }
}

#[test]
fn prefixes_are_in_the_order_of_ranks() {
    let mut random = Random(5);
    for _ in 0..CASES {
        let sites = some_sites(&mut random);
        let count = random.below(4);
        let prefixes = [Prefix::Inclusive, Prefix::Exclusive];
        let groupings = [Grouping::Runs, Grouping::Ranks];
        for (prefix, grouping) in prefixes
            .into_iter()
            .flat_map(|prefix| groupings.map(|grouping| (prefix, grouping)))
        {
            let outcome = all(
                &sites,
                &mut random,
                |rank| words(rank, count),
                |_| count,
                |rank| scan(&sites, rank, count, prefix, grouping),
            );
            for (rank, got) in (0..).zip(&outcome.receive) {
                for (index, word) in got.iter().enumerate() {
                    let wanted = match (prefix, rank) {
                        (Prefix::Inclusive, rank) => sum(0..rank + 1, index),
                        (Prefix::Exclusive, 0) => "-".to_owned(),
                        (Prefix::Exclusive, rank) => sum(0..rank, index),
                    };
                    assert_eq!(*word, wanted, "{sites:?} rank {rank}");
                }
            }
            assert!(outcome.depth <= 1);
        }
    }
}

#[test]
fn blocks_come_to_one_and_go_to_all() {
    let mut random = Random(6);
    for _ in 0..CASES {
        let sites = some_sites(&mut random);
        let size = sites.size();
        let root = random.below(size as usize) as u32;
        let count: Vec<usize> = (0..size).map(|_| random.below(4)).collect();
        let every: Vec<String> = (0..size).flat_map(|rank| words(rank, count[rank as usize])).collect();
        // What does not pass through a rank it does not know.
        let known = |rank: u32| -> Vec<usize> {
            let site = sites.of(rank);
            let is_leader = sites.leader(site, Some(root)) == rank;
            let knows = |of: u32| of == rank || rank == root || (is_leader && sites.of(of) == site);
            let each = (0..size).map(|of| if knows(of) { count[of as usize] } else { 77 });
            each.collect()
        };
        let whole = |rank| if rank == root { every.len() } else { 0 };
        let one = all(
            &sites,
            &mut random,
            |rank| words(rank, count[rank as usize]),
            whole,
            |rank| gather(&sites, rank, root, &known(rank)),
        );
        assert_eq!(one.receive[root as usize], every);
        let given = |rank| if rank == root { every.clone() } else { Vec::new() };
        let parts = all(
            &sites,
            &mut random,
            given,
            |rank| count[rank as usize],
            |rank| scatter(&sites, rank, root, &known(rank)),
        );
        for (rank, got) in (0..).zip(&parts.receive) {
            assert_eq!(*got, words(rank, count[rank as usize]));
        }
        for outcome in [one, parts] {
            assert!(outcome.depth <= 1);
            for ((from, to), (messages, elements)) in outcome.crossed {
                let other = if from == sites.of(root) { to } else { from };
                let theirs = sites.members(other).iter().map(|rank| count[*rank as usize]);
                assert_eq!((messages, elements), (sites.runs_of(other).count(), theirs.sum()));
            }
        }
    }
}

#[test]
fn leaders_but_the_root_know_how_much_their_ranks_have() {
    let mut random = Random(8);
    for _ in 0..CASES {
        let sites = some_sites(&mut random);
        let size = sites.size();
        let root = random.below(size as usize) as u32;
        let plan = |rank| counts(&sites, rank, root);
        let outcome = all(&sites, &mut random, |rank| words(rank, 1), |_| size as usize, plan);
        assert!(outcome.crossed.is_empty());
        for (rank, got) in (0..size).zip(&outcome.receive) {
            let (site, is_leader) = (
                sites.of(rank),
                rank != root && sites.leader(sites.of(rank), Some(root)) == rank,
            );
            for (of, word) in (0..size).zip(got) {
                let wanted = if is_leader && sites.of(of) == site {
                    self::word(of, 0)
                } else {
                    "-".to_owned()
                };
                assert_eq!(*word, wanted);
            }
        }
    }
}

#[test]
fn blocks_of_all_come_to_all_wherever_they_lie() {
    let mut random = Random(7);
    for _ in 0..CASES {
        let sites = some_sites(&mut random);
        let size = sites.size();
        let mut blocks = equal(size, random.below(4));
        if random.below(2) == 0 {
            // With gaps, and of any length.
            let mut first = random.below(3);
            for block in &mut blocks {
                *block = Block {
                    first,
                    count: random.below(4),
                };
                first += block.count + random.below(2);
            }
        }
        let end = blocks.iter().map(|block| block.first + block.count).max().unwrap_or(0);
        let outcome = all(
            &sites,
            &mut random,
            |rank| words(rank, blocks[rank as usize].count),
            |_| end,
            |rank| allgather(&sites, rank, &blocks),
        );
        let mut wanted = vec!["-".to_owned(); end];
        for (rank, block) in (0..).zip(&blocks) {
            wanted[block.first..block.first + block.count].clone_from_slice(&words(rank, block.count));
        }
        assert!(outcome.receive.iter().all(|got| *got == wanted), "{sites:?} {blocks:?}");
        assert!(outcome.depth <= 1);
        for ((from, _), (_, elements)) in outcome.crossed {
            let theirs: usize = sites
                .members(from)
                .iter()
                .map(|rank| blocks[*rank as usize].count)
                .sum();
            assert_eq!(elements, theirs, "each block once over each link");
        }
        let block = random.below(3);
        let each = equal(size, block);
        let every = all(
            &sites,
            &mut random,
            |rank| words(rank, block * size as usize),
            |_| block * size as usize,
            |rank| alltoall(rank, &each, &each),
        );
        for (rank, got) in every.receive.iter().enumerate() {
            for from in 0..size {
                let of = &words(from, block * size as usize)[rank * block..(rank + 1) * block];
                assert_eq!(got[from as usize * block..(from as usize + 1) * block], *of);
            }
        }
    }
}

#[test]
fn a_leader_joins_blocks_of_varied_lengths_only_for_many_ranks() {
    let pays = |link: &str, ranks: u64| {
        let sites = Sites::new(&(0..2 * ranks).map(|rank| rank % 2).collect::<Vec<u64>>());
        link.parse::<Link>().unwrap().joining_pays(&sites)
    };
    assert!([1, 4, 11].into_iter().all(|ranks| !pays("10 1", ranks)));
    assert!([12, 64].into_iter().all(|ranks| pays("10 1", ranks)));
    assert!(!pays("10 100", 64), "a fast link has room for headers");
}
