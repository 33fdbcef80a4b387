//! Bench `iteration`: time per iteration of heat2d, C against Rust, under the same mpiexec.

use super::{
    bench::{Bench, Context},
    interleave::{self, Variant},
};
use pcm_bench::{Failure, Ratio, Report, heat2d, trial};
use std::time::Duration;

pub(super) const BENCH: Bench = Bench {
    name: "iteration",
    about: "heat2d: microseconds per iteration, C against Rust, two ranks, plain mpiexec",
    run,
};

fn run(context: &Context) -> Result<Report, Failure> {
    let iterations = if context.quick { 200 } else { 2000 };
    let variant = |name: &'static str| {
        Variant::new(name, move || {
            let mut command = context.environment.command(&context.environment.mpiexec);
            command.args(["-n", "2"]).arg(context.program(name));
            command.args(heat2d::plate(1024, 1024, iterations));
            let said = trial::run(BENCH.name, command, Duration::from_secs(120))?;
            Ok(heat2d::seconds(BENCH.name, &said)? * 1e6 / iterations as f64)
        })
    };
    let series = interleave::rounds(
        &mut [variant("heat2d-c-plain"), variant("heat2d")],
        context.rounds(),
        "us",
    )?;
    let ratio = Ratio::new("Rust / C", series[1].paired_ratio(&series[0]), None);
    Ok(Report {
        series,
        ratios: vec![ratio],
        remarks: vec!["1024 x 1024 cells, two ranks".into()],
        ..Report::default()
    })
}
