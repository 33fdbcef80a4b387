//! What the demo tells at this stage: a cluster of four nodes comes up, heat2d runs on it with a progress line, the nodes
//! and the ranks are shown while it runs, the result is held against a plain run, everything ends.

use super::{interrupt::Interrupt, progress::Progress};
use crate::{
    bench::run_to_end,
    compile,
    environment::Environment,
    failure::{Failure, OnPath},
    own_cluster::OwnCluster,
    repository::Repository,
    setup,
};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

const NODES: u32 = 4;
const RANKS: &str = "4";

/// The plate, and the pause in each iteration that stands for a larger one and keeps four ranks on two cores in step.
const PLATE: [&str; 6] = ["--rows", "512", "--cols", "512", "--sleep-us", "2000"];

/// Iterations of the whole demo (about ten seconds) and of the quick one.
const ITERATIONS: u64 = 3000;
const ITERATIONS_QUICK: u64 = 500;

/// Far more than the job needs on a loaded machine.
const JOB_MAX: Duration = Duration::from_secs(180);

/// How the demo was asked for.
pub(crate) struct Options {
    /// Shorter.
    pub(crate) quick: bool,
    /// Where to leave what happened.
    pub(crate) out: Option<PathBuf>,
}

/// Runs the demo. Whatever happens, the cluster is taken down.
pub(crate) fn run(repository: &Repository, options: &Options) -> Result<(), Failure> {
    let environment = setup::run(repository)?;
    compile::release(repository, &environment)?;
    let interrupt = Interrupt::watch()?;
    let begun = Instant::now();
    heading("A cluster of four nodes on this machine");
    let cluster = OwnCluster::up_shown(&environment, NODES)?;
    interrupt.check()?;
    let iterations = if options.quick { ITERATIONS_QUICK } else { ITERATIONS };
    heading("heat2d on four ranks");
    let closing = job(&cluster, &environment, iterations, &interrupt)?;
    println!("{closing}");
    heading("The same plate in one plain MPI process");
    let plain = plain_run(&environment, iterations)?;
    println!("{plain}");
    if checksum(&closing) != checksum(&plain) {
        return Err(Failure::Answer {
            program: "heat2d".into(),
            problem: format!("its checksum is not that of the plain run: {closing:?} and {plain:?}"),
        });
    }
    println!("Same checksum: the same bits.");
    heading("What happened");
    show(cluster.pcmctl(&["events"]), Some("job"))?;
    if let Some(folder) = &options.out {
        leave(&cluster, folder, &closing)?;
    }
    cluster.down()?;
    println!(
        "\nEverything is down again; {:.1} s in all.",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn heading(text: &str) {
    println!("\n== {text}");
}

/// Runs heat2d, with tables of the nodes and the ranks at a third of the way; returns its closing line.
fn job(
    cluster: &OwnCluster<'_>,
    environment: &Environment,
    iterations: u64,
    interrupt: &Interrupt,
) -> Result<String, Failure> {
    let mut command = cluster.pcmctl(&["run", "-n", RANKS, "--name", "demo", "--"]);
    command.arg(environment.release.join("heat2d-c")).args(PLATE);
    command.args(["--iterations", &iterations.to_string(), "--progress"]);
    // In a group of its own, so that ctrl-C reaches only this process, which takes the cluster down in order.
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut running = Running(command.spawn().map_err(|source| Failure::Start {
        program: "pcmctl run".into(),
        source,
    })?);
    let steps = watch(running.0.stderr.take());
    let mut progress = Progress::begin();
    let (mut is_shown, end) = (false, Instant::now() + JOB_MAX);
    loop {
        interrupt.check()?;
        match steps.recv_timeout(Duration::from_millis(100)) {
            Ok(done) => {
                progress.at(done, iterations);
                if !is_shown && done * 3 >= iterations {
                    is_shown = true;
                    progress.clear();
                    show(cluster.pcmctl(&["nodes"]), None)?;
                    show(cluster.pcmctl(&["ps", "demo"]), None)?;
                }
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < end => {}
            Err(RecvTimeoutError::Timeout) => {
                return Err(Failure::Answer {
                    program: "heat2d".into(),
                    problem: format!("it did not end within {} s", JOB_MAX.as_secs()),
                });
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    progress.clear();
    running.closing_line()
}

/// A job under way; ended with whoever waits for it.
struct Running(Child);

impl Running {
    fn closing_line(&mut self) -> Result<String, Failure> {
        let mut said = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut said).on("read the output of", "heat2d")?;
        }
        let status = self.0.wait().map_err(|source| Failure::Start {
            program: "pcmctl run".into(),
            source,
        })?;
        match said.lines().last() {
            Some(line) if status.success() => Ok(line.to_owned()),
            _ => Err(Failure::Ended {
                program: "pcmctl run".into(),
                status,
                advice: "its message is above".into(),
            }),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already, in the usual case; else the daemon ends the job when its pcmctl is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The iterations that heat2d tells on its standard error, as they come; other lines are passed on.
fn watch(stderr: Option<impl Read + Send + 'static>) -> mpsc::Receiver<u64> {
    let (sender, steps) = mpsc::channel();
    thread::spawn(move || {
        // heat2d draws its own line over and over, so carriage returns end lines as well.
        let pieces = stderr
            .into_iter()
            .flat_map(|stderr| BufReader::new(stderr).split(b'\n').map_while(Result::ok));
        for line in pieces {
            for piece in String::from_utf8_lossy(&line).split('\r') {
                match iteration(piece) {
                    Some(done) if sender.send(done).is_err() => return,
                    Some(_) => {}
                    None if piece.trim().is_empty() => {}
                    None => eprintln!("{piece}"),
                }
            }
        }
    });
    steps
}

/// The number in `heat2d: iteration 30 of 100 …`.
fn iteration(line: &str) -> Option<u64> {
    line.trim()
        .strip_prefix("heat2d: iteration ")?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

fn plain_run(environment: &Environment, iterations: u64) -> Result<String, Failure> {
    let mut command = environment.command(environment.mpi.mpiexec());
    command
        .args(["-n", "1"])
        .arg(environment.release.join("heat2d-c-plain"));
    command
        .args(&PLATE[..4])
        .args(["--iterations", &iterations.to_string()]);
    let output = run_to_end("demo", command, JOB_MAX)?;
    Ok(output.lines().last().unwrap_or_default().to_owned())
}

fn checksum(closing: &str) -> Option<&str> {
    closing.split(" checksum ").nth(1)
}

/// Prints what a command says, or only its lines with a word.
fn show(command: Command, word: Option<&str>) -> Result<(), Failure> {
    let said = run_to_end("demo", command, JOB_MAX)?;
    for line in said.lines().filter(|line| word.is_none_or(|word| line.contains(word))) {
        println!("{line}");
    }
    println!();
    Ok(())
}

fn leave(cluster: &OwnCluster<'_>, folder: &std::path::Path, closing: &str) -> Result<(), Failure> {
    fs::create_dir_all(folder).on("create", folder)?;
    let events = run_to_end("demo", cluster.pcmctl(&["events", "--json"]), JOB_MAX)?;
    for (name, text) in [("events.jsonl", events), ("heat2d.txt", format!("{closing}\n"))] {
        let path = folder.join(name);
        fs::write(&path, text).on("write", &path)?;
    }
    println!("Events and result are in {}", folder.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_and_checksums_are_read_and_other_lines_are_not() {
        assert_eq!(iteration("heat2d: iteration 30 of 100, 12 a second"), Some(30));
        assert_eq!(iteration("pcmctl: job 1: rank 0 was killed"), None);
        assert_eq!(
            checksum("heat2d: iterations 5 ranks 2 seconds 1.0 checksum 00ff"),
            Some("00ff")
        );
        assert_eq!(checksum("nothing"), None);
    }
}
