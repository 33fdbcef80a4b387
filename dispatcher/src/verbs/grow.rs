//! `grow`: adds nodes, each given as a line of a host file.

use super::join::join;
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::Link;
use crate::{hostfile, output};

const EXAMPLE: &str = "\
Each HOST is a line of a host file: name [address] [cpus=0-3] [site=S] [ssh=user@host]

Example:
  pcmctl grow node7 node8
  pcmctl grow 'fast 10.0.0.9 cpus=0-15 site=east'";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// One line of a host file per node
    #[arg(required = true, value_name = "HOST")]
    hosts: Vec<String>,
    /// Print one JSON document: a list of the nodes that came up
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let specs = hostfile::parse(&args.hosts.join("\n")).map_err(Failure::usage)?;
    let mut link = Link::open(cluster).await?;
    let mut joined = Vec::new();
    let mut refused = Vec::new();
    for spec in specs {
        match join(cluster, &mut link, spec).await {
            Ok(node) => {
                if !args.json {
                    output::print(&format!("node {} is up at {}\n", node.name, node.address))?;
                }
                joined.push(node);
            }
            Err(failure) => refused.push(failure),
        }
    }
    if args.json {
        output::print_json(&joined)?;
    }
    let Some(last) = refused.pop() else {
        return Ok(0);
    };
    for failure in refused {
        eprintln!("pcmctl: {failure}");
    }
    Err(last)
}
