//! Reads numbers out of the text of `/proc`. Pure; a line that is not as expected gives nothing.

/// What some CPUs have done, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTicks {
    /// Everything but idle, waiting for I/O and niced work.
    pub busy: u64,
    /// Work at a lower priority than the usual one: it stands back for what is not niced itself.
    pub niced: u64,
}

/// Ticks of some CPUs in `/proc/stat`.
pub fn cpu_ticks(stat: &str, cpus: &[u32]) -> CpuTicks {
    let lines = stat.lines().filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let cpu: u32 = name.strip_prefix("cpu")?.parse().ok()?;
        cpus.contains(&cpu).then_some(rest)
    });
    lines
        .map(ticks_of_line)
        .fold(CpuTicks::default(), |sum, of_cpu| CpuTicks {
            busy: sum.busy + of_cpu.busy,
            niced: sum.niced + of_cpu.niced,
        })
}

fn ticks_of_line(line: &str) -> CpuTicks {
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user.
    let fields: Vec<u64> = line
        .split_ascii_whitespace()
        .take(8)
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    let sum = |positions: &[usize]| positions.iter().filter_map(|position| fields.get(*position)).sum();
    CpuTicks {
        busy: sum(&[0, 2, 5, 6, 7]),
        niced: sum(&[1]),
    }
}

/// Ticks a process has used, in user and system mode, from `/proc/PID/stat`.
pub fn process_ticks(stat: &str) -> Option<u64> {
    // The name in brackets may hold anything; the fields come after the last bracket.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// How far a process stands back for others, from `/proc/PID/stat`: 0 is usual, 19 the most.
pub fn niceness(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(16)?.parse().ok()
}

/// Nanoseconds a thread ran and waited for a CPU, from `/proc/PID/schedstat`.
pub fn run_and_delay_ns(schedstat: &str) -> Option<(u64, u64)> {
    let mut fields = schedstat.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Bytes that could be allocated without swapping, from `/proc/meminfo`.
pub fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Microseconds in which some task waited, from `/proc/pressure/*`.
pub fn pressure_us(pressure: &str) -> Option<u64> {
    let line = pressure.lines().find(|line| line.starts_with("some "))?;
    line.split_ascii_whitespace()
        .find_map(|field| field.strip_prefix("total="))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_io_wait_are_not_busy_and_other_cpus_do_not_count() {
        let stat =
            "cpu  9 9 9 9\ncpu0 10 1 2 1000 50 3 4 5 0 0\ncpu1 7 0 0 9 9 0 0 0 0 0\ncpu10 99 0 0 0 0 0 0 0\nintr 5\n";
        assert_eq!(cpu_ticks(stat, &[0]), CpuTicks { busy: 24, niced: 1 });
        assert_eq!(cpu_ticks(stat, &[0, 1]), CpuTicks { busy: 31, niced: 1 });
    }

    #[test]
    fn a_process_name_with_brackets_does_not_shift_the_fields() {
        let stat = "17 (a) b) R 1 2 3 4 5 6 7 8 9 10 100 20 0 0 25 5 1 0 777";
        assert_eq!(process_ticks(stat), Some(120));
        assert_eq!(niceness(stat), Some(5));
        assert_eq!(process_ticks("17 a"), None);
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_nothing() {
        assert_eq!(run_and_delay_ns("5 6 7\n"), Some((5, 6)));
        assert_eq!(run_and_delay_ns(""), None);
        assert_eq!(available_bytes("MemTotal: 9 kB\nMemAvailable:    2 kB\n"), Some(2048));
        assert_eq!(available_bytes("MemTotal: 9 kB\n"), None);
        assert_eq!(
            pressure_us("some avg10=0.00 avg60=0.00 total=77\nfull total=5\n"),
            Some(77)
        );
    }
}
