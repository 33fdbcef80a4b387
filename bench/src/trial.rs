//! One run of a program under measurement, with a deadline. Must never leave it running.

use crate::failure::Failure;
use std::{
    ffi::OsStr,
    io::Read,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Often enough to see an end soon, seldom enough not to disturb the ranks on two cores.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Runs to a successful end within the deadline, or ends it and says so; what it said on standard output.
pub fn run(bench: &'static str, mut command: Command, deadline: Duration) -> Result<String, Failure> {
    let started = Instant::now();
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(Failure::start(&command))?;
    let mut out = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        out.as_mut().map(|out| out.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    let status = loop {
        match child.try_wait().map_err(|source| Failure::start(&command)(source))? {
            Some(status) => break status,
            None if started.elapsed() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                let problem = format!("{} did not end in {deadline:?}", describe(&command));
                return Err(Failure::bench(bench, problem));
            }
            None => thread::sleep(LOOK_EVERY),
        }
    };
    let said = reader.join().unwrap_or_default();
    succeeded(&command, status)?;
    Ok(said)
}

/// Runs a command that must succeed, without a deadline.
pub fn must(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(Failure::start(command))?;
    succeeded(command, status)
}

fn succeeded(command: &Command, status: ExitStatus) -> Result<(), Failure> {
    if status.success() {
        return Ok(());
    }
    Err(Failure::Ended {
        program: describe(command),
        status,
        advice: "its messages are above",
    })
}

/// A command as a person would type it, without folders.
pub fn describe(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = [name].into_iter().chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

/// The figure after `name` in the line of a bench's program that begins so.
pub fn figure(bench: &'static str, output: &str, line: &str, name: &str) -> Result<f64, Failure> {
    let mut lines = output.lines().filter(|text| text.starts_with(line));
    let value = lines.find_map(|text| number_after(text, name));
    value.ok_or_else(|| Failure::bench(bench, format!("no {name} after {line:?} in {output:?}")))
}

/// The number behind the first of these words.
pub fn number_after(text: &str, word: &str) -> Option<f64> {
    let mut words = text.split_whitespace().skip_while(|known| *known != word);
    words.nth(1)?.parse().ok()
}

/// Looks again and again until there is something to see; an error when there is nothing for so long.
pub fn until<T>(
    bench: &'static str,
    what: &str,
    (every, limit): (Duration, Duration),
    mut look: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if begun.elapsed() > limit {
            return Err(Failure::bench(bench, format!("waited {limit:?} in vain for {what}")));
        }
        thread::sleep(every);
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
    fn a_run_past_its_deadline_is_ended_and_named() {
        let started = Instant::now();
        let failure = run("x", shell("exec sleep 60"), Duration::from_millis(50))
            .err()
            .unwrap();
        assert!(failure.to_string().contains("sleep 60"));
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_run_that_fails_is_no_sample() {
        assert!(run("x", shell("exit 3"), Duration::from_secs(30)).is_err());
        let said = run("x", shell("echo yes"), Duration::from_secs(30));
        assert_eq!(said.unwrap(), "yes\n");
    }

    #[test]
    fn figures_are_read_by_name_from_their_line() {
        let output = "x\ncalls: Iprobe blocks 3 mpi_ns 5.5 plain_ns 4 mpi_adds_ns 1.25\n";
        assert_eq!(figure("x", output, "calls: Iprobe ", "mpi_adds_ns").ok(), Some(1.25));
        assert!(figure("x", output, "heat2d: ", "seconds").is_err());
    }

    #[test]
    fn waiting_ends_with_what_is_seen_or_with_the_limit() {
        let (every, limit) = (Duration::from_millis(1), Duration::from_millis(30));
        let mut looks = 0;
        let third = until("x", "a third look", (every, limit), || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        });
        assert_eq!(third.ok(), Some(3));
        let never = until("x", "rain", (every, limit), || Ok(None::<()>)).err().unwrap();
        assert!(never.to_string().contains("30ms in vain for rain"), "{never}");
    }
}
