//! The conformance program in its surroundings, once, and before and after changes of its job.

use crate::{
    background::Background,
    binaries::mpiexec,
    cluster::{Cluster, LIMIT},
    conformance::{Outcomes, read},
    limited,
};
use std::{path::Path, process::Command, time::Duration};

/// Far more than all checks take once. Under mpiexec ranks that wait keep their CPUs from those that work, so a machine
/// that does much else needs many times the seconds of an idle one.
pub const ROUND_MAX: Duration = Duration::from_secs(240);

/// What the daemons choose for their ranks: without it, MPICH's own choice does not let a program spawn here.
const TRANSPORT: [(&str, &str); 2] = [("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp")];

/// Ranks of the program.
pub const RANKS: &str = "4";

/// A chapter that is lost is noticed: there are at least so many checks.
pub const CHECKS_MIN: usize = 300;

/// The one round of checks that a command runs.
///
/// # Panics
/// As [`the_round`].
pub fn round(command: &mut Command) -> Outcomes {
    the_round(&limited::run(command, ROUND_MAX))
}

/// The one round of checks in the output of a program.
///
/// # Panics
/// When the program failed, or made another number of rounds.
pub fn the_round(outcome: &limited::Outcome) -> Outcomes {
    let mut rounds = read(&outcome.stdout);
    assert!(outcome.status.success() && rounds.len() == 1, "{outcome:?}");
    rounds.remove(0)
}

/// The checks of these chapters, or of all, of a program of MPI alone.
pub fn under_mpiexec(cluster: &Cluster, program: &Path, chapters: &[&str]) -> Outcomes {
    let mut command = cluster.command(mpiexec());
    command.envs(TRANSPORT);
    round(command.args(["-n", RANKS]).arg(program).args(chapters))
}

/// The checks before a change, and after each.
///
/// # Panics
/// When a change or the program fails.
pub fn around_changes(cluster: &Cluster, program: &Path) -> Vec<Outcomes> {
    let mut command = cluster.pcmctl(&["run", "-n", RANKS, "--nodes", "n0", "--name", "changing", "--"]);
    let job = Background::start(command.arg(program).args(["--changes", "2"]));
    cluster.wait_until_ranks_of_iterate("changing");
    let changes: [&[&str]; 2] = [
        &["migrate", "changing", "--rank", "0", "--to", "n1", "--mode", "live"],
        &["expand", "changing", "--to", "5", "--mode", "live"],
    ];
    for change in changes {
        let outcome = cluster.run(change);
        assert!(outcome.status.success(), "{outcome:?}");
    }
    let outcome = job.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    read(&outcome.stdout)
}
