//! A relaunch: the old ranks stand until the new ones have their data.

use super::everybody_is_free;
use super::reports::{aborts, losses, reconfigured};
use super::table::{Table, migrate};
use pcm_proto::ids::ProcessId;
use pcm_proto::layout::{ModeWanted, PlanRequest};
use pcm_proto::reconfiguration::Phase;

fn request() -> PlanRequest {
    PlanRequest {
        mode: ModeWanted::Relaunch,
        ..migrate(2, 1, "c")
    }
}

/// The old ranks, 0 and 1, go on as if nothing had been asked for.
fn old_ranks_go_on(table: &Table) {
    assert!(
        everybody_is_free(table) && losses(table).is_empty(),
        "{:#?}",
        table.reports
    );
    assert_eq!(table.alive.keys().map(|p| p.0).collect::<Vec<_>>(), [0, 1]);
    assert!(reconfigured(table).is_empty() && table.epoch("a") == 0);
}

#[test]
fn old_ranks_of_a_relaunch_end_only_when_the_new_ones_have_their_data() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.slow.insert(ProcessId(3));
    table.request("a", request());
    assert_eq!(table.alive.keys().map(|p| p.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(table.ceilings.len(), 2, "the old ranks stand");
    table.ready(3);
    assert_eq!(table.alive.keys().map(|p| p.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(reconfigured(&table).len(), 1);
    assert!(everybody_is_free(&table));
}

#[test]
fn a_relaunch_whose_new_ranks_cannot_start_die_or_take_too_long_leaves_the_old_ones() {
    for how in ["cannot start", "dies", "takes too long"] {
        let mut table = Table::new(&["a", "b"], &[]);
        match how {
            "cannot start" => table.unstartable.insert(ProcessId(2)),
            _ => table.slow.insert(ProcessId(2)),
        };
        table.request("a", request());
        match how {
            "dies" => table.kill_process(2),
            "takes too long" => table.pass(table.limits.start_max),
            _ => {}
        }
        assert!(matches!(aborts(&table)[..], [(Phase::Starting, _, false)]), "{how}");
        old_ranks_go_on(&table);
    }
}

#[test]
fn an_old_rank_whose_data_is_parked_is_not_missed() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.slow.insert(ProcessId(3));
    table.request("a", request());
    table.kill_process(1);
    table.ready(3);
    assert_eq!(reconfigured(&table).len(), 1);
    assert!(losses(&table).is_empty());
}

#[test]
fn a_daemon_killed_while_new_ranks_start_goes_on_and_costs_no_rank() {
    for name in ["a", "b", "c"] {
        let mut table = Table::new(&["a", "b"], &[]);
        table.slow.extend([ProcessId(2), ProcessId(3)]);
        table.request("a", request());
        table.kill_daemon(name);
        table.restart_daemon(name);
        table.pass(table.limits.resend_every * 2);
        if name == "a" {
            // It coordinates: no other daemon knows what it had heard.
            assert_eq!(aborts(&table).len(), 1);
            old_ranks_go_on(&table);
            continue;
        }
        table.ready(2);
        table.ready(3);
        assert_eq!((aborts(&table).len(), reconfigured(&table).len()), (0, 1), "{name}");
    }
}

#[test]
fn ranks_of_a_relaunch_send_nothing_ahead() {
    let mut table = Table::new(&["a", "b"], &[]);
    table.late.extend([ProcessId(0), ProcessId(1)]);
    table.request("a", request());
    assert_eq!(reconfigured(&table).len(), 1);
}
