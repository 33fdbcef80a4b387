//! What the demo tells at this stage: a cluster of three nodes comes up, heat2d runs on it with a progress line, a
//! fourth node joins and the job grows onto it, a rank moves, the result is held against a plain run, everything ends.

use crate::{
    interrupt::Interrupt,
    job::{self, JOB_MAX, SIDE},
    show::{heading, show, throughput},
};
use clap::Parser;
use pcm_bench::{Failure, OnPath, OwnCluster, environment::Environment, heat2d, trial};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

const NODES: u32 = 3;

/// Iterations of the whole demo (about ten seconds) and of the quick one.
const ITERATIONS: u64 = 2500;
const ITERATIONS_QUICK: u64 = 1500;

/// Shows on a local cluster what this software does, and leaves nothing behind.
#[derive(Parser)]
#[command(name = "pcm-demo", after_help = "Example: cargo xtask demo --quick")]
pub(crate) struct Options {
    /// A shorter run.
    #[arg(long)]
    quick: bool,
    /// Leave the events and the result in this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs the demo. Whatever happens, the cluster is taken down.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let environment = Environment::read()?;
    let interrupt = Interrupt::watch()?;
    let begun = Instant::now();
    heading("A cluster of three nodes on this machine");
    let cluster = OwnCluster::up_shown(&environment, NODES)?;
    interrupt.check()?;
    let iterations = if options.quick { ITERATIONS_QUICK } else { ITERATIONS };
    heading("heat2d on three ranks");
    let ended = job::run(&cluster, &environment, iterations, &interrupt)?;
    println!("{}", ended.closing);
    heading("The same plate in one plain MPI process");
    let plain = plain_run(&environment, iterations)?;
    println!("{plain}");
    if checksum(&ended.closing) != checksum(&plain) {
        return Err(Failure::answer(
            "heat2d",
            format!(
                "its checksum is not that of the plain run: {:?} and {plain:?}",
                ended.closing
            ),
        ));
    }
    println!("Same checksum: the same bits, whatever happened to the ranks.");
    heading("What happened");
    show(cluster.pcmctl(&["events"]), Some("job"))?;
    heading("Throughput");
    throughput(&ended.parts);
    if let Some(folder) = &options.out {
        leave(&cluster, folder, &ended.closing)?;
    }
    cluster.down()?;
    println!(
        "\nEverything is down again; {:.1} s in all.",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn plain_run(environment: &Environment, iterations: u64) -> Result<String, Failure> {
    let mut command = environment.command(&environment.mpiexec);
    command.args(["-n", "1"]).arg(environment.program("heat2d-c-plain"));
    command.args(heat2d::plate(SIDE, SIDE, iterations));
    let output = trial::run("demo", command, JOB_MAX)?;
    Ok(output.lines().last().unwrap_or_default().to_owned())
}

fn checksum(closing: &str) -> Option<&str> {
    closing.split(" checksum ").nth(1)
}

fn leave(cluster: &OwnCluster<'_>, folder: &Path, closing: &str) -> Result<(), Failure> {
    fs::create_dir_all(folder).on("create", folder)?;
    let events = trial::run("demo", cluster.pcmctl(&["events", "--json"]), JOB_MAX)?;
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
    fn a_checksum_is_read_from_a_closing_line_only() {
        assert_eq!(
            checksum("heat2d: iterations 5 ranks 2 seconds 1.0 checksum 00ff"),
            Some("00ff")
        );
        assert_eq!(checksum("nothing"), None);
    }
}
