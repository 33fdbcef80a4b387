//! A daemon's environment that is damaged leaves a plain MPI program that can say why.
#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use harness::{With, compile, mpiexec, rank_sides};
use pcm_proto::{
    app::{DaemonToApp, environment, packet_encode},
    page::Page,
};
use std::{
    fs::File,
    io::{Seek, Write},
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::Path,
    sync::atomic::Ordering::Relaxed,
};

/// What `status.c` prints with these two variables.
fn status(program: &Path, page: Option<RawFd>, channel: Option<RawFd>) -> String {
    let mut command = mpiexec();
    command.args(["-n", "1"]);
    for (name, number) in [(environment::PAGE_FD, page), (environment::CHANNEL_FD, channel)] {
        if let Some(number) = number {
            command.args(["-env", name, &number.to_string()]);
        }
    }
    let output = command.arg(program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn assert_plain_because(output: &str, result: u32, reason: &str) {
    assert!(output.contains(&format!("active 0 result {result} ")), "{output}");
    assert!(
        output.contains(reason) && output.contains("runs as plain MPI"),
        "{output}"
    );
}

fn changed(page: &OwnedFd, offset: u64, value: u64) {
    let mut file = File::from(page.try_clone().unwrap());
    file.seek(std::io::SeekFrom::Start(offset)).unwrap();
    file.write_all(&value.to_le_bytes()).unwrap();
}

#[test]
fn without_a_daemon_there_is_nothing_to_say() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "status.c", With::Shared);
    assert!(status(&program, None, None).contains("active 0 result 0 null 2 error \n"));
}

#[test]
fn a_damaged_environment_is_told_by_code_and_text() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "status.c", With::Shared);
    let (_rank, page, channel) = rank_sides(1);
    let (page_fd, channel_fd) = (Some(page.as_raw_fd()), Some(channel.as_raw_fd()));
    assert_plain_because(&status(&program, page_fd, None), 10, "PCM_CHANNEL_FD is missing");
    assert_plain_because(&status(&program, Some(0), channel_fd), 10, "PCM_PAGE_FD is \"0\"");
    assert_plain_because(
        &status(&program, Some(987), channel_fd),
        10,
        "descriptor 987 (PCM_PAGE_FD)",
    );
    assert_plain_because(&status(&program, channel_fd, channel_fd), 11, "");
    assert_plain_because(&status(&program, page_fd, page_fd), 12, "is not a channel to a daemon");
    assert_plain_because(&status(&program, page_fd, Some(987)), 12, "descriptor 987");
}

#[test]
fn a_page_of_another_version_or_another_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "status.c", With::Shared);
    let (mut rank, page, channel) = rank_sides(1);
    let (page_fd, channel_fd) = (Some(page.as_raw_fd()), Some(channel.as_raw_fd()));
    rank.page().head.progress.pid.store(1, Relaxed);
    assert_plain_because(&status(&program, page_fd, channel_fd), 11, "belongs to process 1");
    changed(&page, 8, 4711);
    assert_plain_because(
        &status(&program, page_fd, channel_fd),
        13,
        "has protocol version 4711, this library version",
    );
    changed(&page, 0, 0);
    assert_plain_because(&status(&program, page_fd, channel_fd), 11, "does not hold a page");
    assert!(rank.messages().is_empty(), "a rank that is none says nothing");
}

#[test]
fn a_refusal_that_the_doorbell_announces_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "status.c", With::Shared);
    let (mut rank, page, channel) = rank_sides(1);
    let refused = DaemonToApp::Refused {
        version: 99,
        reason: "the job has ended".into(),
    };
    rustix::net::send(
        rank.channel(),
        &packet_encode(&refused).unwrap(),
        rustix::net::SendFlags::DONTWAIT,
    )
    .unwrap();
    Page::ring(&rank.page());
    let output = status(&program, Some(page.as_raw_fd()), Some(channel.as_raw_fd()));
    assert_plain_because(
        &output,
        13,
        "(protocol version 99) refused this process: the job has ended",
    );
}
