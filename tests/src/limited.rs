//! Runs a program to its end within a deadline. Must never leave it running.

use std::{
    io::{Read, Write},
    process::{Child, Command, ExitStatus, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit status.
    pub status: ExitStatus,
    /// Everything on stdout.
    pub stdout: String,
    /// Everything on stderr.
    pub stderr: String,
}

/// Runs `command` without stdin and waits for its end.
///
/// # Panics
/// When it cannot be started, or is still running after `limit` (it is killed then).
pub fn run(command: &mut Command, limit: Duration) -> Outcome {
    run_to_end(command.stdin(Stdio::null()), None, limit)
}

/// As [`run`], with `input` on the program's stdin.
///
/// # Panics
/// As [`run`].
pub fn run_with_input(command: &mut Command, input: Vec<u8>, limit: Duration) -> Outcome {
    run_to_end(command.stdin(Stdio::piped()), Some(input), limit)
}

fn run_to_end(command: &mut Command, input: Option<Vec<u8>>, limit: Duration) -> Outcome {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // A program need not read its input to the end.
        thread::spawn(move || stdin.write_all(&input));
    }
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let status = wait(&mut child, limit);
    let text = |reader: JoinHandle<Vec<u8>>| String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned();
    match status {
        Some(status) => Outcome {
            status,
            stdout: text(stdout),
            stderr: text(stderr),
        },
        // What it started may hold the pipes open, so their readers are not waited for.
        None => panic!("{command:?} did not end within {limit:?}"),
    }
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().expect("our own child can be waited for") {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    // A launcher gets the chance to end its ranks; a kill would orphan them.
    let _ = Command::new("kill").arg(child.id().to_string()).status();
    let grace = Instant::now() + Duration::from_secs(5);
    while Instant::now() < grace {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_both_streams_are_kept_apart() {
        let outcome = run(
            Command::new("sh").args(["-c", "echo out; echo err >&2; exit 7"]),
            Duration::from_secs(30),
        );
        assert_eq!(
            (outcome.status.code(), outcome.stdout.as_str(), outcome.stderr.as_str()),
            (Some(7), "out\n", "err\n")
        );
    }

    #[test]
    #[should_panic(expected = "did not end within")]
    fn a_program_past_its_deadline_fails_the_test() {
        run(Command::new("sleep").arg("60"), Duration::from_millis(50));
    }
}
