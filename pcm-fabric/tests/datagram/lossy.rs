//! Whatever the network does, each exchange is delivered once or reported failed by its deadline.

use crate::{
    history::History,
    network::{Event, Faults, Network},
};
use pcm_fabric::datagram::{DatagramLimits, ExchangeId, MESSAGE_LENGTH_MAX};
use std::{collections::BTreeMap, time::Duration};

const NODES: u16 = 3;
const EXCHANGES: u64 = 40;

/// A message that carries its label and can be checked byte for byte.
fn message(label: u64, length: usize) -> Vec<u8> {
    let mut bytes = label.to_le_bytes().to_vec();
    bytes.extend((0..length).map(|at| (at as u64).wrapping_mul(31).wrapping_add(label) as u8));
    bytes
}

fn label_of(bytes: &[u8]) -> u64 {
    let label = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes == message(label, bytes.len() - 8), "message {label} was changed");
    label
}

/// One history: random messages at random moments, some of them around the restart of a peer.
fn play(seed: u64, faults: Faults, restarts: bool) -> (History, Network) {
    let mut network = Network::new(seed, faults, NODES);
    let mut history = History::default();
    let mut open: BTreeMap<(u16, ExchangeId), u64> = BTreeMap::new();
    let restart_at = (restarts && network.dice.below(100) < 80).then(|| network.dice.below(EXCHANGES));
    for label in 0..EXCHANGES {
        if restart_at == Some(label) {
            network.restart(2);
            for ((from, _), label) in &open {
                if *from == 2 {
                    history.exchanges.get_mut(label).unwrap().is_orphan = true;
                }
            }
            open.retain(|(from, _), _| *from != 2);
        }
        let (from, to) = match network.dice.below(6) {
            0 => (0, 1),
            1 => (1, 0),
            2 => (0, 2),
            3 => (2, 0),
            4 => (1, 2),
            _ => (2, 1),
        };
        let length = match network.dice.below(10) {
            0 => network.dice.below((MESSAGE_LENGTH_MAX - 8) as u64),
            1..=3 => network.dice.below(8 << 10),
            _ => network.dice.below(400),
        };
        let patience = match network.dice.below(4) {
            0 => network.dice.below(200),
            1 => 1000,
            _ => 15_000,
        };
        let (now, deadline) = (network.now, Duration::from_millis(patience));
        let bytes = message(label, length as usize);
        history.begin(label, now + deadline);
        let exchange = network.at(from).send(now, to, bytes, deadline).unwrap();
        open.insert((from, exchange), label);
        history.exchanges.get_mut(&label).unwrap().must_succeed =
            patience == 15_000 && (restart_at.is_none() || (from != 2 && to != 2)) && length < 8 << 10;
        let pause = if network.dice.below(100) < 70 { 3 } else { 300 };
        let until = network.now + Duration::from_millis(network.dice.below(pause));
        advance(&mut network, until, &mut history, &mut open);
    }
    let until = network.now + Duration::from_secs(16);
    advance(&mut network, until, &mut history, &mut open);
    (history, network)
}

fn advance(network: &mut Network, until: Duration, history: &mut History, open: &mut BTreeMap<(u16, ExchangeId), u64>) {
    network.run(until, |now, at, event| match event {
        Event::Received(received) => history.delivered(label_of(&received.message)),
        Event::Finished(exchange, outcome) => {
            let label = open.remove(&(at, exchange)).expect("an outcome of nothing");
            history.finished(label, now, outcome.is_ok());
        }
    });
}

fn seeds() -> std::ops::Range<u64> {
    match std::env::var("PCM_SEED").ok().and_then(|seed| seed.parse::<u64>().ok()) {
        Some(seed) => seed..seed + 1,
        None => {
            0..std::env::var("PCM_SEEDS")
                .ok()
                .and_then(|n| n.parse().ok())
                .unwrap_or(400)
        }
    }
}

#[test]
fn every_exchange_is_delivered_once_or_reported_failed_in_its_deadline() {
    let (mut failed, mut restarts) = (0, 0);
    for seed in seeds() {
        let (history, network) = play(seed, Faults::HARSH, true);
        if let Err(broken) = history.check() {
            panic!("{broken}\nreplay with PCM_SEED={seed}");
        }
        failed += history
            .exchanges
            .values()
            .filter(|exchange| matches!(exchange.outcome, Some((_, false))))
            .count();
        restarts += network
            .endpoints
            .values()
            .map(|core| core.counters().restarts_seen)
            .sum::<u64>();
    }
    assert!(
        failed > 0 || seeds().end - seeds().start == 1,
        "no deadline was ever missed: too kind a network"
    );
    assert!(
        restarts > 0 || seeds().end - seeds().start == 1,
        "no restart was ever seen"
    );
}

#[test]
fn on_a_kind_network_nothing_fails_and_nothing_is_sent_twice() {
    for seed in 0..100 {
        let (history, network) = play(seed, Faults::NONE, false);
        history.check().unwrap();
        for exchange in history.exchanges.values() {
            let (_, ok) = exchange.outcome.unwrap();
            assert!(ok || exchange.due < Duration::from_secs(5), "{exchange:?}");
        }
        for core in network.endpoints.values() {
            let counters = core.counters();
            assert_eq!(
                (counters.replayed, counters.stale, counters.forged),
                (0, 0, 0),
                "{counters:?}"
            );
        }
    }
}

#[test]
fn a_silent_network_leaves_no_state_behind() {
    for seed in 0..20 {
        let (_, mut network) = play(seed, Faults::HARSH, true);
        let until = network.now + 2 * DatagramLimits::default().idle_max;
        network.run(until, |_, _, _| {});
        for core in network.endpoints.values() {
            assert_eq!(core.held(), (0, 0, 0));
            assert_eq!(core.next_wakeup(), None);
        }
    }
}

#[test]
fn a_peer_that_forgot_us_is_reached_again_and_nothing_is_delivered_twice() {
    let mut network = Network::new(1, Faults::NONE, 2);
    let forgetful = DatagramLimits {
        idle_max: Duration::from_secs(61),
        ..DatagramLimits::default()
    };
    network.restart_with(1, forgetful);
    let mut got = Vec::new();
    let mut outcomes = Vec::new();
    for label in 0..3 {
        let now = network.now;
        let deadline = Duration::from_secs(1);
        network.at(0).send(now, 1, message(label, 10), deadline).unwrap();
        // The receiver forgets, the sender does not.
        network.run(now + Duration::from_secs(65), |_, _, event| match event {
            Event::Received(received) => got.push(label_of(&received.message)),
            Event::Finished(_, outcome) => outcomes.push(outcome),
        });
        assert_eq!(network.at(1).held().1, 0);
        assert_eq!(network.at(0).held().0, 1);
    }
    assert_eq!(got, [0, 1, 2]);
    assert_eq!(outcomes, [Ok(()); 3]);
    assert_eq!(network.at(1).counters().challenged, 3);
}

#[test]
fn a_new_epoch_of_keys_interrupts_nothing() {
    let mut network = Network::new(3, Faults::HARSH, 2);
    let mut confirmed = 0;
    for epoch in 2..8 {
        network.at(0).turn(epoch);
        for label in 0..5 {
            let now = network.now;
            let deadline = Duration::from_secs(15);
            network.at(0).send(now, 1, message(label, 3000), deadline).unwrap();
            network.at(1).send(now, 0, message(label, 3000), deadline).unwrap();
        }
        let until = network.now + Duration::from_millis(40);
        let mut on_event = |_, _, event: Event| {
            confirmed += usize::from(matches!(event, Event::Finished(_, Ok(()))));
        };
        network.run(until, &mut on_event);
        network.at(1).turn(epoch);
        network.run(until + Duration::from_secs(16), &mut on_event);
    }
    assert_eq!(confirmed, 60);
}
