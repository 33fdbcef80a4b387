//! Bench `overhead`: what libpcm costs a program while nothing happens. heat2d in C, plain against the same with libpcm
//! preloaded and against the one made malleable, under the same daemon.

use super::{
    bench::{Bench, Context},
    interleave::{self, Variant},
};
use pcm_bench::{Failure, OwnCluster, Ratio, Report, heat2d, trial};
use std::{path::PathBuf, time::Duration};

pub(super) const BENCH: Bench = Bench {
    name: "overhead",
    about: "libpcm against plain MPI under one daemon: heat2d per iteration",
    run,
};

/// A run takes seconds; a machine that does much else gets far more.
const LIMIT: Duration = Duration::from_secs(180);

/// Rows and columns, a size that is no power of two: with rows of 4 KiB it counts more where the arrays lie than what
/// is done.
const SIDE: u32 = 500;

fn run(context: &Context) -> Result<Report, Failure> {
    let cluster = OwnCluster::up(&context.environment, 1)?;
    let report = compare(context, &cluster, &[])?;
    cluster.down()?;
    Ok(Report {
        remarks: vec!["heat2d: 500 x 500 cells, two ranks, median of paired ratios".into()],
        ..report
    })
}

/// With these variables for all ranks.
pub(super) fn compare(
    context: &Context,
    cluster: &OwnCluster<'_>,
    variables: &[(&str, PathBuf)],
) -> Result<Report, Failure> {
    let iterations = if context.quick { 500 } else { 4000 };
    let heat2d = |name: &'static str, program: &'static str, options: &'static [&'static str]| {
        Variant::new(name, move || {
            let mut command = cluster.pcmctl(&["run", "-n", "2", "--nodes", "n0"]);
            command.envs(variables.iter().cloned());
            command.args(options).arg("--").arg(context.program(program));
            command.args(heat2d::plate(SIDE, SIDE, iterations));
            let output = trial::run(BENCH.name, command, LIMIT)?;
            Ok(heat2d::seconds(BENCH.name, &output)? * 1e6 / iterations as f64)
        })
    };
    let series = interleave::rounds(
        &mut [
            heat2d("plain", "heat2d-c-plain", &["--no-preload"]),
            heat2d("plain, libpcm preloaded", "heat2d-c-plain", &[]),
            heat2d("made malleable", "heat2d-c", &["--no-preload"]),
        ],
        context.rounds().max(3),
        "us",
    )?;
    let (interposed, malleable) = (series[1].paired_ratio(&series[0]), series[2].paired_ratio(&series[0]));
    Ok(Report {
        series,
        ratios: vec![
            Ratio::new("heat2d with libpcm preloaded / plain", interposed, "<= 1.005"),
            Ratio::new("heat2d made malleable / plain", malleable, "<= 1.005"),
        ],
        ..Report::default()
    })
}
