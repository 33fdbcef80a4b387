//! Bench `recovery`: from the kill -9 of one rank of four until all iterate again, by phases.

use super::{
    bench::{Bench, Context},
    events,
};
use pcm_bench::{
    Failure, OwnCluster, Ratio, Report, Samples, heat2d, push_each,
    trial::{self, must},
};
use pcm_view::time::now_us;
use serde_json::Value;
use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

pub(super) const BENCH: Bench = Bench {
    name: "recovery",
    about: "kill -9 of one rank of four, 64 MiB of data: time until all ranks iterate again, by phases",
    run,
};

const JOB: &str = "plate";

/// What one step of a round may take on a loaded machine, and the time between two looks.
const STEP_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What is measured in each round: the whole, then its phases in their order.
const SERIES: [&str; 7] = [
    "kill -9 to all iterating",
    "noticed",
    "ended",
    "placed",
    "started",
    "restored",
    "iterating",
];

fn run(context: &Context) -> Result<Report, Failure> {
    let cluster = OwnCluster::up(&context.environment, 4)?;
    let options = ["--detach", "--name", JOB, "--checkpoint-every", "1"];
    let mut command = cluster.pcmctl(&["run", "-n", "4"]);
    command.args(options).arg("--").arg(context.program("heat2d-c"));
    // 64 MiB of numbers.
    command.args(heat2d::plate(2048, 4096, heat2d::ENDLESS));
    must(command.args(["--sleep-us", "2000"]).stdout(Stdio::null()))?;
    let mut series = SERIES.map(|name| Samples::new(name, "ms"));
    for number in 0..context.rounds() {
        push_each(&mut series, round(&cluster, number)?);
    }
    must(cluster.pcmctl(&["kill", JOB]).stdout(Stdio::null()))?;
    cluster.down()?;
    Ok(Report {
        ratios: vec![Ratio::new(
            "kill -9 to all iterating / 2 s",
            series[0].median() / 2000.0,
            "<= 1.0",
        )],
        series: series.into(),
        remarks: vec![
            "noticed: kill to the coordinator's knowing; iterating: until pcmctl sees every rank in its second \
             iteration"
                .into(),
        ],
        ..Report::default()
    })
}

/// Kills one rank and waits until all iterate again; what each part took, in milliseconds.
fn round(cluster: &OwnCluster<'_>, number: usize) -> Result<[f64; SERIES.len()], Failure> {
    // A new checkpoint, so that nothing but this crash is measured.
    let made = events::of(cluster, JOB, "checkpoint_complete")?.len();
    until("a checkpoint", || {
        Ok((events::of(cluster, JOB, "checkpoint_complete")?.len() > made).then_some(()))
    })?;
    let ranks = events::ranks(cluster, JOB);
    let pid = ranks.get(number % 4).map(|row| row["pid"].to_string());
    let (killed, killed_us) = (Instant::now(), now_us());
    must(Command::new("kill").args(["-9", &pid.unwrap_or_default()]))?;
    let recovered = until("the recovery", || {
        Ok(events::of(cluster, JOB, "recovered")?.into_iter().nth(number))
    })?;
    let from = recovered["from"].as_u64().unwrap_or(0);
    until("every rank to iterate", || {
        let ranks = events::ranks(cluster, JOB);
        let all = ranks.iter().all(|row| row["iteration"].as_u64() > Some(from + 1));
        Ok((ranks.len() == 4 && all).then_some(()))
    })?;
    let took = killed.elapsed().as_secs_f64() * 1e3;
    let number_of = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let of_event = number_of(&recovered["total_ms"]);
    let ended_us = events::time_us(&recovered).unwrap_or(f64::NAN);
    let noticed = (ended_us - killed_us as f64) / 1e3 - of_event;
    let [ended, placed, started, restored] =
        [SERIES[2], SERIES[3], SERIES[4], SERIES[5]].map(|phase| number_of(&recovered["phases_ms"][phase]));
    let iterating = took - noticed - of_event;
    Ok([took, noticed, ended, placed, started, restored, iterating])
}

fn until<T>(what: &str, look: impl FnMut() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
    trial::until(BENCH.name, what, (LOOK_EVERY, STEP_MAX), look)
}
