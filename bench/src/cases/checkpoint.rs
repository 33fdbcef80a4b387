//! Bench `checkpoint`: how long a checkpoint in memory holds the program, against a plain copy of the same bytes by the
//! same processes in the same run; and what files cost, against writing the same array by hand with MPI-IO.

use super::{
    bench::{Bench, Context},
    checkpoint_files, events,
};
use pcm_bench::{Failure, OnPath, OwnCluster, Ratio, Report, Samples, trial};
use std::{env, path::Path, time::Duration};

pub(super) const BENCH: Bench = Bench {
    name: "checkpoint",
    about: "time a program is held for a checkpoint in memory / memcpy of the same bytes; files / MPI-IO of the same \
            array",
    run,
};

/// Ranks: as many as the smallest machine this is quoted for has processors.
const RANKS: &str = "2";

/// Seconds between two checkpoints.
const EVERY: &str = "0.5";

/// Iterations of two milliseconds between two measurements: about as many checkpoints as measurements.
const ITERATIONS: &str = "400";

const RUN_MAX: Duration = Duration::from_secs(300);

/// What the program measures: a series, and the word before each of its values.
const OF_THE_PROGRAM: [(&str, &str); 4] = [
    ("memcpy", "memcpy"),
    ("held for pcm_checkpoint, files written behind", "held"),
    ("checkpoint in files", "files"),
    ("MPI-IO and sync", "mpi_io"),
];

fn run(context: &Context) -> Result<Report, Failure> {
    let mib = if context.quick { "64" } else { "512" };
    let cluster = OwnCluster::up(&context.environment, 2)?;
    let files = tempfile::tempdir().on("make", env::temp_dir())?;
    let mut report = held(context, &cluster, mib, files.path())?;
    checkpoint_files::add(context, &cluster, files.path(), &mut report)?;
    cluster.down()?;
    Ok(report)
}

fn held(context: &Context, cluster: &OwnCluster<'_>, mib: &str, files: &Path) -> Result<Report, Failure> {
    let rounds = (2 * context.rounds()).to_string();
    let mut command = cluster.pcmctl(&["run", "-n", RANKS, "--name", "keeping"]);
    command.args(["--checkpoint-every", EVERY, "--"]);
    command.env("PCM_CHECKPOINT_DIR", files);
    command
        .arg(context.program("pcm-keeping"))
        .args([mib, &rounds, ITERATIONS]);
    command.arg(files.join("by-hand"));
    let said = trial::run(BENCH.name, command, RUN_MAX)?;
    let series = |name: &str| Samples::new(format!("{mib} MiB on {RANKS} ranks: {name}"), "ms");
    let mut held = series("held for a checkpoint in memory");
    for event in events::of(cluster, "keeping", "checkpoint_complete")? {
        held.values.extend(event["held_ms"].as_f64());
    }
    let [copied, called, filed, by_hand] = OF_THE_PROGRAM.map(|(name, word)| {
        let mut samples = series(name);
        let seconds = said.lines().filter_map(|line| trial::number_after(line, word));
        samples.values.extend(seconds.map(|seconds| seconds * 1e3));
        samples
    });
    let ratio =
        |name: &str, a: &Samples, b: &Samples, target: Option<&str>| Ratio::new(name, a.median() / b.median(), target);
    let ratios = vec![
        ratio(
            "held for a checkpoint in memory / memcpy",
            &held,
            &copied,
            Some("<= 1.3"),
        ),
        ratio(
            "held for pcm_checkpoint, files written behind / memcpy",
            &called,
            &copied,
            None,
        ),
        ratio("checkpoint in files / MPI-IO of the same array", &filed, &by_hand, None),
    ];
    Ok(Report {
        series: vec![held, copied, called, filed, by_hand],
        ratios,
        remarks: vec![
            "held: the longest of all ranks, as the library measures it; memcpy: the longest of all ranks, into \
             touched memory"
                .into(),
            "files: synced, checksummed and published by rename; MPI-IO: MPI_File_write_at_all and MPI_File_sync"
                .into(),
        ],
        ..Report::default()
    })
}
