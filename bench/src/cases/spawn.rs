//! Bench `spawn`: MPI_Comm_spawn by an application, under our daemons against hydra.

use super::{
    bench::{Bench, Context},
    interleave::{self, Variant},
};
use pcm_bench::{Failure, OwnCluster, Ratio, Report, Samples, trial};
use std::{process::Command, time::Duration};

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
    let program = context.program("pcm-trial");
    let mut report = Report::default();
    for children in CHILDREN {
        let count = children.to_string();
        let arguments = |mut command: Command| {
            command.arg(&program).args(["spawn", &count, CYCLES]);
            command
        };
        let hydra = || {
            let mut command = context.environment.command(&context.environment.mpiexec);
            command
                .args(["-n", "1"])
                .envs([("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp")]);
            arguments(command)
        };
        let ours = || arguments(cluster.pcmctl(&["run", "-n", "1", "--"]));
        let mut series = interleave::rounds(
            &mut [
                Variant::new(format!("hydra, {children} children"), || spawned(hydra())),
                Variant::new(format!("pcmctl, {children} children"), || spawned(ours())),
            ],
            context.rounds(),
            "ms",
        )?;
        report.ratios.push(
            Ratio::new(
                format!("pcmctl / hydra, {children} children"),
                series[1].paired_ratio(&series[0]),
            )
            .held_to("< 1.0"),
        );
        report.series.append(&mut series);
    }
    cluster.down()?;
    report.remarks = vec![format!(
        "both with OFI over tcp; a sample is the median of {CYCLES} spawns in one run"
    )];
    Ok(report)
}

fn spawned(command: Command) -> Result<f64, Failure> {
    let said = trial::run(BENCH.name, command, Duration::from_secs(120))?;
    median_spawn(&said).ok_or_else(|| Failure::bench(BENCH.name, format!("no times of spawns in {said:?}")))
}

/// The median of the lines `spawn SECONDS cycle SECONDS`, in milliseconds.
fn median_spawn(output: &str) -> Option<f64> {
    let mut samples = Samples::new("", "ms");
    for line in output.lines() {
        if let Some(rest) = line.strip_prefix("spawn ") {
            samples.push(rest.split(' ').next()?.parse::<f64>().ok()? * 1e3);
        }
    }
    (!samples.values.is_empty()).then(|| samples.median())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_spawns_is_taken() {
        let output = "spawn 0.5 cycle 0.9\nspawn 0.1 cycle 0.2\nspawn 0.2 cycle 0.3\n";
        assert_eq!(median_spawn(output), Some(200.0));
        assert_eq!(median_spawn("nothing"), None);
    }
}
