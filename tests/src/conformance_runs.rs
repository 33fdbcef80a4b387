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

/// A chapter that runs with a flag of its own, beside all others.
pub const THREADS: [&str; 2] = ["--threads", "threads"];

/// A change of the job `changing` of [`RANKS`] ranks on n0.
pub struct Change {
    /// Where the checks run that follow it.
    pub place: &'static str,
    words: &'static [&'static str],
}

/// Each for the job that the ones before it leave.
pub const CHANGES: [Change; 4] = [
    Change {
        place: "after a migration",
        words: &["migrate", "changing", "--rank", "0", "--to", "n1", "--mode", "live"],
    },
    Change {
        place: "after an expansion",
        words: &["expand", "changing", "--to", "5", "--mode", "live"],
    },
    Change {
        place: "after a shrink",
        words: &["shrink", "changing", "--to", "3", "--mode", "live"],
    },
    Change {
        place: "after a relaunch",
        words: &["expand", "changing", "--to", "4", "--mode", "relaunch"],
    },
];

/// The checks that these words choose, or all but those of threads, of a program of MPI alone.
pub fn under_mpiexec(cluster: &Cluster, program: &Path, words: &[&str]) -> Outcomes {
    let mut command = cluster.command(mpiexec());
    command.envs(TRANSPORT);
    round(command.args(["-n", RANKS]).arg(program).args(words))
}

/// The checks that these words choose, before a change, and after each.
///
/// # Panics
/// When a change or the program fails, or a round is missing.
pub fn around_changes(
    cluster: &Cluster,
    program: &Path,
    shape: &str,
    changes: &[Change],
    words: &[&str],
) -> Vec<Outcomes> {
    let run = [
        "run", "-n", RANKS, "--nodes", "n0", "--name", "changing", "--world", shape,
    ];
    let mut command = cluster.pcmctl(&run);
    command.arg("--").arg(program).arg("--changes");
    let job = Background::start(command.arg(changes.len().to_string()).args(words));
    cluster.wait_until_ranks_of_iterate("changing");
    for change in changes {
        let outcome = cluster.run(change.words);
        assert!(outcome.status.success(), "{outcome:?}");
    }
    let outcome = job.end(LIMIT);
    let rounds = read(&outcome.stdout);
    assert!(
        outcome.status.success() && rounds.len() == changes.len() + 1,
        "{outcome:?}"
    );
    rounds
}

/// The name and both words of each check that ended otherwise.
pub fn differences(place: &str, expected: &Outcomes, found: &Outcomes) -> Vec<String> {
    let word = |outcomes: &Outcomes, name: &str| outcomes.get(name).map(ToString::to_string).unwrap_or_default();
    let names = expected
        .keys()
        .chain(found.keys().filter(|name| !expected.contains_key(*name)));
    let pairs = names.map(|name| (name, word(expected, name), word(found, name)));
    let kind = |word: &str| word.split_whitespace().next().map(str::to_owned);
    pairs
        .filter(|(_, one, other)| kind(one) != kind(other))
        .map(|(name, one, other)| format!("{place}: {name}: {one} became {other}"))
        .collect()
}

/// Those of the rounds before a change and after each, of all chapters or of these.
///
/// # Panics
/// When a change or the program fails, or a round is missing.
pub fn differences_around(
    cluster: &Cluster,
    program: &Path,
    changes: &[Change],
    chapters: &[&str],
    expected: &Outcomes,
) -> Vec<String> {
    let is_asked = |check: &String| chapters.is_empty() || chapters.iter().any(|name| Some(*name) == chapter(check));
    let mut expected = expected.clone();
    expected.retain(|check, _| is_asked(check));
    let places = changes.iter().map(|change| change.place);
    let places = ["before a change"].into_iter().chain(places);
    let rounds = around_changes(cluster, program, "job", changes, chapters);
    let found = places.zip(&rounds);
    found
        .flat_map(|(place, round)| differences(place, &expected, round))
        .collect()
}

fn chapter(check: &str) -> Option<&str> {
    check.split_once('.').map(|(chapter, _)| chapter)
}
