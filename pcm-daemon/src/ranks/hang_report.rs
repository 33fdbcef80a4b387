//! What the kernel says of a process that did not in time do what it was to do: for the log, where whoever looks for the
//! reason finds it when the process is gone.

use crate::process_stat::fields_after_name;
use std::fs;

/// Its state, the CPU time it took and where in the kernel it waits; empty when it is gone.
pub(super) fn hang_report(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let waits_in = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    words(&stat, &waits_in).unwrap_or_default()
}

fn words(stat: &str, waits_in: &str) -> Option<String> {
    let mut fields = fields_after_name(stat)?;
    let state = fields.next()?;
    let [user, system] = [fields.nth(10)?, fields.next()?].map(|ticks| ticks.parse::<u64>().unwrap_or(0));
    let seconds = (user + system) as f64 / rustix::param::clock_ticks_per_second() as f64;
    let place = match waits_in {
        "" | "0" => "not in the kernel",
        place => place,
    };
    Some(format!("{state}, {place}, {seconds:.2} s of CPU"))
}

#[cfg(test)]
mod tests {
    use super::{hang_report, words};

    #[test]
    fn a_process_is_told_by_its_fields_whatever_its_name() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 {ticks} {ticks} 0 0 20 0 1 0 1");
        assert_eq!(
            words(&stat, "hrtimer_nanosleep").as_deref(),
            Some("S, hrtimer_nanosleep, 2.00 s of CPU")
        );
        assert_eq!(words("", ""), None);
        assert!(hang_report(std::process::id()).contains("s of CPU"));
        assert_eq!(hang_report(u32::MAX), "");
    }
}
