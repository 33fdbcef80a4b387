//! `up` within an allocation of an engine: one step of it starts a daemon on every node. They join by themselves; this
//! waits until all are there.

use super::up::{Interrupts, clear_stale, undo};
use crate::boot::{Booted, Manner, Outcome, daemon_program};
use crate::cluster::{ClusterDir, ClusterRecord};
use crate::engine::{self, Allocation, Joining, ResourceManager};
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::{kept_costs, tuning};
use cluster_sweep::CLUSTER_ID_VARIABLE;
use pcm_fabric::ClusterKey;
use pcm_proto::cluster_record::EngineJob;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, NodeState, NodeStatus};
use pcm_proto::ids::NodeName;
use pcm_proto::node_end::{END_VARIABLE, NEVER, SLURM_END_VARIABLE};
use pcm_view::time;
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::process::Child;

/// Engines start tasks on a thousand nodes within this time.
const UP_WITHIN: Duration = Duration::from_secs(90);

/// Time for the daemons that came up to leave.
const STEP_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// The longest that a daemon that joins or leaves may hold the list of nodes.
const LOCK_MAX: Duration = Duration::from_secs(5);

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What the user chose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) manner: Manner,
    /// Whether fewer nodes than the allocation has are enough.
    pub(super) may_miss: bool,
}

/// Boots the nodes of an allocation; the list of nodes, and what became of them.
pub(super) async fn up(
    wanted: &Wanted,
    cluster: &ClusterDir,
    (manager, allocation): (&dyn ResourceManager, &Allocation),
) -> Result<(ClusterRecord, Outcome), Failure> {
    let mut interrupts = Interrupts::watch()?;
    let nodes = engine::ask(manager.ask_nodes(allocation), |answer| manager.read_nodes(answer)).await?;
    cluster.create()?;
    let key = ClusterKey::generate().map_err(|error| Failure::system(error.to_string()))?;
    let record = ClusterRecord {
        id: key.cluster_id().to_owned(),
        created_us: time::now_us(),
        nodes: Vec::new(),
        manner: Some(wanted.manner),
        core: Some(EngineJob {
            engine: manager.name().to_owned(),
            job: allocation.job.clone(),
        }),
    };
    {
        // The daemons take it themselves.
        let _lock = cluster.lock()?;
        clear_stale(cluster).await?;
        let stored = key.store(&cluster.key_path());
        stored.map_err(|error| Failure::system(error.to_string()))?;
        tuning::bring(cluster)?;
        kept_costs::bring(cluster)?;
        cluster.save(&record)?;
    }
    let joining = Joining {
        daemon: daemon_program(),
        cluster_dir: cluster.path().to_owned(),
    };
    let step = manager.start_daemons(allocation, &nodes, &joining);
    let ends = end(manager, allocation).await;
    let mut step = start(step, (key.cluster_id(), ends), cluster.path())?;
    let booted = tokio::select! {
        booted = all_up(cluster, &nodes, &mut step) => booted,
        () = interrupts.next() => Err(Failure::boot("interrupted: everything that was started is ended again")),
    };
    match booted {
        Ok(outcome) if outcome.failed.is_empty() || (wanted.may_miss && !outcome.ready.is_empty()) => {
            Ok((cluster.expect_record()?, outcome))
        }
        other => {
            end_step(&mut step).await;
            let said = last_line(&cluster.path().join("up.log"));
            let _lock = cluster.lock_within(LOCK_MAX)?;
            undo(cluster, &record.id)?;
            Err(match other {
                Ok(outcome) => Failure::boot(missing(&outcome, nodes.len(), &said)),
                Err(failure) => failure,
            })
        }
    }
}

/// When the allocation ends, for all daemons, so that not each of them asks; none where their environment says it.
async fn end(manager: &dyn ResourceManager, allocation: &Allocation) -> Option<String> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set(END_VARIABLE) || is_set(SLURM_END_VARIABLE) {
        return None;
    }
    let answer = engine::run(manager.ask_end(allocation)).await.unwrap_or_default();
    let end = manager.read_end(&answer, time::now_us());
    Some(end.map_or_else(|| NEVER.to_owned(), |at_us| (at_us / 1_000_000).to_string()))
}

/// Starts the step beside this process, which it outlives. Its environment names the cluster, so that `down` waits for
/// its end.
fn start(step: engine::Call, (cluster_id, ends): (&str, Option<String>), dir: &Path) -> Result<Child, Failure> {
    let path = dir.join("up.log");
    let log = own_files::append(&path).map_err(|error| Failure::file("open", &path, &error))?;
    let copy = log.try_clone().map_err(|error| Failure::file("open", &path, &error))?;
    let mut command = step.command();
    command
        .env(CLUSTER_ID_VARIABLE, cluster_id)
        .envs(ends.map(|ends| (END_VARIABLE, ends)))
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(copy)
        .process_group(0);
    command.spawn().map_err(|error| {
        let program = &step.program;
        Failure::boot(format!(
            "cannot start {program}: {error}; load the module that has it, or add it to PATH"
        ))
    })
}

/// Ends a step on all its nodes: it passes the signal on.
async fn end_step(step: &mut Child) {
    let pid = step.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
    if tokio::time::timeout(STEP_ENDS_WITHIN, step.wait()).await.is_err() {
        let _ = step.start_kill();
    }
}

/// Waits until all nodes are there, or the step has ended.
async fn all_up(cluster: &ClusterDir, wanted: &[NodeName], step: &mut Child) -> Result<Outcome, Failure> {
    let deadline = Instant::now() + UP_WITHIN;
    let mut link = None;
    loop {
        let known = nodes(&mut link, cluster).await;
        let is_up = |name: &&NodeName| {
            known
                .iter()
                .any(|node| node.name == **name && node.state == NodeState::Up)
        };
        let missing: BTreeSet<&NodeName> = wanted.iter().filter(|name| !is_up(name)).collect();
        let ended: Option<ExitStatus> = step.try_wait().ok().flatten();
        let why = match ended {
            Some(status) => format!("the step that starts the daemons ended ({status})"),
            None => format!("no word from it within {} s", UP_WITHIN.as_secs()),
        };
        if missing.is_empty() || ended.is_some() || Instant::now() >= deadline {
            let ready = known.iter().filter(|node| wanted.contains(&node.name));
            let ready = ready.map(|node| Booted {
                node: node.name.clone(),
                address: node.address.clone(),
            });
            return Ok(Outcome {
                ready: ready.collect(),
                failed: missing.into_iter().map(|name| (name.clone(), why.clone())).collect(),
            });
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The nodes that a daemon knows; none before the first answers.
async fn nodes(link: &mut Option<Link>, cluster: &ClusterDir) -> Vec<NodeStatus> {
    if link.is_none() {
        *link = Link::open(cluster).await.ok();
    }
    let Some(open) = link else { return Vec::new() };
    match open.ask(ControlToDaemon::Nodes, ASK_DEADLINE).await {
        Ok(DaemonToControl::Nodes(nodes)) => nodes,
        _ => {
            *link = None;
            Vec::new()
        }
    }
}

fn missing(outcome: &Outcome, asked: usize, said: &str) -> String {
    let names: Vec<&str> = outcome.failed.iter().map(|(name, _)| name.as_str()).collect();
    let why = outcome.failed.first().map_or("", |(_, why)| why.as_str());
    let said = if said.is_empty() {
        String::new()
    } else {
        format!("; it said: {said}")
    };
    format!(
        "{} of {asked} nodes did not come up, so all nodes were ended ({}: {why}{said}): see that the directory is the \
         same on all nodes and that they reach each other, or accept fewer with --allow-missing",
        names.len(),
        names.join(", ")
    )
}

fn last_line(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines().rev().map(str::trim);
    lines.find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}
