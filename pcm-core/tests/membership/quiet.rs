//! What must not happen while nobody fails, and what the quiet costs.

use crate::network::{GOOD, LOSSY, Network, SLOW, SLOW_AND_LOSSY, ms, name, seeds};
use pcm_core::membership::{Change, Health};

#[test]
fn nodes_that_know_one_seed_soon_know_everybody() {
    for seed in seeds(2) {
        for size in [2, 3, 9, 64] {
            let mut network = Network::new(seed, LOSSY);
            for index in 0..size {
                network.start(index, 1);
            }
            let took = network.run_until_or(ms(20_000), Network::is_whole);
            assert!(
                took.is_some_and(|took| took < ms(6000)),
                "seed {seed} size {size}: {took:?}"
            );
        }
    }
}

#[test]
fn nobody_is_suspected_while_every_packet_arrives_within_300_ms() {
    for seed in seeds(2) {
        for size in [2, 3, 5, 16] {
            let mut network = Network::settled(seed, size, SLOW);
            network.run(ms(30_000));
            assert_eq!(network.reports, [], "seed {seed} size {size}");
        }
    }
}

#[test]
fn nobody_is_taken_for_dead_at_300_ms_and_a_tenth_of_the_packets_lost() {
    for seed in seeds(2) {
        for size in [3, 4, 7, 24] {
            let mut network = Network::settled(seed, size, SLOW_AND_LOSSY);
            network.run(ms(20_000));
            let failed: Vec<_> = network
                .reports
                .iter()
                .filter(|report| report.change == Change::Failed)
                .collect();
            assert!(failed.is_empty(), "seed {seed} size {size}: {failed:?}");
        }
    }
}

#[test]
fn nodes_short_of_cpu_are_not_taken_for_dead_and_accuse_nobody() {
    for seed in seeds(2) {
        for size in [2, 4, 16] {
            let mut network = Network::settled(seed, size, GOOD);
            for round in 0..40 {
                network.stall((round * 7 + usize::try_from(seed).unwrap()) % size, ms(900));
                network.stall((round * 3 + 1) % size, ms(400));
                network.run(ms(700));
            }
            let failed: Vec<_> = network
                .reports
                .iter()
                .filter(|report| report.change == Change::Failed)
                .collect();
            assert!(failed.is_empty(), "seed {seed} size {size}: {failed:?}");
        }
    }
}

#[test]
fn a_node_that_was_stopped_for_long_accuses_nobody_when_it_goes_on() {
    for seed in seeds(2) {
        let mut network = Network::settled(seed, 6, GOOD);
        // Its packets are lost meanwhile, as a full socket would lose them.
        network.partition(&[2], &[0, 1, 3, 4, 5], true);
        network.stall(2, ms(10_000));
        network.run(ms(9_990));
        network.partition(&[2], &[0, 1, 3, 4, 5], false);
        network.run(ms(10_000));
        let accused: Vec<_> = network.reports.iter().filter(|report| report.by == name(2)).collect();
        assert!(accused.is_empty(), "seed {seed}: {accused:?}");
        assert!(network.all_hold(2, Health::Up), "seed {seed}");
    }
}

#[test]
fn one_broken_path_between_two_nodes_makes_nobody_suspect() {
    for seed in seeds(2) {
        for size in [3, 8] {
            let mut network = Network::settled(seed, size, GOOD);
            network.cut(0, 1, true);
            network.cut(1, 0, seed % 2 == 0);
            network.run(ms(20_000));
            assert_eq!(network.reports, [], "seed {seed} size {size}");
        }
    }
}

#[test]
fn packets_per_node_do_not_grow_with_the_cluster() {
    let rate = |size: usize| {
        let mut network = Network::settled(1, size, GOOD);
        let before = network.packets;
        network.run(ms(10_000));
        (network.packets - before) / (10 * u64::try_from(size).unwrap())
    };
    let rates: Vec<u64> = [8, 32, 128].into_iter().map(rate).collect();
    // Four probes and four answers, four times a second.
    assert!(rates.iter().all(|rate| (28..=34).contains(rate)), "{rates:?}");
}

#[test]
fn draining_is_seen_by_all_and_taken_back() {
    let mut network = Network::settled(3, 12, LOSSY);
    network.act(4, |detector, now, out| detector.drain(true, now, out));
    assert!(
        network
            .run_until_or(ms(3000), |network| network.all_hold(4, Health::Draining))
            .is_some()
    );
    network.act(4, |detector, now, out| detector.drain(false, now, out));
    assert!(
        network
            .run_until_or(ms(3000), |network| network.all_hold(4, Health::Up))
            .is_some()
    );
    assert!(network.reports.iter().all(|report| report.change != Change::Failed));
}

#[test]
fn leaving_on_purpose_is_not_a_failure() {
    for seed in seeds(2) {
        for size in [2, 5, 40] {
            let mut network = Network::settled(seed, size, LOSSY);
            network.act(1, |detector, now, out| detector.leave(now, out));
            let took = network.run_until_or(ms(3000), |network| network.all_hold(1, Health::Left));
            assert!(took.is_some(), "seed {seed} size {size}");
            network.run(ms(5000));
            assert_eq!((network.left.clone(), network.size()), (vec![name(1)], size - 1));
            let about: Vec<_> = network.reports.iter().filter(|report| report.node == name(1)).collect();
            assert!(
                about.iter().all(|report| report.change == Change::Left),
                "seed {seed} size {size}: {about:?}"
            );
        }
    }
}
