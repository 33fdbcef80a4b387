//! The text of `/proc/PID/stat`.

use std::fs;

/// What the kernel says of a process in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// A letter: `R` runs, `S` waits, `Z` has ended and its parent does not know yet.
    pub state: char,
    /// The process that started it, or took it over.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// CPU time of all its threads in user mode, in ticks.
    pub user_ticks: u64,
    /// CPU time of all its threads in system mode, in ticks.
    pub system_ticks: u64,
    /// CPU time of children that have ended and that it has waited for, and of theirs.
    pub children_ticks: u64,
    /// How far it gives way to others: 0 is usual, 19 the most.
    pub niceness: i32,
    /// When it began, in ticks since the machine booted: tells it from a later process with its number.
    pub begun_ticks: u64,
}

impl ProcessStat {
    pub fn of(pid: u32) -> Option<Self> {
        // The name in it may be any bytes.
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&stat))
    }

    /// Reads the line. The name in brackets may hold anything, brackets too; the fields come after the last one.
    pub fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().take(20).collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            user_ticks: fields.get(11)?.parse().ok()?,
            system_ticks: fields.get(12)?.parse().ok()?,
            children_ticks: fields.get(13)?.parse::<u64>().ok()? + fields.get(14)?.parse::<u64>().ok()?,
            niceness: fields.get(16)?.parse().ok()?,
            begun_ticks: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether it has not ended.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }

    /// CPU time of all its threads in both modes, in ticks.
    pub fn cpu_ticks(&self) -> u64 {
        self.user_ticks + self.system_ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_brackets_does_not_shift_the_fields() {
        let stat = "17 (a) b) R 1 2 3 4 5 6 7 8 9 10 100 20 3 4 25 5 1 0 777 9";
        let expected = ProcessStat {
            state: 'R',
            parent: 1,
            group: 2,
            user_ticks: 100,
            system_ticks: 20,
            children_ticks: 7,
            niceness: 5,
            begun_ticks: 777,
        };
        assert_eq!(ProcessStat::parse(stat), Some(expected));
        assert_eq!(ProcessStat::parse("17 a"), None);
        assert_eq!(ProcessStat::parse("17 (a) R 1 2"), None);
    }

    #[test]
    fn this_process_lives_and_one_that_is_gone_is_nothing() {
        assert!(ProcessStat::of(std::process::id()).is_some_and(|stat| stat.is_alive()));
        assert_eq!(ProcessStat::of(u32::MAX), None);
    }
}
