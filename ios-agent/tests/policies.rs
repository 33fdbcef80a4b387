//! What each policy proposes in situations where the right answer is known, and what none may ever propose.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use ios_agent::decide::proposal::{Change, Proposal};
use ios_agent::decide::tuning::Tuning;
use ios_agent::decide::view::View;
use ios_agent::policy::choice::{POLICIES, policy};
use pcm_core::link_window::LinkWindow;
use pcm_core::moment::Moment;
use pcm_proto::agent::Need;
use pcm_proto::rank_counts::RankCounts;
use proptest::prelude::*;
use std::time::Duration;
use support::{measured, node, rank, view};

fn proposals(of: &str, view: &View) -> Vec<Proposal> {
    policy(of).unwrap().propose(view, &Tuning::default(), 7)
}

fn migration(of: &str, view: &View) -> Option<(Vec<(usize, usize)>, f64)> {
    proposals(of, view)
        .into_iter()
        .find_map(|proposal| match proposal.change {
            Change::Migrate(moves) => Some((moves, proposal.then_ms)),
            _ => None,
        })
}

/// Four ranks on four nodes, one of them shared with somebody; a fifth node is idle.
fn one_loaded() -> View {
    let nodes = ["a", "b", "c", "d", "e"].map(|name| node(name, 1)).to_vec();
    let mut ranks: Vec<_> = (0..4).map(|index| rank(index, 10.0)).collect();
    ranks[2].useful_ms = 20.0;
    ranks[2].cpu_share = 0.5;
    let mut view = view(nodes, ranks);
    view.nodes[2].demand = 1.0;
    view
}

#[test]
fn a_rank_that_shares_its_cpu_goes_to_the_idle_node() {
    for of in ["cost", "rsm", "ats", "nts", "random"] {
        let (moves, then_ms) = migration(of, &one_loaded()).unwrap_or_else(|| panic!("{of} proposes nothing"));
        assert_eq!(moves, [(2, 4)], "{of}");
        // Its messages wait for it no longer either.
        assert!((then_ms - (10.0 + 0.5 / 0.85)).abs() < 0.01, "{of}: {then_ms}");
    }
    assert!(proposals("none", &one_loaded()).is_empty());
}

#[test]
fn a_rank_that_computes_little_but_lacks_a_cpu_for_its_messages_goes_to_the_idle_node() {
    let mut view = one_loaded();
    view.ranks.iter_mut().for_each(|rank| rank.useful_ms = 0.3);
    view.ranks[2].cpu_share = 0.1;
    view.iteration_ms = 28.0;
    for of in ["cost", "ats", "nts"] {
        let (moves, then_ms) = migration(of, &view).unwrap_or_else(|| panic!("{of} proposes nothing"));
        assert_eq!(moves, [(2, 4)], "{of}");
        assert!(then_ms < 8.0 && then_ms > 28.0 / 5.0, "{of}: {then_ms}");
    }
}

#[test]
fn a_rank_that_nearly_has_a_whole_cpu_stays() {
    let mut view = one_loaded();
    view.ranks.iter_mut().for_each(|rank| rank.useful_ms = 2.5);
    view.ranks[2].cpu_share = 0.84;
    view.iteration_ms = 12.5;
    for of in ["cost", "ats", "nts"] {
        let gain = migration(of, &view).map_or(0.0, |(_, then_ms)| view.iteration_ms - then_ms);
        assert!(gain < 0.05 * view.iteration_ms, "{of}: {gain}");
    }
}

#[test]
fn nothing_moves_where_all_is_well() {
    let nodes = ["a", "b", "c"].map(|name| node(name, 1)).to_vec();
    let view = view(nodes, vec![rank(0, 10.0), rank(1, 10.1)]);
    for of in ["cost", "rsm", "ats", "nts", "random"] {
        let gains = proposals(of, &view)
            .into_iter()
            .map(|proposal| view.iteration_ms - proposal.then_ms);
        assert!(gains.fold(0.0, f64::max) < 0.02 * view.iteration_ms, "{of}");
    }
}

#[test]
fn a_slow_rank_goes_to_a_faster_node_of_its_own_job_that_has_a_cpu_left() {
    let nodes = vec![node("a", 2), node("b", 1)];
    let mut ranks = vec![rank(0, 10.0), rank(1, 20.0)];
    ranks[1].cpu_share = 0.5;
    let mut view = view(nodes, ranks);
    view.nodes[1].demand = 1.0;
    assert_eq!(migration("cost", &view).unwrap().0, [(1, 0)]);
    view.nodes[0].cpus = vec![0];
    assert_eq!(migration("cost", &view), None);
}

#[test]
fn a_fast_idle_node_takes_the_rank_of_the_slow_one() {
    let mut nodes = ["a", "b", "c"].map(|name| node(name, 1)).to_vec();
    nodes[1].speed = 0.25;
    let view = view(nodes, vec![rank(0, 10.0), rank(1, 40.0)]);
    let (moves, then_ms) = migration("cost", &view).unwrap();
    assert_eq!(moves, [(1, 2)]);
    assert!((then_ms - 11.0).abs() < 0.01);
}

#[test]
fn nodes_that_are_the_same_cpus_are_no_relief() {
    let mut view = one_loaded();
    view.nodes[4].host = view.nodes[2].host;
    for of in ["cost", "rsm", "ats", "nts", "random"] {
        assert_eq!(migration(of, &view), None, "{of}");
    }
}

fn with_pairs(mut view: View, pairs: &[(usize, usize)], bytes: f64) -> View {
    for (a, b) in pairs {
        view.ranks[*a].sends.push((*b, 100.0, bytes));
        view.ranks[*b].sends.push((*a, 100.0, bytes));
    }
    view
}

#[test]
fn two_pairs_placed_badly_are_brought_together_by_ats() {
    let nodes = vec![node("a", 2), node("b", 2)];
    let ranks = vec![rank(0, 10.0), rank(1, 10.0), rank(0, 10.0), rank(1, 10.0)];
    let mut view = with_pairs(view(nodes, ranks), &[(0, 1), (2, 3)], 1e7);
    view.iteration_ms = 60.0;
    let (moves, then_ms) = migration("ats", &view).unwrap();
    let mut places = view.places();
    moves.iter().for_each(|(rank, to)| places[*rank] = *to);
    assert!(
        places[0] == places[1] && places[2] == places[3] && places[0] != places[2],
        "{places:?}"
    );
    assert!(then_ms < 0.8 * view.iteration_ms, "{then_ms}");
}

#[test]
fn with_slow_links_nts_keeps_the_job_in_its_site_where_cost_looks_at_time_only() {
    let mut view = one_loaded();
    view.nodes[4].site = "there".into();
    let gain = migration("nts", &view).map_or(0.0, |(_, then_ms)| view.iteration_ms - then_ms);
    assert!(gain <= 10.5 / 5.0 + 1e-9, "{gain}");
    assert!(migration("cost", &view).is_some_and(|(_, then_ms)| view.iteration_ms - then_ms > 9.9));
    // One that was spread over sites comes back.
    let mut spread = support::view(
        ["a", "b", "c"].map(|name| node(name, 1)).to_vec(),
        vec![rank(0, 10.0), rank(1, 10.0)],
    );
    spread.nodes[1].site = "there".into();
    let spread = with_pairs(
        View {
            iteration_ms: 31.0,
            ..spread
        },
        &[(0, 1)],
        1e5,
    );
    let (moves, then_ms) = migration("nts", &spread).unwrap();
    assert_eq!(moves, [(1, 2)]);
    assert!(then_ms < spread.iteration_ms);
}

/// Two ranks that talk to each other, on the first two of three nodes that all bear the name of one site.
fn apart() -> View {
    let nodes = ["a", "b", "c"].map(|name| node(name, 1)).to_vec();
    let view = view(nodes, vec![rank(0, 10.0), rank(1, 10.0)]);
    with_pairs(
        View {
            iteration_ms: 1030.0,
            ..view
        },
        &[(0, 1)],
        1e3,
    )
}

#[test]
fn nts_gathers_a_job_over_nodes_that_were_measured_to_be_far_apart() {
    assert_eq!(migration("nts", &apart()), None, "they are one site by name");
    let (moves, then_ms) = migration("nts", &measured(apart(), &[Some(10_000.0), Some(90.0)])).unwrap();
    assert_eq!(moves, [(1, 2)]);
    assert!(
        (then_ms - 65.0).abs() < 5.0,
        "a hundred messages of 9.7 ms are saved: {then_ms}"
    );
    let all_far = measured(apart(), &[Some(10_000.0), Some(10_000.0)]);
    let (moves, _) = migration("nts", &all_far).unwrap();
    assert_eq!(moves, [(1, 0)], "a node for both is nearer than any other");
}

#[test]
fn nts_names_the_distance_too_where_a_rank_that_shares_its_cpu_is_gathered() {
    let mut apart = measured(apart(), &[Some(10_000.0), Some(90.0)]);
    apart.ranks[1].useful_ms = 20.0;
    apart.ranks[1].cpu_share = 0.5;
    apart.nodes[1].demand = 1.0;
    let gathering = proposals("nts", &apart);
    let moves = gathering
        .iter()
        .filter(|proposal| matches!(&proposal.change, Change::Migrate(_)));
    let reasons: Vec<&str> = moves.map(|proposal| proposal.why.as_str()).collect();
    assert!(reasons.iter().any(|why| why.contains("50 % of a CPU")), "{reasons:?}");
    assert!(
        reasons
            .iter()
            .all(|why| why.contains("9.70 ms from a to b") && why.contains("as measured")),
        "{reasons:?}"
    );
}

#[test]
fn ats_brings_together_who_talks_over_a_link_that_was_measured_to_be_long() {
    let mut pairs = two_pairs_at_one_site();
    let gain = |view: &View| migration("ats", view).map_or(0.0, |(_, then_ms)| view.iteration_ms - then_ms);
    let near = gain(&pairs);
    pairs = measured(pairs, &[Some(10_000.0)]);
    assert!(near < 6.0 && gain(&pairs) > 900.0, "{near} {}", gain(&pairs));
}

/// Each of two nodes has a rank of each pair.
fn two_pairs_at_one_site() -> View {
    let nodes = vec![node("a", 2), node("b", 2)];
    let ranks = vec![rank(0, 10.0), rank(1, 10.0), rank(0, 10.0), rank(1, 10.0)];
    with_pairs(
        View {
            iteration_ms: 1020.0,
            ..view(nodes, ranks)
        },
        &[(0, 1), (2, 3)],
        1e3,
    )
}

#[test]
fn a_rank_flees_a_load_to_a_near_node_and_not_to_one_that_was_measured_to_be_far() {
    let mut nodes = ["a", "b", "c", "d"].map(|name| node(name, 1)).to_vec();
    // What draws it where nothing was measured.
    nodes[3].speed = 1.2;
    let mut ranks = vec![rank(0, 10.0), rank(1, 20.0)];
    ranks[1].cpu_share = 0.5;
    let mut loaded = with_pairs(view(nodes, ranks), &[(0, 1)], 1e3);
    (loaded.nodes[1].demand, loaded.iteration_ms) = (1.0, 30.0);
    for of in ["cost", "ats", "nts"] {
        assert_eq!(migration(of, &loaded).unwrap().0, [(1, 3)], "{of}");
        let far = measured(loaded.clone(), &[None, Some(90.0), Some(10_000.0)]);
        assert_eq!(migration(of, &far).unwrap().0, [(1, 2)], "{of}");
    }
    loaded.nodes[2].is_open = false;
    let only_far = measured(loaded, &[None, None, Some(10_000.0)]);
    let goes_far = migration("cost", &only_far).is_some_and(|(moves, _)| moves.contains(&(1, 3)));
    assert!(!goes_far, "messages would cost a second");
}

/// What a window makes of these round trips, a second after each other.
fn latency_us(trips_us: impl Iterator<Item = f64>) -> Option<f64> {
    let mut window = LinkWindow::new(Duration::from_secs(1), Duration::from_secs(60));
    let mut now = Moment(0);
    for trip_us in trips_us {
        window.note(now, trip_us);
        now = now.plus(Duration::from_secs(1));
    }
    window.cost(now).map(|us| us / 2.0)
}

#[test]
fn one_round_trip_however_far_off_changes_no_decision() {
    let trips = |usual: f64, exception: f64| (0..12).map(move |at| if at == 7 { exception } else { usual });
    let found = |of: &str, to_b: f64, to_c: f64, exceptions: [f64; 2]| {
        let latencies = [(to_b, exceptions[0]), (to_c, exceptions[1])];
        let latencies = latencies.map(|(usual, exception)| latency_us(trips(usual, exception)));
        assert!(latencies.iter().all(Option::is_some));
        proposals(of, &measured(apart(), &latencies))
    };
    for of in ["cost", "ats", "nts", "rsm"] {
        for (to_b, to_c) in [
            (180.0, 180.0),
            (20_000.0, 180.0),
            (20_000.0, 20_000.0),
            (180.0, 20_000.0),
        ] {
            let undisturbed = found(of, to_b, to_c, [to_b, to_c]);
            for exceptions in [
                [1e6, to_c],
                [to_b, 1e6],
                [1.0, to_c],
                [to_b, 1.0],
                [1.0, 1e6],
                [1e6, 1.0],
            ] {
                assert_eq!(
                    found(of, to_b, to_c, exceptions),
                    undisturbed,
                    "{of} {to_b} {to_c} {exceptions:?}"
                );
            }
        }
    }
    let trips = [180.0, 20_000.0];
    assert_ne!(
        found("nts", trips[0], trips[0], trips),
        found("nts", trips[1], trips[0], trips),
        "what is no exception does"
    );
}

#[test]
fn a_job_grows_onto_idle_cpus_up_to_its_limit_while_its_time_is_useful() {
    let mut view = support::view(
        ["a", "b", "c", "d", "e"].map(|name| node(name, 1)).to_vec(),
        vec![rank(0, 20.0), rank(1, 20.0)],
    );
    let expansion = |view: &View| {
        proposals("cost", view)
            .into_iter()
            .find_map(|proposal| match proposal.change {
                Change::Expand(nodes) => Some(nodes.len()),
                _ => None,
            })
    };
    assert_eq!(expansion(&view), None, "its size is fixed");
    view.max = 8;
    assert_eq!(expansion(&view), Some(2), "no more than double at once");
    view.max = 3;
    assert_eq!(expansion(&view), Some(1));
    view.max = 8;
    view.counts = RankCounts::of(|count| count == 2 || count == 3).unwrap();
    assert_eq!(expansion(&view), Some(1), "the program does not run on four");
    view.counts = RankCounts::default();
    view.iteration_ms = 40.0;
    assert_eq!(expansion(&view), None, "half of its time is communication");
    view.iteration_ms = 21.0;
    view.measured_sizes.insert(4, 21.0);
    view.measured_sizes.insert(3, 21.0);
    let gain = proposals("cost", &view)
        .iter()
        .filter(|proposal| matches!(proposal.change, Change::Expand(_)))
        .map(|proposal| 21.0 - proposal.then_ms)
        .fold(0.0, f64::max);
    assert!(gain <= 0.0, "it was measured not to scale");
}

#[test]
fn ranks_that_do_not_pay_leave_but_never_below_the_minimum() {
    let ranks = (0..4).map(|index| rank(index, 1.0)).collect();
    let mut view = support::view(["a", "b", "c", "d"].map(|name| node(name, 1)).to_vec(), ranks);
    view.iteration_ms = 20.0;
    view.min = 2;
    let leaving = |view: &View| {
        proposals("cost", view)
            .into_iter()
            .find_map(|proposal| match proposal.change {
                Change::Leave(ranks) => Some(ranks.len()),
                _ => None,
            })
    };
    assert_eq!(leaving(&view), Some(2));
    view.counts = RankCounts::of(|count| count != 2).unwrap();
    assert_eq!(leaving(&view), Some(1), "the program does not run on two");
    view.counts = RankCounts::default();
    view.min = 4;
    assert_eq!(leaving(&view), None);
}

#[test]
fn a_node_its_owner_wants_is_left_by_moving_or_else_by_shrinking() {
    let mut view = one_loaded();
    view.nodes[2].others_since_s = 60.0;
    let forced = |view: &View| proposals("cost", view).into_iter().find(|proposal| proposal.is_forced);
    let found = forced(&view).unwrap();
    assert_eq!(
        (found.change, found.need),
        (Change::Migrate(vec![(2, 4)]), Need::Refuge)
    );
    view.nodes[4].is_open = false;
    assert_eq!(forced(&view), None, "its size is fixed");
    view.min = 3;
    assert_eq!(forced(&view).unwrap().change, Change::Leave(vec![2]));
    view.counts = RankCounts::of(|count| count.is_multiple_of(4)).unwrap();
    assert_eq!(forced(&view), None, "the program does not run on three");
}

#[test]
fn nts_leaves_a_node_its_owner_wants_within_the_site_and_the_site_only_when_the_node_is_emptied() {
    let mut view = one_loaded();
    view.nodes[2].others_since_s = 60.0;
    view.nodes[4].site = "there".into();
    let leads_away = |proposal: &Proposal| match &proposal.change {
        Change::Migrate(moves) | Change::Arrange(moves, _) => moves.iter().any(|(_, to)| *to == 4),
        _ => false,
    };
    let away = |of: &str, view: &View| proposals(of, view).into_iter().filter(leads_away).collect::<Vec<_>>();
    assert!(away("cost", &view).iter().any(|proposal| proposal.is_forced));
    assert!(away("nts", &view).iter().all(|proposal| !proposal.is_forced));
    assert!(
        away("nts", &view)
            .iter()
            .all(|proposal| !matches!(proposal.change, Change::Arrange(..)))
    );
    view.nodes[2].is_draining = true;
    assert!(away("nts", &view).iter().any(|proposal| proposal.is_forced));
}

#[test]
fn of_two_jobs_on_one_cpu_the_one_that_has_grown_gives_way() {
    let mut view = support::view(
        ["a", "b"].map(|name| node(name, 1)).to_vec(),
        vec![rank(0, 10.0), rank(1, 20.0)],
    );
    view.nodes[1].ranks += 1;
    view.min = 1;
    let forced = |view: &View| proposals("cost", view).into_iter().find(|proposal| proposal.is_forced);
    assert_eq!(forced(&view), None, "it has what it began with");
    view.started_with = 1;
    assert_eq!(forced(&view).unwrap().change, Change::Leave(vec![1]));
}

prop_compose! {
    fn any_node(index: usize)(
        cpus in 1_u32..4, speed in 0.1_f64..4.0, demand in 0.0_f64..3.0, others in 0.0_f64..30.0, more in 0_u32..3,
        is_draining in prop::bool::weighted(0.1), is_open in prop::bool::weighted(0.8), far in any::<bool>(),
        memory in prop_oneof![Just(0.0), 1e5_f64..1e9],
    ) -> ios_agent::decide::view::NodeView {
        let mut node = node(&format!("n{index}"), cpus);
        (node.speed, node.demand, node.others_since_s, node.ranks) = (speed, demand, others, more);
        (node.is_draining, node.is_open, node.free_memory) = (is_draining, is_open, memory);
        if far { node.site = "there".into(); }
        node
    }
}

fn any_view() -> impl Strategy<Value = View> {
    let nodes = (0..8).map(any_node).collect::<Vec<_>>();
    let ranks = prop::collection::vec(
        (
            0_usize..8,
            0.01_f64..100.0,
            0.05_f64..1.0,
            0.0_f64..1e8,
            0_usize..12,
            0.0_f64..1e6,
        ),
        1..12,
    );
    (
        nodes,
        ranks,
        0.0_f64..50.0,
        0.0_f64..1e6,
        0_usize..12,
        0_usize..12,
        1_usize..12,
    )
        .prop_map(|(nodes, ranks, mpi, remaining, below, above, began)| {
            let size = ranks.len();
            let ranks = ranks.into_iter().map(|(node, useful, share, bytes, to, sent)| {
                let mut rank = rank(node, useful);
                (rank.cpu_share, rank.registered) = (share, bytes);
                rank.sends = vec![(to % size, 2.0, sent)];
                rank
            });
            let mut view = view(nodes, ranks.collect());
            view.iteration_ms += mpi;
            view.remaining = remaining;
            (view.min, view.max, view.started_with) = (size.saturating_sub(below).max(1), size + above, began);
            view
        })
}

fn check_moves(view: &View, moves: &[(usize, usize)], proposal: &Proposal) {
    let mut ranks: Vec<usize> = moves.iter().map(|(rank, _)| *rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    assert_eq!(ranks.len(), moves.len(), "a rank moves twice: {proposal:?}");
    for (rank, to) in moves {
        assert_ne!(view.ranks[*rank].node, *to, "{proposal:?}");
        // Ranks of one job may exchange their places; nobody new comes by that.
        let leaves = moves.iter().filter(|(rank, _)| view.ranks[*rank].node == *to).count();
        let comes = moves.iter().filter(|(_, node)| node == to).count();
        assert!(
            comes <= leaves || (view.nodes[*to].is_open && !view.nodes[*to].is_draining),
            "{proposal:?}"
        );
    }
}

fn check(view: &View, proposal: &Proposal) {
    assert!(proposal.then_ms.is_finite() && proposal.then_ms >= 0.0, "{proposal:?}");
    assert!(proposal.bytes.is_finite() && proposal.bytes >= 0.0, "{proposal:?}");
    assert!(!proposal.why.is_empty(), "{proposal:?}");
    let size = view.ranks.len();
    let newcomer = |node: usize| {
        assert!(
            view.nodes[node].is_open && !view.nodes[node].is_draining,
            "{proposal:?}"
        )
    };
    match &proposal.change {
        Change::Migrate(moves) => {
            assert!(!moves.is_empty(), "{proposal:?}");
            check_moves(view, moves, proposal);
        }
        Change::Expand(nodes) => {
            assert!(!nodes.is_empty() && size + nodes.len() <= view.max, "{proposal:?}");
            nodes.iter().for_each(|node| newcomer(*node));
        }
        Change::Leave(ranks) => {
            let mut distinct = ranks.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert!(
                distinct.len() == ranks.len() && !ranks.is_empty() && size - ranks.len() >= view.min.max(1),
                "{proposal:?}"
            );
        }
        Change::Arrange(moves, weights) => {
            check_moves(view, moves, proposal);
            assert_eq!(weights.len(), size);
            assert!(
                weights.iter().all(|weight| *weight > 0.0 && *weight <= 1.0 + 1e-9),
                "{proposal:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_policy_ever_proposes_what_cannot_be(view in any_view(), draw in any::<u64>()) {
        for policy in POLICIES {
            let proposals = policy.propose(&view, &Tuning::default(), draw);
            prop_assert!(proposals.len() <= 16);
            for proposal in &proposals {
                check(&view, proposal);
            }
            let again = policy.propose(&view, &Tuning::default(), draw);
            prop_assert_eq!(&again, &proposals, "the same view gives the same");
        }
    }

    #[test]
    fn the_time_of_the_present_placement_is_the_present_time(view in any_view()) {
        let tuning = Tuning::default();
        let model = ios_agent::decide::predict::Model::new(&view, &tuning);
        prop_assert!((model.after(&view.places()) - view.iteration_ms).abs() < 1e-6 * view.iteration_ms);
    }
}

#[test]
fn the_checker_notices_a_rank_that_moves_twice() {
    let view = one_loaded();
    let proposal = Proposal {
        change: Change::Migrate(vec![(2, 4), (2, 0)]),
        then_ms: 1.0,
        bytes: 0.0,
        need: Need::Relief,
        is_forced: false,
        why: "planted".into(),
    };
    assert!(std::panic::catch_unwind(|| check(&view, &proposal)).is_err());
}
