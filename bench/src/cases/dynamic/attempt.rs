//! One run under any launcher, with a deadline. Must never leave a process behind: those of a run that hangs bear a
//! mark in their environment, by which they are found and ended.

use pcm_bench::{Failure, OnPath};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// In the environment of every process of a run.
pub(super) const MARK_VARIABLE: &str = "PCM_BENCH_MARK";

/// Often enough to see an end soon, seldom enough not to disturb the ranks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A launcher that is asked to end may take so long to end its ranks in order.
const END_WITHIN: Duration = Duration::from_secs(3);

/// Processes that are killed while others are started are looked for again so often.
const SWEEPS: usize = 5;

/// How a run went.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// What it said on standard output.
    Said(String),
    /// It was not over at its deadline.
    Hung,
    /// It ended without success: its last words.
    Failed(String),
}

/// Runs it; what it says goes to files in a folder, so that nobody waits for a pipe that a lost process holds open.
pub(super) fn run(mut command: Command, folder: &Path, mark: &str, deadline: Duration) -> Result<Outcome, Failure> {
    let (out, err) = (folder.join("out"), folder.join("err"));
    let create = |path: &Path| File::create(path).on("create", path);
    command.env(MARK_VARIABLE, mark).stdin(Stdio::null()).process_group(0);
    command.stdout(create(&out)?).stderr(create(&err)?);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(Outcome::Failed(format!("cannot be started: {error}"))),
    };
    let mut wait_until = |end: Instant| -> Option<ExitStatus> {
        while Instant::now() < end {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(status);
            }
            thread::sleep(LOOK_EVERY);
        }
        None
    };
    let Some(status) = wait_until(Instant::now() + deadline) else {
        let launcher = Pid::from_raw(child.id().cast_signed());
        signal(launcher, Signal::TERM);
        sweep_after(&mut child, mark);
        return Ok(Outcome::Hung);
    };
    let read = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if status.success() {
        return Ok(Outcome::Said(read(&out).on("read", &out)?));
    }
    sweep(mark);
    let words = read(&err).on("read", &err)?;
    let last = words
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    Ok(Outcome::Failed(format!("{status}: {last:.200}")))
}

/// Waits for the launcher to end in order, then ends what is left.
fn sweep_after(child: &mut std::process::Child, mark: &str) {
    let end = Instant::now() + END_WITHIN;
    while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(LOOK_EVERY);
    }
    // It may have ended.
    let _ = child.kill();
    let _ = child.wait();
    sweep(mark);
}

/// Ends every process that bears the mark.
pub(super) fn sweep(mark: &str) {
    let wanted = format!("{MARK_VARIABLE}={mark}");
    for _ in 0..SWEEPS {
        let left: Vec<i32> = marked(&wanted);
        if left.is_empty() {
            return;
        }
        left.into_iter()
            .for_each(|process| signal(Pid::from_raw(process), Signal::KILL));
        thread::sleep(LOOK_EVERY);
    }
}

fn marked(wanted: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = entries.filter_map(|entry| {
        let process: i32 = entry.file_name().to_str()?.parse().ok()?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let bears = environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == wanted.as_bytes());
        (bears && process != std::process::id().cast_signed()).then_some(process)
    });
    own.collect()
}

fn signal(process: Option<Pid>, signal: Signal) {
    if let Some(process) = process {
        // One that has just ended is what is wanted.
        let _ = kill_process(process, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    #[test]
    fn a_run_that_hangs_is_reported_and_what_it_started_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mark = format!("{}-hang", std::process::id());
        let script = "trap '' TERM; setsid sleep 600 & sleep 600";
        let outcome = run(shell(script), folder.path(), &mark, Duration::from_millis(300)).unwrap();
        assert_eq!(outcome, Outcome::Hung);
        assert_eq!(marked(&format!("{MARK_VARIABLE}={mark}")), Vec::<i32>::new());
    }

    #[test]
    fn a_run_says_something_or_fails_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let run = |script| run(shell(script), folder.path(), "own", Duration::from_secs(30)).unwrap();
        assert_eq!(run("echo spawn 1"), Outcome::Said("spawn 1\n".to_owned()));
        match run("echo no such host >&2; echo >&2; exit 3") {
            Outcome::Failed(words) => assert!(words.contains("no such host") && words.contains('3'), "{words}"),
            other => panic!("{other:?}"),
        }
    }
}
