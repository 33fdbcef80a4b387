//! A keeper at its limit of open files refuses in time, says why, and lives on.

use crate::node::{Node, is_alive, key};
use pcm_daemon::keeper_link::FromKeeper;
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::keeper::DaemonToKeeper;
use pcm_proto::open_files::buffers_max;
use std::os::fd::AsFd;
use std::process::Command;

/// The least that most machines would have as a hard limit.
const LIMIT: u64 = 256;

fn buffer(number: u64) -> BufferKey {
    BufferKey {
        job: JobId(1),
        process: ProcessId(0),
        number: u32::try_from(number).unwrap(),
        is_copy: false,
    }
}

async fn keep(node: &Node, number: u64) -> Result<(), String> {
    let file = std::fs::File::open("/dev/zero").unwrap();
    node.link.keep(buffer(number), 1, file.as_fd()).await.unwrap();
    match node.hear().await {
        FromKeeper::Kept { key, outcome } if key == buffer(number) => outcome,
        other => panic!("{other:?} instead of an answer"),
    }
}

#[tokio::test]
async fn a_keeper_that_is_full_refuses_buffers_with_a_reason_and_goes_on() {
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -Sn 128; ulimit -Hn 256; exec \"$0\" \"$@\""]);
    limited.arg(env!("CARGO_BIN_EXE_pcm-daemon"));
    let (mut node, _) = Node::boot_by(limited).await;
    let first = node.start(node.spec(key(1, 0), "/bin/sleep", &["1000"])).await;
    let full = buffers_max(LIMIT, 1, 0);
    for number in 0..full {
        keep(&node, number).await.unwrap();
    }
    for number in full..full + 100 {
        let refused = keep(&node, number).await.unwrap_err();
        assert!(
            refused.contains(&format!("{full} buffers")) && refused.contains("256 open files"),
            "{refused}"
        );
    }
    let second = node.start(node.spec(key(1, 1), "/bin/sleep", &["1000"])).await;
    node.daemon_end(false);
    let welcome = node.succeed().await;
    assert_eq!((welcome.kept.len() as u64, welcome.held.len()), (full, 2));
    assert!([first.pid, second.pid].map(u32::cast_signed).into_iter().all(is_alive));
    // What two ranks take is not there for buffers.
    let keys = (0..full - buffers_max(LIMIT, 2, 0) + 1).map(buffer).collect();
    node.link.send(&DaemonToKeeper::DropKept { keys }).await.unwrap();
    keep(&node, full).await.unwrap();
    keep(&node, full + 1).await.unwrap_err();
    node.end_job(1).await;
    node.quit().await;
}
