//! The contract of hooks (docs/guide-data.md), as a program sees it that would lose data if it were not kept: over live
//! changes, relaunches, checkpoints, a kill and restarts from files.

use rustix::process::Signal;
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    limited::Outcome,
    processes, wait,
};

fn count(outcome: &Outcome, line: &str) -> usize {
    outcome.stdout.matches(&format!("hooks: {line}")).count()
}

fn assert_in_order(outcome: &Outcome) {
    assert!(outcome.status.success() && count(outcome, "done") == 1, "{outcome:?}");
    assert_eq!(count(outcome, "broken"), 0, "{outcome:?}");
}

#[test]
fn hooks_run_in_the_promised_order_over_changes_checkpoints_a_kill_and_restarts() {
    let cluster = Cluster::up(3);
    let kept = cluster.files().join("kept");
    let place = kept.to_str().expect("a path in UTF-8");
    let options = [
        "run",
        "-n",
        "2",
        "--checkpoint-every",
        "0.2",
        "--checkpoint-dir",
        place,
        "--",
    ];
    let mut command = cluster.pcmctl(&options);
    command.arg(built("pcm-hooks")).args(["2500", "4000"]);
    let job = Background::start(&mut command);
    cluster.wait_until_ranks_of_iterate("1");
    let change = |arguments: &[&str]| {
        let changed = cluster.run(arguments);
        assert!(
            changed.status.success(),
            "{arguments:?}: {changed:?}\n{}",
            cluster.logs()
        );
    };
    // The second change finds ranks that have not gone on since the first.
    change(&["expand", "1", "--to", "4", "--mode", "live"]);
    change(&["shrink", "1", "--to", "3", "--mode", "live"]);
    change(&["expand", "1", "--to", "4", "--mode", "relaunch"]);
    change(&["shrink", "1", "--to", "2", "--mode", "relaunch"]);
    let is_on_the_last = cluster.json(&["ps", "1"])["ranks"][1]["node"] == "n2";
    let elsewhere = if is_on_the_last { "n1" } else { "n2" };
    change(&["migrate", "1", "--rank", "1", "--to", elsewhere]);
    wait::until("a checkpoint of this layout, and the end of its rank", LIMIT, || {
        let made = cluster.events(Some("1"), "checkpoint_complete");
        let is_new = made.last()?["ranks"].as_u64().is_none_or(|ranks| ranks == 2);
        let pid = cluster.ranks_of("pcm-hooks").pop()?;
        (is_new && processes::send(pid, Signal::KILL)).then_some(())
    });
    let outcome = job.end(LIMIT);
    assert_in_order(&outcome);
    let (unpacks, hooks) = (count(&outcome, "unpack"), count(&outcome, "change hook"));
    assert!(unpacks >= 4 + 3 + 4 + 2 + 2 + 2, "{unpacks} unpacks: {outcome:?}");
    assert_eq!(unpacks, hooks, "each unpack is followed by a change hook: {outcome:?}");
    for ranks in ["1", "2", "3"] {
        let outcome = cluster.run(&["restart", "--newest", place, "-n", ranks]);
        assert_in_order(&outcome);
        assert_eq!(count(&outcome, "change hook"), 0, "{outcome:?}");
        assert_eq!(count(&outcome, "unpack").to_string(), ranks, "{outcome:?}");
    }
    cluster.down();
}
