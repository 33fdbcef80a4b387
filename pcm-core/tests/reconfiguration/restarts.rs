//! A daemon that is started again finds in its record what it was about, above all where its ranks stand: no rank may
//! go on while another waits for it inside MPI.

use super::table::{Table, migrate, node};
use super::{aborts, everybody_is_free, is_decided, is_moved, losses, reconfigured, refusals};
use pcm_core::reconfiguration::effects::Input;
use pcm_core::reconfiguration::record::Stage;
use pcm_core::reconfiguration::refusal::Refused;
use pcm_proto::ids::{NodeName, ProcessId};
use pcm_proto::layout::{Mode, ModeWanted, PlanRequest};
use pcm_proto::reconfiguration::{AbortReason, Answer, Decision, Failure, Order, Phase, ReconfigurationMessage};

fn is_prepared(message: &ReconfigurationMessage) -> bool {
    matches!(
        message,
        ReconfigurationMessage::Answer {
            answer: Answer::Prepared { .. },
            ..
        }
    )
}

fn is_meet(message: &ReconfigurationMessage) -> bool {
    matches!(
        message,
        ReconfigurationMessage::Order {
            order: Order::Meet { .. },
            ..
        }
    )
}

/// Lets ranks go that an abort had left at the ceiling.
fn is_release(message: &ReconfigurationMessage) -> bool {
    matches!(message, ReconfigurationMessage::Decided { stand: false, .. })
}

/// By joining; what hangs is relaunched in the old places.
fn live(mut request: PlanRequest) -> PlanRequest {
    request.mode = ModeWanted::Live;
    request
}

fn stands(table: &Table, process: u32) -> bool {
    table.ceilings.contains_key(&ProcessId(process))
}

/// A node that was to have newcomers is no participant of a relaunch in the old places: it asks. One that was started
/// again looks for its coordinator.
fn comes_to_rest(table: &mut Table) -> bool {
    table.pass(table.limits.patience * 2 + table.limits.ask_every);
    everybody_is_free(table)
}

fn stage(table: &Table, name: &str) -> Stage {
    table.record(name).engaged.as_ref().unwrap().stage
}

#[test]
fn a_restarted_coordinator_aborts_what_it_had_not_begun_to_decide() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.lost = |_, _, message| is_prepared(message);
    table.request("a", migrate(2, 1, "c"));
    table.kill_daemon("a");
    table.restart_daemon("a");
    assert!(matches!(
        aborts(&table)[..],
        [(_, AbortReason::CoordinatorRestarted, false)]
    ));
    assert!(everybody_is_free(&table));
}

#[test]
fn a_restarted_coordinator_tells_what_it_had_decided() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.lost = |_, _, message| is_decided(message);
    table.request("a", migrate(2, 1, "c"));
    assert_eq!((table.epoch("a"), table.epoch("b")), (1, 0));
    table.kill_daemon("a");
    table.lost = |_, _, _| false;
    table.restart_daemon("a");
    assert_eq!((table.epoch("a"), table.epoch("b"), table.epoch("c")), (1, 1, 1));
    assert_eq!(reconfigured(&table).len(), 1);
}

#[test]
fn a_daemon_that_restarts_before_its_ranks_stand_withdraws() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.lost = |_, _, message| is_prepared(message);
    table.request("a", migrate(2, 1, "c"));
    table.kill_daemon("b");
    table.lost = |_, _, _| false;
    table.restart_daemon("b");
    let withdrawn = AbortReason::Failed {
        node: node("b"),
        failure: Failure::DaemonRestarted,
    };
    assert_eq!(aborts(&table), [(Phase::Preparing, &withdrawn, false)]);
    assert!(comes_to_rest(&mut table));
}

#[test]
fn a_coordinator_that_restarts_while_it_calls_goes_on_with_the_meeting() {
    let lost: [fn(&NodeName, &NodeName, &ReconfigurationMessage) -> bool; 2] =
        [|_, _, message| is_meet(message), |_, _, message| is_moved(message)];
    for lost in lost {
        let mut table = Table::new(&["a", "b"], &[]);
        table.lost = lost;
        table.request("a", migrate(2, 1, "c"));
        table.kill_daemon("a");
        table.lost = |_, _, _| false;
        table.restart_daemon("a");
        table.pass(table.limits.resend_every);
        assert_eq!(reconfigured(&table).len(), 1, "{:#?}", table.reports);
        assert!(aborts(&table).is_empty() && everybody_is_free(&table));
    }
}

#[test]
fn a_daemon_that_restarts_while_its_ranks_are_called_calls_them_again() {
    for name in ["b", "c"] {
        let mut table = Table::new(&["a", "b"], &[]);
        table.silent = [ProcessId(1), ProcessId(2)].into();
        table.request("a", migrate(2, 1, "c"));
        assert_eq!(stage(&table, name), Stage::Called);
        table.kill_daemon(name);
        table.silent.clear();
        table.restart_daemon(name);
        let other = if name == "b" { "c" } else { "b" };
        table.kill_daemon(other);
        table.restart_daemon(other);
        table.pass(table.limits.resend_every);
        assert_eq!(reconfigured(&table).len(), 1, "{:#?}", table.reports);
        assert!(aborts(&table).is_empty() && everybody_is_free(&table));
    }
}

#[test]
fn a_daemon_that_restarts_when_its_ranks_stand_keeps_them_there_until_they_are_called() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.lost = |_, to, message| is_meet(message) && to.as_str() == "b";
    table.request("a", migrate(2, 1, "c"));
    assert_eq!(stage(&table, "b"), Stage::Open);
    table.kill_daemon("b");
    table.restart_daemon("b");
    assert!(stands(&table, 1));
    table.lost = |_, _, _| false;
    table.pass(table.limits.resend_every);
    assert_eq!(reconfigured(&table).len(), 1, "{:#?}", table.reports);
}

#[test]
fn ranks_that_may_be_waited_for_stand_however_long_their_coordinator_is_silent() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.lost = |_, to, message| is_meet(message) && to.as_str() == "b";
    table.request("a", migrate(2, 1, "c"));
    table.kill_daemon("a");
    table.pass(table.limits.patience * 2 + table.limits.undecided_max);
    let withdrawn = matches!(table.record("b").decided, Some((_, Decision::Aborted { .. })));
    assert!(withdrawn && stands(&table, 1));
    table.lost = |_, _, _| false;
    table.restart_daemon("a");
    table.pass(table.limits.resend_every * 2);
    assert!(matches!(aborts(&table)[..], [(Phase::Meeting, _, false)]));
    assert!(everybody_is_free(&table) && table.epoch("b") == 0);
}

#[test]
fn whoever_was_left_standing_and_hears_nothing_asks_those_that_were_let_go() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.silent.insert(ProcessId(1));
    table.request("a", migrate(2, 1, "c"));
    table.silent.clear();
    table.lost = |_, to, message| is_release(message) && to.as_str() == "b";
    table.input("a", Input::Cancel);
    assert!(stands(&table, 1) && !stands(&table, 0));
    table.kill_daemon("a");
    table.lost = |_, _, _| false;
    table.pass(table.limits.patience * 2 + table.limits.ask_every);
    assert!(!stands(&table, 1));
}

#[test]
fn whoever_is_asked_while_its_own_ranks_stand_lets_nobody_go() {
    let mut table = Table::new(&["a", "b", "c"], &[]);
    table.silent.insert(ProcessId(2));
    table.request("a", live(migrate(3, 0, "d")));
    assert!(matches!(stage(&table, "b"), Stage::Agreed { .. }));
    table.lost = |_, to, message| is_decided(message) && to.as_str() == "b";
    table.pass(table.limits.meet_max);
    table.kill_daemon("b");
    table.lost = |_, _, _| false;
    table.restart_daemon("b");
    let answered = table.messages.iter().any(|(_, to, message)| {
        *to == node("b") && matches!(message, ReconfigurationMessage::Decided { stand: true, .. })
    });
    assert!(answered && stands(&table, 1));
    table.pass(table.limits.settle_max + table.limits.resend_every);
    assert_eq!(
        (reconfigured(&table)[0].plan.as_str(), reconfigured(&table)[0].mode),
        ("migrate", Mode::Relaunch)
    );
    assert!(losses(&table).is_empty() && comes_to_rest(&mut table));
}

#[test]
fn a_daemon_restarted_at_any_time_after_an_abort_does_not_lose_a_rank_that_hangs() {
    for name in ["a", "b", "c"] {
        for is_settled in [false, true] {
            let mut table = Table::new(&["a", "b"], &[]);
            table.silent.insert(ProcessId(1));
            table.lost = |from, _, message| from.as_str() == "c" && is_closed(message);
            table.request("a", live(migrate(2, 1, "c")));
            let settled = if is_settled {
                table.limits.settle_max
            } else {
                table.limits.resend_every
            };
            table.pass(table.limits.meet_max + settled);
            table.kill_daemon(name);
            table.lost = |_, _, _| false;
            table.restart_daemon(name);
            assert!(
                stands(&table, 0) || !reconfigured(&table).is_empty(),
                "{name}, settled: {is_settled}"
            );
            table.pass(table.limits.settle_max + table.limits.resend_every);
            assert_eq!(
                reconfigured(&table).len(),
                1,
                "{name}, settled: {is_settled}: {:#?}",
                table.reports
            );
            assert!(losses(&table).is_empty() && comes_to_rest(&mut table));
        }
    }
}

fn is_closed(message: &ReconfigurationMessage) -> bool {
    matches!(
        message,
        ReconfigurationMessage::Answer {
            answer: Answer::Closed { .. },
            ..
        }
    )
}

#[test]
fn a_relaunch_for_a_rank_that_hangs_is_tried_again_when_a_daemon_was_killed_in_it() {
    for name in ["a", "b"] {
        let mut table = Table::new(&["a", "b"], &[]);
        table.silent.insert(ProcessId(1));
        table.request("a", live(migrate(2, 1, "c")));
        table.lost = |_, _, message| is_moved(message);
        table.pass(table.limits.meet_max + table.limits.settle_max);
        assert!(matches!(aborts(&table)[..], [(Phase::Meeting, _, true)]));
        table.kill_daemon(name);
        table.lost = |_, _, _| false;
        table.restart_daemon(name);
        table.pass(table.limits.resend_every * 2);
        assert_eq!(reconfigured(&table).len(), 1, "{name}: {:#?}", table.reports);
        assert!(losses(&table).is_empty() && comes_to_rest(&mut table));
    }
}

#[test]
fn a_successor_relaunches_a_rank_that_hangs_in_the_meeting_of_its_predecessor() {
    let mut table = Table::new(&["a", "b", "c"], &[]);
    table.silent.insert(ProcessId(2));
    table.request("a", live(migrate(3, 1, "d")));
    table.kill_daemon("a");
    for watcher in ["b", "c"] {
        table.input(watcher, Input::NodeGone { node: node("a") });
    }
    table.pass(table.limits.candidate_step * 2);
    assert!(table.daemons[&node("b")].is_holder());
    assert!((0..3).all(|process| stands(&table, process)));
    table.restart_daemon("a");
    for watcher in ["b", "c"] {
        table.input(watcher, Input::NodeBack { node: node("a") });
    }
    assert!((0..3).all(|process| stands(&table, process)));
    table.pass(table.limits.settle_max + table.limits.resend_every);
    assert_eq!(reconfigured(&table).len(), 1, "{:#?}", table.reports);
    assert!(losses(&table).is_empty() && comes_to_rest(&mut table));
}

#[test]
fn a_successor_that_restarts_before_it_knows_what_was_decided_asks_again() {
    let mut table = Table::new(&["a", "b", "c"], &[]);
    table.lost = |_, _, message| is_decided(message);
    table.request("a", migrate(3, 1, "d"));
    table.kill_daemon("a");
    table.lost = |_, _, _| false;
    for watcher in ["b", "c"] {
        table.input(watcher, Input::NodeGone { node: node("a") });
    }
    table.pass(table.limits.candidate_step * 2);
    table.kill_daemon("b");
    table.restart_daemon("b");
    table.request("b", migrate(3, 2, "d"));
    assert!(matches!(refusals(&table)[..], [Refused::Busy { .. }]));
    table.restart_daemon("a");
    for watcher in ["b", "c"] {
        table.input(watcher, Input::NodeBack { node: node("a") });
    }
    table.pass(table.limits.resend_every * 2 + table.limits.ask_every * 2);
    assert!(["a", "b", "c", "d"].iter().all(|name| table.epoch(name) == 1));
}
