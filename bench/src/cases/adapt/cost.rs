//! Bench `adapt-cost`: the CPU time that agents take for each node while a job runs and nothing has to change; and
//! beside it that of the daemons, which read the counters for them.

use super::{
    super::{
        bench::{Bench, Context},
        cpu_taken,
    },
    field::ONLY,
};
use pcm_bench::{Failure, OwnCluster, Ratio, Report, Samples, heat2d, trial};
use std::{thread, time::Duration};

pub(super) const BENCH: Bench = Bench {
    name: "adapt-cost",
    about: "CPU time that agents and daemons take for each node while a job runs that they look after",
    run,
};

/// Each has two ranks of the job.
const NODES: u32 = 4;

/// The job has begun and the agents know their nodes.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

const SPAN: Duration = Duration::from_secs(5);

fn run(context: &Context) -> Result<Report, Failure> {
    let spans = if context.quick { 3 } else { 12 };
    let cluster = OwnCluster::up(&context.environment, NODES)?;
    start(context, &cluster)?;
    thread::sleep(SETTLED_AFTER);
    let marks = cluster.marks();
    let mut measured = ["ios-agent", "pcm-daemon"].map(|program| {
        let samples = Samples::new(format!("adapt-cost: {program}, for each node"), "% of a CPU");
        (program, samples)
    });
    for _ in 0..spans {
        let before = measured
            .each_ref()
            .map(|(program, _)| cpu_taken::so_far(&[program], &marks));
        thread::sleep(SPAN);
        for ((program, samples), before) in measured.iter_mut().zip(&before) {
            let taken = cpu_taken::between(before, &cpu_taken::so_far(&[program], &marks));
            samples.push(taken as f64 / 1e7 / SPAN.as_secs_f64() / f64::from(NODES));
        }
    }
    cluster.down()?;
    let [(_, agents), (_, daemons)] = measured;
    Ok(Report {
        ratios: vec![Ratio::new(
            "adapt-cost: agents, percent of a CPU for each node",
            agents.median(),
            "< 0.5",
        )],
        series: vec![agents, daemons],
        remarks: vec![format!(
            "adapt-cost: {NODES} nodes with two ranks each that sleep 2 ms an iteration and talk to their neighbours"
        )],
        ..Report::default()
    })
}

fn start(context: &Context, cluster: &OwnCluster<'_>) -> Result<(), Failure> {
    let ranks = (2 * NODES).to_string();
    let mut job = cluster.pcmctl(&["run", "-n", &ranks, "--name", ONLY, "--policy", "cost"]);
    job.args(["--detach", "--"]).arg(context.program("heat2d-c"));
    job.args(heat2d::plate(400, 400, heat2d::ENDLESS))
        .args(["--sleep-us", "2000"]);
    trial::run(BENCH.name, job, Duration::from_secs(30)).map(|_| ())
}
