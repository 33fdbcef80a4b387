//! What the machine has and does: CPU time, free memory, and how long tasks wait for either.

use crate::process::kibibytes;
use std::fs;

/// What some CPUs have done, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// Everything but idle, waiting for I/O and niced work.
    pub busy: u64,
    /// Work at a lower priority than the usual one: it gives way to what is not niced itself.
    pub niced: u64,
}

/// What these CPUs have done since the machine booted.
pub fn cpu_ticks(cpus: &[u32]) -> CpuTicks {
    ticks_of(&read("/proc/stat"), cpus)
}

/// Bytes that could be allocated without swapping.
pub fn available_bytes() -> Option<u64> {
    kibibytes(&read("/proc/meminfo"), "MemAvailable")
}

/// Bytes of swap that nothing uses.
pub fn free_swap_bytes() -> Option<u64> {
    kibibytes(&read("/proc/meminfo"), "SwapFree")
}

/// Microseconds in which some task waited for a CPU.
pub fn cpu_pressure_us() -> Option<u64> {
    pressure_us(&read("/proc/pressure/cpu"))
}

/// Microseconds in which some task waited for memory.
pub fn memory_pressure_us() -> Option<u64> {
    pressure_us(&read("/proc/pressure/memory"))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn ticks_of(stat: &str, cpus: &[u32]) -> CpuTicks {
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

fn pressure_us(pressure: &str) -> Option<u64> {
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
        assert_eq!(ticks_of(stat, &[0]), CpuTicks { busy: 24, niced: 1 });
        assert_eq!(ticks_of(stat, &[0, 1]), CpuTicks { busy: 31, niced: 1 });
    }

    #[test]
    fn pressure_is_that_of_some_task() {
        let text = "some avg10=0.00 avg60=0.00 total=77\nfull total=5\n";
        assert_eq!(pressure_us(text), Some(77));
        assert_eq!(pressure_us(""), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available_bytes().is_some_and(|bytes| bytes > 0));
        assert!(free_swap_bytes().is_some());
    }
}
