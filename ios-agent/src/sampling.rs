//! Takes samples of the node: its counters at this moment. Reads a handful of small files, nothing else.

use crate::{cpu_limit::CpuLimit, families::Families};
use pcm_proto::keeper::ProcessKey;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;

/// Counters of one rank and of the processes that it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankSample {
    /// CPU time it used, all threads, in seconds.
    pub used_s: f64,
    /// Time its main thread, and any of theirs, ran.
    pub run_ns: u64,
    /// Time these threads were ready but had no CPU.
    pub delay_ns: u64,
    /// Whether it stands back for others.
    pub is_niced: bool,
}

/// Counters of the node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When, in seconds of a steady clock.
    pub at_s: f64,
    /// CPU time the node's CPUs were busy, in seconds, but for niced work; of a limited node, what its group took.
    pub busy_s: f64,
    /// CPU time of niced work.
    pub niced_s: f64,
    pub ranks: BTreeMap<ProcessKey, RankSample>,
    /// Time some task of the machine waited for a CPU.
    pub cpu_pressure_us: u64,
    /// Time some task of the machine waited for memory.
    pub memory_pressure_us: u64,
    /// Memory that could be allocated without swapping.
    pub available_bytes: u64,
    /// CPU time this agent used.
    pub own_s: f64,
}

/// Ticks per second of the counters in `/proc`; the same on every Linux.
pub(crate) const TICKS_PER_S: f64 = 100.0;

fn clock_s(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Looks at the node with these CPUs and ranks, whose CPU time may be limited.
pub fn take(cpus: &[u32], limit: Option<&CpuLimit>, ranks: &[(ProcessKey, u32)], families: &mut Families) -> Sample {
    let ranks = families.look(ranks);
    let (busy_s, niced_s) = match limit {
        // Where the kernel does not count what a group takes, it is what its ranks take.
        Some(limit) => (
            limit
                .usage_s()
                .unwrap_or_else(|| ranks.values().map(|rank| rank.used_s).sum()),
            0.0,
        ),
        None => {
            let cpu = proc_files::cpu_ticks(cpus);
            (cpu.busy as f64 / TICKS_PER_S, cpu.niced as f64 / TICKS_PER_S)
        }
    };
    Sample {
        at_s: clock_s(ClockId::Monotonic),
        busy_s,
        niced_s,
        ranks,
        cpu_pressure_us: proc_files::cpu_pressure_us().unwrap_or(0),
        memory_pressure_us: proc_files::memory_pressure_us().unwrap_or(0),
        available_bytes: proc_files::available_bytes().unwrap_or(0),
        own_s: clock_s(ClockId::ProcessCPUTime),
    }
}
