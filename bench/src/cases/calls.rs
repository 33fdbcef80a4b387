//! Bench `calls`: what libpcm adds to one MPI call, by both names of each function, against the function of the MPI
//! itself, in one process under a daemon.

use super::bench::{Bench, Context};
use pcm_bench::{Failure, OwnCluster, Ratio, Report, Samples, progress::Progress, trial};
use std::time::Duration;

pub(super) const BENCH: Bench = Bench {
    name: "calls",
    about: "ns that libpcm adds to an MPI call, by MPI_X and PMPI_X, against the MPI's own function",
    run,
};

/// A run takes seconds; a machine that does much else gets far more.
const LIMIT: Duration = Duration::from_secs(180);

/// What `pcm-calls` calls: a call that asks, one that polls, the four of a message to oneself, a collective one.
const KINDS: [&str; 4] = ["Comm_rank", "Iprobe", "Irecv, Isend, Wait", "Allreduce"];

/// The names of a function, as `pcm-calls` and as people write them.
const NAMES: [(&str, &str); 2] = [("mpi", "MPI_"), ("pmpi", "PMPI_")];

fn run(context: &Context) -> Result<Report, Failure> {
    let cluster = OwnCluster::up(&context.environment, 1)?;
    let blocks = if context.quick { "200" } else { "5000" };
    let names = || KINDS.iter().flat_map(|kind| NAMES.map(|name| (*kind, name)));
    let mut series: Vec<Samples> = names()
        .map(|(kind, (_, prefix))| Samples::new(format!("{prefix}{kind}, added"), "ns"))
        .chain(KINDS.map(|kind| Samples::new(format!("{kind}, plain"), "ns")))
        .collect();
    let mut progress = Progress::begin("runs");
    let rounds = context.rounds();
    for round in 0..rounds {
        let mut command = cluster.pcmctl(&["run", "-n", "1", "--"]);
        command.arg(context.program("pcm-calls")).arg(blocks);
        let output = trial::run(BENCH.name, command, LIMIT)?;
        let figure = |kind: &str, name: &str| trial::figure(BENCH.name, &output, &format!("calls: {kind} "), name);
        let added = names().map(|(kind, (name, _))| figure(kind, &format!("{name}_adds_ns")));
        let plain = KINDS.iter().map(|kind| figure(kind, "plain_ns"));
        for (series, value) in series.iter_mut().zip(added.chain(plain)) {
            series.push(value?);
        }
        progress.at(round as u64 + 1, rounds as u64);
    }
    progress.clear();
    cluster.down()?;
    let added = &series[..KINDS.len() * NAMES.len()];
    let ratios = added
        .iter()
        .map(|series| Ratio::new(&series.name, series.median(), "<= 20"))
        .collect();
    Ok(Report {
        series,
        ratios,
        remarks: vec![
            "one rank with libpcm preloaded; blocks of 200 by MPI_X, by PMPI_X and at the MPI's own address take turns"
                .into(),
        ],
        ..Report::default()
    })
}
