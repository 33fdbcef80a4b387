//! When a node ends: by whose clock, how that is written, and what an engine answers when it is asked.
//!
//! Clocks of nodes differ, so no node compares its own with the time that another names. A node looks at its clock
//! once, when it learns of its end; from then on all that counts is how much time is left.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Names the end of a node: seconds since 1970, RFC 3339, or [`NEVER`].
pub const END_VARIABLE: &str = "PCM_NODE_ENDS";

/// Says that a node has no end, whatever an engine says.
pub const NEVER: &str = "never";

/// What Slurm sets in jobs and steps of newer versions: seconds since 1970.
pub const SLURM_END_VARIABLE: &str = "SLURM_JOB_END_TIME";

/// Asks Slurm for the end and the time left of the job whose number follows. Times are written as seconds since 1970:
/// other formats leave the time zone open.
pub const SLURM_ASKS: [&str; 6] = [
    "env",
    "SLURM_TIME_FORMAT=%s",
    "squeue",
    "--noheader",
    "--format=%e %L",
    "--jobs",
];

/// Slurm gives a job without a limit an end a year away.
const SLURM_LEFT_MAX_S: u64 = 350 * 86_400;

/// The last second of the year 9999: later times are no times.
const SECONDS_MAX: u64 = 253_402_300_799;

/// When a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEnd {
    /// By the clock of the node itself, in microseconds since 1970; for people.
    pub at_us: u64,
    /// Milliseconds that are left, as of the message or answer that holds this.
    pub left_ms: u64,
    /// So many milliseconds before its end it brings its ranks elsewhere.
    pub leaves_ms: u64,
}

/// Of its time, in times that it leaves before its end, what a node is closed for new ranks. What comes has to be
/// brought there, and be brought away again, which each may take the time that the node has to leave in.
const CLOSED_FOR: u32 = 2;

impl NodeEnd {
    /// What is left when this came so long ago.
    #[must_use]
    pub fn after(self, passed: Duration) -> Self {
        let passed = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        Self {
            left_ms: self.left_ms.saturating_sub(passed),
            ..self
        }
    }

    pub fn left(&self) -> Duration {
        Duration::from_millis(self.left_ms)
    }

    /// So long before its end the node brings its ranks elsewhere.
    pub fn leaves(&self) -> Duration {
        Duration::from_millis(self.leaves_ms)
    }

    /// In this last part of its time it is no place for new ranks.
    pub fn closed_for(&self) -> Duration {
        self.leaves() * CLOSED_FOR
    }

    /// Whether it is no place for new ranks any more.
    pub fn is_near(&self) -> bool {
        self.left() <= self.closed_for()
    }
}

/// Reads when a node ends, as a person writes it: microseconds since 1970, none for [`NEVER`].
pub fn read_end(text: &str) -> Result<Option<u64>, String> {
    let text = text.trim();
    if text == NEVER {
        return Ok(None);
    }
    let seconds = text.parse::<f64>().ok().or_else(|| read_rfc3339(text));
    let seconds = seconds.filter(|seconds| (0.0..=SECONDS_MAX as f64).contains(seconds));
    let seconds = seconds.ok_or_else(|| {
        format!(
            "{text:?} is no time: give seconds since 1970, a time such as 2030-01-31T12:00:00Z or \
             2030-01-31T12:00:00+01:00, or {NEVER:?}"
        )
    })?;
    Ok(Some((seconds * 1e6) as u64))
}

/// Reads when a job ends by [`SLURM_END_VARIABLE`]; none for one without a limit, and for what is no time or is over:
/// a job may be let run on.
pub fn read_slurm_variable(text: &str, now_us: u64) -> Option<u64> {
    let seconds: u64 = text.trim().parse().ok()?;
    let now = now_us / 1_000_000;
    let is_ahead = seconds > now && seconds - now < SLURM_LEFT_MAX_S;
    is_ahead.then_some(seconds * 1_000_000)
}

/// Reads the answer to [`SLURM_ASKS`].
pub fn read_slurm_answer(answer: &str, now_us: u64) -> Option<u64> {
    let line = answer.lines().next()?;
    let (end, left) = line.trim().split_once(' ')?;
    let has_limit = left.trim().starts_with(|c: char| c.is_ascii_digit());
    has_limit.then(|| read_slurm_variable(end, now_us)).flatten()
}

/// Seconds since 1970.
fn read_rfc3339(text: &str) -> Option<f64> {
    if !text.is_ascii() || text.len() < 20 {
        return None;
    }
    let (date, rest) = text.split_at(10);
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let is_date =
        (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let digits = rest
        .strip_prefix('.')
        .map_or(0, |rest| 1 + rest.chars().take_while(char::is_ascii_digit).count());
    let fraction = match digits {
        0 => 0.0,
        1 => return None,
        digits => rest[..digits].parse::<f64>().ok()?,
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(seconds as f64 + fraction - offset(&rest[digits..])?)
}

/// Seconds that local time is ahead of UTC.
fn offset(text: &str) -> Option<f64> {
    if text == "Z" || text == "z" {
        return Some(0.0);
    }
    let sign = match text.chars().next()? {
        '+' => 1.0,
        '-' => -1.0,
        _ => return None,
    };
    let [hours, minutes] = numbers(&text[1..], ':', [2, 2])?;
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60) as f64)
}

/// Numbers of so many digits each.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut parts = text.split(between);
    let mut found = [0; N];
    for (number, digits) in found.iter_mut().zip(digits) {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = is_number.then(|| part.parse().ok()).flatten()?;
    }
    parts.next().is_none().then_some(found)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn month_days(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a day that is not earlier.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let months: u64 = (1..month).map(|month| month_days(year, month)).sum();
    years + months + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_seconds_and_as_rfc_3339() {
        for (text, us) in [
            ("1700000000", 1_700_000_000_000_000),
            (" 1700000000.5\n", 1_700_000_000_500_000),
            ("2023-11-14T22:13:20Z", 1_700_000_000_000_000),
            ("2023-11-14T23:13:20.25+01:00", 1_700_000_000_250_000),
            ("2023-11-14 16:43:20-05:30", 1_700_000_000_000_000),
            ("2000-02-29T00:00:00z", 951_782_400_000_000),
        ] {
            assert_eq!(read_end(text), Ok(Some(us)), "{text}");
        }
        assert_eq!(read_end("never"), Ok(None));
    }

    #[test]
    fn what_is_no_time_is_refused_and_named() {
        for text in [
            "",
            "soon",
            "-5",
            "nan",
            "inf",
            "1e300",
            "2023-11-14",
            "2023-11-14T22:13:20",
            "2023-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-11-14T24:00:00Z",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:20+0100",
            "2023-11-14T22:13:20Zulu",
            "+023-11-14T22:13:20Z",
            "2023-11-14T22:13:2öZ",
        ] {
            let refused = read_end(text).expect_err(text);
            assert!(
                refused.contains(&format!("{text:?}")) && refused.contains("1970"),
                "{refused}"
            );
        }
    }

    /// As squeue of 22.05 prints them with the format of seconds.
    #[test]
    fn slurm_says_when_a_job_ends_and_that_it_has_no_limit() {
        let now_us = 1_700_000_000_000_000;
        let end = 1_700_000_600_000_000;
        assert_eq!(read_slurm_answer("1700000600 9:58\n", now_us), Some(end));
        assert_eq!(read_slurm_answer("1731536000 UNLIMITED\n", now_us), None);
        for other in ["", "N/A 10:00", "N/A INVALID", "1700000600", "1699999999 0:00"] {
            assert_eq!(read_slurm_answer(other, now_us), None, "{other}");
        }
        assert_eq!(read_slurm_variable("1700000600", now_us), Some(end));
        assert_eq!(read_slurm_variable("1731536000", now_us), None, "a year away");
        assert_eq!(read_slurm_variable("1699999999", now_us), None, "let run on");
    }

    #[test]
    fn a_node_is_closed_for_new_ranks_before_it_leaves() {
        let end = |left_ms| NodeEnd {
            at_us: 0,
            left_ms,
            leaves_ms: 10_000,
        };
        assert!(!end(20_001).is_near() && end(20_000).is_near() && end(0).is_near());
        assert!(end(25_000).after(Duration::from_secs(5)).is_near());
        assert_eq!(end(5).after(Duration::from_secs(5)).left_ms, 0);
    }
}
