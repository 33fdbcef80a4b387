//! Events and ranks of a job, as `pcmctl` shows them. Only reads.

use pcm_bench::{Failure, OwnCluster};
use serde_json::Value;
use std::process::Stdio;

/// All events of this kind of the job of this name, oldest first.
pub(super) fn of(cluster: &OwnCluster<'_>, job: &str, kind: &str) -> Result<Vec<Value>, Failure> {
    let mut asking = cluster.pcmctl(&["events", job, "--json"]);
    let told = asking.stderr(Stdio::inherit()).output();
    let told = told.map_err(Failure::start(&asking))?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let events = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    Ok(events.filter(|event: &Value| event["kind"] == kind).collect())
}

/// When an event was, in microseconds since 1970; none if it cannot be read.
pub(super) fn time_us(event: &Value) -> Option<f64> {
    micros(event["time"].as_str()?)
}

/// The ranks of a job as `pcmctl ps` shows them; none while there is no such job.
pub(super) fn ranks(cluster: &OwnCluster<'_>, job: &str) -> Vec<Value> {
    let told = cluster.pcmctl(&["ps", job, "--json"]).stderr(Stdio::null()).output();
    let text = told.map(|output| output.stdout).unwrap_or_default();
    let document: Value = serde_json::from_slice(&text).unwrap_or_default();
    document["ranks"].as_array().cloned().unwrap_or_default()
}

/// An RFC 3339 time in UTC as microseconds since 1970.
fn micros(text: &str) -> Option<f64> {
    let (date, clock) = text.trim_end_matches('Z').split_once('T')?;
    let date: Vec<i64> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let clock: Vec<f64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let ([year, month, day], [hour, minute, second]) = (date[..].try_into().ok()?, clock[..].try_into().ok()?);
    let (hour, minute, second): (f64, f64, f64) = (hour, minute, second);
    Some(((days(year, month, day) * 86_400) as f64 + hour * 3600.0 + minute * 60.0 + second) * 1e6)
}

/// Days since 1970, by the rule that counts years from March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_events_are_read() {
        assert_eq!(micros("1970-01-01T00:00:01.5Z"), Some(1.5e6));
        assert_eq!(micros("2026-11-21T00:00:00.000000Z"), Some(1_795_219_200e6));
        assert_eq!(micros("yesterday"), None);
    }
}
