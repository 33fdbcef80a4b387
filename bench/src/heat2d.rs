//! The example program heat2d, which most benches and the demo run: its arguments, its progress and its closing line.

use crate::{failure::Failure, trial::figure};
use std::{
    io::{BufRead as _, BufReader, Read},
    sync::mpsc::{self, Receiver},
    thread,
    time::Instant,
};

/// Iterations of a job that does not end by itself.
pub const ENDLESS: u64 = 2_000_000_000;

/// Its arguments for a plate of so many rows and columns.
pub fn plate(rows: u32, cols: u32, iterations: u64) -> [String; 6] {
    let [rows, cols, iterations] = [rows.into(), cols.into(), iterations].map(|number: u64| number.to_string());
    [
        "--rows".to_owned(),
        rows,
        "--cols".to_owned(),
        cols,
        "--iterations".to_owned(),
        iterations,
    ]
}

/// How long it iterated, by its closing line.
pub fn seconds(bench: &'static str, output: &str) -> Result<f64, Failure> {
    figure(bench, output, "heat2d: iterations ", "seconds")
}

/// The iterations that it reports on its standard error with `--progress`, as they come; other lines are handed over.
pub fn progress(
    stderr: Option<impl Read + Send + 'static>,
    other: impl Fn(&str) + Send + 'static,
) -> Receiver<(Instant, u64)> {
    let (sender, steps) = mpsc::channel();
    thread::spawn(move || {
        let lines = stderr
            .into_iter()
            .flat_map(|stderr| BufReader::new(stderr).split(b'\n'));
        for line in lines.map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            match iteration(&line) {
                Some(done) if sender.send((Instant::now(), done)).is_err() => return,
                Some(_) => {}
                None => other(&line),
            }
        }
    });
    steps
}

/// The number in `heat2d: iteration 30 of 100`.
fn iteration(line: &str) -> Option<u64> {
    let rest = line.trim().strip_prefix("heat2d: iteration ")?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_read_and_other_lines_are_handed_over() {
        let said = "heat2d: iteration 30 of 100\npcmctl: job 1: rank 0 was killed\nheat2d: iterations 12\n";
        let (sender, others) = mpsc::channel();
        let steps = progress(Some(said.as_bytes()), move |line| {
            _ = sender.send(line.to_owned());
        });
        assert_eq!(steps.into_iter().map(|(_, done)| done).collect::<Vec<_>>(), [30]);
        assert_eq!(others.into_iter().count(), 2);
    }

    #[test]
    fn the_time_is_read_from_the_closing_line() {
        let output = "noise\nheat2d: iterations 5 ranks 2 seconds 1.250000 checksum 0123456789abcdef\n";
        assert_eq!(seconds("x", output).ok(), Some(1.25));
        assert!(seconds("x", "heat2d: rows missing").is_err());
    }
}
