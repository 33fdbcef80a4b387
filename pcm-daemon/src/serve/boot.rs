//! Boots other nodes' daemons: the subtree this daemon was given at its birth, and nodes that join later. Each booted
//! daemon boots its own part of the tree; reports come back line by line and are passed on upwards.

use super::daemon::Daemon;
use super::event::Event;
use pcm_core::node::requester::Requester;
use pcm_proto::boot::{BOOT_FANOUT_MAX, BootReport, BootSpec, NodeSpec, Reach};
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::ids::NodeName;
use pcm_proto::refusal;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::mpsc;

/// Most bytes of reports read from one booted daemon.
const REPORT_BYTES_MAX: u64 = 4 << 20;

/// Of what ssh says when it fails, so much is read, for so long.
const SSH_SAID_BYTES_MAX: u64 = 4096;
const SSH_SAID_MAX: Duration = Duration::from_millis(500);

/// Seconds ssh may take to connect.
const SSH_CONNECT_SECONDS: u32 = 8;

/// News of the boot tree.
#[derive(Debug)]
pub(super) enum BootFact {
    /// What became of a node.
    Report(BootReport),
    /// One part of the own subtree has reported wholly.
    PartDone,
}

/// What is being booted.
#[derive(Debug, Default)]
pub(super) struct Boot {
    /// Parts of the own subtree that have not reported wholly.
    parts: usize,
    /// Nodes that are up but have not said so to this daemon.
    ready: BTreeMap<NodeName, BootReport>,
    /// Nodes that somebody wants to join.
    joining: Vec<(NodeName, Requester)>,
    /// Whether somebody reads reports on the standard output.
    is_told: bool,
}

impl Daemon {
    /// Reports that this daemon is up and boots its subtree.
    pub(super) fn boot_subtree(&mut self) {
        self.boot.is_told = true;
        let ready = BootReport::Ready {
            node: self.own.clone(),
            address: self.address.clone(),
            keeper_pid: rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32),
            daemon_pid: std::process::id(),
        };
        if let Err(error) = report(&ready) {
            // Whoever wanted this node has given up or was interrupted, and counts it as not booted.
            tracing::warn!(%error, "nobody waits for this daemon any more: it ends");
            return self.quit();
        }
        let parts = split(&self.spec.subtree);
        self.boot.parts = parts.len();
        for part in parts {
            let (template, events) = (self.template(), self.events.clone());
            tokio::spawn(async move {
                boot_part(&template, part, &events).await;
                let _ = events.send(Event::Boot(BootFact::PartDone)).await;
            });
        }
        self.end_reports_if_done();
    }

    /// What every booted daemon is told, but for its node and subtree.
    fn template(&self) -> BootSpec {
        BootSpec {
            subtree: Vec::new(),
            seeds: vec![self.address.clone()],
            ..self.spec.clone()
        }
    }

    pub(super) fn on_boot(&mut self, fact: BootFact) {
        match fact {
            BootFact::Report(BootReport::Ready {
                node,
                address,
                keeper_pid,
                daemon_pid,
            }) => {
                self.peers.set_address(&node, &address);
                let ready = BootReport::Ready {
                    node: node.clone(),
                    address,
                    keeper_pid,
                    daemon_pid,
                };
                self.boot.ready.insert(node.clone(), ready);
                if self.nodes.is_live(&node) {
                    self.boot_node_heard(&node);
                }
            }
            BootFact::Report(BootReport::Failed { node, reason }) => self.on_boot_failed(&node, &reason),
            BootFact::PartDone => {
                self.boot.parts = self.boot.parts.saturating_sub(1);
                self.end_reports_if_done();
            }
        }
    }

    /// A node said how it is, so it is part of the cluster now.
    pub(super) fn boot_node_heard(&mut self, node: &NodeName) {
        if let Some(ready) = self.boot.ready.remove(node)
            && self.boot.is_told
        {
            self.pass_on_report(&ready);
        }
        let joined = self.boot.joining.iter().position(|(joining, _)| joining == node);
        if let Some(position) = joined {
            let (_, from) = self.boot.joining.swap_remove(position);
            let status = self.nodes.statuses().into_iter().find(|status| status.name == *node);
            if let Some(status) = status {
                self.answer(from, DaemonToControl::Joined(status));
            }
        }
        self.end_reports_if_done();
    }

    fn on_boot_failed(&mut self, node: &NodeName, reason: &str) {
        tracing::warn!(%node, reason, "a node was not booted");
        let waiting = self.boot.joining.iter().position(|(joining, _)| joining == node);
        match waiting {
            Some(position) => {
                let (_, from) = self.boot.joining.swap_remove(position);
                let message = format!("node {node} was not booted: {reason}");
                self.answer(
                    from,
                    DaemonToControl::Refused(Refusal::new(refusal::BOOT_FAILED, message)),
                );
            }
            None if self.boot.is_told => self.pass_on_report(&BootReport::Failed {
                node: node.clone(),
                reason: reason.to_owned(),
            }),
            None => {}
        }
    }

    /// A reader that is gone loses what it would have heard of others; those find out by themselves.
    fn pass_on_report(&self, of_another: &BootReport) {
        if let Err(error) = report(of_another) {
            tracing::debug!(%error, "nobody reads the reports of the boot tree any more");
        }
    }

    fn end_reports_if_done(&mut self) {
        if self.boot.is_told && self.boot.parts == 0 && self.boot.ready.is_empty() {
            self.boot.is_told = false;
            end_reports();
        }
    }

    /// Somebody wants one more node.
    pub(super) fn on_join(&mut self, from: Requester, node: NodeSpec) {
        let is_known = self.nodes.is_live(&node.name);
        if is_known || self.boot.joining.iter().any(|(joining, _)| *joining == node.name) {
            let message = format!("a node {} is there already: give the new one another name", node.name);
            return self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::NODE_EXISTS, message)),
            );
        }
        self.boot.joining.push((node.name.clone(), from));
        let (template, events) = (self.template(), self.events.clone());
        tokio::spawn(async move { boot_part(&template, vec![node], &events).await });
    }
}

/// Splits a list of nodes into as many parts as one daemon boots itself.
fn split(nodes: &[NodeSpec]) -> Vec<Vec<NodeSpec>> {
    let parts = nodes.len().min(BOOT_FANOUT_MAX);
    (0..parts)
        .map(|part| nodes.iter().skip(part).step_by(parts).cloned().collect())
        .collect()
}

/// Boots a part: its first node with the rest as its subtree; when that fails, the next one takes over.
async fn boot_part(template: &BootSpec, part: Vec<NodeSpec>, events: &mpsc::Sender<Event>) {
    let mut rest = part;
    while !rest.is_empty() {
        let node = rest.remove(0);
        let name = node.name.clone();
        let spec = BootSpec {
            node,
            subtree: rest.clone(),
            ..template.clone()
        };
        let mut missing: BTreeSet<NodeName> = rest
            .iter()
            .map(|node| node.name.clone())
            .chain([name.clone()])
            .collect();
        let deadline = spec.deadline();
        let heard = tokio::time::timeout(deadline, boot_one(&spec, &mut missing, events)).await;
        if missing.is_empty() {
            return;
        }
        let why = match heard {
            Ok(Ok(())) => "it ended before it was up: see daemon.log in its directory below nodes/".to_owned(),
            Ok(Err(reason)) => reason,
            Err(_) => format!("no word from it within {} s", deadline.as_secs()),
        };
        if !missing.remove(&name) {
            // It is up; what it could not tell of its subtree is not tried twice.
            for node in missing {
                tell(
                    events,
                    BootReport::Failed {
                        node,
                        reason: format!("{name}, which was to boot it, says: {why}"),
                    },
                )
                .await;
            }
            return;
        }
        tell(
            events,
            BootReport::Failed {
                node: name,
                reason: why,
            },
        )
        .await;
        rest.retain(|node| missing.contains(&node.name));
    }
}

async fn tell(events: &mpsc::Sender<Event>, report: BootReport) {
    let _ = events.send(Event::Boot(BootFact::Report(report))).await;
}

/// Starts one daemon and passes on what it reports, until all have been reported or it closes its output.
async fn boot_one(
    spec: &BootSpec,
    missing: &mut BTreeSet<NodeName>,
    events: &mpsc::Sender<Event>,
) -> Result<(), String> {
    let mut child = start(spec)?;
    let text = serde_json::to_vec(spec).map_err(|error| format!("its specification cannot be written: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A daemon that ends before it has read everything says why on its standard error, our log.
        let _ = stdin.write_all(&text).await;
    }
    let stdout = child.stdout.take().ok_or("its standard output is not there")?;
    let mut lines = BufReader::new(stdout.take(REPORT_BYTES_MAX)).lines();
    while !missing.is_empty() {
        let line = lines
            .next_line()
            .await
            .map_err(|error| format!("reading its reports: {error}"))?;
        let Some(line) = line else { break };
        // A remote shell may greet; only reports count.
        let Ok(report) = serde_json::from_str::<BootReport>(&line) else {
            continue;
        };
        let (BootReport::Ready { node, .. } | BootReport::Failed { node, .. }) = &report;
        if missing.remove(node) {
            tell(events, report).await;
        }
    }
    let failed_over = match &spec.node.reach {
        Reach::Ssh { destination } if missing.contains(&spec.node.name) => Some(destination),
        _ => None,
    };
    if let Some(destination) = failed_over {
        return Err(ssh_failure(destination, child.stderr.take()).await);
    }
    tokio::spawn(async move { child.wait().await });
    Ok(())
}

/// What ssh said last, and how to try it by hand.
async fn ssh_failure(destination: &str, stderr: Option<ChildStderr>) -> String {
    let mut said = Vec::new();
    if let Some(stderr) = stderr {
        // A remote process may hold the pipe open; what ssh itself says is there by now.
        let mut stderr = stderr.take(SSH_SAID_BYTES_MAX);
        let reading = stderr.read_to_end(&mut said);
        let _ = tokio::time::timeout(SSH_SAID_MAX, reading).await;
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last = last.unwrap_or("ssh ended without a word");
    format!("no daemon over ssh ({last}); try `ssh {destination} pcm-daemon --version`")
}

fn start(spec: &BootSpec) -> Result<Child, String> {
    let mut command = match &spec.node.reach {
        Reach::Local => {
            let program = std::env::current_exe().map_err(|error| format!("our own program is not found: {error}"))?;
            Command::new(program)
        }
        Reach::Ssh { destination } => {
            let mut command = Command::new("ssh");
            let connect = format!("ConnectTimeout={SSH_CONNECT_SECONDS}");
            command.args(["-o", "BatchMode=yes", "-o", &connect, destination]);
            let marks = format!(
                "env PCM_CLUSTER_ID={} PCM_NODE={} pcm-daemon",
                spec.cluster_id, spec.node.name
            );
            command.arg(marks);
            command
        }
    };
    command
        .env("PCM_CLUSTER_ID", &spec.cluster_id)
        .env("PCM_NODE", spec.node.name.as_str());
    command.env_remove(pcm_proto::keeper::KEEPER_FD);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(match &spec.node.reach {
            Reach::Local => Stdio::inherit(),
            Reach::Ssh { .. } => Stdio::piped(),
        })
        .process_group(0);
    command
        .spawn()
        .map_err(|error| format!("{:?} cannot be started: {error}", command.as_std().get_program()))
}

/// One line for whoever booted this daemon. An error means that nobody reads it any more.
pub(super) fn report(report: &BootReport) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()
}

/// Lets whoever booted this daemon see the end of its reports.
fn end_reports() {
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
    if let Err(error) = null.and_then(|null| Ok(rustix::stdio::dup2_stdout(null)?)) {
        tracing::warn!(%error, "the standard output was not closed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: String) -> NodeSpec {
        NodeSpec {
            name: NodeName::new(name).unwrap(),
            address: "127.0.0.1".into(),
            site: "here".into(),
            cpus: Vec::new(),
            reach: Reach::Local,
        }
    }

    #[test]
    fn a_subtree_is_split_into_few_parts_that_hold_every_node_once() {
        for count in 0..30 {
            let nodes: Vec<NodeSpec> = (0..count).map(|i| node(format!("n{i}"))).collect();
            let parts = split(&nodes);
            assert!(parts.len() <= BOOT_FANOUT_MAX && parts.iter().all(|part| !part.is_empty()));
            let mut names: Vec<String> = parts.concat().iter().map(|node| node.name.to_string()).collect();
            names.sort();
            let mut all: Vec<String> = nodes.iter().map(|node| node.name.to_string()).collect();
            all.sort();
            assert_eq!(names, all);
        }
    }
}
