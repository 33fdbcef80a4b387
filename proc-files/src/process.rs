//! The processes of the machine, and small files about one of them.

use std::fs;

/// All that can be seen from here.
pub fn pids() -> impl Iterator<Item = u32> {
    numbers_in("/proc")
}

/// The threads of a process, in no order.
pub fn threads(pid: u32) -> impl Iterator<Item = u32> {
    numbers_in(&format!("/proc/{pid}/task"))
}

fn numbers_in(folder: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes that the main thread of this one started or took over; nothing where the kernel does not say.
pub fn children(pid: u32) -> Option<Vec<u32>> {
    children_of_thread(pid, pid)
}

fn children_of_thread(pid: u32, thread: u32) -> Option<Vec<u32>> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).ok()?;
    Some(
        list.split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect(),
    )
}

/// The first of the processes that descend from this one, at most so many, without itself.
pub fn descendants(pid: u32, count_max: usize) -> Vec<u32> {
    let (mut found, mut looked_at) = (Vec::new(), pid);
    for next in 0..=count_max {
        for thread in threads(looked_at) {
            found.extend(children_of_thread(looked_at, thread).unwrap_or_default());
        }
        found.truncate(count_max);
        match found.get(next) {
            Some(pid) => looked_at = *pid,
            None => break,
        }
    }
    found
}

/// The command line, words joined by blanks; empty for a process that has ended.
pub fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned()
}

/// The first 15 bytes of the name of the program that it runs.
pub fn program_name(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

/// The number of files that it has open.
pub fn file_count(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

/// Where in the kernel it waits; nothing while it does not.
pub fn kernel_function(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/wchan")).ok()?;
    (!matches!(name.as_str(), "" | "0")).then_some(name)
}

/// One of the amounts of memory in its status, by name, such as `VmRSS`.
pub fn memory_bytes(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    kibibytes(&String::from_utf8_lossy(&status), name)
}

/// Nanoseconds that one of its threads ran, and that it was ready but had no CPU.
pub fn run_and_delay_ns(pid: u32, thread: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// A line `NAME: N kB`, in bytes.
pub(crate) fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| {
        line.strip_prefix(name)?
            .strip_prefix(':')?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()
    };
    let kibibytes: u64 = text.lines().find_map(value)?;
    Some(kibibytes << 10)
}

/// The user who started a process, whatever rights it has taken on since. The owner of its folder in `/proc` says
/// something else of a program that took some on.
pub fn real_user(pid: u32) -> Option<u32> {
    status_number(pid, "Uid:")
}

/// The process that traces this one.
pub fn tracer(pid: u32) -> Option<u32> {
    status_number(pid, "TracerPid:").filter(|tracer| *tracer != 0)
}

/// The first number behind a word of its status.
fn status_number(pid: u32, word: &str) -> Option<u32> {
    // The name in it may be any bytes.
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let numbers = status.lines().find_map(|line| line.strip_prefix(word))?;
    numbers.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio, id};

    #[test]
    fn this_process_is_among_all_and_has_files_memory_and_time() {
        assert!(pids().any(|pid| pid == id()));
        assert!(threads(id()).any(|thread| thread == id()));
        assert!(file_count(id()).is_some_and(|files| files > 2));
        assert!(memory_bytes(id(), "VmRSS").is_some_and(|bytes| bytes > 1 << 20));
        assert!(run_and_delay_ns(id(), id()).is_some());
        assert!(!command_line(id()).is_empty());
    }

    #[test]
    fn a_process_that_is_gone_has_nothing() {
        assert_eq!((children(u32::MAX), file_count(u32::MAX)), (None, None));
        assert_eq!((memory_bytes(u32::MAX, "VmRSS"), program_name(u32::MAX)), (None, None));
        assert_eq!(
            (kernel_function(u32::MAX), run_and_delay_ns(u32::MAX, u32::MAX)),
            (None, None)
        );
        assert_eq!(command_line(u32::MAX), "");
    }

    #[test]
    fn children_of_children_descend_from_a_process() {
        let script = "sleep 60 & sh -c 'sleep 60 & wait' & wait";
        let mut shell = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let mut all = Vec::new();
        for _ in 0..1000 {
            all = descendants(shell.id(), 9);
            if all.len() == 3 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(all.len(), 3);
        assert_eq!(descendants(shell.id(), 2), all[..2]);
        assert!(descendants(shell.id(), 0).is_empty());
        for pid in all {
            assert!(Command::new("kill").arg(pid.to_string()).status().unwrap().success());
        }
        shell.wait().unwrap();
    }

    #[test]
    fn a_program_is_known_by_its_name() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        // Between fork and exec the child still has the name of this process.
        while command_line(child.id()) != "sleep 60" {
            std::thread::yield_now();
        }
        assert_eq!(program_name(child.id()).as_deref(), Some("sleep"));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_amount_is_found_by_its_whole_name() {
        let text = "VmHWMX:\t 9 kB\nVmHWM:\t   12 kB\nThreads: 1\n";
        assert_eq!(kibibytes(text, "VmHWM"), Some(12 << 10));
        assert_eq!(kibibytes(text, "Threads"), None);
        assert_eq!(kibibytes(text, "Vm"), None);
    }
}
