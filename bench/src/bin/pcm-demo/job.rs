//! The demo's job: heat2d under `pcmctl run`, with its progress line and what happens meanwhile. Ends with whoever
//! waits for it.

use crate::{
    acts::{Acts, News},
    interrupt::Interrupt,
    parts::{Part, Parts},
    show::heading,
};
use pcm_bench::{Failure, OnPath, OwnCluster, environment::Environment, heat2d, progress::Progress, running::Running};
use std::{
    io::Read,
    os::unix::process::CommandExt,
    process::Stdio,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

/// Rows and columns of the plate, and the pause in each iteration that stands for a larger one and keeps four ranks on
/// two cores in step.
pub(super) const SIDE: u32 = 512;
const PAUSE_US: &str = "2000";

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

/// Runs heat2d to its end.
pub(super) fn run(
    cluster: &OwnCluster<'_>,
    environment: &Environment,
    iterations: u64,
    interrupt: &Interrupt,
) -> Result<Ended, Failure> {
    let mut command = cluster.pcmctl(&["run", "-n", RANKS, "--name", "demo", "--"]);
    command.arg(environment.program("heat2d-c"));
    command
        .args(heat2d::plate(SIDE, SIDE, iterations))
        .args(["--progress", "--sleep-us", PAUSE_US]);
    // In a group of its own, so that ctrl-C reaches only this process, which takes the cluster down in order.
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut running = Running::start(&mut command)?;
    let steps = heat2d::progress(running.0.stderr.take(), |line| {
        if !line.trim().is_empty() {
            eprintln!("{line}");
        }
    });
    let parts = follow(cluster, &steps, iterations, interrupt)?;
    Ok(Ended {
        closing: closing_line(&mut running)?,
        parts,
    })
}

/// Until the job says nothing more.
fn follow(
    cluster: &OwnCluster<'_>,
    steps: &Receiver<(Instant, u64)>,
    iterations: u64,
    interrupt: &Interrupt,
) -> Result<Vec<Part>, Failure> {
    let (mut progress, mut parts, mut acts) = (Progress::begin("iterations"), Parts::default(), Acts::new());
    let begun = Instant::now();
    let mut done = 0;
    parts.mark(Duration::ZERO, "3 ranks on 3 nodes");
    loop {
        interrupt.check()?;
        match steps.recv_timeout(LOOK_EVERY) {
            Ok((at, step)) => {
                done = step;
                parts.pace.saw((at - begun).as_secs_f64(), done);
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
                parts.mark(begun.elapsed(), what);
            }
            News::Done(result, said) => {
                progress.clear();
                println!("{said}");
                parts.mark(begun.elapsed(), result);
            }
        }
    }
    progress.clear();
    if acts.is_incomplete() {
        println!("The job ended before everything planned for it could happen; see 'What happened'.");
    }
    Ok(parts.rates())
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
