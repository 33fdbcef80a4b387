//! What the measurements of this folder have in common: where they listen, the key, how often they repeat.

use pcm_bench::{Failure, Samples};
use pcm_fabric::ClusterKey;
use std::{net::SocketAddr, time::Duration};

/// What a measurement ran into; the bench that asked for it says its name.
pub(super) type Problem = Box<dyn std::error::Error>;

pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// How often to repeat.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    pub(super) exchanges: usize,
    pub(super) groups: usize,
    pub(super) bulk: usize,
    pub(super) bulk_bytes: usize,
}

impl Effort {
    pub(super) fn new(is_quick: bool) -> Self {
        let (exchanges, groups, bulk, mib) = if is_quick { (50, 3, 3, 64) } else { (1000, 15, 9, 512) };
        Self {
            exchanges,
            groups,
            bulk,
            bulk_bytes: mib << 20,
        }
    }
}

pub(super) fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(super) fn key() -> Result<ClusterKey, Problem> {
    Ok(ClusterKey::from_hex("bench", &"5a".repeat(32))?)
}

/// Times as a series in microseconds.
pub(super) fn micros(name: impl Into<String>, times: &[Duration]) -> Samples {
    let values = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    Samples::of(name, "us", values)
}

/// Processor time of this process, both ends together: what a busy machine does not distort.
pub(super) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Runs it on this thread, as a daemon does.
pub(super) fn in_runtime<T>(what: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(what)
}

/// A problem of this bench.
pub(super) fn of(bench: &'static str) -> impl Fn(Problem) -> Failure {
    move |problem| Failure::bench(bench, problem.to_string())
}
