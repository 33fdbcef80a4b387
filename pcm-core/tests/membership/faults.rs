//! Crashes, cuts and restarts.

use crate::network::{GOOD, LOSSY, Network, SLOW_AND_LOSSY, local, ms, name, seeds};
use pcm_core::membership::{Change, Effect, Health, Membership};

#[test]
fn a_crash_is_known_to_all_within_three_seconds() {
    for seed in seeds(2) {
        for size in [2, 3, 4, 5, 8, 17, 64] {
            let mut network = Network::settled(seed, size, LOSSY);
            network.run(ms(seed * 13 % 500));
            network.crash(size - 1);
            let took = network.run_until_or(ms(3000), |network| network.all_hold(size - 1, Health::Gone));
            assert!(took.is_some(), "seed {seed} size {size}");
        }
    }
}

#[test]
fn a_crash_is_known_to_somebody_within_three_seconds_even_at_300_ms() {
    for seed in seeds(2) {
        for size in [2, 3, 8, 16] {
            let mut network = Network::settled(seed, size, SLOW_AND_LOSSY);
            network.crash(size - 1);
            let is_gone = |network: &Network| {
                network
                    .reports
                    .iter()
                    .any(|report| report.node == name(size - 1) && report.change == Change::Failed)
            };
            assert!(
                network.run_until_or(ms(3000), is_gone).is_some(),
                "seed {seed} size {size}"
            );
            let known = network.run_until_or(ms(1500), |network| network.all_hold(size - 1, Health::Gone));
            assert!(known.is_some(), "seed {seed} size {size}");
        }
    }
}

#[test]
fn a_daemon_whose_connection_broke_is_known_to_be_dead_earlier() {
    let mut network = Network::settled(1, 5, GOOD);
    network.crash(4);
    for index in 0..4 {
        network.act(index, |detector, _, _| detector.on_unreachable(&name(4)));
    }
    let took = network.run_until_or(ms(3000), |network| network.all_hold(4, Health::Gone));
    assert!(took.is_some_and(|took| took < ms(2300)), "{took:?}");
}

#[test]
fn a_node_that_is_cut_off_is_known_within_three_seconds_and_comes_back_when_the_cut_heals() {
    for seed in seeds(2) {
        for size in [3, 6, 20] {
            let mut network = Network::settled(seed, size, LOSSY);
            let others: Vec<usize> = (0..size - 1).collect();
            network.partition(&[size - 1], &others, true);
            let took = network.run_until_or(ms(3000), |network| network.all_hold(size - 1, Health::Gone));
            assert!(took.is_some(), "seed {seed} size {size}");
            network.run(ms(3000));
            network.partition(&[size - 1], &others, false);
            let healed = network.run_until_or(ms(10_000), Network::is_whole);
            assert!(healed.is_some(), "seed {seed} size {size}");
            let returned =
                |report: &crate::network::Report| report.node == name(size - 1) && report.change == Change::Returned;
            assert!(network.reports.iter().any(returned), "seed {seed} size {size}");
        }
    }
}

#[test]
fn who_was_cut_off_brings_no_false_deaths_back() {
    for seed in seeds(2) {
        for size in [3, 6, 20] {
            let mut network = Network::settled(seed, size, GOOD);
            let others: Vec<usize> = (0..size - 1).collect();
            network.partition(&[size - 1], &others, true);
            network.run(ms(15_000));
            let mourned = |network: &Network, by_itself: bool| {
                let of_others = network.reports.iter().filter(|report| report.node != name(size - 1));
                let mut failed = of_others.filter(|report| report.change == Change::Failed);
                failed.any(|report| (report.by == name(size - 1)) == by_itself)
            };
            assert!(
                mourned(&network, true),
                "seed {seed} size {size}: it did not give up on anybody"
            );
            network.partition(&[size - 1], &others, false);
            let healed = network.run_until_or(ms(30_000), Network::is_whole);
            assert!(healed.is_some(), "seed {seed} size {size}");
            assert!(
                !mourned(&network, false),
                "seed {seed} size {size}: {:?}",
                network.reports
            );
        }
    }
}

#[test]
fn two_halves_that_lost_each_other_become_one_cluster_again() {
    for seed in seeds(2) {
        for size in [4, 15, 40] {
            let mut network = Network::settled(seed, size, LOSSY);
            let (one, other): (Vec<usize>, Vec<usize>) = (0..size).partition(|index| index % 2 == 0);
            network.partition(&one, &other, true);
            network.run(ms(15_000));
            for index in 0..size {
                assert!(
                    !network.all_hold(index, Health::Up),
                    "seed {seed} size {size}: the cut did not show"
                );
            }
            network.partition(&one, &other, false);
            assert!(
                network.run_until_or(ms(30_000), Network::is_whole).is_some(),
                "seed {seed} size {size}"
            );
        }
    }
}

#[test]
fn half_of_a_cluster_dying_at_once_is_noticed_completely() {
    for seed in seeds(2) {
        let mut network = Network::settled(seed, 32, LOSSY);
        for index in 16..32 {
            network.crash(index);
        }
        let all_gone = |network: &Network| (16..32).all(|index| network.all_hold(index, Health::Gone));
        let took = network.run_until_or(ms(12_000), all_gone);
        assert!(took.is_some(), "seed {seed}");
    }
}

#[test]
fn a_restart_is_seen_as_a_restart_even_before_the_crash_was_noticed() {
    for seed in seeds(2) {
        for (size, pause) in [(2, 100), (6, 100), (6, 5000), (30, 1500)] {
            let mut network = Network::settled(seed, size, LOSSY);
            network.crash(size - 1);
            network.run(ms(pause));
            network.start(size - 1, 2);
            assert!(
                network.run_until_or(ms(6000), Network::is_whole).is_some(),
                "seed {seed} size {size}"
            );
            network.run(ms(5000));
            for by in 0..size - 1 {
                let restarts = |report: &&crate::network::Report| {
                    report.by == name(by) && report.node == name(size - 1) && report.change == Change::Restarted
                };
                assert_eq!(
                    network.reports.iter().filter(restarts).count(),
                    1,
                    "seed {seed} size {size} by {by}"
                );
            }
            assert!(network.is_whole());
        }
    }
}

/// A daemon outside the network says what it has to say to node 0 and hears the answers.
fn exchange(network: &mut Network, outside: &mut Membership) -> Vec<Effect> {
    let (mut out, mut answers) = (Vec::new(), Vec::new());
    outside.on_tick(network.now, &mut out);
    for said in out.drain(..) {
        if let Effect::Send { bytes, .. } = said {
            network.act(0, |detector, now, out| {
                detector.on_message(now, &name(4), &bytes, out).unwrap();
                answers.extend(out.iter().cloned());
            });
        }
    }
    for answer in answers {
        if let Effect::Send { bytes, .. } = answer {
            outside.on_message(network.now, &name(0), &bytes, &mut out).unwrap();
        }
    }
    out
}

#[test]
fn an_old_daemon_learns_that_a_later_one_has_its_name() {
    let mut network = Network::settled(2, 5, GOOD);
    let mut older = Membership::new(local(4, 0), vec!["host0:1".into()], network.now);
    let mut last = Vec::new();
    for _ in 0..10 {
        last = exchange(&mut network, &mut older);
        if last.iter().any(|effect| matches!(effect, Effect::Superseded { .. })) {
            break;
        }
        // It may bid once for the name; the daemon that runs in the network bids higher.
        network.run(ms(1000));
    }
    assert!(
        last.iter()
            .any(|effect| matches!(effect, Effect::Superseded { boot } if *boot > 1)),
        "{last:?}"
    );
    assert_eq!(network.superseded, []);
    network.run(ms(3000));
    assert!(network.is_whole());
}
