//! When the judge lets a change pass, and what it learns from what changes bring.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use ios_agent::decide::judge::{Judge, Ruling};
use ios_agent::decide::proposal::{Change, Priced, Proposal};
use ios_agent::decide::tuning::Tuning;
use ios_agent::decide::view::View;
use pcm_proto::agent::Need;
use support::{node, rank, view};

fn situation(iteration_ms: f64) -> View {
    let nodes = ["a", "b"].map(|name| node(name, 1)).to_vec();
    View {
        iteration_ms,
        ..view(nodes, vec![rank(0, iteration_ms - 1.0)])
    }
}

fn migration(then_ms: f64) -> Proposal {
    Proposal {
        change: Change::Migrate(vec![(0, 1)]),
        then_ms,
        bytes: 0.0,
        need: Need::Relief,
        is_forced: false,
        why: "a test wants it".into(),
    }
}

#[test]
fn a_move_costs_at_least_what_its_link_takes_for_the_data() {
    let mut view = situation(100.0);
    view.ranks[0].registered = 80e6;
    let cost_s = |view: &View| {
        let chosen = Court::new().until_chosen(view, &migration(10.0), 2000);
        chosen.unwrap().1.cost_s
    };
    let near_s = cost_s(&view);
    assert!(near_s < 1.0, "{near_s}");
    // A site is far by the tuning: 20 MB a second, whatever moves on this site have reached.
    view.nodes[1].site = "there".into();
    let far_s = cost_s(&view);
    assert!((4.0..4.5).contains(&far_s), "{far_s}");
}

/// A job and its judge on a clock of looks.
struct Court {
    judge: Judge,
    now_s: f64,
    iterations: f64,
}

impl Court {
    fn new() -> Self {
        let tuning = Tuning::default();
        Self {
            judge: Judge::new(0.0, "cost", &tuning),
            now_s: 2.0,
            iterations: 0.0,
        }
    }

    fn look(&mut self, view: &View, proposals: Vec<Proposal>) -> Ruling {
        self.now_s += 0.25;
        self.iterations += 250.0 / view.iteration_ms;
        self.judge.observe(self.now_s, view, self.iterations as u64);
        self.judge.rule(self.now_s, view, proposals)
    }

    /// Looks until a change passes; how many looks it took.
    fn until_chosen(&mut self, view: &View, proposal: &Proposal, looks_max: usize) -> Option<(usize, Priced)> {
        (1..=looks_max).find_map(|look| Some((look, self.look(view, vec![proposal.clone()]).chosen?)))
    }

    fn carry_out(&mut self, view: &View, priced: &Priced) {
        let direction = priced.proposal.direction(view);
        self.judge
            .on_done(self.now_s, view.ranks.len(), direction, priced, (40.0, 0.0));
    }
}

#[test]
fn a_change_must_be_good_at_several_looks_in_a_row() {
    let (mut court, view) = (Court::new(), situation(20.0));
    for _ in 0..10 {
        assert_eq!(court.look(&view, vec![migration(10.0)]).chosen, None);
        assert_eq!(court.look(&view, vec![migration(10.0)]).chosen, None);
        assert_eq!(court.look(&view, Vec::new()).chosen, None);
    }
    assert_eq!(court.until_chosen(&view, &migration(10.0), 9).unwrap().0, 3);
}

#[test]
fn a_gain_that_may_be_noise_must_hold_longer() {
    let looks = |then_ms: f64| {
        let (mut court, view) = (Court::new(), situation(20.0));
        court.until_chosen(&view, &migration(then_ms), 40).unwrap().0
    };
    assert_eq!(looks(10.0), 3);
    assert!(looks(17.0) > 5, "{}", looks(17.0));
    assert!(looks(18.2) > looks(17.0) && looks(18.2) <= 18, "{}", looks(18.2));
}

#[test]
fn what_a_person_did_is_left_as_it_is_for_a_while() {
    let (mut court, view) = (Court::new(), situation(20.0));
    court.look(&view, Vec::new());
    court.judge.on_changed_by_others(court.now_s);
    let hands_off = (Tuning::default().judge.hands_off_s / 0.25) as usize;
    let (looks, _) = court.until_chosen(&view, &migration(10.0), 2 * hands_off).unwrap();
    assert!(looks >= hands_off, "{looks}");
}

#[test]
fn small_gains_and_dear_changes_are_refused_with_numbers() {
    let (mut court, view) = (Court::new(), situation(20.0));
    assert_eq!(court.until_chosen(&view, &migration(19.5), 20), None);
    let mut dear = migration(10.0);
    dear.bytes = 1e12;
    assert_eq!(court.until_chosen(&view, &dear, 20), None);
    let told = court.look(&view, vec![migration(19.5)]).decision.unwrap();
    assert!(
        told.chosen.is_none() && told.reason.contains("saves less than 8 %"),
        "{}",
        told.reason
    );
    assert!(
        told.reason.contains("20.00 ms per iteration now, 19.50 ms then"),
        "{}",
        told.reason
    );
}

#[test]
fn the_same_refusal_is_not_told_at_every_look() {
    let (mut court, view) = (Court::new(), situation(20.0));
    let told = (0..200)
        .filter(|_| court.look(&view, vec![migration(19.5)]).decision.is_some())
        .count();
    assert_eq!(told, 1, "fifty seconds of the same");
}

#[test]
fn a_change_that_did_not_deliver_blocks_its_direction_and_lowers_trust() {
    let (mut court, view) = (Court::new(), situation(20.0));
    let (_, priced) = court.until_chosen(&view, &migration(10.0), 9).unwrap();
    court.carry_out(&view, &priced);
    let moved_at_s = court.now_s;
    // Nothing became better.
    assert_eq!(court.until_chosen(&view, &migration(10.0), 200), None);
    let (_, again) = court.until_chosen(&view, &migration(10.0), 400).unwrap();
    assert!(court.now_s - moved_at_s >= 60.0, "{}", court.now_s - moved_at_s);
    assert!(
        again.gain_s < 0.6 * priced.gain_s,
        "{} after {}",
        again.gain_s,
        priced.gain_s
    );
}

#[test]
fn what_a_change_brought_is_told_with_the_next_decision() {
    let (mut court, slow, fast) = (Court::new(), situation(20.0), situation(10.0));
    let (_, priced) = court.until_chosen(&slow, &migration(10.0), 9).unwrap();
    court.carry_out(&slow, &priced);
    (0..400).for_each(|_| drop(court.look(&fast, Vec::new())));
    let told = court.look(&fast, vec![migration(9.9)]).decision.unwrap();
    // Ten milliseconds at each of a hundred iterations a second, for nearly a hundred seconds.
    let achieved = told.achieved_gain_s.unwrap();
    assert!((80.0..100.0).contains(&achieved), "{achieved}");
}

#[test]
fn what_must_be_happens_without_a_gain_but_not_twice_at_once() {
    let (mut court, view) = (Court::new(), situation(20.0));
    let forced = Proposal {
        is_forced: true,
        ..migration(25.0)
    };
    let (_, priced) = court.until_chosen(&view, &forced, 9).unwrap();
    assert!(priced.gain_s < 0.0);
    court.judge.on_refused(court.now_s, priced.proposal.direction(&view));
    assert_eq!(
        court.until_chosen(&view, &forced, 8),
        None,
        "it was refused a moment ago"
    );
    assert!(court.until_chosen(&view, &forced, 40).is_some());
}
