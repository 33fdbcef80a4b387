//! Starts the first daemon of a cluster and hears from it how booting the others went. What comes up beyond the first
//! node is the daemons' own work, along a tree.

use crate::failure::Failure;
use crate::installed;
use cluster_sweep::CLUSTER_ID_VARIABLE;
use pcm_fabric::ClusterKey;
use pcm_proto::boot::{BootReport, BootSpec, NodeSpec, Reach};
pub use pcm_proto::cluster_record::Manner;
use pcm_proto::handshake::PROTOCOL_VERSION;
use pcm_proto::ids::NodeName;
use pcm_proto::secret::Secret;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::Instant;

/// On top of the tree's deadline, so that a daemon's own report of a deadline comes before ours.
const MARGIN: Duration = Duration::from_secs(3);

/// Longest report of one node.
const REPORT_BYTES_MAX: u64 = 8 * 1024;

/// Seconds ssh may take to connect.
const SSH_CONNECT_SECONDS: &str = "5";

/// Different reasons shown when a boot failed.
const REASONS_SHOWN_MAX: usize = 3;

/// A daemon that came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booted {
    pub node: NodeName,
    /// Where it listens, as `host:port`.
    pub address: String,
}

/// What became of each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Nodes whose daemons are up.
    pub ready: Vec<Booted>,
    /// Nodes that could not be booted, and why.
    pub failed: Vec<(NodeName, String)>,
}

impl Outcome {
    /// Where the daemon of a node listens, if it is up.
    pub fn address(&self, name: &NodeName) -> Option<&str> {
        let booted = self.ready.iter().find(|booted| booted.node == *name);
        booted.map(|booted| booted.address.as_str())
    }

    /// Why a node could not be booted.
    pub fn reason(&self, name: &NodeName) -> Option<&str> {
        let failed = self.failed.iter().find(|(node, _)| node == name);
        failed.map(|(_, why)| why.as_str())
    }
}

/// Boots all nodes: the first as root of the tree; where that fails, the next one takes the rest.
pub async fn boot_all(key: &ClusterKey, cluster_dir: &Path, nodes: &[NodeSpec], manner: Manner) -> Outcome {
    let mut outcome = Outcome::default();
    let mut rest = nodes;
    while let Some((root, subtree)) = rest.split_first() {
        let spec = BootSpec {
            version: PROTOCOL_VERSION,
            cluster_id: key.cluster_id().to_owned(),
            cluster_dir: cluster_dir.to_owned(),
            key: Secret::new(key.secret_hex().as_str()),
            node: root.clone(),
            subtree: subtree.to_vec(),
            seeds: Vec::new(),
            fabric: manner.fabric,
            is_rdma_sealed: manner.is_rdma_sealed,
            patience_ms: manner.patience_ms,
        };
        match boot_root(&spec).await {
            Ok(mut booted) => {
                outcome.ready.append(&mut booted.ready);
                outcome.failed.append(&mut booted.failed);
                return outcome;
            }
            Err(reason) => outcome.failed.push((root.name.clone(), reason)),
        }
        rest = subtree;
    }
    outcome
}

/// Boots one tree; an error means that its root did not come up, and so nothing below it was tried.
async fn boot_root(spec: &BootSpec) -> Result<Outcome, String> {
    let log = spec.cluster_dir.join("up.log");
    let mut child = start(spec, &log)?;
    let text = serde_json::to_vec(spec).map_err(|error| format!("cannot write its specification: {error}"))?;
    let mut stdin = child.stdin.take().ok_or("its standard input is missing")?;
    let stdout = child.stdout.take().ok_or("its standard output is missing")?;
    // A daemon that ends before it has read everything says why in its log.
    let _ = stdin.write_all(&text).await;
    drop(stdin);
    let wanted: Vec<NodeName> = std::iter::once(&spec.node)
        .chain(&spec.subtree)
        .map(|node| node.name.clone())
        .collect();
    let deadline = spec.deadline() + MARGIN;
    let mut outcome = Outcome::default();
    let heard = tokio::time::timeout_at(Instant::now() + deadline, hear(stdout, wanted.len(), &mut outcome)).await;
    if !outcome.ready.iter().any(|booted| booted.node == spec.node.name) {
        // The keeper may have left our process group; what it started is found by the cluster's id.
        let _ = child.start_kill();
        let said = outcome
            .failed
            .iter()
            .find(|(node, _)| *node == spec.node.name)
            .map(|(_, reason)| reason.clone());
        return Err(said.unwrap_or_else(|| root_failure(spec, &log, heard.is_err(), deadline)));
    }
    for node in wanted {
        let known = outcome.ready.iter().any(|booted| booted.node == node)
            || outcome.failed.iter().any(|(failed, _)| *failed == node);
        if !known {
            let reason = format!("no report within {} s; see {}", deadline.as_secs(), log.display());
            outcome.failed.push((node, reason));
        }
    }
    Ok(outcome)
}

/// Reads reports until every node has reported or the pipe ends.
async fn hear(stdout: ChildStdout, nodes: usize, outcome: &mut Outcome) {
    let limit = REPORT_BYTES_MAX.saturating_mul(nodes as u64);
    let mut lines = BufReader::new(stdout.take(limit)).lines();
    while outcome.ready.len() + outcome.failed.len() < nodes {
        let Ok(Some(line)) = lines.next_line().await else {
            return;
        };
        match serde_json::from_str::<BootReport>(&line) {
            Ok(BootReport::Ready { node, address, .. }) => outcome.ready.push(Booted { node, address }),
            Ok(BootReport::Failed { node, reason }) => outcome.failed.push((node, reason)),
            // A login message of a remote shell.
            Err(_) => {}
        }
    }
}

fn start(spec: &BootSpec, log: &Path) -> Result<Child, String> {
    let program = daemon_program();
    let stderr = own_files::append(log).map_err(|error| format!("cannot open {}: {error}", log.display()))?;
    let mut command = match &spec.node.reach {
        Reach::Local => {
            let mut command = Command::new(&program);
            command
                .env(CLUSTER_ID_VARIABLE, &spec.cluster_id)
                .env("PCM_NODE", spec.node.name.as_str());
            command
        }
        Reach::Ssh { destination } => {
            let mut command = Command::new("ssh");
            command.args([
                "-o",
                "BatchMode=yes",
                "-o",
                &format!("ConnectTimeout={SSH_CONNECT_SECONDS}"),
                "--",
                destination,
            ]);
            command.arg(format!(
                "env {CLUSTER_ID_VARIABLE}={} PCM_NODE={} pcm-daemon",
                spec.cluster_id, spec.node.name
            ));
            command
        }
    };
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .process_group(0);
    command.spawn().map_err(|error| match spec.node.reach {
        Reach::Local => format!(
            "cannot start {}: {error}; build it with 'cargo xtask build', or name it in PCM_DAEMON",
            program.display()
        ),
        Reach::Ssh { .. } => format!("cannot start ssh: {error}; install an ssh client"),
    })
}

/// The daemon's program: `PCM_DAEMON`, else of the same installation, else on the search path.
pub fn daemon_program() -> PathBuf {
    if let Some(named) = std::env::var_os("PCM_DAEMON").filter(|named| !named.is_empty()) {
        return PathBuf::from(named);
    }
    installed::part("pcm-daemon").unwrap_or_else(|| PathBuf::from("pcm-daemon"))
}

fn root_failure(spec: &BootSpec, log: &Path, late: bool, deadline: Duration) -> String {
    let what = if late {
        format!("its daemon did not report within {} s", deadline.as_secs())
    } else {
        match &spec.node.reach {
            Reach::Local => "its daemon ended before it was ready".to_owned(),
            Reach::Ssh { destination } => format!("no daemon over ssh: try 'ssh {destination} pcm-daemon --version'"),
        }
    };
    match last_line(log) {
        Some(line) => format!("{what}; it said: {line}"),
        None => format!("{what}, without any output"),
    }
}

fn last_line(log: &Path) -> Option<String> {
    let text = std::fs::read(log).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(str::to_owned)
}

/// The failure that ends `up` when nodes are missing.
pub fn failure(outcome: &Outcome, asked: usize) -> Failure {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (node, reason) in &outcome.failed {
        match by_reason.iter_mut().find(|(known, _)| known == reason) {
            Some((_, nodes)) => nodes.push(node.as_str()),
            None => by_reason.push((reason, vec![node.as_str()])),
        }
    }
    let shown = by_reason
        .iter()
        .take(REASONS_SHOWN_MAX)
        .map(|(reason, nodes)| format!("{}: {reason}", nodes.join(", ")));
    let shown = shown.collect::<Vec<_>>().join("; ");
    let more = by_reason.len().saturating_sub(REASONS_SHOWN_MAX);
    let tail = if more > 0 {
        format!("; and {more} more reasons")
    } else {
        String::new()
    };
    Failure::boot(format!(
        "{} of {asked} nodes did not come up, so all nodes were ended ({shown}{tail}): fix or remove those nodes, or \
         accept fewer with --allow-missing",
        outcome.failed.len()
    ))
}
