//! Scenarios of the reconfiguration protocol: one story each, named after the rule it shows.
#![allow(clippy::unwrap_used, reason = "a test")]

mod relaunch;
mod reports;
mod restarts;
mod table;

use pcm_core::reconfiguration::effects::{Input, Report, Timer};
use pcm_core::reconfiguration::limits::Limits;
use pcm_core::reconfiguration::record::Stage;
use pcm_core::reconfiguration::refusal::{PlanError, Refused};
use pcm_proto::ids::{Epoch, Iteration, NodeName, ProcessId, Rank, Term};
use pcm_proto::layout::{Mode, ModeWanted, PlanKind, Seat};
use pcm_proto::method::Completion;
use pcm_proto::reconfiguration::{
    AbortReason, Answer, Attempt, Decision, Failure, LeaseMessage, Loss, Order, Phase, ReconfigurationMessage, Reign,
};
use reports::{aborts, losses, reconfigured, refusals};
use std::time::Duration;
use table::{STARTED, Table, migrate, node};

fn everybody_is_free(table: &Table) -> bool {
    table.ceilings.is_empty() && table.daemons.values().all(|d| d.is_quiet())
}

fn is_decided(message: &ReconfigurationMessage) -> bool {
    matches!(message, ReconfigurationMessage::Decided { .. })
}

fn is_moved(message: &ReconfigurationMessage) -> bool {
    matches!(
        message,
        ReconfigurationMessage::Answer {
            answer: Answer::Moved { .. },
            ..
        }
    )
}

#[test]
fn a_migration_commits_and_says_what_it_moved_and_cost() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.request("a", migrate(2, 1, "c"));
    assert!(everybody_is_free(&table));
    assert!(["a", "b", "c"].iter().all(|name| table.epoch(name) == 1));
    let event = reconfigured(&table)[0];
    assert_eq!(
        (event.plan.as_str(), event.ranks_before, event.ranks_after),
        ("migrate", 2, 2)
    );
    assert_eq!(
        (event.moved[0].rank, &event.moved[0].from, &event.moved[0].to),
        (Rank(1), &Some(node("b")), &Some(node("c")))
    );
    assert_eq!((event.bytes_moved.0, event.pause_ms), (24, 4.0));
    let phases: Vec<&str> = event.phases_ms.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(phases, ["preparing", "converging", "meeting", "moving", "closing"]);
    assert_eq!(table.alive.keys().map(|p| p.0).collect::<Vec<_>>(), [0, 2]);
    assert!(table.ended_by_force.is_empty());
}

#[test]
fn preparing_waits_for_what_is_done_ahead_by_any_method_and_not_for_ever() {
    for completion in [Completion::Async, Completion::Sync] {
        let mut table = Table::new(&["a", "b"], &[]);
        table.late.insert(ProcessId(0));
        let mut request = migrate(2, 1, "c");
        request.method.completion = completion;
        table.request("a", request);
        table.pass(table.limits.ahead_max / 2);
        assert!(table.ceilings.is_empty(), "nobody is stopped yet");
        table.pass(table.limits.ahead_max);
        assert!(everybody_is_free(&table));
        assert_eq!(reconfigured(&table).len(), 1);
    }
}

#[test]
fn a_change_that_comes_too_late_is_given_up_and_says_when_the_job_ends() {
    for (ends, left) in [(STARTED.0, Some(0)), (STARTED.0 + 1, Some(1)), (STARTED.0 + 2, None)] {
        let mut table = Table::new(&["a", "b"], &[]);
        table.ends = Some(Iteration(ends));
        table.request("a", migrate(2, 1, "c"));
        assert!(everybody_is_free(&table));
        let expected = left.map(|left| (Phase::Converging, AbortReason::EndsFirst { left }));
        let seen = aborts(&table);
        let seen = seen.first().map(|(phase, reason, _)| (*phase, (*reason).clone()));
        assert_eq!(
            (seen, reconfigured(&table).len()),
            (expected.clone(), usize::from(expected.is_none()))
        );
    }
}

#[test]
fn a_second_request_is_refused_and_names_the_first() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.lost = |_, _, message| is_moved(message);
    table.request("a", migrate(2, 1, "c"));
    table.request("a", migrate(2, 0, "c"));
    let running = Attempt {
        epoch: Epoch(0),
        term: Term(0),
        number: 1,
    };
    assert_eq!(
        refusals(&table),
        [&Refused::Busy {
            running,
            phase: Phase::Moving
        }]
    );
}

#[test]
fn a_request_to_the_wrong_daemon_names_the_right_one() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.request("b", migrate(2, 1, "c"));
    assert_eq!(refusals(&table), [&Refused::NotCoordinator { holder: node("a") }]);
}

#[test]
fn a_request_that_cannot_be_is_refused_and_changes_nothing() {
    let mut table = Table::new(&["a", "b"], &[]);
    let before = table.records.clone();
    let mut twice = migrate(2, 1, "c");
    twice.seats[0] = Seat::Stay { rank: Rank(1) };
    let mut short = migrate(2, 1, "c");
    short.weights = vec![1];
    let mut nothing = migrate(2, 1, "c");
    nothing.seats = vec![Seat::Stay { rank: Rank(0) }, Seat::Stay { rank: Rank(1) }];
    let mut empty = nothing.clone();
    empty.seats.clear();
    for request in [twice, short, nothing, empty, migrate(3, 1, "c")] {
        table.request("a", request);
    }
    let errors = [
        PlanError::RankTwice { rank: Rank(1) },
        PlanError::Weights { weights: 1, ranks: 2 },
        PlanError::NothingToDo,
        PlanError::NoRanks,
        PlanError::UnknownRank { rank: Rank(2), size: 2 },
    ];
    assert_eq!(refusals(&table), errors.map(Refused::Plan).iter().collect::<Vec<_>>());
    assert_eq!(table.records, before);
}

#[test]
fn a_newcomer_that_cannot_start_aborts_and_the_ranks_never_stop() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.unstartable.insert(ProcessId(2));
    table.request("a", migrate(2, 1, "c"));
    assert!(matches!(
        aborts(&table)[..],
        [(
            Phase::Preparing,
            AbortReason::Failed {
                failure: Failure::StartFailed { .. },
                ..
            },
            false
        )]
    ));
    assert!(everybody_is_free(&table));
    assert_eq!((table.epoch("a"), table.epoch("b")), (0, 0));
}

#[test]
fn a_newcomer_that_dies_in_the_meeting_aborts_and_the_old_layout_goes_on() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.silent.insert(ProcessId(2));
    table.request("a", migrate(2, 1, "c"));
    table.kill_process(2);
    let [(Phase::Meeting, AbortReason::Failed { node: failed, .. }, false)] = aborts(&table)[..] else {
        panic!("{:?}", aborts(&table));
    };
    assert_eq!(*failed, node("c"));
    assert!(everybody_is_free(&table));
    assert_eq!(table.alive.keys().map(|p| p.0).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_rank_that_dies_before_it_has_moved_loses_the_job() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.silent.insert(ProcessId(1));
    table.request("a", migrate(2, 0, "c"));
    table.kill_process(1);
    assert_eq!(losses(&table), [&Loss::ProcessDied { process: ProcessId(1) }]);
    assert!(table.alive.is_empty());
}

#[test]
fn a_leaver_that_dies_after_its_data_has_moved_is_not_missed() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.silent.insert(ProcessId(0));
    table.request("a", migrate(2, 1, "c"));
    table.kill_process(1);
    table.silent.clear();
    let attempt = Attempt {
        epoch: Epoch(0),
        term: Term(0),
        number: 1,
    };
    let tally = pcm_proto::reconfiguration::Tally {
        bytes: pcm_proto::ids::Bytes(8),
        checksum: 7,
        ahead: pcm_proto::ids::Bytes(0),
    };
    let report = pcm_proto::reconfiguration::ReconfigurationReport::Moved {
        attempt,
        sent: tally,
        received: tally,
    };
    table.input(
        "a",
        Input::Report {
            process: ProcessId(0),
            report,
        },
    );
    assert_eq!(reconfigured(&table).len(), 1);
    assert!(losses(&table).is_empty());
}

#[test]
fn data_that_is_not_received_as_it_was_sent_aborts() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.liars.insert(ProcessId(0));
    table.request("a", migrate(2, 1, "c"));
    let (phase, reason, _) = aborts(&table)[0];
    assert_eq!(phase, Phase::Moving);
    assert!(matches!(reason, AbortReason::TallyMismatch { .. }), "{reason:?}");
}

#[test]
fn a_live_reconfiguration_that_cannot_join_is_followed_by_a_relaunch_from_the_same_ceiling() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.silent.insert(ProcessId(2));
    table.request("a", migrate(2, 1, "c"));
    let standing = table.ceilings.clone();
    table.pass(table.limits.meet_max + table.limits.leave_max);
    assert_eq!(
        aborts(&table),
        [(Phase::Meeting, &AbortReason::Deadline { phase: Phase::Meeting }, true)]
    );
    assert_eq!(reconfigured(&table)[0].plan, "migrate");
    assert_eq!(standing.len(), 2);
    let is_round = |message: &ReconfigurationMessage| match message {
        ReconfigurationMessage::Order { attempt, order, .. } => {
            attempt.number == 2 && matches!(order, Order::SetCeiling { .. })
        }
        _ => false,
    };
    assert!(
        !table.messages.iter().any(|(.., m)| is_round(m)),
        "the ranks stood already"
    );
    assert_eq!(table.alive.keys().map(|p| p.0).collect::<Vec<_>>(), [3, 4]);
    assert!(everybody_is_free(&table));
}

#[test]
fn a_process_stuck_in_mpi_is_saved_by_a_relaunch_that_does_what_was_ordered() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.silent.insert(ProcessId(1));
    let mut request = migrate(2, 1, "c");
    request.mode = ModeWanted::Live;
    table.request("a", request);
    table.pass(table.limits.meet_max + table.limits.settle_max);
    assert_eq!(reconfigured(&table).len(), 1, "{:#?}", table.reports);
    assert_eq!(
        (reconfigured(&table)[0].plan.as_str(), reconfigured(&table)[0].mode),
        ("migrate", Mode::Relaunch)
    );
    assert_eq!(
        table.alive.values().cloned().collect::<Vec<NodeName>>(),
        [node("a"), node("c")]
    );
    assert!(
        table.ended_by_force.contains(&ProcessId(1)),
        "the stuck process is gone"
    );
    assert!(losses(&table).is_empty());
}

#[test]
fn too_many_worlds_make_it_a_relaunch_or_a_refusal() {
    let limits = Limits {
        worlds_in_communicator_max: 1,
        ..Limits::default()
    };
    let mut table = Table::with_limits(&["a", "b"], &[], limits);
    let mut live = migrate(2, 1, "c");
    live.mode = ModeWanted::Live;
    table.request("a", live);
    assert_eq!(
        refusals(&table),
        [&Refused::Plan(PlanError::Worlds {
            in_communicator: 2,
            met: 2
        })]
    );
    table.request("a", migrate(2, 1, "c"));
    let names: Vec<String> = reconfigured(&table)[0]
        .phases_ms
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    assert_eq!(names, ["preparing", "converging", "moving", "starting", "closing"]);
    let layout = table.record("a").layout.clone().unwrap();
    assert_eq!(layout.worlds().len(), 1, "one fresh world");
    assert!(layout.members.iter().all(|m| m.process.0 >= 2), "fresh processes");
}

#[test]
fn a_participant_that_has_agreed_asks_those_who_may_know() {
    let mut table = Table::new(&["a", "b", "c"], &[]);
    table.lost = |_, to, message| is_decided(message) && to.as_str() == "b";
    table.request("a", migrate(3, 2, "d"));
    table.kill_daemon("a");
    table.lost = |_, _, _| false;
    assert_eq!((table.epoch("b"), table.epoch("c")), (0, 1));
    table.pass(table.limits.patience * 2 + table.limits.ask_every);
    assert_eq!(table.epoch("b"), 1);
}

#[test]
fn a_participant_that_cannot_learn_the_decision_ends_its_ranks_but_keeps_its_word() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.lost = |_, _, message| is_decided(message);
    table.request("a", migrate(2, 1, "c"));
    table.kill_daemon("a");
    table.pass(table.limits.patience * 2 + table.limits.undecided_max + table.limits.ask_every * 2);
    assert!(!table.alive.contains_key(&ProcessId(1)));
    assert!(matches!(
        table.record("b").engaged.as_ref().unwrap().stage,
        Stage::Agreed { .. }
    ));
    let told = table.reports.iter().any(|r| {
        matches!(
            r,
            Report::EndedHere {
                loss: Loss::Undecided { .. }
            }
        )
    });
    assert!(told);
}

#[test]
fn the_lease_moves_and_the_replaced_holder_is_refused() {
    let mut table = Table::new(&["a", "b", "c"], &[]);
    table.lost = |from, to, _| from.as_str() == "a" || to.as_str() == "a";
    for watcher in ["b", "c"] {
        table.input(watcher, Input::NodeGone { node: node("a") });
    }
    table.pass(table.limits.candidate_step * 2);
    table.lost = |_, _, _| false;
    let first = Reign {
        epoch: Epoch(0),
        term: Term(1),
    };
    assert!(table.reports.contains(&Report::LeaseTaken { reign: first }));
    assert!(table.daemons[&node("b")].is_holder());
    table.request("a", migrate(3, 2, "d"));
    assert!(table.reports.contains(&Report::LeaseLost { reign: first }));
    assert!(reconfigured(&table).is_empty());
    assert!(table.daemons[&node("c")].dropped().stale_reign > 0);
    table.request("a", migrate(3, 2, "d"));
    assert_eq!(
        refusals(&table).last().unwrap(),
        &&Refused::NotCoordinator { holder: node("b") }
    );
}

#[test]
fn a_successor_learns_that_the_holder_before_it_gave_the_job_up() {
    let mut table = Table::new(&["a", "b", "c"], &[]);
    table.lost = |from, to, _| from.as_str() == "a" || to.as_str() == "a";
    for (watcher, gone) in [("b", "a"), ("c", "a"), ("a", "b"), ("a", "c")] {
        table.input(watcher, Input::NodeGone { node: node(gone) });
    }
    table.pass(table.limits.candidate_step * 2);
    assert!(table.daemons[&node("b")].is_holder());
    // It counts from then on how long the other is away.
    table.kill_daemon("b");
    table.restart_daemon("b");
    table.input("b", Input::NodeGone { node: node("a") });
    table.pass(table.limits.gone_max - table.limits.candidate_step);
    assert_eq!(table.alive.len(), 2, "the holder before has ended its rank");
    table.lost = |_, _, message| matches!(message, ReconfigurationMessage::Lost { .. });
    for (watcher, back) in [("b", "a"), ("c", "a"), ("a", "b"), ("a", "c")] {
        table.input(watcher, Input::NodeBack { node: node(back) });
    }
    table.lost = |_, _, _| false;
    table.pass(table.limits.ask_every * 2);
    assert!(table.alive.is_empty(), "{:#?}", table.reports);
}

#[test]
fn a_successor_aborts_what_somebody_had_not_agreed_to() {
    let mut table = Table::new(&["a", "b", "c"], &[]);
    table.silent.insert(ProcessId(2));
    table.request("a", migrate(3, 1, "d"));
    table.silent.clear();
    table.kill_daemon("a");
    for watcher in ["b", "c"] {
        table.input(watcher, Input::NodeGone { node: node("a") });
    }
    table.pass(table.limits.candidate_step * 2);
    assert!(matches!(
        &table.record("b").decided,
        Some((_, Decision::Aborted { .. }))
    ));
    assert!(table.record("c").engaged.is_none());
}

#[test]
fn a_successor_does_not_guess_when_everybody_it_reaches_had_agreed() {
    let mut table = Table::new(&["a", "b", "c"], &[]);
    table.lost = |_, _, message| is_decided(message);
    table.request("a", migrate(3, 1, "d"));
    table.kill_daemon("a");
    table.lost = |_, _, _| false;
    for watcher in ["b", "c"] {
        table.input(watcher, Input::NodeGone { node: node("a") });
    }
    table.pass(table.limits.candidate_step * 2);
    assert_eq!(table.record("b").decided, None);
    table.restart_daemon("a");
    for watcher in ["b", "c"] {
        table.input(watcher, Input::NodeBack { node: node("a") });
    }
    table.pass(table.limits.resend_every * 2 + table.limits.ask_every * 2);
    assert!(
        ["a", "b", "c", "d"].iter().all(|name| table.epoch(name) == 1),
        "the old holder's decision counts"
    );
}

#[test]
fn a_voter_that_forgot_does_not_vote() {
    let mut table = Table::new(&["a", "b"], &["c"]);
    table.kill_daemon("a");
    table.kill_daemon("c");
    table.records.remove(&node("c"));
    table.input("b", Input::NodeGone { node: node("a") });
    table.pass(table.limits.candidate_step * 3);
    assert!(!table.daemons[&node("b")].is_holder());
    let forgot = table.messages.iter().any(|(from, _, message)| {
        *from == node("c") && *message == ReconfigurationMessage::Lease(LeaseMessage::Forgot)
    });
    assert!(forgot);
}

#[test]
fn a_coordinator_whose_node_is_left_offers_the_lease() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.request("a", migrate(2, 0, "b"));
    assert_eq!(reconfigured(&table).len(), 1);
    table.pass(table.limits.resend_every);
    assert!(table.daemons[&node("b")].is_holder());
    assert!(!table.daemons[&node("a")].is_holder());
    assert!(!table.record("a").layout.as_ref().unwrap().voters().contains(&node("a")));
}

#[test]
fn a_commit_nobody_here_agreed_to_is_refused() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.silent.insert(ProcessId(1));
    table.request("a", migrate(2, 0, "c"));
    let attempt = table.record("b").engaged.as_ref().unwrap().attempt;
    let message = ReconfigurationMessage::Decided {
        attempt,
        decision: Decision::Committed,
        stand: false,
    };
    table.input(
        "b",
        Input::Message {
            from: node("c"),
            message,
        },
    );
    assert_eq!(table.daemons[&node("b")].dropped().impossible, 1);
    assert_eq!(table.epoch("b"), 0);
}

#[test]
fn a_timer_of_something_that_is_over_is_ignored() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.request("a", migrate(2, 1, "c"));
    let (records, reports) = (table.records.clone(), table.reports.len());
    let attempt = Attempt {
        epoch: Epoch(0),
        term: Term(0),
        number: 1,
    };
    for timer in [
        Timer::Deadline {
            attempt,
            phase: Phase::Moving,
        },
        Timer::Resend {
            attempt,
            reign: attempt.reign(),
        },
        Timer::Patience { attempt, heard: 1 },
        Timer::Ahead { attempt },
        Timer::Settle { attempt },
        Timer::Leave { attempt },
        Timer::Candidate { reign: attempt.reign() },
        Timer::NodeLost {
            node: node("b"),
            absence: 1,
        },
    ] {
        table.input("a", Input::Timer(timer));
    }
    assert_eq!((table.records.clone(), table.reports.len()), (records, reports));
    assert_eq!(table.daemons[&node("a")].dropped().stale_timer, 8);
}

#[test]
fn an_order_that_comes_twice_is_answered_twice_and_done_once() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.silent.insert(ProcessId(0));
    table.request("a", migrate(2, 1, "c"));
    let started = table.alive.len();
    table.messages.clear();
    table.pass(table.limits.resend_every);
    let answers = table
        .messages
        .iter()
        .filter(|(from, _, m)| *from == node("b") && is_moved(m))
        .count();
    assert_eq!((answers, table.alive.len()), (1, started));
}

#[test]
fn a_node_with_ranks_that_stays_away_loses_the_job_and_one_that_comes_back_does_not() {
    let mut table = Table::new(&["a", "b", "c"], &[]);
    table.input("a", Input::NodeGone { node: node("b") });
    table.pass(table.limits.gone_max / 2);
    table.input("a", Input::NodeBack { node: node("b") });
    table.pass(table.limits.gone_max);
    assert!(losses(&table).is_empty());
    table.input("a", Input::NodeGone { node: node("b") });
    table.pass(table.limits.gone_max);
    assert_eq!(losses(&table), [&Loss::NodeGone { node: node("b") }]);
}

#[test]
fn growing_names_the_new_ranks_and_shrinking_the_old_ones() {
    let mut table = Table::new(&["a"], &[]);
    let mut grow = migrate(1, 9, "-");
    grow.kind = PlanKind::Expand;
    grow.seats = vec![
        Seat::Stay { rank: Rank(0) },
        Seat::Join { node: node("b") },
        Seat::Join { node: node("b") },
    ];
    table.request("a", grow);
    let layout = table.record("b").layout.clone().unwrap();
    assert_eq!(layout.worlds().len(), 2, "newcomers of one node are one world");
    let mut shrink = migrate(1, 9, "-");
    shrink.kind = PlanKind::Shrink;
    table.request("a", shrink);
    let events = reconfigured(&table);
    assert_eq!((events[0].ranks_after, events[1].ranks_after), (3, 1));
    assert_eq!(events[0].moved.iter().filter(|m| m.from.is_none()).count(), 2);
    assert_eq!(events[1].moved.iter().filter(|m| m.to.is_none()).count(), 2);
}

#[test]
fn a_cancelled_attempt_leaves_everything_as_it_was() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.silent.insert(ProcessId(1));
    table.request("a", migrate(2, 0, "c"));
    table.silent.clear();
    table.input("a", Input::Cancel);
    assert_eq!(aborts(&table), [(Phase::Meeting, &AbortReason::Cancelled, false)]);
    assert!(everybody_is_free(&table));
    table.pass(Duration::from_secs(1));
    assert_eq!((table.epoch("a"), table.epoch("b")), (0, 0));
}
