//! Bench `python`: what the package for Python costs a program while nothing changes, two ranks, under a daemon and
//! under plain mpiexec, where a run is one sample of each figure; what imports take; and how long it takes until a new
//! rank, which is an interpreter that starts, iterates.

use super::{
    bench::{Bench, Context},
    events,
    interleave::{self, Variant},
};
use pcm_bench::{
    Failure, OwnCluster, Ratio, Report, Samples,
    progress::Progress,
    push_each,
    trial::{self, must},
};
use serde_json::Value;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

pub(super) const BENCH: Bench = Bench {
    name: "python",
    about: "the package for Python: ns per iterate and per look at an array, imports, a new rank",
    run,
};

const LIMIT: Duration = Duration::from_secs(120);

const LOOK_EVERY: Duration = Duration::from_millis(20);

const JOB: &str = "steady";

/// The words of the program `steady.py` before its figures.
const FIGURES: [&str; 6] = ["iterate", "counted", "local", "entries", "read", "empty"];

/// What each figure is called in the record.
const NAMES: [&str; 6] = [
    "pcm.iterate()",
    "for number in pcm.iterations(n)",
    "array.local",
    "rows.entries()",
    "value.value",
    "an empty loop",
];

/// No figure may be above this, in nanoseconds.
const NS_MAX: f64 = 1000.0;

fn run(context: &Context) -> Result<Report, Failure> {
    let cluster = OwnCluster::up(&context.environment, 1)?;
    let passes = if context.quick { "500" } else { "2000" };
    let mut under = ["daemon", "mpiexec"].map(|under| NAMES.map(|name| Samples::new(format!("{name}, {under}"), "ns")));
    let rounds = context.rounds();
    let mut progress = Progress::begin("rounds");
    // One round before the first is thrown away.
    for round in 0..=rounds {
        let launchers = [
            cluster.pcmctl(&["run", "-n", "2", "--"]),
            context.environment.hydra("2"),
        ];
        for (launcher, series) in launchers.into_iter().zip(&mut under) {
            let figures = steady(context, launcher, passes)?;
            if round > 0 {
                push_each(series, figures);
            }
        }
        progress.at(round as u64, rounds as u64);
    }
    progress.clear();
    let plain = growth(context, &cluster, "0")?;
    let spared = growth(context, &cluster, "1")?;
    cluster.down()?;
    let imports = imports(context)?;
    let limited = |samples: &Samples| {
        let name = format!("{} / 1 us", samples.name);
        Ratio::new(name, samples.median() / NS_MAX, "<= 1.0")
    };
    let gained = spared[0].median() / plain[0].median();
    let gained = Ratio::new("grow 1 to 2 with a spare / without, in all", gained, "<= 0.5");
    let growth = plain.into_iter().chain(spared);
    Ok(Report {
        ratios: under
            .iter()
            .flat_map(|series| &series[..2])
            .map(limited)
            .chain([gained])
            .collect(),
        series: under.into_iter().flatten().chain(growth).chain(imports).collect(),
        remarks: vec![
            "ns: each with the loop around it, the median of 101 bursts; the views of array and rows are made once"
                .into(),
            "grow 1 to 2 and back: the old rank iterates while the new one starts, and is held for the pause".into(),
            "imports: of files that are in memory, with the start and the end of the interpreter".into(),
        ],
        ..Report::default()
    })
}

/// One rank grows to two, and shrinks again.
fn growth(context: &Context, cluster: &OwnCluster<'_>, spares: &str) -> Result<[Samples; 2], Failure> {
    let mut command = program(
        context,
        cluster.pcmctl(&["run", "-n", "1", "--name", JOB, "--spares", spares, "--detach", "--"]),
    );
    must(command.arg("endless").stdout(Stdio::null()))?;
    let mut series =
        ["in all", "pause"].map(|what| Samples::new(format!("grow 1 to 2, spares {spares}: {what}"), "ms"));
    trial::until(BENCH.name, "an iteration", (LOOK_EVERY, LIMIT), || {
        let iterates = |row: &Value| row["iteration"].as_u64() > Some(2);
        Ok(events::ranks(cluster, JOB).iter().any(iterates).then_some(()))
    })?;
    for round in 0..=context.rounds() {
        if spares != "0" {
            trial::until(BENCH.name, "a spare", (LOOK_EVERY, LIMIT), || has_spare(cluster))?;
        }
        let said = trial::run(
            BENCH.name,
            cluster.pcmctl(&["expand", JOB, "--to", "2", "--json"]),
            LIMIT,
        )?;
        let done: Value = serde_json::from_str(&said).unwrap_or_default();
        let [Some(total), Some(pause)] = ["total_ms", "pause_ms"].map(|name| done[name].as_f64()) else {
            return Err(Failure::answer("pcmctl expand", said));
        };
        // The first one also brings files into memory.
        if round > 0 {
            push_each(&mut series, [total, pause]);
        }
        trial::run(
            BENCH.name,
            cluster.pcmctl(&["shrink", JOB, "--to", "1", "--json"]),
            LIMIT,
        )?;
    }
    must(cluster.pcmctl(&["kill", JOB]).stdout(Stdio::null()))?;
    Ok(series)
}

fn has_spare(cluster: &OwnCluster<'_>) -> Result<Option<()>, Failure> {
    let said = trial::run(BENCH.name, cluster.pcmctl(&["ps", JOB, "--json"]), LIMIT)?;
    let seen: Value = serde_json::from_str(&said).unwrap_or_default();
    let spares = seen["spares"].as_array();
    Ok(spares
        .and_then(|spares| spares.iter().find(|spare| spare["ready"] == true))
        .map(|_| ()))
}

/// An interpreter that only imports.
fn imports(context: &Context) -> Result<Vec<Samples>, Failure> {
    let variant = |name: &'static str, statement: &'static str| {
        Variant::new(format!("an interpreter with {name}"), move || {
            let mut command = context.environment.command("python3");
            environment(context, &mut command).args(["-c", statement]);
            let begin = Instant::now();
            trial::run(BENCH.name, command, LIMIT)?;
            Ok(begin.elapsed().as_secs_f64() * 1e3)
        })
    };
    interleave::rounds(
        &mut [
            variant("no import", "pass"),
            variant("import numpy", "import numpy"),
            variant("import pcm, which imports numpy", "import pcm"),
        ],
        context.rounds(),
        "ms",
    )
}

/// Runs the program with two ranks; what rank 0 measured.
fn steady(context: &Context, launcher: Command, passes: &str) -> Result<[f64; FIGURES.len()], Failure> {
    let mut command = program(context, launcher);
    command.arg(passes);
    let said = trial::run(BENCH.name, command, LIMIT)?;
    let mut found = [0.0; FIGURES.len()];
    for (figure, name) in found.iter_mut().zip(FIGURES) {
        *figure = trial::figure(BENCH.name, &said, "steady: ", name)?;
    }
    Ok(found)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// `steady.py`, by this launcher.
fn program(context: &Context, mut launcher: Command) -> Command {
    environment(context, &mut launcher)
        .arg("python3")
        .arg(root().join("bench/programs/steady.py"));
    launcher
}

/// Python finds the package, numpy and the library.
fn environment<'c>(context: &Context, command: &'c mut Command) -> &'c mut Command {
    let mut paths = OsString::from(root().join("python"));
    paths.push(":");
    paths.push(root().join(".tools/numpy"));
    command
        .env("PYTHONPATH", paths)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PCM_LIBRARY", context.program("libpcm.so"))
}
