//! A line on the terminal that tells how far something long has come, how fast it goes and how long it will take. Where
//! standard output or standard error is no terminal there is none of it.

use crate::output::bytes;
use pcm_view::time::span;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The line that stands at the bottom while other text goes by.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    is_shown: bool,
    /// Nothing any more once it was closed.
    text: Mutex<Option<String>>,
}

impl ProgressLine {
    /// No line stands there yet.
    pub(crate) fn new() -> Self {
        Self {
            is_shown: std::io::stdout().is_terminal() && std::io::stderr().is_terminal(),
            text: Mutex::new(Some(String::new())),
        }
    }

    /// Whether anybody will see it.
    pub(crate) fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Lets this line stand there instead of the one before; an empty one takes it away.
    pub(crate) fn show(&self, line: &str) {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = text.as_mut().filter(|text| self.is_shown && *text != line) {
            line.clone_into(text);
            draw(line);
        }
    }

    /// Takes the line away for good.
    pub(crate) fn close(&self) {
        self.show("");
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Writes something else; the line stands aside meanwhile.
    pub(crate) fn beside<T>(&self, write: impl FnOnce() -> T) -> T {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(line) = text.as_ref().filter(|line| !line.is_empty()) else {
            return write();
        };
        draw("");
        let outcome = write();
        draw(line);
        outcome
    }
}

fn draw(line: &str) {
    let mut out = std::io::stderr().lock();
    // A line that cannot be drawn is no reason to stop.
    _ = write!(out, "\r{line}\x1b[K");
    _ = out.flush();
}

/// Iterations done since somebody looks, and where they end if that is known.
pub(crate) fn iterations(done: u64, seen_first: u64, end: Option<u64>, took: Duration) -> String {
    let rate = done.saturating_sub(seen_first) as f64 / took.as_secs_f64().max(1e-9);
    let speed = format!("{rate:.1} a second");
    match end.filter(|end| *end > 0) {
        Some(end) => {
            let part = (done as f64 / end as f64).min(1.0) * 100.0;
            format!(
                "iteration {done} of {end} ({part:.0} %), {speed}{}",
                left(end.saturating_sub(done) as f64, rate)
            )
        }
        None => format!("iteration {done}, {speed}"),
    }
}

/// Bytes taken from a checkpoint.
pub(crate) fn restoring(done: u64, all: u64, took: Duration) -> String {
    let rate = done as f64 / took.as_secs_f64().max(1e-9);
    let left = left(all.saturating_sub(done) as f64, rate);
    format!(
        "restoring: {} of {}, {} a second{left}",
        bytes(done),
        bytes(all),
        bytes(rate as u64)
    )
}

fn left(rest: f64, rate: f64) -> String {
    if rate <= 0.0 {
        return String::new();
    }
    // A year and more is as good as any other bound.
    let micros = (rest / rate * 1e6).min(3e13) as u64;
    format!(", {} left", span(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_rate_and_remaining_time() {
        let five = Duration::from_secs(5);
        assert_eq!(
            iterations(300, 50, Some(1000), five),
            "iteration 300 of 1000 (30 %), 50.0 a second, 14 s left"
        );
        assert_eq!(iterations(300, 50, None, five), "iteration 300, 50.0 a second");
        assert_eq!(
            iterations(0, 0, Some(10), five),
            "iteration 0 of 10 (0 %), 0.0 a second"
        );
        assert_eq!(
            restoring(1 << 30, 3 << 30, five),
            "restoring: 1.0 GiB of 3.0 GiB, 205 MiB a second, 10 s left"
        );
    }

    #[test]
    fn nothing_is_drawn_where_nobody_looks() {
        let line = ProgressLine {
            is_shown: false,
            text: Mutex::new(Some(String::new())),
        };
        line.show("something");
        assert_eq!(line.text.lock().unwrap().as_deref(), Some(""));
        assert_eq!(line.beside(|| 5), 5);
    }
}
