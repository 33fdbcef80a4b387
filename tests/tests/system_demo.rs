//! `cargo xtask demo`, as somebody sees it who has no terminal: what it shows, and that it leaves nothing, also when it
//! is interrupted.

use rustix::process::Signal;
use std::{env, process::Command, time::Duration};
use tests::{background::Background, cluster::Cluster, skip::cannot_run};

/// The quick demo takes four seconds on an idle machine; what it runs is built already.
const DEMO_MAX: Duration = Duration::from_secs(300);
/// Taking its cluster down.
const INTERRUPTED_MAX: Duration = Duration::from_secs(30);

fn demo(place: &Cluster) -> Option<Command> {
    let Some(xtask) = env::var_os("PCM_XTASK") else {
        cannot_run("PCM_XTASK names no xtask: test through `cargo xtask test`");
        return None;
    };
    let mut command = place.command(xtask);
    command
        .args(["demo", "--quick", "--out"])
        .arg(place.files().join("left by the demo"));
    Some(command)
}

#[test]
fn the_demo_shows_a_cluster_a_job_that_grows_and_moves_and_the_same_bits() {
    let place = Cluster::place();
    let Some(mut demo) = demo(&place) else { return };
    let outcome = Background::start(&mut demo).end(DEMO_MAX);
    assert!(outcome.status.success(), "{outcome:?}");
    let shown = [
        "n2    127.0.0.1",
        "RANK  NODE",
        "node n3 is up",
        "expand: 3 to 4 ranks",
        "migrate: 4 to 4 ranks",
        "Same checksum",
        "4 ranks on 3 nodes",
        "Everything is down again",
    ];
    for text in shown {
        assert!(outcome.stdout.contains(text), "{text:?} in {outcome:?}");
    }
    assert!(
        !outcome.stderr.contains('\r'),
        "no progress line without a terminal: {outcome:?}"
    );
    assert!(place.files().join("left by the demo/events.jsonl").is_file());
    place.assert_nothing_left();
}

#[test]
fn an_interrupted_demo_takes_its_cluster_down() {
    let place = Cluster::place();
    let Some(mut demo) = demo(&place) else { return };
    let mut demo = Background::start(&mut demo);
    demo.wait_for("RANK  NODE", DEMO_MAX);
    demo.signal(Signal::INT);
    let outcome = demo.end(INTERRUPTED_MAX);
    assert!(!outcome.status.success(), "{outcome:?}");
    place.assert_nothing_left();
}
