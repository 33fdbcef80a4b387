//! The job that a bench changes: `pcm-moving`, started by `pcmctl run` as a user would. Must never outlive the bench:
//! dropping it ends the job.

use crate::cluster::ClusterDir;
use crate::commands::DONE_WITHIN;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::lookup;
use pcm_bench::redistribution::{Change, ChangingJob, Data, Pair};
use pcm_proto::control::{ControlToDaemon, DaemonToControl, LayoutChange};
use pcm_proto::ids::JobId;
use pcm_proto::job::RankStatus;
use pcm_proto::layout::ModeWanted;
use pcm_proto::method::Method;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The program, which `cargo xtask build` leaves beside `pcmctl`.
const PROGRAM: &str = "pcm-moving";

/// Gigabytes on a loaded machine take their time to be filled, and to be checked after each change.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// How often it is asked whether all ranks iterate.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The program ends by itself after this, whatever becomes of the bench.
const LIFE_SECONDS: &str = "3600";

/// Sleep in each iteration: ranks that outnumber the CPUs shall not keep each other from working.
const SLEEP_US: &str = "2000";

/// See the file head.
pub(crate) struct Job {
    link: Link,
    id: JobId,
    lines: Lines<BufReader<ChildStdout>>,
    /// Ends with the bench, and the job with it.
    _run: Child,
}

impl Job {
    /// Starts it and waits until every rank iterates.
    pub(crate) async fn start(cluster: &ClusterDir, pair: Pair, data: Data, mib: u64) -> Result<Self, Failure> {
        let pcmctl = std::env::current_exe()
            .map_err(|error| Failure::system(format!("the path of pcmctl is not known: {error}")))?;
        let name = format!("bench-{}-{data}-{}-{}", std::process::id(), pair.few, pair.many);
        let mut command = Command::new(&pcmctl);
        command.arg("--cluster").arg(cluster.path());
        command.args([
            "run",
            "--name",
            &name,
            "-n",
            &pair.few.to_string(),
            "--policy",
            "none",
            "--",
        ]);
        command.arg(program(&pcmctl)?);
        command.args([&mib.to_string(), SLEEP_US, "0", LIFE_SECONDS, data.as_str()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut run = command
            .spawn()
            .map_err(|error| Failure::system(format!("cannot start pcmctl run: {error}")))?;
        let stdout = run
            .stdout
            .take()
            .ok_or_else(|| Failure::system("pcmctl run has no output"))?;
        let mut link = Link::open(cluster).await?;
        let id = begun(&mut link, &name, &mut run).await?;
        let mut job = Self {
            link,
            id,
            lines: BufReader::new(stdout).lines(),
            _run: run,
        };
        job.wait_until_it_iterates(pair.few).await?;
        Ok(job)
    }

    async fn wait_until_it_iterates(&mut self, ranks: u32) -> Result<(), Failure> {
        let end = Instant::now() + READY_WITHIN;
        while Instant::now() < end {
            let rows = self.rows().await?;
            if rows.iter().filter(|row| row.iteration.0 > 2).count() == ranks as usize {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
        let message = format!(
            "job {} of the bench did not iterate within {READY_WITHIN:?}: see 'pcmctl ps'",
            self.id
        );
        Err(Failure::deadline(message))
    }

    async fn rows(&mut self) -> Result<Vec<RankStatus>, Failure> {
        match self
            .link
            .ask(ControlToDaemon::Ps { job: self.id }, ASK_DEADLINE)
            .await?
        {
            DaemonToControl::Ps { ranks, .. } => Ok(ranks),
            other => Err(Failure::unexpected("Ps", &other)),
        }
    }

    async fn hear_that_all_is_right(&mut self, ranks: u32) -> Result<(), Failure> {
        let end = Instant::now() + READY_WITHIN;
        let line = timeout_at(end, self.lines.next_line()).await;
        let line = line.ok().and_then(Result::ok).flatten().unwrap_or_default();
        if line.starts_with(&format!("changed ranks {ranks} wrong 0 ")) {
            return Ok(());
        }
        let said: String = line.chars().take(80).collect();
        Err(Failure::broken(format!(
            "job {} of the bench has wrong data or does not go on with {ranks} ranks; it said {said:?}",
            self.id
        )))
    }
}

impl ChangingJob for Job {
    type Failure = Failure;

    async fn resize(&mut self, from: u32, to: u32, method: Option<Method>) -> Result<Change, Failure> {
        for row in self.rows().await? {
            forget_peak(row.pid);
        }
        let change = match to > from {
            true => LayoutChange::Expand { to, nodes: Vec::new() },
            false => LayoutChange::Shrink { to },
        };
        let request = ControlToDaemon::Reconfigure {
            job: self.id,
            change,
            mode: ModeWanted::Live,
            cause: "pcmctl bench".to_owned(),
            method,
        };
        let done = match self.link.ask(request, DONE_WITHIN).await? {
            DaemonToControl::Reconfigured(done) => *done,
            other => return Err(Failure::unexpected("Reconfigure", &other)),
        };
        self.hear_that_all_is_right(to).await?;
        let rows = self.rows().await?;
        Ok(Change {
            done,
            peak_kib: rows.into_iter().filter_map(|row| peak_kib(row.pid)).max().unwrap_or(0),
        })
    }

    async fn end(mut self) -> Result<(), Failure> {
        match self
            .link
            .ask(ControlToDaemon::Kill { job: self.id }, ASK_DEADLINE)
            .await?
        {
            DaemonToControl::Done => {}
            other => return Err(Failure::unexpected("Kill", &other)),
        }
        match timeout(READY_WITHIN, self._run.wait()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Failure::deadline(format!("job {} of the bench does not end", self.id))),
        }
    }
}

/// Its number, once the cluster has it.
async fn begun(link: &mut Link, name: &str, run: &mut Child) -> Result<JobId, Failure> {
    let end = Instant::now() + READY_WITHIN;
    while Instant::now() < end {
        if let Some(job) = lookup::jobs(link).await?.iter().find(|job| job.name == name) {
            return Ok(job.job);
        }
        if let Ok(Some(status)) = run.try_wait() {
            return Err(Failure::broken(format!(
                "the bench's job ended at once ({status}); its message is above"
            )));
        }
        sleep(LOOK_EVERY).await;
    }
    Err(Failure::deadline(format!(
        "the bench's job was not accepted within {READY_WITHIN:?}"
    )))
}

fn program(pcmctl: &Path) -> Result<PathBuf, Failure> {
    let program = pcmctl.with_file_name(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    let message = format!("{} is not there: build it with 'cargo xtask build'", program.display());
    Err(Failure::system(message))
}

/// Whether a process of this machine is one of ours: ranks elsewhere have numbers of their own.
fn is_ours(pid: u32) -> bool {
    proc_files::program_name(pid).is_some_and(|name| name == PROGRAM)
}

/// Its peak of memory begins anew.
fn forget_peak(pid: u32) {
    if is_ours(pid) {
        // A rank that is gone has none.
        _ = std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
}

/// The most memory that a process had resident at a time.
fn peak_kib(pid: u32) -> Option<u64> {
    let peak = proc_files::memory_bytes(pid, "VmHWM").filter(|_| is_ours(pid))?;
    Some(peak >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_process_that_is_not_the_benchs_is_not_its() {
        assert!(!is_ours(std::process::id()));
        assert_eq!(peak_kib(std::process::id()), None);
    }

    #[test]
    fn a_missing_program_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let failure = program(&folder.path().join("pcmctl")).unwrap_err();
        assert!(failure.message.contains("cargo xtask build"), "{failure}");
    }
}
