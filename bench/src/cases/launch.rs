//! Bench `launch`: from typing the command to the end of MPI_Init on the last rank, `pcmctl run` against `mpiexec`.

use super::{
    bench::{Bench, Context},
    interleave::{self, Variant},
};
use pcm_bench::{Failure, OwnCluster, Report, trial};
use rustix::time::{ClockId, clock_gettime};
use std::{path::Path, process::Command, time::Duration};

pub(super) const BENCH: Bench = Bench {
    name: "launch",
    about: "milliseconds from typing to the end of MPI_Init on the last rank: pcmctl run against mpiexec, 1 to 16 \
            ranks",
    run,
};

const RANKS: [u32; 4] = [1, 4, 8, 16];

fn run(context: &Context) -> Result<Report, Failure> {
    let plain = |count: &str| {
        let mut command = context.environment.command(&context.environment.mpiexec);
        command.args(["-n", count]);
        command
    };
    let same = |count: &str| {
        let mut command = context.environment.hydra(count);
        command.env("MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE", "0");
        command
    };
    let mut report = Launches {
        bench: BENCH.name,
        program: &context.program("pcm-trial"),
        variable: None,
        launchers: &[("mpiexec", &plain), ("mpiexec, our settings", &same)],
    }
    .compare(context, &RANKS)?;
    report.remarks = vec![
        "the clock starts before the command is started and stops when the last rank has left MPI_Init".into(),
        "mpiexec uses its own settings (UCX); 'our settings' are those pcmctl gives (OFI over tcp)".into(),
    ];
    Ok(report)
}

/// A name, and what makes the command for a number of ranks, as text.
pub(super) type Launcher<'a> = (&'a str, &'a dyn Fn(&str) -> Command);

/// Starts of `pcm-trial` that are compared.
pub(super) struct Launches<'a> {
    pub(super) bench: &'static str,
    pub(super) program: &'a Path,
    /// For `pcmctl run`.
    pub(super) variable: Option<(&'a str, &'a Path)>,
    /// The first is the one that `pcmctl run` is held to.
    pub(super) launchers: &'a [Launcher<'a>],
}

impl Launches<'_> {
    pub(super) fn compare(&self, context: &Context, ranks: &[u32]) -> Result<Report, Failure> {
        let (one, four) = (
            OwnCluster::up(&context.environment, 1)?,
            OwnCluster::up(&context.environment, 4)?,
        );
        let mut report = Report::default();
        for ranks in ranks.iter().copied() {
            let count = ranks.to_string();
            let by_pcmctl = |cluster: &OwnCluster<'_>| {
                let mut command = cluster.pcmctl(&["run", "-n", &count, "--"]);
                command.envs(self.variable);
                command
            };
            let by = self.launchers.iter();
            let mut variants: Vec<Variant<'_>> = by
                .map(|(name, launcher)| self.launched(name, ranks, || launcher(&count)))
                .collect();
            variants.push(self.launched("pcmctl, 1 node", ranks, || by_pcmctl(&one)));
            variants.push(self.launched("pcmctl, 4 nodes", ranks, || by_pcmctl(&four)));
            let mut series = interleave::rounds(&mut variants, context.rounds(), "ms")?;
            drop(variants);
            let (first, _) = self.launchers[0];
            for (ours, name) in series[self.launchers.len()..].iter().zip(["1 node", "4 nodes"]) {
                report.ratio(
                    format!("pcmctl, {name} / {first}, {ranks} ranks"),
                    ours.paired_ratio(&series[0]),
                    "<= 1.0",
                );
            }
            report.series.append(&mut series);
        }
        one.down()?;
        four.down()?;
        Ok(report)
    }

    fn launched<'a>(&'a self, name: &str, ranks: u32, command: impl Fn() -> Command + 'a) -> Variant<'a> {
        Variant::new(format!("{name}, {ranks} ranks"), move || {
            let mut command = command();
            command.arg(self.program).arg("init");
            start(self.bench, command, ranks)
        })
    }
}

/// Milliseconds from now to the end of MPI_Init on the last rank.
fn start(bench: &'static str, command: Command, ranks: u32) -> Result<f64, Failure> {
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
