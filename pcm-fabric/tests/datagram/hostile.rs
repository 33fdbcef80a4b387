//! Strangers and replayers get nothing out of an endpoint: no answer longer than what they sent, no state, no memory.

use crate::network::{Event, Faults, Network, incarnation, key};
use pcm_fabric::{
    ClusterKey,
    datagram::{Core, DatagramLimits, wire::Header},
};
use pcm_proto::random::Random;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    time::Duration,
};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Counts what the present thread allocates.
struct Counting;

#[allow(unsafe_code, reason = "an allocator cannot be written without")]
// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SECOND: Duration = Duration::from_secs(1);

/// Two endpoints that exchanged messages, and every packet between them.
fn recorded() -> (Network, Vec<(u16, u16, Vec<u8>)>) {
    let mut network = Network::new(5, Faults::NONE, 2);
    network.recorded = Some(Vec::new());
    for length in [5, 5000, 50_000] {
        let now = network.now;
        network.at(0).send(now, 1, vec![7; length], SECOND).unwrap();
        network.run(now + SECOND, |_, _, _| ());
    }
    let packets = network.recorded.take().unwrap();
    (network, packets)
}

fn drain(core: &mut Core<u16>, now: Duration) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut packets = Vec::new();
    while core.poll_transmit(now, &mut out).is_some() {
        packets.push(out.clone());
    }
    packets
}

#[test]
fn a_flood_of_forged_packets_costs_no_memory_no_state_and_no_answer() {
    let (mut network, packets) = recorded();
    let mut dice = Random::new(9);
    let held = network.at(1).held();
    let mut forged: Vec<Vec<u8>> = Vec::new();
    for (_, _, packet) in &packets {
        for _ in 0..20 {
            let mut packet = packet.clone();
            let at = dice.below(packet.len() as u64) as usize;
            packet[at] ^= 1 << dice.below(8);
            forged.push(packet);
        }
        let mut random: Vec<u8> = (0..dice.below(1400)).map(|_| dice.number() as u8).collect();
        forged.push(random.clone());
        // As like the real thing as a stranger can make it: the header of a member, and a life never seen.
        let head = random.len().min(58);
        random[..head].copy_from_slice(&packet[..head]);
        forged.push(random.clone());
        if random.len() > 22 {
            random[6..22].copy_from_slice(&incarnation(&mut dice).0);
            forged.push(random);
        }
    }
    let (now, before) = (network.now, network.at(1).counters());
    let core = network.at(1);
    let allocations = ALLOCATIONS.get();
    for (number, packet) in forged.iter_mut().enumerate() {
        core.on_packet(now, number as u16, packet);
    }
    assert_eq!(ALLOCATIONS.get(), allocations, "forged packets allocated memory");
    assert_eq!(core.held(), held);
    let after = core.counters();
    let refused = (after.forged + after.not_ours + after.stale) - (before.forged + before.not_ours + before.stale);
    assert_eq!(refused, forged.len() as u64);
    assert!(drain(core, now).is_empty(), "a stranger was answered");
}

#[test]
fn what_a_member_sent_works_only_once() {
    let (mut network, packets) = recorded();
    let now = network.now;
    for (from, to, packet) in &packets {
        let core = network.at(*to);
        core.on_packet(now, *from, &mut packet.clone());
        assert!(!core.has_received(), "a replayed packet was delivered");
        for answer in drain(core, now) {
            assert!(
                answer.len() <= packet.len(),
                "{} bytes answer {}",
                answer.len(),
                packet.len()
            );
        }
        assert_eq!(core.poll_outcome(), None);
    }
}

#[test]
fn what_was_sent_to_a_former_life_or_a_forgetful_one_is_not_delivered() {
    let (mut network, packets) = recorded();
    network.run(network.now + 3 * DatagramLimits::default().idle_max, |_, _, _| ());
    assert_eq!(network.at(1).held(), (0, 0, 0));
    for is_restarted in [false, true] {
        if is_restarted {
            network.restart(1);
        }
        let now = network.now;
        for (from, _, packet) in packets.iter().filter(|(_, to, _)| *to == 1) {
            let core = network.at(1);
            core.on_packet(now, *from, &mut packet.clone());
            let answers = drain(core, now);
            assert!(answers.iter().map(Vec::len).sum::<usize>() <= packet.len());
            assert!(!core.has_received());
            assert_eq!(core.held(), (0, 0, 0), "a replayed packet made state");
        }
    }
}

#[test]
fn a_packet_for_one_member_is_nothing_to_another() {
    let (_, packets) = recorded();
    let mut third = Network::new(77, Faults::NONE, 1);
    for (from, _, packet) in &packets {
        let core = third.at(0);
        core.on_packet(SECOND, *from, &mut packet.clone());
        assert!(!core.has_received());
        assert!(drain(core, SECOND).iter().map(Vec::len).sum::<usize>() <= packet.len());
    }
    assert_eq!(third.at(0).held(), (0, 0, 0));
}

#[test]
fn no_answer_is_longer_than_what_it_answers() {
    let mut network = Network::new(11, Faults::NONE, 2);
    network.recorded = Some(Vec::new());
    for length in 0..200 {
        let now = network.now;
        network.at(0).send(now, 1, vec![1; length * 7], SECOND).unwrap();
    }
    network.run(SECOND, |_, _, _| ());
    let (mut asked, mut answered) = (0, 0);
    for (from, _, packet) in network.recorded.take().unwrap() {
        if from == 0 {
            asked += packet.len();
        } else {
            answered += packet.len();
            assert!(answered <= asked, "{answered} bytes answer {asked}");
        }
    }
    assert!(answered > 0);
}

#[test]
fn messages_that_are_never_completed_hold_no_more_than_their_limit() {
    let limits = DatagramLimits {
        unfinished_bytes_all_max: 300_000,
        ..DatagramLimits::default()
    };
    let mut network = Network::new(12, Faults::NONE, 9);
    network.restart_with(0, limits);
    for sender in 1..9 {
        for _ in 0..8 {
            network
                .at(sender)
                .send(Duration::ZERO, 0, vec![1; 50_000], SECOND)
                .unwrap();
        }
    }
    // A third of the fragments never arrives, so messages pile up unfinished.
    network.faults.loss = 30;
    let mut outcomes = 0;
    network.run(Duration::from_millis(500), |_, _, event| {
        outcomes += u32::from(matches!(event, Event::Finished(..)));
    });
    assert!(network.at(0).counters().no_room > 0, "the limit was never reached");
    network.run(30 * SECOND, |_, _, event| {
        outcomes += u32::from(matches!(event, Event::Finished(..)));
    });
    assert_eq!(outcomes, 64);
}

#[test]
fn an_application_that_takes_nothing_holds_its_senders_back() {
    let limits = DatagramLimits {
        received_max: 10,
        ..DatagramLimits::default()
    };
    let mut dice = Random::new(1);
    let mut sender: Core<u16> = Core::new(&key(), 1, incarnation(&mut dice), limits);
    let mut receiver: Core<u16> = Core::new(&key(), 1, incarnation(&mut dice), limits);
    for _ in 0..50 {
        sender.send(Duration::ZERO, 1, vec![0; 2000], 10 * SECOND).unwrap();
    }
    let mut out = Vec::new();
    let mut now = Duration::ZERO;
    while now < 5 * SECOND {
        sender.on_time(now);
        receiver.on_time(now);
        while sender.poll_transmit(now, &mut out).is_some() {
            receiver.on_packet(now, 0, &mut out);
        }
        while receiver.poll_transmit(now, &mut out).is_some() {
            sender.on_packet(now, 1, &mut out);
        }
        now += Duration::from_millis(10);
    }
    assert_eq!(receiver.counters().delivered, 10);
    assert_eq!(sender.counters().confirmed, 10);
}

#[test]
fn a_key_of_another_cluster_or_epoch_opens_nothing() {
    let mut dice = Random::new(2);
    let mut sender: Core<u16> = Core::new(&key(), 5, incarnation(&mut dice), DatagramLimits::default());
    sender.send(Duration::ZERO, 1, vec![1; 10], SECOND).unwrap();
    let hello = drain(&mut sender, Duration::ZERO).remove(0);
    assert_eq!(Header::parse(&hello).unwrap().epoch, 5);
    let other = ClusterKey::from_hex("test", &"5b".repeat(32)).unwrap();
    let renamed = ClusterKey::from_hex("rest", &"5a".repeat(32)).unwrap();
    for (key, epoch, is_answered) in [
        (&key(), 5, true),
        (&key(), 4, true),
        (&key(), 7, false),
        (&other, 5, false),
        (&renamed, 5, false),
    ] {
        let mut receiver: Core<u16> = Core::new(key, epoch, incarnation(&mut dice), DatagramLimits::default());
        receiver.on_packet(Duration::ZERO, 0, &mut hello.clone());
        assert_eq!(drain(&mut receiver, Duration::ZERO).len(), usize::from(is_answered));
    }
}
