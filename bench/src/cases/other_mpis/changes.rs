//! What changes of heat2d cost on an MPI and on MPICH: two jobs on one cluster of four nodes, changed in turns.

use super::{
    super::{bench::Context, events},
    Mpi,
};
use pcm_bench::{Failure, OwnCluster, Report, Samples, heat2d, progress::Progress, running::Running, trial};
use serde_json::Value;
use std::{path::Path, process::Stdio, time::Duration};

const LIMIT: Duration = Duration::from_secs(120);

/// Between two looks whether all iterate.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A job of heat2d on four nodes, of which rank 3 migrates and which grows and shrinks.
struct Job<'a> {
    bench: &'static str,
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
        mpi: &Mpi,
        name: &'static str,
        cluster: &'a OwnCluster<'a>,
        program: &Path,
        variable: Option<(&str, &Path)>,
    ) -> Result<Self, Failure> {
        let mut command = cluster.pcmctl(&["run", "--name", name, "-n", "4", "--"]);
        command.arg(program).args(heat2d::plate(200, 200, heat2d::ENDLESS));
        command.args(["--sleep-us", "2000"]).stdout(Stdio::null());
        command.envs(variable);
        let running = Running::start(&mut command)?;
        trial::until(mpi.bench, "all ranks to iterate", (LOOK_EVERY, LIMIT), || {
            let rows = events::ranks(cluster, name);
            let iterating = rows.iter().filter(|row| row["iteration"].as_u64() > Some(2)).count();
            Ok((iterating == 4).then_some(()))
        })?;
        let of_changes = ["migrate", "expand", "shrink"].map(|verb| TAKEN.map(|what| (verb, what)));
        let samples = |(verb, what)| Samples::new(format!("{name}: {verb}: {what}"), "ms");
        Ok(Self {
            bench: mpi.bench,
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
        let own = own.ok_or_else(|| Failure::bench(self.bench, format!("no node of rank 3 in {ranks:?}")))?;
        let to = format!("n{}", (own + 1) % 4);
        self.change("migrate", &["--rank", "3", "--to", &to], counts)
    }

    fn change(&mut self, verb: &str, arguments: &[&str], counts: bool) -> Result<(), Failure> {
        let mut command = self.cluster.pcmctl(&[verb, self.name, "--json"]);
        command.args(arguments);
        let said = trial::run(self.bench, command, LIMIT)?;
        let done: Value = serde_json::from_str(&said)
            .map_err(|error| Failure::answer(&format!("pcmctl {verb}"), format!("{error} in {said:?}")))?;
        for (what, field) in TAKEN.iter().zip(["pause_ms", "total_ms"]) {
            let took = done[field].as_f64();
            let took = took.ok_or_else(|| Failure::bench(self.bench, format!("no {field} in {said:?}")))?;
            let name = format!("{}: {verb}: {what}", self.name);
            let series = self.series.iter_mut().find(|series| counts && series.name == name);
            series.into_iter().for_each(|series| series.push(took));
        }
        Ok(())
    }
}

/// `programs` are heat2d for MPICH and for that MPI; the pauses are held to `target`.
pub(super) fn compare(
    context: &Context,
    mpi: &Mpi,
    programs: [&Path; 2],
    target: &'static str,
) -> Result<Report, Failure> {
    let cluster = OwnCluster::up(&context.environment, 4)?;
    let mut jobs = [
        Job::start(mpi, "mpich", &cluster, programs[0], None)?,
        Job::start(mpi, mpi.name, &cluster, programs[1], Some(mpi.variable()))?,
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
    let [mpich, other] = jobs.map(|job| job.series);
    cluster.down()?;
    let mut report = Report::default();
    for (ours, theirs) in other.iter().zip(&mpich) {
        let target = ours.name.ends_with("pause").then_some(target);
        report.ratio(format!("{} / MPICH's", ours.name), ours.paired_ratio(theirs), target);
    }
    report.series.extend(mpich.into_iter().chain(other));
    Ok(report)
}
