//! Bench `waiting`: iterations of heat2d with polite waits against polling, where ranks share CPUs, where each has one,
//! and, as root, on nodes with a fifth of a CPU.

use super::{
    interleave::{self, Variant},
    registry::{Bench, Context, Report},
    samples::Ratio,
    trial,
};
use crate::{failure::Failure, own_cluster::OwnCluster};
use limited_nodes::{LimitedNodes, Share};
use std::time::Duration;

pub(super) const BENCH: Bench = Bench {
    name: "waiting",
    about: "heat2d per iteration, polite waits against polling: 8 ranks on 2 CPUs, ranks alone, nodes of 0.2 CPU",
    run,
};

/// Polling ranks on a fifth of a CPU need a hundred times what polite ones need.
const LIMIT: Duration = Duration::from_secs(300);

/// CPU time of a limited node.
const SHARE: Share = Share {
    quota_us: 2_000,
    period_us: 10_000,
};

/// What is run, where, and how it must turn out.
struct Case {
    name: &'static str,
    ranks: u32,
    plate: u32,
    iterations: u32,
    target: &'static str,
}

const CROWDED: Case = Case {
    name: "8 ranks on 2 CPUs",
    ranks: 8,
    plate: 200,
    iterations: 2000,
    target: ">= 3",
};

const ALONE: Case = Case {
    name: "a CPU for each of 2 ranks",
    ranks: 2,
    plate: 500,
    iterations: 4000,
    target: ">= 0.99",
};

const LIMITED: Case = Case {
    name: "4 nodes of 0.2 CPU",
    ranks: 4,
    plate: 200,
    iterations: 1000,
    target: ">= 3",
};

fn run(context: &Context) -> Result<Report, Failure> {
    let mut report = Report::default();
    let one = OwnCluster::up_on(&context.environment, &["0-1"])?;
    for case in [CROWDED, ALONE] {
        compare(context, &one, &case, &mut report)?;
    }
    one.down()?;
    let four = OwnCluster::up(&context.environment, 4)?;
    match LimitedNodes::limit(&four.id().unwrap_or_default(), SHARE) {
        Ok(_limited) => compare(context, &four, &LIMITED, &mut report)?,
        Err(reason) => report.remarks.push(format!("{}: not measured, {reason}", LIMITED.name)),
    }
    four.down()?;
    report
        .remarks
        .push("iterations per second with polite waits over those with polling, median of paired ratios".into());
    Ok(report)
}

fn compare(context: &Context, cluster: &OwnCluster<'_>, case: &Case, report: &mut Report) -> Result<(), Failure> {
    let iterations = if context.quick {
        case.iterations / 4
    } else {
        case.iterations
    };
    let variant = |manner: &'static str| {
        Variant::new(format!("{}, {manner}", case.name), move || {
            let mut command = cluster.pcmctl(&["run", "-n", &case.ranks.to_string(), "--wait", manner, "--"]);
            command.arg(context.program("heat2d-c-plain"));
            let plate = case.plate.to_string();
            command.args([
                "--rows",
                &plate,
                "--cols",
                &plate,
                "--iterations",
                &iterations.to_string(),
            ]);
            let output = trial::run(BENCH.name, command, LIMIT)?.stdout;
            Ok(f64::from(iterations) / trial::figure(BENCH.name, &output, "heat2d: ", "seconds")?)
        })
    };
    let series = interleave::rounds(&mut [variant("spin"), variant("adaptive")], context.rounds(), "it/s")?;
    report.ratios.push(Ratio {
        name: format!("adaptive / spin, {}", case.name),
        value: series[1].paired_ratio(&series[0]),
        target: Some(case.target),
    });
    report.series.extend(series);
    Ok(())
}
