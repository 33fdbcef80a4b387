//! What datagrams and bulk transfers cost on the loopback, beside links and raw TCP in the same run: `cargo bench -p
//! pcm-fabric --bench fabric [-- quick]`. Each line is a name, a unit and the samples, separated by tabs.

mod bulk;
mod exchange;
mod group;
mod loss;

use pcm_fabric::ClusterKey;
use std::{net::SocketAddr, time::Duration};

pub(crate) type Failure = Box<dyn std::error::Error>;

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// How often to repeat.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) exchanges: usize,
    pub(crate) groups: usize,
    pub(crate) bulk: usize,
    pub(crate) bulk_bytes: usize,
}

pub(crate) fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(crate) fn key() -> Result<ClusterKey, Failure> {
    Ok(ClusterKey::from_hex("bench", &"5a".repeat(32))?)
}

pub(crate) fn micros(times: &[Duration]) -> Vec<f64> {
    times.iter().map(|time| time.as_secs_f64() * 1e6).collect()
}

pub(crate) fn report(name: &str, unit: &str, samples: &[f64]) {
    let samples: Vec<String> = samples.iter().map(|sample| format!("{sample:.4}")).collect();
    println!("{name}\t{unit}\t{}", samples.join(" "));
}

pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut samples = samples.to_vec();
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<(), Failure> {
    let is_quick = std::env::args().any(|argument| argument == "quick");
    let effort = if is_quick {
        Effort {
            exchanges: 50,
            groups: 3,
            bulk: 3,
            bulk_bytes: 64 << 20,
        }
    } else {
        Effort {
            exchanges: 1000,
            groups: 15,
            bulk: 9,
            bulk_bytes: 512 << 20,
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(exchange::run(effort))?;
    runtime.block_on(group::run(effort))?;
    bulk::run(effort)?;
    loss::run()
}
