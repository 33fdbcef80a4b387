//! The order against the brute-force optimum, and the cases that the design names.

use super::assignment::Cost;
use super::greedy;
use super::order::Matching;
use super::*;
use crate::partition::{ArraySpec, AxisSpec, Partition, Split};
use crate::redistribution::{ArrayPlan, HaloFill, RankChange};
use pcm_proto::ids::{Bytes, ProcessId, Rank};
use proptest::prelude::*;

fn ids(ids: impl IntoIterator<Item = u32>) -> Vec<ProcessId> {
    ids.into_iter().map(ProcessId).collect()
}

/// Two processes on each host; ten times as dear across hosts.
fn two_per_host(from: ProcessId, to: ProcessId) -> u32 {
    if from.0 / 2 == to.0 / 2 { 1 } else { 10 }
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    match n {
        0 => vec![vec![]],
        n => permutations(n - 1)
            .into_iter()
            .flat_map(|p| {
                (0..n).map(move |at| {
                    let mut longer = p.clone();
                    longer.insert(at, n - 1);
                    longer
                })
            })
            .collect(),
    }
}

fn cheapest(matching: &Matching<'_>, size: usize) -> i128 {
    let sum = |order: Vec<usize>| {
        (0..)
            .zip(order)
            .fold(Cost::default(), |sum, (to, member)| {
                sum + matching.cost(member, Rank(to))
            })
            .price
    };
    permutations(size)
        .into_iter()
        .map(sum)
        .min()
        .expect("there is an order")
}

fn partition(extent: u64, parts: usize) -> impl Strategy<Value = Partition> {
    let weights = prop::collection::vec(0.2f64..5.0, parts);
    let split = prop_oneof![
        Just(Split::Block),
        (1u64..5).prop_map(|block| Split::Cyclic { block }),
        weights.prop_map(|weights| Split::Weighted { weights }),
    ];
    split.prop_map(move |split| {
        let spec = ArraySpec::new(8, [AxisSpec::new(extent, split), AxisSpec::whole(3)]);
        Partition::new(&spec, parts as u32).expect("valid")
    })
}

#[derive(Clone, Debug)]
struct Case {
    before: Vec<ProcessId>,
    members: Vec<ProcessId>,
    overlap: Overlap,
}

fn case(size_max: usize) -> impl Strategy<Value = Case> {
    (1..=size_max, 1..=size_max, 0u64..60).prop_flat_map(|(n, m, extent)| {
        let all = ids(0..(n + m) as u32);
        let pick = |many: usize| {
            Just(all.clone())
                .prop_shuffle()
                .prop_map(move |all| all[..many].to_vec())
        };
        (pick(n), pick(m), partition(extent, n), partition(extent, m)).prop_map(|(before, members, old, new)| {
            let mut overlap = Overlap::new(old.positions(), new.positions());
            overlap.add_array(&old, &new).expect("the same array");
            Case {
                before,
                members,
                overlap,
            }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_order_is_cheaper_than_the_chosen_one(case in case(7), by_host in any::<bool>()) {
        let Case { before, members, overlap } = &case;
        let price = if by_host { Price::PerPair(&two_per_host) } else { Price::Uniform };
        let order = rank_order(before, members, overlap, price).expect("valid");
        let listed = RankChange::new(before.clone(), members.clone()).expect("valid");
        let matching = Matching::new(before, members, &listed, overlap, price);
        prop_assert_eq!(order.cost as i128, cheapest(&matching, members.len()));
        let mut sorted = order.change.after().to_vec();
        sorted.sort_unstable();
        let mut wanted = members.clone();
        wanted.sort_unstable();
        prop_assert_eq!(sorted, wanted);
        if !by_host {
            prop_assert_eq!(u128::from(order.moved.0), order.cost);
        }
    }

    #[test]
    fn the_heuristic_keeps_at_least_half_of_what_can_be_kept(case in case(6)) {
        let Case { before, members, overlap } = &case;
        let listed = RankChange::new(before.clone(), members.clone()).expect("valid");
        let matching = Matching::new(before, members, &listed, overlap, Price::Uniform);
        let all: i128 = (0..members.len() as u32)
            .flat_map(|to| overlap.sources(Rank(to)))
            .map(|(_, bytes)| i128::from(*bytes))
            .sum();
        let placed = greedy::assign(&matching);
        let cost: i128 = (0..).zip(placed).map(|(to, member)| matching.cost(member, Rank(to)).price).sum();
        let best = cheapest(&matching, members.len());
        prop_assert!(2 * (all - cost) >= all - best, "moves {} of {}, best {}", cost, all, best);
    }

    #[test]
    fn a_staircase_of_overlaps_is_solved_exactly_in_one_pass(case in case(6)) {
        let Case { before, members, overlap } = &case;
        let survives: Vec<bool> = before.iter().map(|p| members.contains(p)).collect();
        let Some(kept) = chain::keep_most(overlap, &survives) else { return Ok(()) };
        let listed = RankChange::new(before.clone(), members.clone()).expect("valid");
        let matching = Matching::new(before, members, &listed, overlap, Price::Uniform);
        let kept = kept.into_iter().map(|from| from.and_then(|f| matching.member_before(f)));
        let kept: Vec<Option<usize>> = kept.collect();
        let placed = greedy::fill(&matching, &kept);
        let cost: i128 = (0..).zip(placed).map(|(to, member)| matching.cost(member, Rank(to)).price).sum();
        prop_assert_eq!(cost, cheapest(&matching, members.len()));
    }

    #[test]
    fn the_bytes_counted_are_those_the_plans_send(case in case(5), extent in 1u64..40) {
        let spec = ArraySpec::new(8, [AxisSpec::block(extent).with_halo(1), AxisSpec::block(7)]);
        let sizes = [case.before.len() as u32, case.members.len() as u32];
        let [old, new] = sizes.map(|size| Partition::new(&spec, size).expect("valid"));
        let mut overlap = Overlap::new(sizes[0], sizes[1]);
        overlap.add_array(&old, &new).expect("the same array");
        let order = rank_order(&case.before, &case.members, &overlap, Price::Uniform).expect("valid");
        let sent: u64 = order
            .change
            .processes()
            .into_iter()
            .map(|p| ArrayPlan::for_process(&old, &new, &order.change, p, HaloFill::Stale).expect("valid"))
            .map(|plan| plan.totals().send)
            .sum();
        prop_assert_eq!(Bytes(sent), order.moved);
    }
}

fn blocks(extent: u64, before: u32, after: u32) -> Overlap {
    let spec = ArraySpec::new(8, [AxisSpec::block(extent)]);
    let [old, new] = [before, after].map(|size| Partition::new(&spec, size).expect("valid"));
    let mut overlap = Overlap::new(before, after);
    overlap.add_array(&old, &new).expect("the same array");
    overlap
}

#[test]
fn growing_from_two_to_four_by_blocks_moves_half() {
    let order = rank_order(&ids([0, 1]), &ids([0, 1, 2, 3]), &blocks(400, 2, 4), Price::Uniform).expect("valid");
    assert_eq!(order.moved, Bytes(400 * 8 / 2));
    assert_eq!(order.change.after(), ids([0, 2, 1, 3]));
}

#[test]
fn a_newcomer_that_replaces_a_leaver_gets_exactly_its_bytes() {
    let order = rank_order(
        &ids([0, 1, 2, 3]),
        &ids([9, 3, 0, 2]),
        &blocks(400, 4, 4),
        Price::Uniform,
    )
    .expect("valid");
    assert_eq!(order.moved, Bytes(100 * 8));
    assert_eq!(order.change.after(), ids([0, 9, 2, 3]));
}

#[test]
fn shrinking_from_four_to_two_moves_half() {
    let order = rank_order(&ids([0, 1, 2, 3]), &ids([1, 3]), &blocks(400, 4, 2), Price::Uniform).expect("valid");
    assert_eq!(order.moved, Bytes(200 * 8));
    assert_eq!(order.change.after(), ids([1, 3]));
}

#[test]
fn without_data_survivors_keep_their_order_and_newcomers_theirs() {
    let order = rank_order(
        &ids([0, 1, 2, 3]),
        &ids([8, 7, 3, 2, 0]),
        &Overlap::new(4, 5),
        Price::Uniform,
    );
    assert_eq!(order.expect("valid").change.after(), ids([0, 8, 2, 3, 7]));
}

#[test]
fn data_that_must_move_stays_on_its_host_where_that_is_cheaper() {
    let members = ids([0, 2, 9, 3]);
    let order = rank_order(
        &ids([0, 1, 2, 8]),
        &members,
        &blocks(400, 4, 4),
        Price::PerPair(&two_per_host),
    );
    assert_eq!(order.expect("valid").change.after(), ids([0, 3, 2, 9]));
}

#[test]
fn a_thousand_ranks_in_a_line_are_ordered_exactly() {
    let order = rank_order(
        &ids(0..1000),
        &ids(0..1001),
        &blocks(1_000_000_000_000, 1000, 1001),
        Price::Uniform,
    )
    .expect("valid");
    assert_eq!(order.method, Method::Exact);
    // The newcomer stands in the middle: shares below it lose a little upwards, those above it downwards, a quarter of
    // the data altogether.
    let share = order.moved.0 as f64 / 8e12;
    assert!((share - 0.25).abs() < 0.001, "{share} of the data moves");
    assert_eq!(order.change.after()[500], ProcessId(1000));
    assert_eq!(order.change.rank_after(ProcessId(999)), Some(Rank(1000)));
}

#[test]
fn many_ranks_on_hosts_are_never_ordered_worse_than_left_alone() {
    let spec = ArraySpec::new(8, [AxisSpec::block(70_000), AxisSpec::block(900)]);
    let [old, new] = [288, 320].map(|size| Partition::new(&spec, size).expect("valid"));
    let mut overlap = Overlap::new(288, 320);
    overlap.add_array(&old, &new).expect("the same array");
    let (before, members) = (ids(0..288), ids(0..320));
    let order = rank_order(&before, &members, &overlap, Price::PerPair(&two_per_host)).expect("valid");
    assert_eq!(order.method, Method::Heuristic);
    let listed = RankChange::new(before.clone(), members.clone()).expect("valid");
    let matching = Matching::new(&before, &members, &listed, &overlap, Price::PerPair(&two_per_host));
    let costs: Vec<Cost> = (0..320)
        .flat_map(|m| (0..320).map(move |to| (m, Rank(to))))
        .map(|(m, to)| matching.cost(m, to))
        .collect();
    let best: i128 = (0..)
        .zip(super::assignment::assign(&costs, 320))
        .map(|(to, m)| matching.cost(m, Rank(to)).price)
        .sum();
    let alone: i128 = (0..320).map(|m| matching.cost(m, Rank(m as u32)).price).sum();
    assert!(order.cost as i128 <= alone, "{} against {alone}", order.cost);
    assert!(
        order.cost as i128 * 10 <= best * 11,
        "{} against {best} at best",
        order.cost
    );
}
