//! Orders that waited for a node until it came back as a new one.

mod one_node;

use one_node::{heritage, no_past, order, start_order};
use pcm_core::moment::Moment;
use pcm_core::node::outbox::Effect;
use pcm_core::node::ranks::effect::RankEffect;
use pcm_proto::ids::JobId;
use pcm_proto::peer::StartOrder;
use std::time::Duration;

/// Whether a node starts something by an order for the node whose keeper has run since then.
fn starts(keeper_since_us: u64) -> bool {
    let now = Moment(1);
    let mut node = one_node::node(1, now, Duration::from_secs(25), None);
    node.begin(heritage(no_past(1)));
    let for_it = StartOrder {
        keeper_since_us,
        ..start_order()
    };
    let effects = node.handle(now, order(JobId(1), for_it));
    let starts = |effect: &Effect| matches!(effect, Effect::Rank(RankEffect::Launch(_)));
    effects.iter().any(starts)
}

#[test]
fn a_node_starts_nothing_by_an_order_that_was_for_it_before_it_was_born_again() {
    let own = one_node::report(1, None).keeper_since_us;
    assert!(starts(own), "it is for this life");
    assert!(starts(0), "its sender did not know the node yet");
    assert!(!starts(own - 1), "it is for the life before");
}
