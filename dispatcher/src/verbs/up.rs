//! `up`: boots a cluster; a boot that fails removes everything it started.

use super::allocated;
use crate::boot::{self, Manner, Outcome};
use crate::cluster::{ClusterDir, ClusterRecord, RecordedNode};
use crate::engine;
use crate::failure::Failure;
use crate::link::Link;
use crate::output::{self, Align, Table};
use crate::{cpus, hostfile, kept_costs, tuning};
use pcm_core::membership::timing;
use pcm_fabric::ClusterKey;
use pcm_proto::boot::NodeSpec;
use pcm_proto::fabric::FabricWish;
use pcm_view::time;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

const EXAMPLE: &str = "\
Example:
  pcmctl up --local 4                     four virtual nodes n0 … n3 on this machine
  pcmctl up --local 3 --cpus '0;1;0-1'    with separate CPUs
  pcmctl up                               in a Slurm job: all its nodes
  pcmctl up --hosts FILE                  one line per node: name [address] [cpus=0-3] [site=S] [ssh=user@host]";

/// Time for daemons of an interrupted or failed boot to end by themselves.
const LEAVE_MAX: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
#[command(group = clap::ArgGroup::new("where"))]
pub(crate) struct Args {
    /// Boot N virtual nodes on this machine
    #[arg(
        long,
        value_name = "N",
        group = "where",
        value_parser = clap::value_parser!(u32).range(1..=hostfile::NODES_MAX as i64)
    )]
    local: Option<u32>,
    /// Boot the nodes of this file, over ssh if they are remote
    #[arg(long, value_name = "FILE", group = "where")]
    hosts: Option<PathBuf>,
    /// Boot the nodes of the Slurm allocation this runs in; without another choice also the default there
    #[arg(long, group = "where")]
    slurm: bool,
    /// CPUs of each virtual node, separated by ';' [default: all CPUs for each]
    #[arg(long, value_name = "LISTS", conflicts_with = "hosts")]
    cpus: Option<String>,
    /// Transport of messages between nodes
    #[arg(long, value_name = "WAY", default_value = "auto", value_enum)]
    fabric: Fabric,
    /// Also encrypt copies over InfiniBand and RoCE, which are always authenticated
    #[arg(long)]
    encrypt_rdma: bool,
    /// Silence after which a node is considered dead; increase it where machines or networks stall
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "2.4",
        env = "PCM_PATIENCE",
        hide_env_values = true,
        value_parser = patience_ms
    )]
    patience: u32,
    /// Continue with the nodes that came up if others did not
    #[arg(long)]
    allow_missing: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Fabric {
    /// InfiniBand or RoCE for small messages and copies of checkpoints where both nodes have it, else UDP and TCP; TCP
    /// for the rest
    Auto,
    /// UDP for small messages, TCP for the rest; a daemon that cannot open its UDP port does not start
    Udp,
    /// TCP for everything
    Tcp,
    /// As auto, but a daemon without InfiniBand or RoCE does not start
    Rdma,
}

/// A patience in seconds as milliseconds.
fn patience_ms(text: &str) -> Result<u32, String> {
    let (least, most) = (timing::PATIENCE_MIN, timing::PATIENCE_MAX);
    let seconds: f64 = text.parse().map_err(|_| "give a number of seconds".to_owned())?;
    let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    if !(least..=most).contains(&patience) {
        let (least, most) = (least.as_secs_f64(), most.as_secs());
        return Err(format!("give a number from {least} to {most}"));
    }
    u32::try_from(patience.as_millis()).map_err(|error| error.to_string())
}

impl From<Fabric> for FabricWish {
    fn from(fabric: Fabric) -> Self {
        match fabric {
            Fabric::Auto => Self::Auto,
            Fabric::Udp => Self::Udp,
            Fabric::Tcp => Self::Tcp,
            Fabric::Rdma => Self::Rdma,
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    cluster: String,
    dir: &'a std::path::Path,
    seconds: f64,
    nodes: Vec<ReportedNode<'a>>,
}

#[derive(Serialize)]
struct ReportedNode<'a> {
    name: &'a str,
    address: Option<&'a str>,
    site: &'a str,
    cpus: &'a [u32],
    up: bool,
    reason: Option<&'a str>,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    if let Some((manager, allocation)) = allocation(&args)? {
        let began = Instant::now();
        let (record, booted) = allocated::up(&args.allocated(), cluster, (manager.as_ref(), &allocation)).await?;
        let nodes: Vec<NodeSpec> = record.nodes.iter().map(|node| node.spec.clone()).collect();
        return show(&args, cluster, &record, &nodes, &booted, began.elapsed());
    }
    let nodes = wanted(&args)?;
    // Before anything is made that an interrupt would leave behind.
    let mut interrupts = Interrupts::watch()?;
    cluster.create()?;
    let _lock = cluster.lock()?;
    clear_stale(cluster).await?;
    let begun = Instant::now();
    let key = ClusterKey::generate().map_err(|error| Failure::system(error.to_string()))?;
    let mut record = ClusterRecord {
        id: key.cluster_id().to_owned(),
        created_us: time::now_us(),
        nodes: nodes
            .iter()
            .map(|spec| RecordedNode {
                spec: spec.clone(),
                listens: None,
            })
            .collect(),
        manner: None,
        core: None,
    };
    let manner = args.manner();
    record.manner = Some(manner);
    let booted = boot_or_interrupt(cluster, &record, &key, (&nodes, manner), &mut interrupts).await;
    let outcome = match booted {
        Ok(outcome) if accepted(&outcome, args.allow_missing) => outcome,
        other => {
            undo(cluster, &record.id)?;
            return Err(other.map_or_else(|failure| failure, |outcome| boot::failure(&outcome, nodes.len())));
        }
    };
    for booted in &outcome.ready {
        if let Some(node) = record.nodes.iter_mut().find(|node| node.spec.name == booted.node) {
            node.listens = Some(booted.address.clone());
        }
    }
    record.nodes.retain(|node| node.listens.is_some());
    cluster.save(&record)?;
    show(&args, cluster, &record, &nodes, &outcome, begun.elapsed())
}

/// The allocation whose nodes are to be booted, if that is what is wanted.
fn allocation(args: &Args) -> Result<Option<engine::Present>, Failure> {
    if args.local.is_some() || args.hosts.is_some() {
        return Ok(None);
    }
    let present = engine::present();
    match (&present, args.slurm) {
        (Some(_), _) => Ok(present),
        (None, true) => Err(Failure::usage(
            "this is no Slurm job (SLURM_JOB_ID is not set): call it in a script for sbatch, or within salloc",
        )),
        (None, false) => Err(Failure::usage(
            "say where: --local N, or --hosts FILE; without either, only within a Slurm job; see 'pcmctl up --help'",
        )),
    }
}

impl Args {
    fn allocated(&self) -> allocated::Wanted {
        allocated::Wanted {
            manner: self.manner(),
            may_miss: self.allow_missing,
        }
    }

    fn manner(&self) -> Manner {
        Manner {
            fabric: self.fabric.into(),
            is_rdma_sealed: self.encrypt_rdma,
            patience_ms: self.patience,
        }
    }
}

fn wanted(args: &Args) -> Result<Vec<NodeSpec>, Failure> {
    if let Some(path) = &args.hosts {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!(
                "cannot read the host file {}: {error}; name one that exists",
                path.display()
            ))
        })?;
        return hostfile::parse(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())));
    }
    let count = args.local.unwrap_or(1) as usize;
    let lists = match &args.cpus {
        Some(text) => cpus::parse_per_node(text, count).map_err(Failure::usage)?,
        None => Vec::new(),
    };
    hostfile::local_nodes(count, &lists).map_err(Failure::usage)
}

/// Refuses if a cluster runs in the directory; removes what a dead one left.
pub(super) async fn clear_stale(cluster: &ClusterDir) -> Result<(), Failure> {
    let Some(record) = cluster.record()? else {
        return Ok(());
    };
    let alive = Link::open(cluster).await.is_ok();
    let processes = cluster_sweep::processes(&record.id);
    if alive || !processes.is_empty() {
        let left = if alive {
            "is running"
        } else {
            "left processes that do not answer"
        };
        return Err(Failure::cluster_running(format!(
            "a cluster {left} in {}: end it with 'pcmctl down', or use another directory with --cluster DIR",
            cluster.path().display()
        )));
    }
    cluster.remove_stale(&record.id)
}

async fn boot_or_interrupt(
    cluster: &ClusterDir,
    record: &ClusterRecord,
    key: &ClusterKey,
    (nodes, manner): (&[NodeSpec], Manner),
    interrupts: &mut Interrupts,
) -> Result<Outcome, Failure> {
    key.store(&cluster.key_path())
        .map_err(|error| Failure::system(error.to_string()))?;
    tuning::bring(cluster)?;
    kept_costs::bring(cluster)?;
    // Saved before anything is started, so that `down` finds what a killed `up` started.
    cluster.save(record)?;
    tokio::select! {
        outcome = boot::boot_all(key, cluster.path(), nodes, manner) => Ok(outcome),
        () = interrupts.next() => Err(Failure::boot("interrupted: everything that was started is ended again")),
    }
}

/// Signals that ask this process to end.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    pub(super) fn watch() -> Result<Self, Failure> {
        let refused = |error| Failure::system(format!("cannot watch for signals: {error}"));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(refused)?,
            terminate: signal(SignalKind::terminate()).map_err(refused)?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

fn accepted(outcome: &Outcome, allow_missing: bool) -> bool {
    outcome.failed.is_empty() || (allow_missing && !outcome.ready.is_empty())
}

pub(super) fn undo(cluster: &ClusterDir, cluster_id: &str) -> Result<(), Failure> {
    cluster_sweep::wait_until_gone(cluster_id, LEAVE_MAX);
    let (_, left) = cluster_sweep::end_all(cluster_id);
    cluster.remove(cluster_id, false)?;
    if left > 0 {
        return Err(Failure::system(format!(
            "{left} processes of the failed boot could not be ended: look for {}={cluster_id} in /proc/*/environ",
            cluster_sweep::CLUSTER_ID_VARIABLE
        )));
    }
    Ok(())
}

fn show(
    args: &Args,
    cluster: &ClusterDir,
    record: &ClusterRecord,
    nodes: &[NodeSpec],
    outcome: &Outcome,
    took: Duration,
) -> Result<i32, Failure> {
    if args.json {
        let reported = nodes.iter().map(|node| ReportedNode {
            name: node.name.as_str(),
            address: outcome.address(&node.name),
            site: &node.site,
            cpus: &node.cpus,
            up: outcome.address(&node.name).is_some(),
            reason: outcome.reason(&node.name),
        });
        output::print_json(&Report {
            cluster: record.id.clone(),
            dir: cluster.path(),
            seconds: took.as_secs_f64(),
            nodes: reported.collect(),
        })?;
        return Ok(0);
    }
    let mut table = Table::new(&[
        ("NODE", Align::Left),
        ("ADDRESS", Align::Left),
        ("SITE", Align::Left),
        ("CPUS", Align::Left),
        ("STATE", Align::Left),
    ]);
    for node in nodes {
        let name = node.name.as_str();
        let state = match (outcome.address(&node.name), outcome.reason(&node.name)) {
            (Some(_), _) => "up".to_owned(),
            (None, why) => format!("missing: {}", why.unwrap_or("no report")),
        };
        let listens = outcome.address(&node.name).unwrap_or("-").to_owned();
        table.row(vec![
            name.to_owned(),
            listens,
            node.site.clone(),
            cpus::format_list(&node.cpus),
            state,
        ]);
    }
    let count = record.nodes.len();
    output::print(&format!(
        "{}{count} node{} up in {:.2} s, cluster {} in {}\n",
        table.render(),
        if count == 1 { "" } else { "s" },
        took.as_secs_f64(),
        record.id,
        cluster.path().display()
    ))?;
    Ok(0)
}
