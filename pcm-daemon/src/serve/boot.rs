//! Starts the daemons of other nodes, locally or over ssh, and reads their reports, line by line; writes the own
//! reports for the process that booted this daemon. Which nodes, and what their reports mean, the node decides.

use super::event::Event;
use pcm_core::node::event::BootFact;
use pcm_proto::boot::{BootReport, BootSpec, NodeSpec, Reach};
use pcm_proto::ids::NodeName;
use std::collections::BTreeSet;
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

/// Reports that this daemon is up; says so if its report has no reader.
pub(super) fn report_ready(node: &NodeName, address: &str) -> Option<BootFact> {
    let ready = BootReport::Ready {
        node: node.clone(),
        address: address.to_owned(),
        keeper_pid: rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32),
        daemon_pid: std::process::id(),
    };
    let error = report(&ready).err()?;
    tracing::debug!(%error, "the report that this daemon is up was not written");
    Some(BootFact::Unheard)
}

/// Passes on a report of another node. A reader that is gone finds out about others by itself.
pub(super) fn pass_on(of_another: &BootReport) {
    if let Err(error) = report(of_another) {
        tracing::debug!(%error, "the reports of the boot tree have no reader any more");
    }
}

/// Boots nodes in the background: the first with the others as its subtree.
pub(super) fn boot_nodes(template: BootSpec, nodes: Vec<NodeSpec>, is_part: bool, events: mpsc::Sender<Event>) {
    tokio::spawn(async move {
        boot_part(&template, nodes, &events).await;
        if is_part {
            let _ = events.send(Event::Boot(BootFact::PartDone)).await;
        }
    });
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
            command.args(["-o", "BatchMode=yes", "-o", &connect, "--", destination]);
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
pub(super) fn end_reports() {
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
    if let Err(error) = null.and_then(|null| Ok(rustix::stdio::dup2_stdout(null)?)) {
        tracing::warn!(%error, "the standard output was not closed");
    }
}
