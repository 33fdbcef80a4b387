//! One run of heat2d to its end, or for a time, while things happen to its nodes; how far it was when. Must never leave
//! it running.

use super::field::Field;
use limited_nodes::Load;
use pcm_bench::{Failure, running::Running, trial::describe};
use std::{
    io::{BufRead, BufReader},
    process::{ChildStderr, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// How often it is looked what is due.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What happens to the nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Act {
    /// Others begin to compute on a node, in so many processes.
    Load(usize, usize),
    Unload,
    /// A node joins; nothing for a plain program.
    Join,
    /// Somebody gives the ranks these shares of the data.
    Share(Shares),
}

/// The shares of two ranks.
pub(super) type Shares = [u32; 2];

/// Acts by time, in seconds since the first progress line.
pub(super) type Script = Vec<(f64, Act)>;

/// How a run went.
#[derive(Clone, Debug, Default)]
pub(super) struct Race {
    seen: Vec<(f64, f64)>,
}

impl Race {
    /// Seconds from the first progress line to the last.
    pub(super) fn seconds(&self) -> f64 {
        self.seen.last().map_or(f64::NAN, |(at, _)| *at)
    }

    /// Iterations in that time.
    pub(super) fn iterations(&self) -> f64 {
        let first = self.seen.first().map_or(0.0, |(_, done)| *done);
        self.seen.last().map_or(f64::NAN, |(_, done)| *done - first)
    }

    /// Iterations a second between two times.
    pub(super) fn rate(&self, from: f64, to: f64) -> f64 {
        let within = |(at, _): &&(f64, f64)| (from..=to).contains(at);
        let (first, last) = (self.seen.iter().find(within), self.seen.iter().rev().find(within));
        match (first, last) {
            (Some((t0, d0)), Some((t1, d1))) if t1 > t0 => (d1 - d0) / (t1 - t0),
            _ => f64::NAN,
        }
    }

    /// Iterations a second over time, for a plot.
    pub(super) fn rates(&self) -> Vec<(f64, f64)> {
        let windows = self.seen.windows(3);
        let rates = windows.filter(|window| window[2].0 > window[0].0);
        rates
            .map(|window| (window[1].0, (window[2].1 - window[0].1) / (window[2].0 - window[0].0)))
            .collect()
    }
}

/// The first run of the program whose rank counts are told.
pub(super) struct Runner<'f, 'e> {
    pub(super) bench: &'static str,
    pub(super) field: &'f mut Field<'e>,
    pub(super) is_ours: bool,
    pub(super) limit: Duration,
}

impl Runner<'_, '_> {
    /// Runs it to its end; or for so many seconds, and ends it then.
    pub(super) fn run(mut self, mut command: Command, script: &Script, stop_s: Option<f64>) -> Result<Race, Failure> {
        let program = describe(&command);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = Running::start(command.stdin(Stdio::null()))?;
        let lines = progress(running.0.stderr.take());
        let (mut race, mut loads) = (Race::default(), Vec::new());
        let (mut begun, mut next) = (None::<Instant>, 0);
        let launched = Instant::now();
        loop {
            match lines.recv_timeout(LOOK_EVERY) {
                Ok((at, done)) => {
                    let since = *begun.get_or_insert(at);
                    race.seen.push(((at - since).as_secs_f64(), done));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let elapsed = begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
            while let Some((_, act)) = script.get(next).filter(|(at, _)| begun.is_some() && *at <= elapsed) {
                next += 1;
                self.act(*act, &mut loads)?;
            }
            if stop_s.is_some_and(|stop| elapsed >= stop) {
                return Ok(race);
            }
            if launched.elapsed() > self.limit {
                return Err(self.problem(format!("{program} did not end in {:?}", self.limit)));
            }
        }
        let status = running.0.wait();
        if race.seen.len() < 2 || !status.is_ok_and(|status| status.success()) {
            return Err(self.problem(format!("{program} failed, or said too little of its progress")));
        }
        Ok(race)
    }

    fn problem(&self, problem: String) -> Failure {
        Failure::bench(self.bench, problem)
    }

    fn act(&mut self, act: Act, loads: &mut Vec<Load>) -> Result<(), Failure> {
        match act {
            Act::Load(node, processes) => loads.push(self.field.load(node, processes)?),
            Act::Unload => loads.clear(),
            Act::Join if self.is_ours => self.field.join()?,
            Act::Join => {}
            Act::Share(shares) => self.field.share(shares)?,
        }
        Ok(())
    }
}

/// Each `heat2d: iteration I of K`, with its time.
fn progress(stderr: Option<ChildStderr>) -> mpsc::Receiver<(Instant, f64)> {
    // Five lines a second; nobody is held up by a reader that is busy for a minute.
    let (say, lines) = mpsc::sync_channel(300);
    thread::spawn(move || {
        let lines = stderr.into_iter().flat_map(|stderr| BufReader::new(stderr).lines());
        for line in lines.map_while(Result::ok) {
            if let Some(done) = iteration(&line)
                && say.send((Instant::now(), done)).is_err()
            {
                return;
            }
        }
    });
    lines
}

fn iteration(line: &str) -> Option<f64> {
    let rest = line.strip_prefix("heat2d: iteration ")?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_from_its_lines_only() {
        assert_eq!(iteration("heat2d: iteration 12 of 100"), Some(12.0));
        assert_eq!(iteration("heat2d: iterations 12"), None);
    }

    #[test]
    fn a_rate_is_that_of_its_time() {
        let race = Race {
            seen: vec![(0.0, 1.0), (1.0, 11.0), (2.0, 21.0), (3.0, 121.0)],
        };
        assert_eq!((race.rate(0.0, 2.0), race.rate(2.0, 3.0)), (10.0, 100.0));
        assert_eq!((race.seconds(), race.iterations()), (3.0, 120.0));
        assert!(race.rate(5.0, 6.0).is_nan());
    }
}
