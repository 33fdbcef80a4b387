//! Bench `iteration`: time per iteration of heat2d, C against Rust, under the same mpiexec.

use super::{
    bench::{Bench, Context},
    interleave::{self, Variant},
};
use pcm_bench::{Failure, Ratio, Report, trial};
use std::time::Duration;

pub(super) const BENCH: Bench = Bench {
    name: "iteration",
    about: "heat2d: microseconds per iteration, C against Rust, two ranks, plain mpiexec",
    run,
};

fn run(context: &Context) -> Result<Report, Failure> {
    let iterations: u32 = if context.quick { 200 } else { 2000 };
    let variant = |name: &'static str| {
        Variant::new(name, move || {
            let mut command = context.environment.command(&context.environment.mpiexec);
            command
                .args(["-n", "2"])
                .arg(context.program(name))
                .args(["--rows", "1024", "--cols", "1024"]);
            command.args(["--iterations", &iterations.to_string()]);
            let said = trial::run(BENCH.name, command, Duration::from_secs(120))?;
            let seconds = trial::figure(BENCH.name, &said, "heat2d: iterations ", "seconds")?;
            Ok(seconds * 1e6 / f64::from(iterations))
        })
    };
    let series = interleave::rounds(
        &mut [variant("heat2d-c-plain"), variant("heat2d")],
        context.rounds(),
        "us",
    )?;
    let ratio = Ratio::new("Rust / C", series[1].paired_ratio(&series[0]));
    Ok(Report {
        series,
        ratios: vec![ratio],
        remarks: vec!["1024 x 1024 cells, two ranks".into()],
        ..Report::default()
    })
}
