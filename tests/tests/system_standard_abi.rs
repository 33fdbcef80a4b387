//! Jobs of programs that were compiled for the standard ABI of MPI-5: they change live and by relaunch and recover, and
//! the result is that of an undisturbed run bit for bit; their calls of MPI do what they do without libpcm.

use pcm_proto::random::Random;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tests::{
    asked,
    cluster::{Cluster, LIMIT},
    conformance::Outcomes,
    conformance_runs::{self, CHECKS_MIN, RANKS, around_changes, round, under_mpiexec},
    crashing, limited,
    malleable::Malleable,
    random_changes::{self, NODES},
    standard_abi::{With, compiled, compiler, library},
};

const CHANGES: u32 = 50;

const HEAT: &str = "examples/heat2d/heat2d.c";
const CONFORMANCE: &str = "tests/programs/conformance";

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Files with program code in a process whose names begin so, without their folders.
fn loaded(pid: u32) -> Vec<String> {
    let maps = proc_files::mappings(pid).expect("the rank lives");
    let files = maps.iter().filter(|mapping| mapping.is_executable);
    let names = files
        .filter_map(|mapping| mapping.path.rsplit_once('/'))
        .map(|(_, name)| name);
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with("libpcm") || name.starts_with("libmpi"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

#[test]
fn fifty_random_live_changes_keep_the_result_and_who_leaves_is_gone() {
    let Some(compiler) = compiler() else { return };
    let seed = asked::number("PCM_TEST_SEED").unwrap_or(u64::from(std::process::id()));
    println!("seed {seed}: PCM_TEST_SEED={seed} replays the changes");
    let mut random = Random::new(seed);
    let cluster = Cluster::up(NODES);
    let program = compiled(&compiler, HEAT, cluster.files(), With::ItsOwn);
    let job = Malleable::start(&cluster, text(&program), 2, 20_000, 300);
    assert_eq!(loaded(job.ranks()[0].pid), ["libmpi_abi.so.1", "libpcm_abi.so"]);
    random_changes::make(&cluster, &job, CHANGES, &mut random);
    job.ends_right();
    cluster.down();
}

#[test]
fn a_program_linked_with_the_other_libpcm_or_with_none_works_with_its_own() {
    let Some(compiler) = compiler() else { return };
    let cluster = Cluster::up(2);
    let program = compiled(&compiler, HEAT, cluster.files(), With::TheOther);
    let job = Malleable::start(&cluster, text(&program), 2, 6000, 500);
    let names = loaded(job.ranks()[0].pid);
    assert!(names.contains(&"libpcm_abi.so".to_owned()), "{names:?}");
    job.migrate(1, "n0");
    job.resize(3);
    job.resize(1);
    assert_eq!(job.ends_right().ranks, 1);
    // Without a variable that names an MPI: by the run path of the program.
    let plain = compiled(&compiler, "tests/programs/which_mpi.c", cluster.files(), With::Nothing);
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--"]);
    let outcome = limited::run(command.arg(&plain).env_remove("PCM_MPI"), LIMIT);
    let expected = format!("runs with {}", library().display());
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stdout.lines().collect::<Vec<_>>(), [expected.as_str(); 2]);
    cluster.down();
}

/// What starts it has no MPI.
fn in_a_shell(cluster: &Cluster, program: &Path, abi: Option<&str>) -> limited::Outcome {
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--", "sh", "-c", "exec \"$0\""]);
    command.arg(program).env_remove("PCM_MPI");
    limited::run(command.envs(abi.map(|abi| ("PCM_MPI_ABI", abi))), LIMIT)
}

#[test]
fn a_program_behind_a_script_is_told_which_word_it_needs() {
    let Some(compiler) = compiler() else { return };
    let cluster = Cluster::up(1);
    let program = compiled(&compiler, "tests/programs/which_mpi.c", cluster.files(), With::Nothing);
    let refused = in_a_shell(&cluster, &program, None);
    assert!(
        !refused.status.success() && refused.stderr.contains("PCM_MPI_ABI=standard"),
        "{refused:?}"
    );
    let told = in_a_shell(&cluster, &program, Some("standard"));
    assert!(told.status.success(), "{told:?}");
    let expected = format!("runs with {}", library().display());
    assert_eq!(told.stdout.lines().collect::<Vec<_>>(), [expected.as_str(); 2]);
    let unknown = in_a_shell(&cluster, &program, Some("another"));
    assert!(
        unknown.status.code() == Some(2) && unknown.stderr.contains("mpich or standard"),
        "{unknown:?}"
    );
    // One library for a program of one ABI, the other one named for it.
    let other = library().with_file_name("libmpi.so.12");
    let mut command = cluster.pcmctl(&["run", "--mpi-lib", text(&other), "--"]);
    let wrong = limited::run(command.arg(&program), LIMIT);
    assert!(
        wrong.status.code() == Some(2) && wrong.stderr.contains("was compiled for the standard ABI"),
        "{wrong:?}"
    );
    cluster.down();
}

#[test]
fn a_job_is_relaunched_and_ends_right() {
    let Some(compiler) = compiler() else { return };
    let cluster = Cluster::up(2);
    let program = compiled(&compiler, HEAT, cluster.files(), With::ItsOwn);
    let job = Malleable::start(&cluster, text(&program), 2, 6000, 500);
    for to in ["3", "1"] {
        let verb = if to == "3" { "expand" } else { "shrink" };
        let outcome = cluster.run(&[verb, "1", "--to", to, "--mode", "relaunch"]);
        assert!(outcome.status.success(), "{outcome:?}\n{}", job.told());
    }
    assert_eq!(job.ends_right().ranks, 1);
    cluster.down();
}

#[test]
fn a_killed_rank_costs_the_iterations_since_the_last_checkpoint_and_nothing_else() {
    let Some(compiler) = compiler() else { return };
    let cluster = Cluster::that_crashes(3);
    let program = compiled(&compiler, HEAT, cluster.files(), With::ItsOwn);
    crashing::loses_a_rank_and_ends_right(&cluster, text(&program), &[]);
    cluster.down();
}

/// The name and both words of each check that ended otherwise.
fn differences(place: &str, expected: &Outcomes, found: &Outcomes) -> Vec<String> {
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

#[test]
fn every_check_of_conformance_ends_as_without_libpcm() {
    let Some(compiler) = compiler() else { return };
    let cluster = Cluster::up(2);
    let folder = |name: &str| -> PathBuf {
        let folder = cluster.files().join(name);
        fs::create_dir(&folder).expect("a folder of the test");
        folder
    };
    let plain = compiled(&compiler, CONFORMANCE, &folder("plain"), With::Nothing);
    let linked = compiled(&compiler, CONFORMANCE, &folder("linked"), With::ItsOwn);
    let expected = under_mpiexec(&cluster, &plain, &[]);
    assert!(expected.len() >= CHECKS_MIN, "{}", expected.len());
    let mut found = differences("mpiexec with libpcm", &expected, &under_mpiexec(&cluster, &linked, &[]));
    let mut command = cluster.pcmctl(&["run", "-n", RANKS, "--"]);
    found.extend(differences("pcmctl run", &expected, &round(command.arg(&plain))));
    let changes = &conformance_runs::CHANGES[..2];
    let around = around_changes(&cluster, &linked, "job", changes, &[]);
    let places = ["before a change"]
        .into_iter()
        .chain(changes.iter().map(|change| change.place));
    for (place, outcomes) in places.zip(&around) {
        found.extend(differences(place, &expected, outcomes));
    }
    cluster.down();
    println!("{} checks, {} differ", expected.len(), found.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}
