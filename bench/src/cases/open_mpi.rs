//! Bench `open-mpi`: how long ranks of Open MPI take to start, by `pcmctl run` and by its own launcher, and what
//! changes of heat2d cost on Open MPI and on MPICH, in turns on one cluster.

use super::{
    bench::{Bench, Context},
    events,
    interleave::{self, Variant},
    launch,
};
use pcm_bench::{Failure, OnPath, OwnCluster, Report, Samples, heat2d, progress::Progress, running::Running, trial};
use serde_json::Value;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

pub(super) const BENCH: Bench = Bench {
    name: "open-mpi",
    about: "Open MPI 5: launch by pcmctl run and by its mpirun, 1 to 16 ranks; pauses of live changes beside MPICH's",
    run,
};

const RANKS: [u32; 3] = [1, 4, 16];

const LIMIT: Duration = Duration::from_secs(120);

/// Between two looks whether all iterate.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Where `cargo xtask setup` puts it, from the root of the repository.
const PREFIX: &str = ".mpi-open";

/// A folder for what is compiled, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = env::temp_dir().join(format!("pcm-bench-open-mpi-{}", std::process::id()));
        fs::create_dir_all(&path).on("create", &path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the folder for temporary files.
        _ = fs::remove_dir_all(&self.0);
    }
}

fn run(context: &Context) -> Result<Report, Failure> {
    let prefix = fs::canonicalize(PREFIX).on("find", PREFIX)?;
    let folder = Folder::new()?;
    let mut report = Report::default();
    launches(context, &prefix, &folder.0, &mut report)?;
    changes(context, &prefix, &folder.0, &mut report)?;
    report.remarks = vec![
        "launch: from typing to the end of MPI_Init on the last rank; both with ob1 over shared memory and TCP".into(),
        "changes: two jobs of heat2d on one cluster of four nodes, one on each MPI, changed in turns".into(),
    ];
    Ok(report)
}

/// Compiles a program with the compiler of Open MPI.
fn compiled(prefix: &Path, source: &str, folder: &Path, more: &[&str]) -> Result<PathBuf, Failure> {
    let program = folder.join(Path::new(source).file_stem().unwrap_or_default());
    let mut compiler = Command::new(prefix.join("bin/mpicc"));
    compiler.args(["-std=gnu11", "-O2", "-ffp-contract=off", source, "-o"]);
    trial::must(compiler.arg(&program).args(more).arg("-lm"))?;
    Ok(program)
}

fn launches(context: &Context, prefix: &Path, folder: &Path, report: &mut Report) -> Result<(), Failure> {
    let program = compiled(prefix, "tests/programs/trial.c", folder, &[])?;
    let (one, four) = (
        OwnCluster::up(&context.environment, 1)?,
        OwnCluster::up(&context.environment, 4)?,
    );
    for ranks in RANKS {
        let count = ranks.to_string();
        let by_mpirun = || {
            let mut command = context.environment.command(prefix.join("bin/mpirun"));
            command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
            command.args(["--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "self,sm,tcp"]);
            command.args(["-n", &count]).arg(&program).arg("init");
            command
        };
        let by_pcmctl = |cluster: &OwnCluster<'_>| {
            let mut command = cluster.pcmctl(&["run", "-n", &count, "--"]);
            command.arg(&program).arg("init").env("PCM_MPI", prefix);
            command
        };
        let named = |name: &str| format!("{name}, {ranks} ranks");
        let mut series = interleave::rounds(
            &mut [
                Variant::new(named("mpirun"), || launch::start(BENCH.name, by_mpirun(), ranks)),
                Variant::new(named("pcmctl, 1 node"), || {
                    launch::start(BENCH.name, by_pcmctl(&one), ranks)
                }),
                Variant::new(named("pcmctl, 4 nodes"), || {
                    launch::start(BENCH.name, by_pcmctl(&four), ranks)
                }),
            ],
            context.rounds(),
            "ms",
        )?;
        for (index, name) in [(1, "1 node"), (2, "4 nodes")] {
            report.ratio(
                format!("pcmctl, {name} / mpirun, {ranks} ranks"),
                series[index].paired_ratio(&series[0]),
                "<= 1.0",
            );
        }
        report.series.append(&mut series);
    }
    one.down()?;
    four.down()
}

/// A job of heat2d on four nodes, of which rank 3 migrates and which grows and shrinks.
struct Job<'a> {
    name: &'static str,
    cluster: &'a OwnCluster<'a>,
    /// Ends with the bench.
    _running: Running,
    series: Vec<Samples>,
}

/// What is taken of each change.
const TAKEN: [&str; 2] = ["pause", "in all"];

impl<'a> Job<'a> {
    fn start(
        name: &'static str,
        cluster: &'a OwnCluster<'a>,
        program: &Path,
        prefix: Option<&Path>,
    ) -> Result<Self, Failure> {
        let mut command = cluster.pcmctl(&["run", "--name", name, "-n", "4", "--"]);
        command.arg(program).args(heat2d::plate(200, 200, heat2d::ENDLESS));
        command.args(["--sleep-us", "2000"]).stdout(Stdio::null());
        command.envs(prefix.map(|prefix| ("PCM_MPI", prefix)));
        let running = Running::start(&mut command)?;
        trial::until(BENCH.name, "all ranks to iterate", (LOOK_EVERY, LIMIT), || {
            let rows = events::ranks(cluster, name);
            let iterating = rows.iter().filter(|row| row["iteration"].as_u64() > Some(2)).count();
            Ok((iterating == 4).then_some(()))
        })?;
        let of_changes = ["migrate", "expand", "shrink"].map(|verb| TAKEN.map(|what| (verb, what)));
        let samples = |(verb, what)| Samples::new(format!("{name}: {verb}: {what}"), "ms");
        Ok(Self {
            name,
            cluster,
            _running: running,
            series: of_changes.into_iter().flatten().map(samples).collect(),
        })
    }

    /// Rank 3 goes to the node after its own.
    fn migrate(&mut self, counts: bool) -> Result<(), Failure> {
        let ranks = events::ranks(self.cluster, self.name);
        let own = ranks.iter().find(|row| row["rank"] == 3);
        let own = own.and_then(|row| row["node"].as_str()?.strip_prefix('n')?.parse::<u32>().ok());
        let own = own.ok_or_else(|| Failure::bench(BENCH.name, format!("no node of rank 3 in {ranks:?}")))?;
        let to = format!("n{}", (own + 1) % 4);
        self.change("migrate", &["--rank", "3", "--to", &to], counts)
    }

    fn change(&mut self, verb: &str, arguments: &[&str], counts: bool) -> Result<(), Failure> {
        let mut command = self.cluster.pcmctl(&[verb, self.name, "--json"]);
        command.args(arguments);
        let said = trial::run(BENCH.name, command, LIMIT)?;
        let done: Value = serde_json::from_str(&said)
            .map_err(|error| Failure::answer(&format!("pcmctl {verb}"), format!("{error} in {said:?}")))?;
        for (what, field) in TAKEN.iter().zip(["pause_ms", "total_ms"]) {
            let took = done[field].as_f64();
            let took = took.ok_or_else(|| Failure::bench(BENCH.name, format!("no {field} in {said:?}")))?;
            let name = format!("{}: {verb}: {what}", self.name);
            let series = self.series.iter_mut().find(|series| counts && series.name == name);
            series.into_iter().for_each(|series| series.push(took));
        }
        Ok(())
    }
}

fn changes(context: &Context, prefix: &Path, folder: &Path, report: &mut Report) -> Result<(), Failure> {
    let release = context.environment.release.display();
    let (look, rpath) = (format!("-L{release}"), format!("-Wl,-rpath,{release}"));
    let libpcm = [
        "-Ipcm-lib/include",
        &look,
        &rpath,
        "-Wl,--no-as-needed",
        "-lpcm_openmpi",
    ];
    let program = compiled(prefix, "examples/heat2d/heat2d.c", folder, &libpcm)?;
    let cluster = OwnCluster::up(&context.environment, 4)?;
    let mut jobs = [
        Job::start("mpich", &cluster, &context.program("heat2d-c"), None)?,
        Job::start("open-mpi", &cluster, &program, Some(prefix))?,
    ];
    let mut progress = Progress::begin("rounds");
    let rounds = context.rounds();
    for round in 0..=rounds {
        let turn = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        // The first round also brings the programs and the libraries into memory.
        let counts = round > 0;
        for job in turn {
            jobs[job].migrate(counts)?;
        }
        for (verb, to) in [("expand", "6"), ("shrink", "4")] {
            for job in turn {
                jobs[job].change(verb, &["--to", to], counts)?;
            }
        }
        progress.at(round as u64, rounds as u64);
    }
    progress.clear();
    let [mpich, open_mpi] = jobs.map(|job| job.series);
    cluster.down()?;
    for (ours, theirs) in open_mpi.iter().zip(&mpich) {
        let target = ours.name.ends_with("pause").then_some("<= 2.0");
        report.ratio(format!("{} / MPICH's", ours.name), ours.paired_ratio(theirs), target);
    }
    report.series.extend(mpich.into_iter().chain(open_mpi));
    Ok(())
}
