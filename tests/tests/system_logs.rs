//! Logs of daemons and agents: what is written into them is changed while they run.

use tests::{
    cluster::{Cluster, LIMIT},
    wait,
};

/// The last lines of a log.
fn log(cluster: &Cluster, arguments: &[&str]) -> String {
    let outcome = cluster.run(&[&["logs"], arguments, &["--lines", "1000"]].concat());
    assert!(outcome.status.success(), "{outcome:?}");
    outcome.stdout
}

fn level(cluster: &Cluster, arguments: &[&str]) -> String {
    let outcome = cluster.run(&[&["logs"], arguments].concat());
    assert!(outcome.status.success(), "{outcome:?}");
    outcome.stdout
}

#[test]
fn the_level_of_one_part_on_one_node_changes_while_its_daemon_runs() {
    let cluster = Cluster::up(2);
    let is_detailed = |node: &str| log(&cluster, &[node]).contains("DEBUG pcm_core::node::requests");
    assert!(!is_detailed("n1"), "{}", log(&cluster, &["n1"]));
    let all = level(&cluster, &["n1", "--level", "pcm_core::node::requests=debug"]);
    assert_eq!(all, "n1: info,pcm_core::node::requests=debug\n");
    wait::until("a request stands in the log of n1", LIMIT, || {
        is_detailed("n1").then_some(())
    });
    assert!(!is_detailed("n0"), "only n1 was to change");
    assert!(
        !log(&cluster, &["n1"]).contains("DEBUG pcm_fabric"),
        "only one part was to change"
    );

    assert_eq!(level(&cluster, &["--level", "default"]), "n0: info\nn1: info\n");
    let before = log(&cluster, &["n1"]).matches(" DEBUG ").count();
    // Each look is a request to n1 itself.
    for _ in 0..5 {
        log(&cluster, &["n1"]);
    }
    assert_eq!(log(&cluster, &["n1"]).matches(" DEBUG ").count(), before);

    let refused = cluster.run(&["logs", "n1", "--level", "pcm_daemon=loud"]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    assert!(refused.stderr.contains("[bad_levels]"), "{refused:?}");
    cluster.down();
}

#[test]
fn the_keeper_writes_with_the_levels_of_its_daemon_and_tells_them_to_the_next() {
    let cluster = Cluster::up(1);
    let of_keeper = || log(&cluster, &["n0"]).matches("DEBUG pcm_daemon::keeper").count();
    let run = || {
        let outcome = cluster.run(&["run", "-n", "1", "--", "true"]);
        assert!(outcome.status.success(), "{outcome:?}");
    };
    run();
    assert_eq!(of_keeper(), 0);
    level(&cluster, &["n0", "--level", "pcm_daemon=debug,pcm_core=debug"]);
    run();
    wait::until("the order to start stands in the log", LIMIT, || {
        log(&cluster, &["n0"])
            .contains("the daemon orders order=Start")
            .then_some(())
    });

    let daemon = i32::try_from(cluster.daemon_pid("n0")).ok();
    let daemon = daemon.and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(daemon, rustix::process::Signal::KILL).expect("the daemon is killed");
    // Of the next one all requests are details that it would not write by itself.
    wait::until("the next daemon writes details", LIMIT, || {
        let outcome = cluster.run(&["logs", "n0", "--lines", "1000"]);
        let text = outcome.stdout.rsplit_once("the daemon starts")?.1.to_owned();
        text.contains("DEBUG pcm_core::node").then_some(())
    });
    assert_eq!(level(&cluster, &["n0", "--level", "default"]), "n0: info\n");
    let before = of_keeper();
    run();
    assert_eq!(of_keeper(), before);
    cluster.down();
}

#[test]
fn an_agent_that_is_started_again_keeps_the_levels_it_was_told() {
    let cluster = Cluster::up(1);
    let details = || log(&cluster, &["n0", "--agent"]).matches("DEBUG ios_agent").count();
    assert_eq!(details(), 0);
    level(&cluster, &["n0", "--agent", "--level", "ios_agent=debug"]);
    wait::until("the agent writes details", LIMIT, || (details() > 0).then_some(()));
    let pid = || {
        let log = log(&cluster, &["n0"]);
        let said = log.lines().rev().find(|line| line.contains("the agent is there"))?;
        said.split("pid=").nth(1)?.trim().parse::<i32>().ok()
    };
    let first = pid().expect("the agent's process");
    let first = rustix::process::Pid::from_raw(first).expect("a process id");
    rustix::process::kill_process(first, rustix::process::Signal::KILL).expect("the agent is killed");
    wait::until("another agent is there", LIMIT, || {
        pid().filter(|pid| *pid != first.as_raw_nonzero().get()).map(|_| ())
    });
    let before = details();
    wait::until("the new agent writes details", LIMIT, || {
        (details() > before).then_some(())
    });
    cluster.down();
}
