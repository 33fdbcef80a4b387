//! Processes as `/proc` shows them. Must never signal a process that a test did not name.

use proc_files::{Environment, ProcessStat};
use rustix::process::{Pid, Signal, kill_process};

pub use proc_files::command_line;

/// Living processes whose environment has this variable with this value.
pub fn with_variable(name: &str, value: &str) -> Vec<u32> {
    let has = |pid: &u32| Environment::of(*pid).is_some_and(|variables| variables.has(name, value));
    proc_files::pids().filter(has).collect()
}

/// Whether a process is there and not a zombie.
pub fn is_alive(pid: u32) -> bool {
    ProcessStat::of(pid).is_some_and(|stat| stat.is_alive())
}

/// The process that started this one, or took it over; 0 for one that ended.
pub fn parent(pid: u32) -> u32 {
    ProcessStat::of(pid).map_or(0, |stat| stat.parent)
}

/// User and system time that a process has had, in hundredths of a second; nothing of one that ended.
pub fn cpu_ticks(pid: u32) -> Option<u64> {
    let stat = ProcessStat::of(pid).filter(|stat| stat.state != 'Z')?;
    Some(stat.cpu_ticks())
}

/// The processes that this one started.
pub fn children(pid: u32) -> Vec<u32> {
    proc_files::pids().filter(|child| parent(*child) == pid).collect()
}

/// The number of files that a process has open; of one that ended the largest number there is.
pub fn file_count(pid: u32) -> usize {
    proc_files::file_count(pid).unwrap_or(usize::MAX)
}

/// Sends a signal; false when there is no such process.
pub fn send(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}
