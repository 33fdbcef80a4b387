//! From typing to the end of `MPI_Init` on the last rank, by `pcmctl run` and by the launcher of an MPI.

use super::{
    super::{
        bench::Context,
        interleave::{self, Variant},
        launch,
    },
    Mpi,
};
use pcm_bench::{Failure, OwnCluster, Report};
use std::{path::Path, process::Command};

const RANKS: [u32; 3] = [1, 4, 16];

/// `by_launcher` starts a number of ranks; the program is `pcm-trial`, compiled for that MPI.
pub(super) fn compare(
    context: &Context,
    mpi: &Mpi,
    program: &Path,
    by_launcher: impl Fn(&str) -> Command,
) -> Result<Report, Failure> {
    let (one, four) = (
        OwnCluster::up(&context.environment, 1)?,
        OwnCluster::up(&context.environment, 4)?,
    );
    let mut report = Report::default();
    for ranks in RANKS {
        let count = ranks.to_string();
        let finish = |mut command: Command| {
            command.arg(program).arg("init");
            command
        };
        let by_pcmctl = |cluster: &OwnCluster<'_>| {
            let (variable, prefix) = mpi.variable();
            let mut command = cluster.pcmctl(&["run", "-n", &count, "--"]);
            command.env(variable, prefix);
            finish(command)
        };
        let named = |name: &str| format!("{name}, {ranks} ranks");
        let start = |command: Command| launch::start(mpi.bench, command, ranks);
        let mut series = interleave::rounds(
            &mut [
                Variant::new(named(mpi.launcher), || start(finish(by_launcher(&count)))),
                Variant::new(named("pcmctl, 1 node"), || start(by_pcmctl(&one))),
                Variant::new(named("pcmctl, 4 nodes"), || start(by_pcmctl(&four))),
            ],
            context.rounds(),
            "ms",
        )?;
        for (index, name) in [(1, "1 node"), (2, "4 nodes")] {
            report.ratio(
                format!("pcmctl, {name} / {}, {ranks} ranks", mpi.launcher),
                series[index].paired_ratio(&series[0]),
                "<= 1.0",
            );
        }
        report.series.append(&mut series);
    }
    one.down()?;
    four.down()?;
    Ok(report)
}
