//! ctrl-C, SIGTERM and a closed terminal during a bench: what it waits for is ended, so that it returns with an error
//! and clears away what it made. Must never let a bench outlive the signal by more than half a minute.

use pcm_bench::{Failure, own_cluster};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    fs, process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// For a bench whose program has ended to return.
const RETURN_MAX: Duration = Duration::from_secs(5);

/// For one whose cluster has gone.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);

/// Whether somebody asked for an end.
pub(super) struct Watch(Arc<AtomicBool>);

impl Watch {
    /// From now on these signals end the bench in order.
    pub(super) fn begin() -> Result<Self, Failure> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|source| Failure::Start {
            program: "the watch for signals".into(),
            source,
        })?;
        let told = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&told);
        thread::spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            noted.store(true, Relaxed);
            eprintln!("interrupted: ends what it started");
            children().for_each(end);
            thread::sleep(RETURN_MAX);
            own_cluster::take_down_all();
            thread::sleep(GIVE_UP_AFTER);
            children().for_each(end);
            process::exit(128 + signal);
        });
        Ok(Self(told))
    }

    /// What the bench came to; an interrupted one came to nothing.
    pub(super) fn judge<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        if self.0.load(Relaxed) {
            Err(Failure::Interrupted)
        } else {
            outcome
        }
    }
}

/// The processes this one started itself.
fn children() -> impl Iterator<Item = Pid> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let listed: Vec<Pid> = lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|number| Pid::from_raw(number.parse().ok()?))
        .collect();
    listed.into_iter()
}

fn end(child: Pid) {
    // One that has just ended is what is wanted.
    _ = kill_process(child, Signal::TERM);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_was_started_here_is_found() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(children().any(|found| found == pid));
        end(pid);
        assert!(!child.wait().unwrap().success());
    }
}
