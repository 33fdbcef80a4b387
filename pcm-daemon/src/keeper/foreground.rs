//! A keeper that is the process which an engine such as Slurm started. The engine speaks to it by signals, which the
//! ranks may get too, and reads its exit code.

use super::boot::Booted;
use crate::cluster_record;
use pcm_proto::keeper::{DAEMON_EXIT_FINAL, ExitStatus, ProcessKey};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The node was left because of a notice, or because its time was nearly up; `EX_TEMPFAIL`: the same command may be run
/// again elsewhere.
pub(super) const LEFT_AFTER_NOTICE: i32 = 75;

/// Engines signal every process they find, one after the other, and some signal twice. The keeper tells the end of
/// a rank that comes first so much later.
const NOTICE_FOLLOWS_WITHIN: Duration = Duration::from_millis(300);

/// The daemon hears of the notice through a signal and of ends through a socket; this is for the signal to be first.
const NOTICE_IS_HEARD: Duration = Duration::from_millis(100);

/// How a keeper relates to the process that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stance {
    /// It leaves the session of whoever started it.
    Detached,
    /// It is that process.
    Foreground {
        /// Whether it put its node into the cluster's list by itself, and so takes it out again.
        has_joined: bool,
    },
}

/// Ends of ranks that are told later: a notice to the node may be their cause.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    ends: Vec<(Instant, ProcessKey, ExitStatus)>,
    noticed: Option<Instant>,
}

impl HeldBack {
    pub(super) fn on_notice(&mut self) {
        let now = Instant::now();
        self.noticed = Some(now);
        for (at, ..) in &mut self.ends {
            *at = now + NOTICE_IS_HEARD;
        }
    }

    /// Keeps the end of a rank for later, if it may come of a notice; whether it does.
    pub(super) fn keep(&mut self, key: ProcessKey, status: ExitStatus) -> bool {
        let is_asked_to_end = matches!(status, ExitStatus::Signal(libc::SIGHUP | libc::SIGINT | libc::SIGTERM));
        if is_asked_to_end {
            let now = Instant::now();
            let within = self.noticed.map_or(NOTICE_FOLLOWS_WITHIN, |_| NOTICE_IS_HEARD);
            self.ends.push((now + within, key, status));
        }
        is_asked_to_end
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.ends.iter().map(|(at, ..)| *at).min()
    }

    /// Those that are told now.
    pub(super) fn take_due(&mut self) -> Vec<(ProcessKey, ExitStatus)> {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.ends)
            .into_iter()
            .partition(|(at, ..)| *at <= now);
        self.ends = later;
        let due: Vec<(Instant, ProcessKey, ExitStatus)> = due;
        due.into_iter().map(|(_, key, status)| (key, status)).collect()
    }
}

/// Ends a keeper; the exit code.
pub(super) fn last_word(booted: &Booted, code: i32, was_noticed: bool) -> i32 {
    let Stance::Foreground { has_joined } = booted.stance else {
        return code;
    };
    let node = &booted.spec.node.name;
    if has_joined {
        cluster_record::take_out(&booted.spec);
    }
    let (code, why) = match code {
        0 | LEFT_AFTER_NOTICE if was_noticed => (LEFT_AFTER_NOTICE, "a signal said that the node is taken away"),
        LEFT_AFTER_NOTICE => (LEFT_AFTER_NOTICE, "its time was nearly up"),
        0 => (0, "the cluster is down, or the node was removed"),
        1 | DAEMON_EXIT_FINAL => (1, "the daemon could not be kept alive: see daemon.log of the node"),
        code => (code, "it was told to end"),
    };
    say(booted.console.as_ref(), &format!("node {node} ended: {why}"));
    code
}

/// Writes a line where the one who started the keeper reads it.
pub(super) fn say(console: Option<&OwnedFd>, line: &str) {
    if let Some(Ok(copy)) = console.map(OwnedFd::try_clone) {
        // A reader that is gone misses nothing that the log does not have.
        let _ = writeln!(std::fs::File::from(copy), "pcm-daemon: {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{JobId, ProcessId};

    #[test]
    fn an_end_that_a_notice_may_explain_is_told_after_it_and_no_other_is_held() {
        let key = ProcessKey {
            job: JobId(1),
            process: ProcessId(0),
        };
        let mut held = HeldBack::default();
        for status in [
            ExitStatus::Code(0),
            ExitStatus::Signal(libc::SIGKILL),
            ExitStatus::Signal(libc::SIGSEGV),
        ] {
            assert!(!held.keep(key, status), "{status:?}");
        }
        assert!(held.keep(key, ExitStatus::Signal(libc::SIGTERM)));
        let alone = held.next().unwrap();
        assert!(held.take_due().is_empty());
        held.on_notice();
        assert!(held.next().unwrap() < alone);
        std::thread::sleep(NOTICE_IS_HEARD);
        assert_eq!(held.take_due(), [(key, ExitStatus::Signal(libc::SIGTERM))]);
        assert_eq!(held.next(), None);
    }
}
