//! The demo's job: heat2d under `pcmctl run`, with its progress line and what happens meanwhile. Ends with whoever
//! waits for it.

use crate::{
    acts::{Acts, News},
    interrupt::Interrupt,
    pace::{Pace, Part},
    show::heading,
};
use pcm_bench::{Failure, OnPath, OwnCluster, environment::Environment, progress::Progress, running::Running};
use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::Stdio,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

const RANKS: &str = "3";

/// Far more than the job needs on a loaded machine.
pub(super) const JOB_MAX: Duration = Duration::from_secs(180);

/// How often the acts are looked after.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What came of the job.
pub(super) struct Ended {
    pub(super) closing: String,
    pub(super) parts: Vec<Part>,
}

/// Runs heat2d on this plate to its end.
pub(super) fn run(
    cluster: &OwnCluster<'_>,
    environment: &Environment,
    plate: &[&str],
    iterations: u64,
    interrupt: &Interrupt,
) -> Result<Ended, Failure> {
    let mut command = cluster.pcmctl(&["run", "-n", RANKS, "--name", "demo", "--"]);
    command.arg(environment.program("heat2d-c")).args(plate);
    command.args(["--iterations", &iterations.to_string(), "--progress"]);
    // In a group of its own, so that ctrl-C reaches only this process, which takes the cluster down in order.
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut running = Running::start(&mut command)?;
    let steps = watch(running.0.stderr.take());
    let parts = follow(cluster, &steps, iterations, interrupt)?;
    Ok(Ended {
        closing: closing_line(&mut running)?,
        parts,
    })
}

/// Until the job says nothing more.
fn follow(
    cluster: &OwnCluster<'_>,
    steps: &mpsc::Receiver<u64>,
    iterations: u64,
    interrupt: &Interrupt,
) -> Result<Vec<Part>, Failure> {
    let (mut progress, mut pace, mut acts) = (Progress::begin("iterations"), Pace::default(), Acts::new());
    let begun = Instant::now();
    let mut done = 0;
    pace.mark(Duration::ZERO, "3 ranks on 3 nodes");
    loop {
        interrupt.check()?;
        match steps.recv_timeout(LOOK_EVERY) {
            Ok(step) => {
                done = step;
                pace.saw(begun.elapsed(), done);
                progress.at(done, iterations);
            }
            Err(RecvTimeoutError::Timeout) if begun.elapsed() < JOB_MAX => {}
            Err(RecvTimeoutError::Timeout) => {
                return Err(Failure::answer(
                    "heat2d",
                    format!("it did not end within {} s", JOB_MAX.as_secs()),
                ));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
        match acts.look(cluster, done, iterations)? {
            News::Same => {}
            News::Begun(what) => {
                progress.clear();
                heading(what);
                pace.mark(begun.elapsed(), what);
            }
            News::Done(result, said) => {
                progress.clear();
                println!("{said}");
                pace.mark(begun.elapsed(), result);
            }
        }
    }
    progress.clear();
    if acts.is_incomplete() {
        println!("The job ended before everything planned for it could happen; see 'What happened'.");
    }
    Ok(pace.parts())
}

/// What the job says last, once it has ended well.
fn closing_line(running: &mut Running) -> Result<String, Failure> {
    let mut said = String::new();
    if let Some(mut stdout) = running.0.stdout.take() {
        stdout.read_to_string(&mut said).on("read the output of", "heat2d")?;
    }
    let program = || "pcmctl run".to_owned();
    let status = running.0.wait().map_err(|source| Failure::Start {
        program: program(),
        source,
    })?;
    match said.lines().last() {
        Some(line) if status.success() => Ok(line.to_owned()),
        _ => Err(Failure::Ended {
            program: program(),
            status,
            advice: "its message is above",
        }),
    }
}

/// The iterations that heat2d tells on its standard error, as they come; other lines are passed on.
fn watch(stderr: Option<impl Read + Send + 'static>) -> mpsc::Receiver<u64> {
    let (sender, steps) = mpsc::channel();
    thread::spawn(move || {
        let lines = stderr
            .into_iter()
            .flat_map(|stderr| BufReader::new(stderr).split(b'\n').map_while(Result::ok));
        for line in lines {
            let line = String::from_utf8_lossy(&line);
            match iteration(&line) {
                Some(done) if sender.send(done).is_err() => return,
                Some(_) => {}
                None if line.trim().is_empty() => {}
                None => eprintln!("{line}"),
            }
        }
    });
    steps
}

/// The number in `heat2d: iteration 30 of 100`.
fn iteration(line: &str) -> Option<u64> {
    line.trim()
        .strip_prefix("heat2d: iteration ")?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_read_and_other_lines_are_not() {
        assert_eq!(iteration("heat2d: iteration 30 of 100"), Some(30));
        assert_eq!(iteration("pcmctl: job 1: rank 0 was killed"), None);
    }
}
