//! Bench `recovery`: from the kill -9 of one rank of four until all iterate again, by phases.

use super::{
    bench::{Bench, Context},
    events,
};
use pcm_bench::{Failure, OwnCluster, Ratio, Report, Samples, trial::must};
use pcm_view::time::now_us;
use std::{
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

pub(super) const BENCH: Bench = Bench {
    name: "recovery",
    about: "kill -9 of one rank of four, 64 MiB of data: time until all ranks iterate again, by phases",
    run,
};

const JOB: &str = "plate";

/// 64 MiB of numbers.
const PLATE: [&str; 4] = ["--rows", "2048", "--cols", "4096"];

/// What one step of a round may take on a loaded machine.
const STEP_MAX: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

const PHASES: [&str; 4] = ["ended", "placed", "started", "restored"];

fn run(context: &Context) -> Result<Report, Failure> {
    let cluster = OwnCluster::up(&context.environment, 4)?;
    let options = [
        "run",
        "--detach",
        "--name",
        JOB,
        "-n",
        "4",
        "--checkpoint-every",
        "1",
        "--",
    ];
    let mut command = cluster.pcmctl(&options);
    command.arg(context.program("heat2d-c")).args(PLATE);
    command.args(["--iterations", "100000000", "--sleep-us", "2000"]);
    must(command.stdout(Stdio::null()))?;
    let mut total = Samples::new("kill -9 to all iterating", "ms");
    let mut noticed = Samples::new("noticed", "ms");
    let mut phases = PHASES.map(|phase| Samples::new(phase, "ms"));
    let mut iterating = Samples::new("iterating", "ms");
    for round in 0..context.rounds() {
        // A new checkpoint, so that nothing but this crash is measured.
        let made = events::of(&cluster, JOB, "checkpoint_complete")?.len();
        until("a checkpoint", || {
            Ok((events::of(&cluster, JOB, "checkpoint_complete")?.len() > made).then_some(()))
        })?;
        let pid = events::ranks(&cluster, JOB)
            .get(round % 4)
            .map(|row| row["pid"].clone());
        let pid = pid.map(|pid| pid.to_string()).unwrap_or_default();
        let (killed, killed_us) = (Instant::now(), now_us());
        let mut kill = std::process::Command::new("kill");
        must(kill.args(["-9", &pid]))?;
        let recovered = until("the recovery", || {
            Ok(events::of(&cluster, JOB, "recovered")?.into_iter().nth(round))
        })?;
        let from = recovered["from"].as_u64().unwrap_or(0);
        until("every rank to iterate", || {
            let ranks = events::ranks(&cluster, JOB);
            let all = ranks.iter().all(|row| row["iteration"].as_u64() > Some(from + 1));
            Ok((ranks.len() == 4 && all).then_some(()))
        })?;
        let took = killed.elapsed().as_secs_f64() * 1e3;
        let of_event = recovered["total_ms"].as_f64().unwrap_or(f64::NAN);
        let at_end_us = events::time_us(&recovered);
        let before = at_end_us.map_or(f64::NAN, |end| (end - killed_us as f64) / 1e3 - of_event);
        total.push(took);
        noticed.push(before);
        for samples in &mut phases {
            samples.push(recovered["phases_ms"][&samples.name].as_f64().unwrap_or(f64::NAN));
        }
        iterating.push(took - before - of_event);
    }
    must(cluster.pcmctl(&["kill", JOB]).stdout(Stdio::null()))?;
    cluster.down()?;
    let ratios = vec![Ratio::new("kill -9 to all iterating / 2 s", total.median() / 2000.0).held_to("<= 1.0")];
    let mut series = vec![total, noticed];
    series.extend(phases);
    series.push(iterating);
    Ok(Report {
        series,
        ratios,
        remarks: vec![
            "noticed: kill to the coordinator's knowing; iterating: until pcmctl sees every rank in its second \
             iteration"
                .into(),
        ],
        ..Report::default()
    })
}

fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
    let end = Instant::now() + STEP_MAX;
    while Instant::now() < end {
        if let Some(found) = look()? {
            return Ok(found);
        }
        thread::sleep(LOOK_EVERY);
    }
    Err(Failure::bench(
        BENCH.name,
        format!("waited {STEP_MAX:?} in vain for {what}"),
    ))
}
