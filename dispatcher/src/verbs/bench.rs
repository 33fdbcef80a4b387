//! `bench`: measures this cluster. The crate `pcm-bench` judges the results; `../moving_job` is the changed job.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::moving_job::{Job, Work};
use crate::{kept_costs, output};
use clap::Subcommand;
use pcm_bench::redistribution::{Data, Findings, Pair, Plan, measure};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};

const EXAMPLE: &str = "\
Runs its own jobs on the running cluster, beside other jobs there.

Example:
  pcmctl bench redistribute --pairs 2:4,4:8 --mib 256 --out results";

const REDISTRIBUTE_EXAMPLE: &str = "\
Each job grows and shrinks by each method (see 'pcmctl run --help') and by auto, in another order each round. Every
element of the data is checked after each change. --out gets every run as CSV and JSON, a page for a browser, and plots
of the best method for each pair of sizes. The daemons remember the costs: auto uses them until 'pcmctl down', with
--keep also on later clusters.

A program after -- is measured instead, with the data it registers: it must iterate all the time, and checks its data
itself if it does.

Examples:
  pcmctl bench redistribute --pairs 2:4,4:8 --mib 256 --data rows,constant --out results
  pcmctl bench redistribute --pairs 2:4 --out results -- ./simulation --steps 1000000";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Compare the methods of reconfiguration
    #[command(after_help = REDISTRIBUTE_EXAMPLE)]
    Redistribute(RedistributeArgs),
}

#[derive(clap::Args)]
struct RedistributeArgs {
    /// Numbers of ranks to change between, as FEW:MANY
    #[arg(long, value_name = "PAIRS", value_delimiter = ',', default_value = "1:2,2:4,3:4")]
    pairs: Vec<Pair>,
    /// Size of all data together
    #[arg(long, value_name = "MIB", default_value_t = 64, conflicts_with = "program",
          value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    mib: u64,
    /// Kinds of data
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_enum, conflicts_with = "program",
          default_values_t = Data::MADE)]
    data: Vec<Data>,
    /// Measured rounds of each method
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Rounds before the measurement, which teach auto the costs on this cluster
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    learn: u32,
    /// Keep the measured costs for this user's later clusters, whose auto then uses them
    #[arg(long)]
    keep: bool,
    /// Where to write raw samples and pictures
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A program to measure instead, with its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let What::Redistribute(args) = args.what;
    let is_own = !args.program.is_empty();
    let plan = Plan {
        pairs: args.pairs,
        data: if is_own { vec![Data::Own] } else { args.data },
        mib: (!is_own).then_some(args.mib),
        rounds: args.rounds,
        learn: args.learn,
    };
    let refused = |error| Failure::system(format!("cannot watch for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
    tokio::select! {
        done = redistribute(cluster, &plan, &args.program, args.out.as_deref()) => done?,
        _ = interrupt.recv() => return Err(Failure::system("interrupted; the bench's job is ended")),
    }
    if args.keep {
        let kept = kept_costs::keep(cluster)?;
        output::print(&format!(
            "the costs are kept for later clusters in {}\n",
            kept.display()
        ))?;
    }
    Ok(0)
}

/// Measures, prints and writes what was found into a directory.
async fn redistribute(
    cluster: &ClusterDir,
    plan: &Plan,
    program: &[OsString],
    out: Option<&Path>,
) -> Result<(), Failure> {
    let nodes = nodes(cluster).await?;
    let mut cells = Vec::new();
    for &data in &plan.data {
        for &pair in &plan.pairs {
            eprintln!("pcmctl: {} and {} ranks, {data}", pair.few, pair.many);
            let work = match plan.mib {
                Some(mib) => Work::made(data, mib)?,
                None => Work::Own(program.to_vec()),
            };
            let job = Job::start(cluster, pair, work).await?;
            cells.extend(measure(job, plan, pair, data).await?);
        }
    }
    let findings = Findings::new(&cells, plan);
    output::print(&findings.tables())?;
    let Some(out) = out else {
        return output::print(&findings.remarks());
    };
    std::fs::create_dir_all(out).map_err(|error| Failure::file("create", out, &error))?;
    for (name, text) in findings.files(&nodes) {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(|error| Failure::file("write", &path, &error))?;
    }
    output::print(&format!("samples, page and pictures are in {}\n", out.display()))
}

async fn nodes(cluster: &ClusterDir) -> Result<Value, Failure> {
    let mut link = Link::open(cluster).await?;
    match link.ask(ControlToDaemon::Nodes, ASK_DEADLINE).await? {
        DaemonToControl::Nodes(nodes) => {
            let rows = nodes
                .iter()
                .map(|node| json!({"name": node.name, "cpus": node.cpus, "site": node.site}));
            Ok(rows.collect())
        }
        other => Err(Failure::unexpected("Nodes", &other)),
    }
}
