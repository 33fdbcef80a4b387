//! The cluster as numbers for Prometheus: `gather` asks a daemon, `text` writes the exposition format. On request only:
//! nothing is kept and nothing is asked while nobody wants to know.

mod gather;
mod text;

pub(crate) use gather::gather;

/// A dashboard of Grafana over these numbers.
pub(crate) const GRAFANA: &str = include_str!("grafana.json");
