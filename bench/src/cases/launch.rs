//! Bench `launch`: from typing the command to the end of MPI_Init on the last rank, `pcmctl run` against `mpiexec`.

use super::{
    bench::{Bench, Context},
    interleave::{self, Variant},
};
use pcm_bench::{Failure, OwnCluster, Report, trial};
use rustix::time::{ClockId, clock_gettime};
use std::{process::Command, time::Duration};

pub(super) const BENCH: Bench = Bench {
    name: "launch",
    about: "milliseconds from typing to the end of MPI_Init on the last rank: pcmctl run against mpiexec, 1 to 16 \
            ranks",
    run,
};

const RANKS: [u32; 4] = [1, 4, 8, 16];

fn run(context: &Context) -> Result<Report, Failure> {
    let (one, four) = (
        OwnCluster::up(&context.environment, 1)?,
        OwnCluster::up(&context.environment, 4)?,
    );
    let mut report = Report::default();
    for ranks in RANKS {
        let count = ranks.to_string();
        let trial = context.program("pcm-trial");
        let finish = |mut command: Command| {
            command.arg(&trial).arg("init");
            command
        };
        let plain = || {
            let mut command = context.environment.command(&context.environment.mpiexec);
            command.args(["-n", &count]);
            finish(command)
        };
        let same = || {
            let mut command = context.environment.hydra(&count);
            command.env("MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE", "0");
            finish(command)
        };
        let mut series = interleave::rounds(
            &mut [
                launched_by("mpiexec", ranks, plain),
                launched_by("mpiexec, our settings", ranks, same),
                launched_by("pcmctl, 1 node", ranks, || {
                    finish(one.pcmctl(&["run", "-n", &count, "--"]))
                }),
                launched_by("pcmctl, 4 nodes", ranks, || {
                    finish(four.pcmctl(&["run", "-n", &count, "--"]))
                }),
            ],
            context.rounds(),
            "ms",
        )?;
        for (index, name) in [(2, "1 node"), (3, "4 nodes")] {
            report.ratio(
                format!("pcmctl, {name} / mpiexec, {ranks} ranks"),
                series[index].paired_ratio(&series[0]),
                "<= 1.0",
            );
        }
        report.series.append(&mut series);
    }
    one.down()?;
    four.down()?;
    report.remarks = vec![
        "the clock starts before the command is started and stops when the last rank has left MPI_Init".into(),
        "mpiexec uses its own settings (UCX); 'our settings' are those pcmctl gives (OFI over tcp)".into(),
    ];
    Ok(report)
}

fn launched_by<'a>(name: &str, ranks: u32, command: impl Fn() -> Command + 'a) -> Variant<'a> {
    Variant::new(format!("{name}, {ranks} ranks"), move || {
        start(BENCH.name, command(), ranks)
    })
}

/// Milliseconds from now to the end of MPI_Init on the last rank.
pub(super) fn start(bench: &'static str, command: Command, ranks: u32) -> Result<f64, Failure> {
    let begun = clock_gettime(ClockId::Monotonic);
    let begun = begun.tv_sec as f64 + begun.tv_nsec as f64 * 1e-9;
    let said = trial::run(bench, command, Duration::from_secs(60))?;
    let problem = || Failure::bench(bench, format!("not {ranks} ranks told their time: {said:?}"));
    let last = last_initialised(&said, ranks).ok_or_else(problem)?;
    Ok((last - begun) * 1e3)
}

/// The latest time in `initialised TIME rank R size N`, when every rank has told one.
fn last_initialised(output: &str, ranks: u32) -> Option<f64> {
    let size = format!(" size {ranks}");
    let times: Vec<f64> = output
        .lines()
        .filter(|line| line.ends_with(&size))
        .filter_map(|line| line.strip_prefix("initialised ")?.split(' ').next()?.parse().ok())
        .collect();
    (times.len() == ranks as usize).then(|| times.into_iter().fold(f64::MIN, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rank_counts_and_all_must_be_there() {
        let output = "initialised 5.5 rank 1 size 2\nnoise\ninitialised 7.25 rank 0 size 2\n";
        assert_eq!(last_initialised(output, 2), Some(7.25));
        assert_eq!(last_initialised(output, 3), None);
        assert_eq!(last_initialised("initialised 5.5 rank 0 size 1\n", 2), None);
    }
}
