//! What the kernel says of a process that did not in time do what it was to do: for the log, where whoever looks for
//! the reason finds it when the process is gone.

use proc_files::ProcessStat;

/// Its state, the CPU time it took and where in the kernel it waits; empty when it is gone.
pub(super) fn hang_report(pid: u32) -> String {
    ProcessStat::of(pid).map_or_else(String::new, |stat| {
        words(stat, proc_files::kernel_function(pid).as_deref())
    })
}

fn words(stat: ProcessStat, waits_in: Option<&str>) -> String {
    let seconds = stat.cpu_ticks() as f64 / rustix::param::clock_ticks_per_second() as f64;
    let place = waits_in.unwrap_or("not in the kernel");
    format!("{}, {place}, {seconds:.2} s of CPU", stat.state)
}

#[cfg(test)]
mod tests {
    use super::{ProcessStat, hang_report, words};

    #[test]
    fn a_process_is_told_by_its_fields() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 {ticks} {ticks} 0 0 20 0 1 0 1");
        let stat = ProcessStat::parse(&stat).unwrap();
        assert_eq!(
            words(stat, Some("hrtimer_nanosleep")),
            "S, hrtimer_nanosleep, 2.00 s of CPU"
        );
        assert_eq!(words(stat, None), "S, not in the kernel, 2.00 s of CPU");
        assert!(hang_report(std::process::id()).contains("s of CPU"));
        assert_eq!(hang_report(u32::MAX), "");
    }
}
