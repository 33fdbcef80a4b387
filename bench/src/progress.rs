//! The progress line of long work: a bar, the rate and the time that remains. On a terminal only.

use std::{
    io::{IsTerminal, Write, stderr, stdout},
    time::{Duration, Instant},
};

const BAR_WIDTH: usize = 30;

/// Between two drawings; faster than this nobody reads.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// A line that is drawn over and over.
pub struct Progress {
    is_shown: bool,
    /// What is counted.
    unit: &'static str,
    begun: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    /// Begins to count the time.
    pub fn begin(unit: &'static str) -> Self {
        Self {
            is_shown: stdout().is_terminal() && stderr().is_terminal(),
            unit,
            begun: Instant::now(),
            drawn: None,
        }
    }

    /// So much is done.
    pub fn at(&mut self, done: u64, all: u64) {
        let is_due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= DRAW_EVERY);
        if self.is_shown && (is_due || done >= all) {
            self.drawn = Some(Instant::now());
            let mut out = stderr().lock();
            // A progress line that cannot be drawn is no reason to stop.
            let _ = write!(out, "\r{}\x1b[K", line(self.unit, done, all, self.begun.elapsed()));
            let _ = out.flush();
        }
    }

    /// Takes the line away, so that other text can stand there.
    pub fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(stderr().lock(), "\r\x1b[K");
        }
    }
}

fn line(unit: &str, done: u64, all: u64, took: Duration) -> String {
    let part = (done as f64 / all.max(1) as f64).clamp(0.0, 1.0);
    let filled = (part * BAR_WIDTH as f64) as usize;
    let rate = done as f64 / took.as_secs_f64().max(1e-9);
    let left = if rate > 0.0 {
        all.saturating_sub(done) as f64 / rate
    } else {
        0.0
    };
    format!(
        "[{}{}] {done} of {all} {unit}, {}, {left:.0} s left",
        "#".repeat(filled),
        "-".repeat(BAR_WIDTH - filled),
        pace(rate)
    )
}

fn pace(rate: f64) -> String {
    match rate {
        rate if rate >= 1.0 => format!("{rate:.0} a second"),
        rate if rate > 0.0 => format!("{:.1} s each", 1.0 / rate),
        _ => "none yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_rate_and_remaining_time_and_fits() {
        let text = line("iterations", 250, 1000, Duration::from_secs(5));
        assert!(
            text.ends_with("] 250 of 1000 iterations, 50 a second, 15 s left"),
            "{text}"
        );
        assert!(line("iterations", 4_000_000, 9_000_000, Duration::from_secs(1)).len() <= 100);
        let slow = line("rounds", 2, 10, Duration::from_secs(9));
        assert!(slow.ends_with("] 2 of 10 rounds, 4.5 s each, 36 s left"), "{slow}");
        assert!(line("rounds", 0, 0, Duration::ZERO).contains("0 of 0"));
    }
}
