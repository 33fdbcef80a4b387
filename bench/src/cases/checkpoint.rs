//! Bench `checkpoint`: how long a checkpoint in memory holds the program, against a plain copy of the same bytes by the
//! same processes in the same run; and what files cost, against writing the same array by hand with MPI-IO.

use super::{
    bench::{Bench, Context},
    checkpoint_files, events,
};
use pcm_bench::{Failure, OnPath, OwnCluster, Ratio, Report, Samples, trial};
use std::time::Duration;

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

fn run(context: &Context) -> Result<Report, Failure> {
    let mib = if context.quick { "64" } else { "512" };
    let cluster = OwnCluster::up(&context.environment, 2)?;
    let files = std::env::temp_dir().join(format!("pcm-bench-{}", std::process::id()));
    let outcome = held(context, &cluster, mib, &files);
    let outcome = outcome.and_then(|mut report| {
        checkpoint_files::add(context, &cluster, &files, &mut report)?;
        Ok(report)
    });
    // A folder that stays says so itself the next time.
    _ = std::fs::remove_dir_all(&files);
    let report = outcome?;
    cluster.down()?;
    Ok(report)
}

fn held(context: &Context, cluster: &OwnCluster<'_>, mib: &str, files: &std::path::Path) -> Result<Report, Failure> {
    let rounds = (2 * context.rounds()).to_string();
    let options = [
        "run",
        "-n",
        RANKS,
        "--name",
        "keeping",
        "--checkpoint-every",
        EVERY,
        "--",
    ];
    let mut command = cluster.pcmctl(&options);
    std::fs::create_dir_all(files).on("make", files)?;
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
    let (mut copied, mut by_hand, mut called, mut filed) = (
        series("memcpy"),
        series("MPI-IO and sync"),
        series("held for pcm_checkpoint, files written behind"),
        series("checkpoint in files"),
    );
    for line in said.lines() {
        let mut words = line.split(' ');
        let mut after = |name: &str| {
            words
                .find(|word| *word == name)
                .and_then(|_| words.next()?.parse::<f64>().ok())
        };
        copied.values.extend(after("memcpy").map(|s| s * 1e3));
        by_hand.values.extend(after("mpi_io").map(|s| s * 1e3));
        called.values.extend(after("held").map(|s| s * 1e3));
        filed.values.extend(after("files").map(|s| s * 1e3));
    }
    let ratio = |name: &str, a: &Samples, b: &Samples, target: Option<&str>| {
        Ratio::new(name, a.median() / b.median()).held_to(target)
    };
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
