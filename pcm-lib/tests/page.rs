//! What the daemon sees on a rank's page and hears on its channel.
#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;
mod traffic;

use harness::{With, compile, start};
use pcm_proto::{app::AppToDaemon, handshake::PROTOCOL_VERSION, page::CallSeen};
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn messages_and_bytes_stand_in_the_row_of_the_rank_in_the_job() {
    let folder = tempfile::tempdir().unwrap();
    for with in [With::Preload, With::Shared, With::Static] {
        let program = compile(folder.path(), "traffic.c", with);
        let mut running = start(2, &program, &[], with);
        running.output();
        for (own, rank) in running.ranks.iter_mut().enumerate() {
            traffic::assert_counted(rank.page(), own);
        }
    }
}

#[test]
fn messages_and_bytes_are_counted_with_many_threads_too() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "traffic.c", With::Shared);
    let mut running = start(2, &program, &["multiple"], With::Shared);
    running.output();
    for (own, rank) in running.ranks.iter_mut().enumerate() {
        traffic::assert_counted(rank.page(), own);
    }
}

#[test]
fn the_call_a_rank_waits_in_is_seen_from_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "blocked.c", With::Shared);
    let go = folder.path().join("go");
    let mut running = start(2, &program, &[&go.to_string_lossy()], With::Shared);
    let seen: CallSeen = running.ranks[0].await_page("MPI_Recv", |page| page.call_seen());
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    assert_eq!(
        (seen.function.as_str(), seen.peer, seen.tag, seen.bytes),
        ("Recv", Some(1), Some(77), 80)
    );
    let waited = now_ns
        .checked_sub(seen.since_ns)
        .expect("a call that began in the past");
    assert!(waited < harness::LIMIT.as_nanos() as u64, "waiting for {waited} ns");
    assert_eq!(
        running.ranks[1].await_page("no call", |page| (page.calls() == 0).then(|| page.call_seen())),
        None
    );
    std::fs::write(go, "").unwrap();
    running.output();
    assert_eq!(running.ranks[0].page().call_seen(), None);
    assert!(running.ranks[0].page().mpi_ns() > 0);
}

#[test]
fn a_rank_says_when_it_begins_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "status.c", With::Static);
    let mut running = start(2, &program, &[], With::Static);
    let output = running.output();
    for (world_rank, rank) in (0..).zip(&mut running.ranks) {
        let pid = rank.page().head.progress.pid.load(Relaxed) as u32;
        let initialized = AppToDaemon::Initialized {
            version: PROTOCOL_VERSION,
            pid,
            world_rank,
            world_size: 2,
        };
        assert_eq!(rank.messages(), [initialized, AppToDaemon::Finalizing]);
    }
    let line = format!(
        "version {} before 0 active 1 result 0 null 2 error \n",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(output, line.repeat(2));
}

#[test]
fn what_a_rank_registered_and_when_its_loop_ends_stand_on_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "declaring.c", With::Shared);
    let mut running = start(2, &program, &[], With::Shared);
    running.output();
    for rank in &mut running.ranks {
        let progress = &rank.page().head.progress;
        // Half of the array and the value; scratch does not travel. It is no error that the loop went on.
        assert_eq!(progress.registered_bytes.load(Relaxed), 50 * 8 + 8);
        assert_eq!(progress.iterations_declared.load(Relaxed), 3 + 7);
    }
}

#[test]
fn an_abort_is_told_to_the_daemon_with_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "status.c", With::Shared);
    let mut running = start(1, &program, &["42"], With::Shared);
    let (status, output) = running.end();
    assert!(!status.success());
    // MPI leaves its shared memory when it aborts; under a daemon that is the daemon's to remove.
    for path in output.lines().filter_map(|line| line.strip_prefix("shared ")) {
        _ = std::fs::remove_file(path);
    }
    assert_eq!(
        running.ranks[0].messages().last(),
        Some(&AppToDaemon::Aborting { code: 42 })
    );
}
