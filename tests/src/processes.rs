//! Processes as `/proc` shows them. Must never signal a process that a test did not name.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;

/// Process ids of this machine.
fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Living processes whose environment has this variable with this value.
pub fn with_variable(name: &str, value: &str) -> Vec<u32> {
    let wanted = format!("{name}={value}");
    all()
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == wanted.as_bytes())
        })
        .collect()
}

/// The command line, words joined by blanks; empty for a process that ended.
pub fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned()
}

/// Whether a process is there and not a zombie.
pub fn is_alive(pid: u32) -> bool {
    stat_after_name(pid).is_some_and(|rest| !rest.starts_with(['Z', 'X']))
}

/// The process that started this one, or took it over; 0 for one that ended.
pub fn parent(pid: u32) -> u32 {
    let rest = stat_after_name(pid).unwrap_or_default();
    rest.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// User and system time that a process has had, in hundredths of a second; nothing of one that ended.
pub fn cpu_ticks(pid: u32) -> Option<u64> {
    let rest = stat_after_name(pid)?;
    let mut fields = rest.split(' ');
    (fields.next()? != "Z").then_some(())?;
    let [user, system] = [fields.nth(10)?, fields.next()?].map(|ticks| ticks.parse::<u64>().ok());
    Some(user? + system?)
}

/// The processes that this one started.
pub fn children(pid: u32) -> Vec<u32> {
    all().filter(|child| parent(*child) == pid).collect()
}

/// What `/proc` says of a process after its name, the state first; nothing of one that is gone.
fn stat_after_name(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned())
}

/// Sends a signal; false when there is no such process.
pub fn send(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}
