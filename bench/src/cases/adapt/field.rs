//! Where the races are run: a cluster of virtual nodes with a share of a CPU each. Needs root.

use super::{super::bench::Context, race::Shares};
use limited_nodes::{LimitedNodes, Load, Place, Share};
use pcm_bench::{Failure, OwnCluster, environment::Environment, heat2d, trial};
use std::{process::Command, thread, time::Duration};

/// CPU time of a node of speed 1, in thousandths of a CPU; six such nodes leave half a CPU of two.
const SHARE_PERMILLE: u32 = 250;

/// Shorter than an iteration, so that being stopped looks like being slow.
const PERIOD_US: u32 = 5_000;

/// The name of a job that is alone.
pub(super) const ONLY: &str = "only";

/// Agents look once a second whether their node is limited.
const KNOWN_AFTER: Duration = Duration::from_millis(1_500);

/// Virtual nodes are on one host; real ones have no memory in common, so messages between them go over the network here
/// too.
const NO_SHARED_MEMORY: &str = "MPIR_CVAR_NOLOCAL";

pub(super) struct Field<'a> {
    pub(super) cluster: OwnCluster<'a>,
    limited: LimitedNodes,
    bench: &'static str,
    cpus: u32,
    speeds: Vec<f64>,
}

fn share(speed: f64) -> Share {
    Share {
        quota_us: (f64::from(PERIOD_US * SHARE_PERMILLE / 1000) * speed).max(1000.0) as u32,
        period_us: PERIOD_US.max((1000.0 / speed) as u32 * 1000 / SHARE_PERMILLE),
    }
}

impl<'a> Field<'a> {
    /// A node of each of these speeds.
    pub(super) fn up(environment: &'a Environment, bench: &'static str, speeds: &[f64]) -> Result<Self, Failure> {
        let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        let list: Vec<String> = (0..speeds.len() as u32).map(|node| (node % cpus).to_string()).collect();
        let list: Vec<&str> = list.iter().map(String::as_str).collect();
        let cluster = OwnCluster::up_on(environment, &list)?;
        let of_node = |node: &str| share(number(node).and_then(|at| speeds.get(at)).copied().unwrap_or(1.0));
        let limited = LimitedNodes::limit_each(&cluster.id().unwrap_or_default(), of_node);
        let limited = limited.map_err(|problem| Failure::bench(bench, problem))?;
        thread::sleep(KNOWN_AFTER);
        Ok(Self {
            cluster,
            limited,
            bench,
            cpus,
            speeds: speeds.to_vec(),
        })
    }

    fn place(&self, node: usize) -> Place {
        self.limited.place(&format!("n{node}"), node as u32 % self.cpus)
    }

    /// Others compute on a node until it is dropped.
    pub(super) fn load(&self, node: usize, processes: usize) -> Result<Load, Failure> {
        Load::on(&self.place(node), processes).map_err(|source| Failure::Start {
            program: "sh".into(),
            source,
        })
    }

    /// One more node of speed 1 joins.
    pub(super) fn join(&mut self) -> Result<(), Failure> {
        let node = self.speeds.len();
        let cpu = (node as u32 % self.cpus).to_string();
        let join = self.cluster.pcmctl(&["join", &format!("n{node}"), "--cpus", &cpu]);
        trial::run(self.bench, join, Duration::from_secs(60))?;
        self.speeds.push(1.0);
        self.limited
            .limit_new(|_| share(1.0))
            .map_err(|problem| Failure::bench(self.bench, problem))
    }

    /// Gives the ranks of the only job these shares of the data.
    pub(super) fn share(&self, shares: Shares) -> Result<(), Failure> {
        let shares = shares.map(|share| share.to_string()).join(",");
        let rebalance = self.cluster.pcmctl(&["rebalance", ONLY, "--shares", &shares]);
        trial::run(self.bench, rebalance, Duration::from_secs(30)).map(|_| ())
    }

    /// The program under the daemons, with options of `run`.
    pub(super) fn ours(&self, options: &[&str], program: &[String]) -> Command {
        let mut command = self.cluster.pcmctl(&["run"]);
        command.args(options).args(["--mpi", &format!("{NO_SHARED_MEMORY}=1")]);
        command.arg("--").args(program);
        command
    }

    /// The same under plain mpiexec, a rank on each of the first nodes.
    pub(super) fn plain(&self, environment: &Environment, ranks: usize, program: &[String]) -> Command {
        let mut command = environment.command(&environment.mpiexec);
        command.env(NO_SHARED_MEMORY, "1");
        for rank in 0..ranks {
            if rank > 0 {
                command.arg(":");
            }
            let placed = self.place(rank).command(&program[0]);
            command
                .args(["-n", "1"])
                .arg(placed.get_program())
                .args(placed.get_args());
            command.args(&program[1..]);
        }
        command
    }

    /// Takes it down.
    pub(super) fn down(self) -> Result<(), Failure> {
        self.cluster.down()
    }
}

/// heat2d with a plate of so many rows and columns, which says how far it is.
pub(super) fn plate(context: &Context, (rows, cols): (u32, u32), iterations: u64) -> Vec<String> {
    let program = context.program("heat2d-c").display().to_string();
    let plate = heat2d::plate(rows, cols, iterations);
    [program]
        .into_iter()
        .chain(plate)
        .chain(["--progress".into()])
        .collect()
}

fn number(node: &str) -> Option<usize> {
    node.strip_prefix('n')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_speed_is_half_a_share_and_no_quota_is_too_small_for_the_kernel() {
        let part = |share: Share| f64::from(share.quota_us) / f64::from(share.period_us);
        assert!((part(share(1.0)) / part(share(0.5)) - 2.0).abs() < 0.01);
        assert!(share(0.25).quota_us >= 1000 && (part(share(1.0)) / part(share(0.25)) - 4.0).abs() < 0.01);
    }
}
