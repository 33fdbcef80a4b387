//! The part of bench `checkpoint` about disks and whole runs: writing against `dd` with fsync, a restart on another
//! number of ranks against reading the files and against MPI-IO by hand, and what checkpoints take from the run time of
//! heat2d.

use super::{
    bench::{Bench, Context},
    events,
};
use pcm_bench::{Failure, OnPath, OwnCluster, Ratio, Report, Samples, trial};
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

/// Checkpoints of a measured run, and the seconds between two of those that are quoted for.
const QUOTED_EVERY_S: f64 = 60.0;

fn run(context: &Context) -> Result<Report, Failure> {
    let cluster = OwnCluster::up(&context.environment, 2)?;
    let files = std::env::temp_dir().join(format!("pcm-bench-{}", std::process::id()));
    let mut report = Report::default();
    let outcome = restarts(context, &cluster, &files, &mut report);
    // A folder that stays says so itself the next time.
    _ = fs::remove_dir_all(&files);
    outcome?;
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
    let series = |name: &str, unit| Samples::new(format!("{mib} MiB: {name}"), unit);
    let mut dd = series("dd with fsync", "s");
    let mut written = series("checkpoint in files, 2 ranks", "s");
    let mut unprepared = series(
        "checkpoint in files, 2 ranks, the first of a program that was to make none",
        "s",
    );
    let mut hand_written = series("MPI-IO and sync, 2 ranks", "s");
    let (mut restored, mut read) = (
        series("pcm_start, 3 ranks", "s"),
        series("reading the files, 3 at a time", "s"),
    );
    let (mut restart, mut by_hand) = (
        series("pcmctl restart -n 3, whole", "s"),
        series("mpiexec -n 3 and MPI_File_read_at_all, whole", "s"),
    );
    for pair in 0..pairs {
        let kept = files.join("large");
        _ = fs::remove_dir_all(&kept);
        fs::create_dir_all(&kept).on("make", &kept)?;
        let hand = kept.join("by-hand");
        let wrote = write_in_turn(context, cluster, (&kept, &hand), mib, pair % 2 == 0)?;
        dd.push(wrote.dd);
        written.push(wrote.checkpoint);
        unprepared.push(wrote.unprepared);
        hand_written.push(wrote.by_hand);
        let made = newest(&kept)?;
        let parts = files_of(&made)?;
        for reads in [pair % 2 == 0, pair % 2 != 0] {
            forget(&parts)?;
            if reads {
                read.push(read_together(&parts)?);
                continue;
            }
            let mut command = cluster.pcmctl(&["restart", &made.to_string_lossy(), "-n", RANKS.1]);
            command.env("KEEPING", "restore");
            let since = Instant::now();
            restored.push(number_after(&trial::run(NAME, command, RUN_MAX)?, "up")?);
            restart.push(since.elapsed().as_secs_f64());
        }
        forget(std::slice::from_ref(&hand))?;
        let mut command = context.environment.command(&context.environment.mpiexec);
        command.args(["-n", RANKS.1]).arg(context.program("pcm-keeping"));
        command
            .args([&mib.to_string(), "1", "5"])
            .arg(&hand)
            .env("KEEPING", "read");
        let since = Instant::now();
        trial::run(NAME, command, RUN_MAX)?;
        by_hand.push(since.elapsed().as_secs_f64());
        fs::remove_dir_all(&kept).on("remove", &kept)?;
    }
    let ratio = |name: &str, value, target: Option<&str>| Ratio::new(name, value).held_to(target);
    report.ratios.extend([
        ratio(
            "rate of a checkpoint in files / dd with fsync",
            dd.paired_ratio(&written),
            Some(">= 0.8"),
        ),
        ratio(
            "the same, the first of a program that was to make none",
            dd.paired_ratio(&unprepared),
            Some(">= 0.8"),
        ),
        ratio(
            "restart on 3 ranks: pcm_start / reading the files",
            restored.paired_ratio(&read),
            Some("<= 1.3"),
        ),
        ratio(
            "restart, whole / mpiexec and MPI-IO by hand",
            restart.paired_ratio(&by_hand),
            None,
        ),
    ]);
    report
        .series
        .extend([dd, written, unprepared, hand_written, restored, read, restart, by_hand]);
    report
        .remarks
        .push("restart, reading, MPI-IO by hand: each after the files were dropped from the page cache".into());
    report.remarks.push(
        "checkpoint in files: of a program started with --checkpoint-every, which has memory for copies from its start"
            .into(),
    );
    Ok(())
}

/// Seconds to write the same bytes.
struct Wrote {
    by_hand: f64,
    unprepared: f64,
    dd: f64,
    checkpoint: f64,
}

/// By hand, then by the two that are compared: what a disk gives differs from second to second, so each goes first in
/// turn.
fn write_in_turn(
    context: &Context,
    cluster: &OwnCluster<'_>,
    (kept, hand): (&Path, &Path),
    mib: u32,
    dd_first: bool,
) -> Result<Wrote, Failure> {
    let write = |mode: &str, word: &str, options: &[&str]| {
        let mut command = cluster.pcmctl(&["run", "-n", RANKS.0]);
        command.args(options).arg("--");
        command.env("PCM_CHECKPOINT_DIR", kept).env("KEEPING", mode);
        command.arg(context.program("pcm-keeping"));
        command.args([&mib.to_string(), "1", "5"]).arg(hand);
        number_after(&trial::run(NAME, command, RUN_MAX)?, word)
    };
    let by_hand = write("hand", "mpi_io", &[])?;
    let unprepared = write("leave", "files", &[])?;
    let made = newest(kept)?;
    fs::remove_dir_all(&made).on("remove", &made)?;
    let before = if dd_first {
        Some(dd_fsync(&kept.join("dd"), mib)?)
    } else {
        None
    };
    let checkpoint = write("leave", "files", &["--checkpoint-every", PREPARED])?;
    let dd = match before {
        Some(took) => took,
        None => dd_fsync(&kept.join("dd"), mib)?,
    };
    Ok(Wrote {
        by_hand,
        unprepared,
        dd,
        checkpoint,
    })
}

fn dd_fsync(file: &Path, mib: u32) -> Result<f64, Failure> {
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "bs=1M", "conv=fsync", "status=none"]);
    command
        .arg(format!("count={mib}"))
        .arg(format!("of={}", file.display()));
    let since = Instant::now();
    trial::run(NAME, command, RUN_MAX)?;
    let took = since.elapsed().as_secs_f64();
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

/// As many readers as ranks.
fn read_together(files: &[PathBuf]) -> Result<f64, Failure> {
    let since = Instant::now();
    let mut command = Command::new("xargs");
    command.args([
        "-0",
        "-P",
        RANKS.1,
        "-n",
        "1",
        "dd",
        "bs=1M",
        "of=/dev/null",
        "status=none",
    ]);
    let list = files.iter().map(|file| format!("if={}\0", file.display()));
    let input = tempfile_of(&list.collect::<String>(), files)?;
    let opened = fs::File::open(&input).on("open", &input)?;
    trial::run(
        NAME,
        {
            command.stdin(opened);
            command
        },
        RUN_MAX,
    )?;
    let took = since.elapsed().as_secs_f64();
    fs::remove_file(&input).on("remove", &input)?;
    Ok(took)
}

fn tempfile_of(text: &str, beside: &[PathBuf]) -> Result<PathBuf, Failure> {
    let folder = beside.first().and_then(|file| file.parent()?.parent());
    let path = folder.unwrap_or(Path::new(".")).join("list");
    fs::write(&path, text).on("write", &path)?;
    Ok(path)
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

fn number_after(text: &str, word: &str) -> Result<f64, Failure> {
    let mut words = text.split_whitespace().skip_while(|known| *known != word);
    let number = words.nth(1).and_then(|number| number.parse().ok());
    number.ok_or_else(|| problem(&format!("no number after {word:?} in {text:?}")))
}

fn problem(text: &str) -> Failure {
    Failure::bench(NAME, text)
}

/// 1 GiB of heat2d with checkpoints and without, in turn; what one checkpoint takes, as a share of a minute.
fn overhead(context: &Context, cluster: &OwnCluster<'_>, pairs: usize, report: &mut Report) -> Result<(), Failure> {
    let (rows, iterations) = if context.quick {
        ("1024", "40")
    } else {
        ("16384", "240")
    };
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
            command.args(["--rows", rows, "--cols", "8192", "--iterations", iterations]);
            let took = number_after(&trial::run(NAME, command, RUN_MAX)?, "seconds")?;
            let made = events::of(cluster, "large", "checkpoint_complete")?.len();
            Ok::<_, Failure>((took, made))
        };
        let ((plain, _), (kept, made)) = (run(false)?, run(true)?);
        without.push(plain);
        with.push(kept);
        added.push((kept - plain) / made.max(1) as f64);
    }
    report.ratios.push(
        Ratio::new(
            "overhead of one checkpoint a minute, heat2d of 1 GiB",
            added.median() / QUOTED_EVERY_S,
        )
        .held_to("<= 0.01"),
    );
    report
        .remarks
        .push("overhead: the median of what a checkpoint added to the run time, as a share of a minute".into());
    report.series.push(added);
    report.series.extend([with, without]);
    Ok(())
}
