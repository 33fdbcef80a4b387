//! `down`: ends a cluster, through its daemons where they answer, otherwise without them.

use crate::cluster::{ClusterDir, ClusterRecord};
use crate::failure::{Failure, LINK_LOST};
use crate::link::Link;
use crate::{engine, output};
use pcm_proto::boot::Reach;
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::JobId;
use pcm_proto::job::{JobState, JobStatus};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};
use tokio::process::Command;

const EXAMPLE: &str = "\
Ends all jobs, and names those that run. Removes everything in the cluster's directory except the output of detached
jobs, which it moves to jobs-ID.

Example:
  pcmctl down
  pcmctl down --keep-logs     keeps nodes/NAME/daemon.log and agent.log";

/// Time for the daemons to end all jobs and themselves: two grace times of a job and the depth of the tree.
const LEAVE_MAX: Duration = Duration::from_secs(8);

/// A cluster that does not name its jobs so soon ends without their names.
const JOBS_MAX: Duration = Duration::from_secs(1);

/// Longest time that another change of the cluster may delay this one.
const LOCK_MAX: Duration = Duration::from_secs(5);

/// Limit of a sweep over ssh.
const REMOTE_SWEEP_MAX: Duration = Duration::from_secs(15);

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Keep the logs of daemons and agents
    #[arg(long)]
    keep_logs: bool,
    /// Succeed when there is no cluster
    #[arg(long)]
    if_up: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    cluster: String,
    /// Jobs that ran until now.
    jobs: Vec<JobId>,
    /// Processes ended without a daemon's help.
    swept: usize,
    /// Directory of the output of detached jobs.
    job_output: Option<PathBuf>,
}

/// A job as it is named to its user.
struct Running {
    number: JobId,
    name: String,
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.number, self.name)
    }
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    if cluster.record()?.is_none() {
        return if args.if_up {
            Ok(0)
        } else {
            Err(Failure::no_cluster(cluster.path(), ""))
        };
    }
    // A child of a killed `up` may hold the lock until it has become the daemon.
    let _lock = cluster.lock_within(LOCK_MAX)?;
    // A `down` that held the lock before us may have removed everything.
    let record = cluster.expect_record()?;
    let jobs = running(cluster).await;
    for job in &jobs {
        eprintln!("pcmctl: job {job} ends with the cluster");
    }
    let asked = ask_daemons(cluster).await;
    if asked {
        cluster_sweep::wait_until_gone(&record.id, LEAVE_MAX);
    }
    let (swept, left) = cluster_sweep::end_all(&record.id);
    cluster_sweep::left::remove_unheld(UNIX_EPOCH + Duration::from_micros(record.created_us));
    cancel_helpers(&record).await;
    let unreached = if asked { Vec::new() } else { sweep_remote(&record).await };
    if left > 0 {
        return Err(Failure::system(format!(
            "{left} processes of cluster {} cannot be ended: they wait in the kernel or belong to another user; look \
             for {}={} in /proc/*/environ, then try again",
            record.id,
            cluster_sweep::CLUSTER_ID_VARIABLE,
            record.id
        )));
    }
    let job_output = cluster.remove(&record.id, args.keep_logs)?;
    for node in &unreached {
        eprintln!(
            "pcmctl: node {node} does not answer over ssh, so its processes may still be there: end them by hand"
        );
    }
    let report = Report {
        cluster: record.id,
        jobs: jobs.iter().map(|job| job.number).collect(),
        swept,
        job_output,
    };
    if args.json {
        output::print_json(&report)?;
    } else {
        let swept = match report.swept {
            0 => String::new(),
            1 => ", one process by force".to_owned(),
            many => format!(", {many} processes by force"),
        };
        let kept = report.job_output.as_ref();
        let kept = kept
            .map(|path| format!("; output of detached jobs is in {}", path.display()))
            .unwrap_or_default();
        output::print(&format!("cluster {} is down{swept}{kept}\n", report.cluster))?;
    }
    Ok(0)
}

/// Helpers that wait in a queue have nothing to join any more.
async fn cancel_helpers(record: &ClusterRecord) {
    let Some(core) = &record.core else { return };
    let Some(manager) = engine::named(&core.engine) else {
        return;
    };
    let call = manager.cancel_waiting_helpers(&core.job);
    let shown = call.shown();
    if let Err(failure) = engine::run(call).await {
        eprintln!("pcmctl: helpers may still wait in the queue ({failure}); later, call '{shown}'");
    }
}

/// The jobs that are about to end, as far as the daemons say so at once.
async fn running(cluster: &ClusterDir) -> Vec<Running> {
    let Ok(mut link) = Link::open(cluster).await else {
        return Vec::new();
    };
    let Ok(DaemonToControl::Jobs(jobs)) = link.ask(ControlToDaemon::Jobs, JOBS_MAX).await else {
        return Vec::new();
    };
    let jobs = jobs.into_iter().filter(|job| job.state != JobState::Ended);
    let named = jobs.map(|JobStatus { job: number, name, .. }| Running { number, name });
    named.collect()
}

/// Tells the daemons to end everything; false if none accepted.
async fn ask_daemons(cluster: &ClusterDir) -> bool {
    let Ok(mut link) = Link::open(cluster).await else {
        return false;
    };
    // The daemon may end before its answer is read, as requested.
    match link.ask(ControlToDaemon::Down, LEAVE_MAX).await {
        Ok(answer) => answer == DaemonToControl::Done,
        Err(failure) => failure.code == LINK_LOST,
    }
}

/// Ends what the cluster left on a machine, as this process does on its own.
fn remote_sweep(destination: &str, cluster_id: &str) -> Command {
    let mut command = Command::new("ssh");
    command.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--", destination]);
    command.arg(format!("pcm-daemon sweep {cluster_id}"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Ends processes with the cluster's id on machines reached over ssh; returns the nodes where that failed.
async fn sweep_remote(record: &ClusterRecord) -> Vec<String> {
    let mut running = Vec::new();
    for node in &record.nodes {
        let Reach::Ssh { destination } = &node.spec.reach else {
            continue;
        };
        let command = remote_sweep(destination, &record.id).spawn();
        running.push((node.spec.name.to_string(), command));
    }
    let mut failed = Vec::new();
    let deadline = tokio::time::Instant::now() + REMOTE_SWEEP_MAX;
    for (node, child) in running {
        let ended = match child {
            Ok(mut child) => tokio::time::timeout_at(deadline, child.wait()).await,
            Err(_) => {
                failed.push(node);
                continue;
            }
        };
        if !matches!(ended, Ok(Ok(status)) if status.success()) {
            failed.push(node);
        }
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_on_another_machine_is_ended_by_the_daemons_program_there() {
        let command = remote_sweep("me@far", "c7");
        let arguments: Vec<_> = command.as_std().get_args().collect();
        assert_eq!(
            arguments[arguments.len() - 3..],
            ["--", "me@far", "pcm-daemon sweep c7"]
        );
    }
}
