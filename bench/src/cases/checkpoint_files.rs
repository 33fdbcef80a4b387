//! The part of bench `checkpoint` about disks and whole runs: writing against `dd` with fsync, a restart on another
//! number of ranks against reading the files and against MPI-IO by hand, and what checkpoints take from the run time of
//! heat2d.

use super::{
    bench::{Bench, Context},
    events,
};
use pcm_bench::{Failure, OnPath, OwnCluster, Ratio, Report, Samples, heat2d, push_each, trial};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

const NAME: &str = "checkpoint";

/// The last of its parts for itself.
pub(super) const OVERHEAD: Bench = Bench {
    name: "checkpoint-overhead",
    about: "what checkpoints in memory, with their copies on another node, add to the run time of heat2d",
    run: |context| {
        let cluster = OwnCluster::up(&context.environment, 2)?;
        let mut report = Report::default();
        let pairs = if context.quick { 1 } else { OVERHEAD_PAIRS };
        overhead(context, &cluster, pairs, &mut report)?;
        cluster.down()?;
        Ok(report)
    },
};

const OVERHEAD_PAIRS: usize = 5;

/// Writing and restarts alone.
pub(super) const FILES: Bench = Bench {
    name: "checkpoint-files",
    about: "part of checkpoint: files against dd and MPI-IO, and restarts from them",
    run,
};

/// Seconds between checkpoints of a program whose memory for them is there when it writes files: it ends before one is
/// due.
const PREPARED: &str = "3600";

const RUN_MAX: Duration = Duration::from_secs(300);

/// Ranks that write, and ranks that go on.
const RANKS: (&str, &str) = ("2", "3");

/// What is measured in each round, in seconds: four ways to write, and four ways to read.
const MEASURED: [&str; 8] = [
    "dd with fsync",
    "checkpoint in files, 2 ranks",
    "checkpoint in files, 2 ranks, the first of a program that was to make none",
    "MPI-IO and sync, 2 ranks",
    "pcm_start, 3 ranks",
    "reading the files, 3 at a time",
    "pcmctl restart -n 3, whole",
    "mpiexec -n 3 and MPI_File_read_at_all, whole",
];

/// Checkpoints of a measured run, and the seconds between two of those that are quoted for.
const QUOTED_EVERY_S: f64 = 60.0;

fn run(context: &Context) -> Result<Report, Failure> {
    let cluster = OwnCluster::up(&context.environment, 2)?;
    let files = tempfile::tempdir().on("make", std::env::temp_dir())?;
    let mut report = Report::default();
    restarts(context, &cluster, files.path(), &mut report)?;
    cluster.down()?;
    Ok(report)
}

/// Adds its series and ratios.
pub(super) fn add(
    context: &Context,
    cluster: &OwnCluster<'_>,
    files: &Path,
    report: &mut Report,
) -> Result<(), Failure> {
    restarts(context, cluster, files, report)?;
    overhead(context, cluster, if context.quick { 1 } else { 2 }, report)
}

fn restarts(context: &Context, cluster: &OwnCluster<'_>, files: &Path, report: &mut Report) -> Result<(), Failure> {
    let (mib, pairs) = if context.quick { (64, 1) } else { (2048, 7) };
    let mut series = MEASURED.map(|name| Samples::new(format!("{mib} MiB: {name}"), "s"));
    for pair in 0..pairs {
        let round = Round {
            context,
            cluster,
            kept: files.join("large"),
            mib,
            is_even: pair % 2 == 0,
        };
        fs::create_dir_all(&round.kept).on("make", &round.kept)?;
        let ([dd, written, unprepared, hand], [restored, read, restart, by_hand]) = (round.write()?, round.read()?);
        fs::remove_dir_all(&round.kept).on("remove", &round.kept)?;
        let values = [dd, written, unprepared, hand, restored, read, restart, by_hand];
        push_each(&mut series, values);
    }
    let [dd, written, unprepared, _, restored, read, restart, by_hand] = &series;
    report.ratios.extend([
        Ratio::new(
            "rate of a checkpoint in files / dd with fsync",
            dd.paired_ratio(written),
            ">= 0.8",
        ),
        Ratio::new(
            "the same, the first of a program that was to make none",
            dd.paired_ratio(unprepared),
            ">= 0.8",
        ),
        Ratio::new(
            "restart on 3 ranks: pcm_start / reading the files",
            restored.paired_ratio(read),
            "<= 1.3",
        ),
        Ratio::new(
            "restart, whole / mpiexec and MPI-IO by hand",
            restart.paired_ratio(by_hand),
            None,
        ),
    ]);
    report.series.extend(series);
    report.remarks.extend([
        "restart, reading, MPI-IO by hand: each after the files were dropped from the page cache".into(),
        "checkpoint in files: of a program started with --checkpoint-every, which has memory for copies from its start"
            .into(),
    ]);
    Ok(())
}

/// Each way to write the same bytes, and each way to read them again on more ranks.
struct Round<'a> {
    context: &'a Context,
    cluster: &'a OwnCluster<'a>,
    /// Where the checkpoint is.
    kept: PathBuf,
    mib: u32,
    /// What a disk gives differs from second to second, so each of two that are compared goes first in turn.
    is_even: bool,
}

impl Round<'_> {
    fn by_hand(&self) -> PathBuf {
        self.kept.join("by-hand")
    }

    /// Two in turn.
    fn in_turn<A, B>(
        &self,
        one: impl FnOnce() -> Result<A, Failure>,
        other: impl FnOnce() -> Result<B, Failure>,
    ) -> Result<(A, B), Failure> {
        if self.is_even {
            return Ok((one()?, other()?));
        }
        let other = other()?;
        Ok((one()?, other))
    }

    /// The four ways to write.
    fn write(&self) -> Result<[f64; 4], Failure> {
        let write = |mode: &str, word: &str, options: &[&str]| {
            let mut command = self.cluster.pcmctl(&["run", "-n", RANKS.0]);
            command.args(options).arg("--").arg(self.context.program("pcm-keeping"));
            command.env("PCM_CHECKPOINT_DIR", &self.kept).env("KEEPING", mode);
            command.args([&self.mib.to_string(), "1", "5"]).arg(self.by_hand());
            trial::figure(NAME, &trial::run(NAME, command, RUN_MAX)?, "", word)
        };
        let by_hand = write("hand", "mpi_io", &[])?;
        let unprepared = write("leave", "files", &[])?;
        let made = newest(&self.kept)?;
        fs::remove_dir_all(&made).on("remove", &made)?;
        let prepared = || write("leave", "files", &["--checkpoint-every", PREPARED]);
        let (dd, checkpoint) = self.in_turn(|| dd_fsync(&self.kept.join("dd"), self.mib), prepared)?;
        Ok([dd, checkpoint, unprepared, by_hand])
    }

    /// The four ways to read, each after its files were dropped from the page cache.
    fn read(&self) -> Result<[f64; 4], Failure> {
        let made = newest(&self.kept)?;
        let parts = files_of(&made)?;
        let read = || {
            forget(&parts)?;
            read_together(&parts, &self.kept.join("list"))
        };
        let restart = || {
            forget(&parts)?;
            let mut command = self
                .cluster
                .pcmctl(&["restart", &made.to_string_lossy(), "-n", RANKS.1]);
            command.env("KEEPING", "restore");
            let (said, took) = timed(command)?;
            Ok((trial::figure(NAME, &said, "", "up")?, took))
        };
        let (read, (restored, restart)) = self.in_turn(read, restart)?;
        let hand = self.by_hand();
        forget(std::slice::from_ref(&hand))?;
        let mut command = self.context.environment.command(&self.context.environment.mpiexec);
        command.args(["-n", RANKS.1]).arg(self.context.program("pcm-keeping"));
        command.args([&self.mib.to_string(), "1", "5"]).arg(&hand);
        command.env("KEEPING", "read");
        let (_, by_hand) = timed(command)?;
        Ok([restored, read, restart, by_hand])
    }
}

/// Runs it; what it said, and how many seconds it took.
fn timed(command: Command) -> Result<(String, f64), Failure> {
    let since = Instant::now();
    let said = trial::run(NAME, command, RUN_MAX)?;
    Ok((said, since.elapsed().as_secs_f64()))
}

fn dd_fsync(file: &Path, mib: u32) -> Result<f64, Failure> {
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "bs=1M", "conv=fsync", "status=none"]);
    command.args([format!("count={mib}"), format!("of={}", file.display())]);
    let (_, took) = timed(command)?;
    fs::remove_file(file).on("remove", file)?;
    Ok(took)
}

/// Drops files from the page cache; they were synced.
fn forget(files: &[PathBuf]) -> Result<(), Failure> {
    for file in files {
        let mut command = Command::new("dd");
        command.args(["iflag=nocache", "count=0", "status=none"]);
        command.arg(format!("if={}", file.display()));
        trial::run(NAME, command, RUN_MAX)?;
    }
    Ok(())
}

/// As many readers as ranks; their list is another file.
fn read_together(files: &[PathBuf], list: &Path) -> Result<f64, Failure> {
    let words = files.iter().map(|file| format!("if={}\0", file.display()));
    fs::write(list, words.collect::<String>()).on("write", list)?;
    let mut command = Command::new("xargs");
    command.args(["-0", "-P", RANKS.1, "-n", "1", "-a"]).arg(list);
    command.args(["dd", "bs=1M", "of=/dev/null", "status=none"]);
    timed(command).map(|(_, took)| took)
}

fn newest(directory: &Path) -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(directory).on("read", directory)?;
    let made = entries.flatten().map(|entry| entry.path());
    let newest = made.filter(|path| path.join("SEAL").is_file()).max();
    newest.ok_or_else(|| problem("the run left no checkpoint"))
}

fn files_of(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(directory).on("read", directory)?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn problem(text: &str) -> Failure {
    Failure::bench(NAME, text)
}

/// 1 GiB of heat2d with checkpoints and without, in turn; what one checkpoint takes, as a share of a minute.
fn overhead(context: &Context, cluster: &OwnCluster<'_>, pairs: usize, report: &mut Report) -> Result<(), Failure> {
    let (rows, iterations) = if context.quick { (1024, 40) } else { (16384, 240) };
    let mut with = Samples::new(format!("heat2d, {rows} × 8192, with checkpoints"), "s");
    let mut without = Samples::new(format!("heat2d, {rows} × 8192, without"), "s");
    let mut added = Samples::new("added to the run time by each checkpoint", "s");
    for _ in 0..pairs {
        let run = |has_checkpoints: bool| {
            let mut command = cluster.pcmctl(&["run", "-n", RANKS.0, "--name", "large"]);
            if has_checkpoints {
                command.args(["--checkpoint-every", "2"]);
            }
            command.arg("--").arg(context.program("heat2d-c"));
            command.args(heat2d::plate(rows, 8192, iterations));
            let took = heat2d::seconds(NAME, &trial::run(NAME, command, RUN_MAX)?)?;
            let made = events::of(cluster, "large", "checkpoint_complete")?.len();
            Ok::<_, Failure>((took, made))
        };
        let ((plain, _), (kept, made)) = (run(false)?, run(true)?);
        without.push(plain);
        with.push(kept);
        added.push((kept - plain) / made.max(1) as f64);
    }
    report.ratio(
        "overhead of one checkpoint a minute, heat2d of 1 GiB",
        added.median() / QUOTED_EVERY_S,
        "<= 0.01",
    );
    report
        .remarks
        .push("overhead: the median of what a checkpoint added to the run time, as a share of a minute".into());
    report.series.extend([added, with, without]);
    Ok(())
}
