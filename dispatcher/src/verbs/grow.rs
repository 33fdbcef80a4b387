//! `grow`: adds nodes, each given as a line of a host file, or asked of the engine that owns the machines.

use super::join::join;
use crate::boot::daemon_program;
use crate::cluster::ClusterDir;
use crate::engine::slurm::Slurm;
use crate::engine::{self, Helper, Joining, ResourceManager};
use crate::failure::Failure;
use crate::link::Link;
use crate::{hostfile, output};

const EXAMPLE: &str = "\
Each HOST is a line of a host file: name [address] [cpus=0-3] [site=S] [ssh=user@host]
With --slurm, what follows '--' are options for sbatch. Each helper is a job of one node, with the account, qos,
constraint, partition and time left of the job in which the cluster began. 'pcmctl remove NODE' ends it. With
--scavenge a helper that is preempted goes back into the queue, and joins again when a node is idle.

Example:
  pcmctl grow node7 node8
  pcmctl grow 'fast 10.0.0.9 cpus=0-15 site=east'
  pcmctl grow --slurm 2 -- --partition=idle --time=30
  pcmctl grow --slurm 4 --scavenge -- --partition=preemptible";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// One line of a host file per node; with --slurm, options for sbatch
    #[arg(required_unless_present = "slurm", value_name = "HOST")]
    hosts: Vec<String>,
    /// Submit N jobs of one node each, whose nodes join when Slurm starts them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=hostfile::NODES_MAX as i64))]
    slurm: Option<u32>,
    /// With --slurm, of a partition whose jobs are preempted: come back after that
    #[arg(long, requires = "slurm")]
    scavenge: bool,
    /// Print one JSON document: a list of the nodes that came up, or of the jobs submitted
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    if let Some(count) = args.slurm {
        return submit(&args, count, cluster).await;
    }
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

/// Asks for nodes that join by themselves, today or tomorrow.
async fn submit(args: &Args, count: u32, cluster: &ClusterDir) -> Result<i32, Failure> {
    let record = cluster.expect_record()?;
    // A helper of a cluster that is over would only wait in the queue.
    Link::open(cluster).await?;
    let manager = Slurm;
    let core = match &record.core {
        Some(core) => engine::ask(manager.ask_core_job(&core.job), |answer| manager.read_core_job(answer)).await?,
        None => {
            return Err(Failure::usage(
                "the cluster did not begin in a Slurm job, so a helper has none to be like: submit 'pcm-daemon join' \
                 yourself",
            ));
        }
    };
    let joining = Joining {
        daemon: daemon_program(),
        cluster_dir: cluster.path().to_owned(),
    };
    let helper = Helper {
        scavenges: args.scavenge,
        options: &args.hosts,
    };
    let mut jobs = Vec::new();
    for _ in 0..count {
        let call = manager.submit_helper(&core, &joining, &helper);
        let job = engine::ask(call, |answer| manager.read_helper(answer)).await?;
        if !args.json {
            output::print(&format!(
                "job {job} is submitted; its node joins when Slurm starts it\n"
            ))?;
        }
        jobs.push(job);
    }
    if args.json {
        output::print_json(&jobs)?;
    }
    Ok(0)
}
