//! A program that must not outlive the value that holds it.

use crate::failure::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

/// A launcher needs a moment to end its ranks in order; after this it is killed.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Between two looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// See the file head.
#[derive(Debug)]
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Result<Self, Failure> {
        command.spawn().map(Self).map_err(Failure::start(command))
    }

    /// Asks it to end; one that ended already did what is wanted.
    pub fn ask_to_end(&self) {
        if let Some(pid) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let asked = Instant::now();
        if matches!(self.0.try_wait(), Ok(None)) {
            self.ask_to_end();
        }
        while asked.elapsed() < END_WITHIN && matches!(self.0.try_wait(), Ok(None)) {
            thread::sleep(LOOK_EVERY);
        }
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_ends_with_the_value_that_holds_it() {
        let running = Running::start(Command::new("sleep").arg("600")).unwrap();
        let pid = running.0.id();
        drop(running);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
