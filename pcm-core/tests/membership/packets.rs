//! Packets no honest sender makes.

use crate::network::{local, ms, name};
use pcm_core::membership::{Effect, Membership, Rejection, Target};
use proptest::prelude::*;

fn detector() -> Membership {
    Membership::new(local(0, 1), vec!["host1:1".into()], ms(0))
}

#[test]
fn a_packet_with_our_own_name_is_refused_and_counted() {
    let mut out = Vec::new();
    let mut other = Membership::new(local(1, 1), vec!["host0:1".into()], ms(0));
    other.on_tick(ms(0), &mut out);
    let Some(Effect::Send { bytes, .. }) = out.pop() else {
        panic!("a node without mates asks its seed")
    };
    let mut detector = detector();
    let refused = detector.on_message(ms(1), &name(0), &bytes, &mut out);
    assert!(matches!(refused, Err(Rejection::FromOurselves)));
    assert!(out.is_empty());
    assert_eq!(detector.counters().rejected, 1);
    assert!(detector.on_message(ms(1), &name(1), &bytes, &mut out).is_ok());
    assert!(detector.member(&name(1)).is_some());
}

/// What a node says to its seed when it begins.
fn introduction(index: usize) -> Vec<u8> {
    let mut out = Vec::new();
    Membership::new(local(index, 1), vec!["host9:1".into()], ms(0)).on_tick(ms(0), &mut out);
    match out.pop() {
        Some(Effect::Send { bytes, .. }) => bytes,
        other => panic!("a node without mates asks its seed: {other:?}"),
    }
}

/// Whether the detector asks its seed within a second.
fn asks_its_seed(detector: &mut Membership, from_ms: u64) -> bool {
    let mut out = Vec::new();
    for tick in 0..8 {
        detector.on_tick(ms(from_ms + 125 * tick), &mut out);
    }
    let is_for_seed =
        |effect: &Effect| matches!(effect, Effect::Send { to, .. } if *to == Target::Seed("host1:1".into()));
    out.iter().any(is_for_seed)
}

#[test]
fn a_node_whose_mates_are_as_new_asks_its_seed_until_it_knows_it() {
    let mut out = Vec::new();
    let mut detector = detector();
    detector
        .on_message(ms(1), &name(2), &introduction(2), &mut out)
        .unwrap();
    assert!(detector.member(&name(2)).is_some());
    assert!(asks_its_seed(&mut detector, 1000));
    detector
        .on_message(ms(2000), &name(1), &introduction(1), &mut out)
        .unwrap();
    assert!(!asks_its_seed(&mut detector, 2000));
}

#[test]
fn a_seed_that_no_known_node_has_is_asked_seldom_later_and_one_that_is_gone_is_not() {
    let mut out = Vec::new();
    let mut detector = detector();
    detector
        .on_message(ms(29_999), &name(2), &introduction(2), &mut out)
        .unwrap();
    assert!(asks_its_seed(&mut detector, 31_000));
    assert!(!asks_its_seed(&mut detector, 32_000));
    assert!(
        asks_its_seed(&mut detector, 41_000),
        "it may be the only way to another part"
    );
    detector
        .on_message(ms(42_000), &name(1), &introduction(1), &mut out)
        .unwrap();
    assert!(!asks_its_seed(&mut detector, 51_000));
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_understood_and_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut detector = detector();
        let mut out = Vec::new();
        if detector.on_message(ms(1), &name(1), &bytes, &mut out).is_err() {
            prop_assert!(out.is_empty());
            prop_assert_eq!(detector.counters().rejected, 1);
        }
    }

    #[test]
    fn a_packet_with_any_byte_changed_never_panics(at in 0usize..200, value in any::<u8>()) {
        let mut out = Vec::new();
        Membership::new(local(1, 1), vec!["host0:1".into()], ms(0)).on_tick(ms(0), &mut out);
        let Some(Effect::Send { mut bytes, .. }) = out.pop() else { panic!("a node without mates asks its seed") };
        let at = at % bytes.len();
        bytes[at] = value;
        let mut detector = detector();
        let _ = detector.on_message(ms(1), &name(1), &bytes, &mut out);
        for tick in 1..20 {
            detector.on_tick(ms(125 * tick), &mut out);
        }
    }
}
