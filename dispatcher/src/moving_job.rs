//! The job that a bench changes: `pcm-moving` or a program of the user, started by `pcmctl run` as a user would. Must
//! never outlive the bench: dropping it ends the job.

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
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The program, which `cargo xtask build` leaves beside `pcmctl`.
const PROGRAM: &str = "pcm-moving";

/// Gigabytes on a loaded machine take their time to be filled, and to be checked after each change.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A job whose program has ended is over so soon.
const OVER_WITHIN: Duration = Duration::from_secs(5);

/// How often it is asked whether all ranks iterate.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The program ends by itself after this, whatever becomes of the bench.
const LIFE_SECONDS: &str = "3600";

/// Sleep in each iteration: ranks that outnumber the CPUs shall not keep each other from working.
const SLEEP_US: &str = "2000";

/// What the job does.
pub(crate) enum Work {
    /// `pcm-moving`, which checks its data after each change and says on its output what it found.
    Made { program: PathBuf, data: Data, mib: u64 },
    /// A program of the user, and its arguments.
    Own(Vec<OsString>),
}

impl Work {
    /// Data that the bench makes.
    pub(crate) fn made(data: Data, mib: u64) -> Result<Self, Failure> {
        let pcmctl = own_path()?;
        Ok(Self::Made {
            program: program(&pcmctl)?,
            data,
            mib,
        })
    }

    fn words(&self) -> Vec<OsString> {
        match self {
            Self::Made { program, data, mib } => {
                let arguments = [&mib.to_string(), SLEEP_US, "0", LIFE_SECONDS, data.as_str()];
                let arguments = arguments.into_iter().map(OsString::from);
                std::iter::once(program.into()).chain(arguments).collect()
            }
            Self::Own(words) => words.clone(),
        }
    }

    fn is_checked(&self) -> bool {
        matches!(self, Self::Made { .. })
    }
}

/// See the file head.
pub(crate) struct Job {
    link: Link,
    id: JobId,
    /// What the program says of its data; a program of the user has other things to say.
    lines: Option<Lines<BufReader<ChildStdout>>>,
    program_name: OsString,
    /// Ends with the bench, and the job with it.
    run: Child,
}

impl Job {
    /// Starts it and waits until every rank iterates.
    pub(crate) async fn start(cluster: &ClusterDir, pair: Pair, work: Work) -> Result<Self, Failure> {
        let words = work.words();
        let name = format!("bench-{}-{}-{}", std::process::id(), pair.few, pair.many);
        let ranks = pair.few.to_string();
        let mut command = Command::new(own_path()?);
        command.arg("--cluster").arg(cluster.path());
        command.args([
            "run", "--name", &name, "-n", &ranks, "--policy", "none", "--quiet", "--",
        ]);
        command.args(&words).stdin(Stdio::null()).kill_on_drop(true);
        command.stdout(if work.is_checked() {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        let mut run = command
            .spawn()
            .map_err(|error| Failure::system(format!("cannot start pcmctl run: {error}")))?;
        let lines = run.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        let mut link = Link::open(cluster).await?;
        let id = begun(&mut link, &name, &mut run).await?;
        let path = words.first().map(Path::new);
        let program_name = path.and_then(Path::file_name).unwrap_or_default().to_owned();
        let mut job = Self {
            link,
            id,
            lines,
            program_name,
            run,
        };
        job.wait_until_it_iterates(pair.few, 2).await?;
        Ok(job)
    }

    /// Until so many ranks have gone beyond an iteration.
    async fn wait_until_it_iterates(&mut self, ranks: u32, beyond: u64) -> Result<(), Failure> {
        let end = Instant::now() + READY_WITHIN;
        while Instant::now() < end {
            self.check_that_it_runs()?;
            let rows = self.rows().await?;
            if rows.iter().filter(|row| row.iteration.0 > beyond).count() == ranks as usize {
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

    /// The peak of memory of a rank begins again.
    fn forget_peak(&self, pid: u32) {
        if runs(pid, &self.program_name) {
            // A rank that is gone has none.
            _ = std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
        }
    }

    /// The most memory that a rank had resident at a time.
    fn peak_kib(&self, pid: u32) -> Option<u64> {
        let is_ours = runs(pid, &self.program_name);
        Some(proc_files::memory_bytes(pid, "VmHWM").filter(|_| is_ours)? >> 10)
    }

    fn check_that_it_runs(&mut self) -> Result<(), Failure> {
        match self.run.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(over(status)),
            Err(error) => Err(Failure::system(format!("cannot watch pcmctl run: {error}"))),
        }
    }

    /// Why a change failed: the program may have ended meanwhile.
    async fn reason(&mut self, failure: Failure) -> Failure {
        match timeout(OVER_WITHIN, self.run.wait()).await {
            Ok(Ok(status)) => over(status),
            _ => failure,
        }
    }

    async fn change(&mut self, from: u32, to: u32, method: Option<Method>) -> Result<Change, Failure> {
        self.check_that_it_runs()?;
        for row in self.rows().await? {
            self.forget_peak(row.pid);
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
        let peaks = rows.into_iter().filter_map(|row| self.peak_kib(row.pid));
        Ok(Change {
            peak_kib: peaks.max().unwrap_or(0),
            done,
        })
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

    /// The program has gone on, and its data is right where it checks it for the bench.
    async fn hear_that_all_is_right(&mut self, ranks: u32) -> Result<(), Failure> {
        let Some(lines) = &mut self.lines else {
            let now = self.rows().await?.iter().map(|row| row.iteration.0).max();
            return self.wait_until_it_iterates(ranks, now.unwrap_or(0)).await;
        };
        let end = Instant::now() + READY_WITHIN;
        let line = timeout_at(end, lines.next_line()).await;
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
        match self.change(from, to, method).await {
            Ok(change) => Ok(change),
            Err(failure) => Err(self.reason(failure).await),
        }
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
        match timeout(READY_WITHIN, self.run.wait()).await {
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

fn over(status: ExitStatus) -> Failure {
    Failure::broken(format!(
        "the program ended before the bench was over ({status}): give it more iterations, or fewer --rounds"
    ))
}

fn own_path() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::system(format!("the path of pcmctl is not known: {error}")))
}

fn program(pcmctl: &Path) -> Result<PathBuf, Failure> {
    let program = pcmctl.with_file_name(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    let message = format!("{} is not there: build it with 'cargo xtask build'", program.display());
    Err(Failure::system(message))
}

/// Whether a process of this machine runs this program: ranks elsewhere have numbers of their own. The kernel keeps the
/// first bytes of its name.
fn runs(pid: u32, program: &OsStr) -> bool {
    proc_files::program_name(pid).is_some_and(|name| program.as_bytes().starts_with(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_another_program_is_not_the_benchs() {
        let own = std::env::current_exe().unwrap();
        assert!(!runs(std::process::id(), OsStr::new(PROGRAM)));
        assert!(runs(std::process::id(), own.file_name().unwrap()));
    }

    #[test]
    fn a_missing_program_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let failure = program(&folder.path().join("pcmctl")).unwrap_err();
        assert!(failure.message.contains("cargo xtask build"), "{failure}");
    }
}
