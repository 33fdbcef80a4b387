//! Bench `recovery`: from the kill -9 of one rank of four until all iterate again, by phases.

use super::{
    events,
    registry::{Bench, Context, Report},
    samples::{Ratio, Samples},
};
use crate::{failure::Failure, own_cluster::OwnCluster};
use serde_json::Value;
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
    ask(command)?;
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
        let pid = ranks(&cluster)?.get(round % 4).map(|row| row["pid"].clone());
        let pid = pid.map(|pid| pid.to_string()).unwrap_or_default();
        let (killed, killed_us) = (Instant::now(), now_us());
        let mut kill = std::process::Command::new("kill");
        kill.args(["-9", &pid]);
        ask(kill)?;
        let recovered = until("the recovery", || {
            Ok(events::of(&cluster, JOB, "recovered")?.into_iter().nth(round))
        })?;
        let from = recovered["from"].as_u64().unwrap_or(0);
        until("every rank to iterate", || {
            let ranks = ranks(&cluster)?;
            let all = ranks.iter().all(|row| row["iteration"].as_u64() > Some(from + 1));
            Ok((ranks.len() == 4 && all).then_some(()))
        })?;
        let took = killed.elapsed().as_secs_f64() * 1e3;
        let of_event = recovered["total_ms"].as_f64().unwrap_or(f64::NAN);
        let at_end_us = time_us(&recovered);
        let before = at_end_us.map_or(f64::NAN, |end| (end - killed_us) as f64 / 1e3 - of_event);
        total.push(took);
        noticed.push(before);
        for samples in &mut phases {
            samples.push(recovered["phases_ms"][&samples.name].as_f64().unwrap_or(f64::NAN));
        }
        iterating.push(took - before - of_event);
    }
    ask(cluster.pcmctl(&["kill", JOB]))?;
    cluster.down()?;
    let ratios = vec![Ratio {
        name: "kill -9 to all iterating / 2 s".into(),
        value: total.median() / 2000.0,
        target: Some("<= 1.0"),
    }];
    let mut series = vec![total, noticed];
    series.extend(phases);
    series.push(iterating);
    Ok(Report {
        series,
        ratios,
        remarks: vec![
            "noticed: kill to the coordinator's knowing; iterating: until pcmctl sees every rank in its second iteration".into(),
        ],
            ..Report::default()
    })
}

fn ask(mut command: std::process::Command) -> Result<(), Failure> {
    let program = crate::environment::describe(&command);
    let status = command.stdout(Stdio::null()).status();
    let status = status.map_err(|source| Failure::Start {
        program: program.clone(),
        source,
    })?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Ended {
        program,
        status,
        advice: "its message is above".into(),
    })
}

fn ranks(cluster: &OwnCluster<'_>) -> Result<Vec<Value>, Failure> {
    let told = cluster.pcmctl(&["ps", JOB, "--json"]).stderr(Stdio::null()).output();
    let told = told.map_err(|source| Failure::Start {
        program: "pcmctl ps".into(),
        source,
    })?;
    let document: Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
    Ok(document["ranks"].as_array().cloned().unwrap_or_default())
}

fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
    let end = Instant::now() + STEP_MAX;
    while Instant::now() < end {
        if let Some(found) = look()? {
            return Ok(found);
        }
        thread::sleep(LOOK_EVERY);
    }
    Err(Failure::Bench {
        name: BENCH.name,
        problem: format!("waited {STEP_MAX:?} in vain for {what}"),
    })
}

fn now_us() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
}

/// The moment of an event within today, which is all that a difference of seconds needs; none if it cannot be read.
fn time_us(event: &Value) -> Option<i64> {
    let (_, clock) = event["time"].as_str()?.split_once('T')?;
    let mut parts = clock.trim_end_matches('Z').splitn(3, ':');
    let (hours, minutes): (i64, i64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let seconds: f64 = parts.next()?.parse().ok()?;
    let now_us = now_us();
    let at = (hours * 60 + minutes) * 60_000_000 + (seconds * 1e6).round() as i64;
    Some(now_us - now_us.rem_euclid(86_400_000_000) + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_of_an_event_is_read() {
        let event = |time: &str| serde_json::json!({ "time": time });
        let at = |time| time_us(&event(time)).map(|us| us.rem_euclid(86_400_000_000));
        assert_eq!(at("2026-01-02T00:00:01.500000Z"), Some(1_500_000));
        assert_eq!(at("2026-01-02T23:59:00.000001Z"), Some(86_340_000_001));
        assert_eq!(at("yesterday"), None);
    }
}
