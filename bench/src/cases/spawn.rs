//! Bench `spawn`: MPI_Comm_spawn by an application, under our daemons against hydra.

use super::{
    bench::{Bench, Context},
    interleave::{self, Variant},
};
use pcm_bench::{Failure, OwnCluster, Report, statistics::median, trial};
use std::{path::Path, process::Command, time::Duration};

pub(super) const BENCH: Bench = Bench {
    name: "spawn",
    about: "milliseconds of MPI_Comm_spawn of 1, 2 and 4 children by one rank: under our daemons against hydra",
    run,
};

const CHILDREN: [u32; 3] = [1, 2, 4];

/// Spawns a run; the median of them is one sample.
const CYCLES: &str = "5";

fn run(context: &Context) -> Result<Report, Failure> {
    let cluster = OwnCluster::up(&context.environment, 2)?;
    let mut report = compare(context, &cluster, None, || context.environment.hydra("1"))?;
    cluster.down()?;
    report.remarks = vec![format!(
        "both with OFI over tcp; a sample is the median of {CYCLES} spawns in one run"
    )];
    Ok(report)
}

/// One rank that spawns, by `pcmctl run` with this variable and by a launcher.
pub(super) fn compare(
    context: &Context,
    cluster: &OwnCluster<'_>,
    variable: Option<(&str, &Path)>,
    by_launcher: impl Fn() -> Command,
) -> Result<Report, Failure> {
    let program = context.program("pcm-trial");
    let mut report = Report::default();
    for children in CHILDREN {
        let count = children.to_string();
        let arguments = |mut command: Command| {
            command.arg(&program).args(["spawn", &count, CYCLES]);
            command
        };
        let ours = || {
            let mut command = cluster.pcmctl(&["run", "-n", "1", "--"]);
            command.envs(variable);
            arguments(command)
        };
        let mut series = interleave::rounds(
            &mut [
                Variant::new(format!("hydra, {children} children"), || {
                    spawned(arguments(by_launcher()))
                }),
                Variant::new(format!("pcmctl, {children} children"), || spawned(ours())),
            ],
            context.rounds(),
            "ms",
        )?;
        report.ratio(
            format!("pcmctl / hydra, {children} children"),
            series[1].paired_ratio(&series[0]),
            "< 1.0",
        );
        report.series.append(&mut series);
    }
    Ok(report)
}

/// The median of the lines `spawn SECONDS cycle SECONDS`, in milliseconds.
fn spawned(command: Command) -> Result<f64, Failure> {
    let said = trial::run(BENCH.name, command, Duration::from_secs(120))?;
    let times = said.lines().filter_map(|line| trial::number_after(line, "spawn"));
    let times: Vec<f64> = times.collect();
    if times.is_empty() {
        return Err(Failure::bench(BENCH.name, format!("no times of spawns in {said:?}")));
    }
    Ok(median(&times) * 1e3)
}
