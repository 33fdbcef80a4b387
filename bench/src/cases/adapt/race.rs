//! One run of heat2d to its end, or for a time, while things happen to its nodes; how far it was when. Must never leave
//! it running.

use super::field::Field;
use limited_nodes::Load;
use pcm_bench::{Failure, heat2d, pace::Pace, running::Running, trial::describe};
use std::{
    process::{Command, Stdio},
    sync::mpsc::RecvTimeoutError,
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

/// The first run of the program whose rank counts are told.
pub(super) struct Runner<'f, 'e> {
    pub(super) bench: &'static str,
    pub(super) field: &'f mut Field<'e>,
    pub(super) is_ours: bool,
    pub(super) limit: Duration,
}

impl Runner<'_, '_> {
    /// Runs it to its end; or for so many seconds, and ends it then.
    pub(super) fn run(mut self, mut command: Command, script: &Script, stop_s: Option<f64>) -> Result<Pace, Failure> {
        let program = describe(&command);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = Running::start(command.stdin(Stdio::null()))?;
        let lines = heat2d::progress(running.0.stderr.take(), |_| ());
        let (mut race, mut loads) = (Pace::default(), Vec::new());
        let (mut begun, mut next) = (None::<Instant>, 0);
        let launched = Instant::now();
        loop {
            match lines.recv_timeout(LOOK_EVERY) {
                Ok((at, done)) => {
                    let since = *begun.get_or_insert(at);
                    race.saw((at - since).as_secs_f64(), done);
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
        if race.sightings() < 2 || !status.is_ok_and(|status| status.success()) {
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
