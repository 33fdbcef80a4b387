//! Rules of the numbering, one by one and in random histories over two transports.

use super::*;
use crate::peers::dice::Dice;

const LONG: Duration = Duration::from_secs(1);

fn ordinal(number: u64, since: u64) -> Ordinal {
    Ordinal { boot: 7, number, since }
}

fn delivered(incoming: &mut ReceiveSequence<u64>, ordinal: Ordinal, now: Instant) -> Vec<u64> {
    let released = incoming.on_message(ordinal, ordinal.number, now);
    assert!(!released.has_gap, "{ordinal:?} breaks the order");
    released.messages
}

#[test]
fn a_repeated_message_is_dropped_and_an_early_one_is_held() {
    let (mut incoming, now) = (ReceiveSequence::default(), Instant::now());
    assert_eq!(delivered(&mut incoming, ordinal(0, 0), now), [0]);
    assert!(delivered(&mut incoming, ordinal(2, 0), now).is_empty());
    assert!(delivered(&mut incoming, ordinal(2, 0), now).is_empty());
    assert_eq!(delivered(&mut incoming, ordinal(1, 0), now), [1, 2]);
    assert!(delivered(&mut incoming, ordinal(1, 0), now).is_empty());
    assert!(incoming.on_time(now + LONG).messages.is_empty());
}

#[test]
fn a_lost_message_is_a_gap_after_a_second() {
    let (mut incoming, now) = (ReceiveSequence::default(), Instant::now());
    assert!(delivered(&mut incoming, ordinal(1, 0), now).is_empty());
    let early = incoming.on_time(now + LONG / 2);
    assert!(early.messages.is_empty() && !early.has_gap);
    let late = incoming.on_time(now + LONG);
    assert_eq!((late.messages, late.has_gap), (vec![1], true));
    assert!(
        delivered(&mut incoming, ordinal(0, 0), now).is_empty(),
        "0 would be out of order now"
    );
}

#[test]
fn a_message_that_was_given_up_is_waited_for_and_is_no_gap() {
    let (mut incoming, now) = (ReceiveSequence::default(), Instant::now());
    assert_eq!(delivered(&mut incoming, ordinal(0, 0), now), [0]);
    assert!(delivered(&mut incoming, ordinal(3, 3), now).is_empty());
    let released = incoming.on_time(now + LONG);
    assert_eq!((released.messages, released.has_gap), (vec![3], false));
    assert!(delivered(&mut incoming, ordinal(6, 6), now).is_empty());
    for late in [4, 5] {
        assert_eq!(delivered(&mut incoming, ordinal(late, 3), now).first(), Some(&late));
    }
    assert!(
        incoming.on_time(now + LONG).messages.is_empty(),
        "6 was delivered after 5"
    );
}

#[test]
fn a_new_life_starts_at_its_since_and_the_earlier_life_is_dropped() {
    let (mut incoming, now) = (ReceiveSequence::default(), Instant::now());
    assert_eq!(delivered(&mut incoming, ordinal(0, 0), now), [0]);
    let next_life = Ordinal {
        boot: 8,
        number: 5,
        since: 5,
    };
    assert!(delivered(&mut incoming, next_life, now).is_empty());
    assert_eq!(incoming.on_time(now + LONG).messages, [5]);
    assert!(delivered(&mut incoming, ordinal(1, 0), now).is_empty());
}

#[test]
fn a_restarted_receiver_sees_no_gap_in_messages_of_its_earlier_life() {
    let mut outgoing = SendSequence::new(7);
    for _ in 0..4 {
        outgoing.advance();
    }
    outgoing.give_up(None);
    let mut incoming = ReceiveSequence::default();
    let (next, now) = (outgoing.advance(), Instant::now());
    assert!(delivered(&mut incoming, next, now).is_empty());
    let late = incoming.on_time(now + LONG);
    assert_eq!((late.messages, late.has_gap), (vec![4], false));
}

#[test]
fn messages_on_a_link_that_is_reported_after_a_newer_one_are_not_lost() {
    let (mut outgoing, mut incoming, now) = (SendSequence::new(7), ReceiveSequence::default(), Instant::now());
    let first_link: Vec<Ordinal> = (0..3).map(|_| outgoing.advance()).collect();
    outgoing.give_up(None);
    let second_link = outgoing.advance();
    assert!(delivered(&mut incoming, second_link, now).is_empty());
    let received: Vec<u64> = first_link
        .into_iter()
        .flat_map(|sent| delivered(&mut incoming, sent, now))
        .collect();
    assert_eq!(received, [0, 1, 2, 3]);
}

#[test]
fn a_message_that_is_sent_again_is_not_given_up() {
    let mut outgoing = SendSequence::new(7);
    let first = outgoing.advance();
    outgoing.advance();
    outgoing.give_up(Some(first.number));
    let mut incoming = ReceiveSequence::default();
    let again = outgoing.ordinal_of(first.number);
    assert_eq!(delivered(&mut incoming, again, Instant::now()), [0]);
}

#[test]
fn a_limited_number_of_early_messages_is_held() {
    let (mut incoming, now) = (ReceiveSequence::default(), Instant::now());
    let mut broken = 0;
    for number in 1..5000 {
        let Released { has_gap, .. } = incoming.on_message(ordinal(number, 0), number, now);
        broken += u32::from(has_gap);
    }
    assert_eq!(broken, 1, "after that all messages are in order");
}

/// An ordered link beside datagrams that arrive twice, late and in any order; none is lost.
#[test]
fn overtaking_and_repeated_messages_are_delivered_once_and_in_order() {
    for seed in 0..300 {
        let (dice, now) = (Dice::new(seed), Instant::now());
        let (mut outgoing, mut incoming) = (SendSequence::new(7), ReceiveSequence::default());
        let (mut link, mut datagrams) = (Vec::new(), Vec::new());
        let mut received = Vec::new();
        for _ in 0..200 {
            let sent = outgoing.advance();
            match dice.below(3) {
                0 => link.push(sent),
                1 => datagrams.extend([sent; 2]),
                _ => {
                    datagrams.push(sent);
                    link.push(sent);
                }
            }
            while dice.below(3) > 0 {
                let come = match (link.is_empty(), datagrams.is_empty()) {
                    (false, _) if dice.below(2) == 0 => link.remove(0),
                    (_, false) => datagrams.swap_remove(dice.below(datagrams.len() as u64) as usize),
                    _ => break,
                };
                received.extend(delivered(&mut incoming, come, now));
            }
        }
        for rest in link.into_iter().chain(datagrams) {
            received.extend(delivered(&mut incoming, rest, now));
        }
        assert_eq!(received, (0..200).collect::<Vec<_>>(), "seed {seed}");
    }
}

/// Links break with messages on them, and the receiver is restarted.
#[test]
fn after_losses_no_message_is_delivered_twice_or_out_of_order_and_later_ones_are() {
    for seed in 0..300 {
        let (dice, mut now) = (Dice::new(seed), Instant::now());
        let (mut outgoing, mut incoming) = (SendSequence::new(7), ReceiveSequence::default());
        let mut link: Vec<Ordinal> = Vec::new();
        let mut last = None;
        for round in 0..300 {
            link.push(outgoing.advance());
            let mut released = Vec::new();
            match dice.below(8) {
                0 => {
                    // Some messages of the link arrive after the sender gave them up.
                    let arrives = dice.below(link.len() as u64 + 1) as usize;
                    link.truncate(arrives);
                    outgoing.give_up(None);
                    if dice.below(2) == 0 {
                        link.drain(..)
                            .for_each(|sent| released.extend(delivered(&mut incoming, sent, now)));
                    }
                }
                1 if round < 250 => {
                    (incoming, last) = (ReceiveSequence::default(), None);
                    link.clear();
                    outgoing.give_up(None);
                }
                2..5 => link
                    .drain(..)
                    .for_each(|sent| released.extend(delivered(&mut incoming, sent, now))),
                5 => {
                    now += LONG;
                    let late = incoming.on_time(now);
                    assert!(!late.has_gap, "seed {seed}: the sender knew of every loss");
                    released = late.messages;
                }
                _ => {}
            }
            for number in released {
                assert!(last < Some(number), "seed {seed}: {number} after {last:?}");
                last = Some(number);
            }
        }
        link.drain(..)
            .for_each(|sent| drop(incoming.on_message(sent, sent.number, now)));
        incoming.on_time(now + LONG);
        let next = outgoing.advance();
        let mut received = delivered(&mut incoming, next, now);
        received.extend(incoming.on_time(now + LONG).messages);
        assert_eq!(received, [next.number], "seed {seed}");
    }
}
