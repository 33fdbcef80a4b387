//! Shares of the data by the speeds of nodes, and what they are expected to bring.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use ios_agent::decide::proposal::Change;
use ios_agent::decide::tuning::Tuning;
use ios_agent::decide::view::View;
use ios_agent::policy::choice::policy;
use support::{node, rank, view};

/// The shares that `cost` would give the ranks where they are, and the time of an iteration then.
fn shares(view: &View) -> Option<(Vec<f64>, f64)> {
    let proposals = policy("cost").unwrap().propose(view, &Tuning::default(), 7);
    proposals.into_iter().find_map(|proposal| match proposal.change {
        Change::Arrange(moves, weights) if moves.is_empty() => Some((weights, proposal.then_ms)),
        _ => None,
    })
}

#[test]
fn of_shares_that_hardly_change_nothing_is_expected() {
    let nodes = vec![node("a", 1), node("b", 1)];
    // Of equal data on equal nodes one takes longer: other shares by speed are the same shares.
    let mut view = view(nodes, vec![rank(0, 10.0), rank(1, 30.0)]);
    let (weights, then_ms) = shares(&view).unwrap();
    assert!((weights[0] - weights[1]).abs() < 1e-6 && (then_ms - view.iteration_ms).abs() < 1e-6);
    // The shares follow the speeds already.
    view.ranks[0].data = 2.0;
    (view.ranks[1].useful_ms, view.iteration_ms) = (10.0, 11.0);
    view.nodes[1].speed = 0.5;
    let (weights, then_ms) = shares(&view).unwrap();
    assert!((weights[0] / weights[1] - 2.0).abs() < 1e-6 && (then_ms - view.iteration_ms).abs() < 1e-6);
}

#[test]
fn shares_by_speed_come_within_five_per_cent_of_the_best() {
    let mut nodes = vec![node("a", 1), node("b", 1)];
    nodes[1].speed = 0.5;
    let view = view(nodes, vec![rank(0, 10.0), rank(1, 20.0)]);
    let (weights, then_ms) = shares(&view).unwrap();
    // Two thirds and one third of 20 ms of work at speed 1.
    assert!((weights[0] / weights[1] - 2.0).abs() < 0.1 && (then_ms - 1.0 - 20.0 / 1.5).abs() < 0.05 * 20.0 / 1.5);
}
