//! `metrics`: current numbers for Prometheus.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::Link;
use crate::{courtesy, metrics, output};
use pcm_view::dashboard::Format;

const EXAMPLE: &str = "\
'pcmctl dashboard' serves the same under /metrics, with its token.

Example:
  pcmctl metrics > /var/lib/node_exporter/pcm.prom
  pcmctl metrics --grafana > pcm.json";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Print a dashboard for Grafana over these numbers instead: import it there and choose a Prometheus
    #[arg(long)]
    grafana: bool,
    /// Write OpenMetrics in place of Prometheus' own format
    #[arg(long, conflicts_with = "grafana")]
    openmetrics: bool,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    if args.grafana {
        output::print(metrics::GRAFANA)?;
        return Ok(0);
    }
    courtesy::give_way();
    let mut link = Link::open(cluster).await?;
    let format = if args.openmetrics {
        Format::OpenMetrics
    } else {
        Format::Prometheus
    };
    output::print(&metrics::gather(&mut link, format).await?)?;
    Ok(0)
}
