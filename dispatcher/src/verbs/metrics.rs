//! `metrics`: current numbers for Prometheus.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::Link;
use crate::{courtesy, metrics, output};

const EXAMPLE: &str = "\
'pcmctl dashboard' serves the same under /metrics, with its token.

Example:
  pcmctl metrics > /var/lib/node_exporter/pcm.prom";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {}

pub(crate) async fn run(_: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    courtesy::give_way();
    let mut link = Link::open(cluster).await?;
    output::print(&metrics::gather(&mut link).await?)?;
    Ok(0)
}
