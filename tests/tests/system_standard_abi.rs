//! Jobs of programs that were compiled for the standard ABI of MPI-5: they change live and by relaunch and recover, and
//! the result is that of an undisturbed run bit for bit; their calls of MPI do what they do without libpcm.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use tests::{
    binaries::{built, mpiexec},
    cluster::{Cluster, LIMIT},
    conformance_runs::{self, CHECKS_MIN, RANKS, differences, differences_around, round, under_mpiexec},
    crashing,
    example::{for_python, source},
    fortran::{self, MPI_F08},
    limited,
    malleable::Malleable,
    random_changes::{self, NODES},
    standard_abi::{With, compiled, compiled_fortran, compiler, library},
    standbys, whole_jobs,
};

const CHANGES: u32 = 50;

const REFUSED_WITHIN: Duration = Duration::from_secs(2);

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
    let cluster = Cluster::up(NODES);
    let program = compiled(&compiler, HEAT, cluster.files(), With::ItsOwn);
    let job = Malleable::start(&cluster, text(&program), 2, 20_000, 300);
    assert_eq!(loaded(job.ranks()[0].pid), ["libmpi_abi.so.1", "libpcm_abi.so"]);
    random_changes::survives(&cluster, job, CHANGES);
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
    let mut command = cluster.pcmctl(&["run", "-n", "2", "-v", "--"]);
    let outcome = limited::run(command.arg(&plain).env_remove("PCM_MPI"), LIMIT);
    let expected = format!("runs with {}", library().display());
    assert!(outcome.status.success(), "{outcome:?}");
    let why = format!(
        "libpcm_abi.so, for the standard ABI of MPI-5: {} was linked with",
        plain.display()
    );
    assert!(outcome.stderr.contains(&why), "{outcome:?}");
    assert_eq!(outcome.stdout.lines().collect::<Vec<_>>(), [expected.as_str(); 2]);
    cluster.down();
}

/// There is no `pcmctl` that could choose.
#[test]
fn a_program_linked_with_another_libpcm_runs_under_mpiexec_with_its_own() {
    let Some(compiler) = compiler() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let source = "tests/programs/linked_otherwise.c";
    let program = compiled(&compiler, source, folder.path(), With::TheOther);
    for (preloaded, said) in [(None, "unset"), (Some("libm.so.6"), "libm.so.6")] {
        let mut launcher = Command::new(mpiexec());
        launcher.args(["-n", "2"]).arg(&program).arg("a word");
        launcher
            .env_remove("LD_PRELOAD")
            .envs(preloaded.map(|name| ("LD_PRELOAD", name)));
        let run = limited::run(&mut launcher, LIMIT);
        assert!(run.status.success() && run.stderr.is_empty(), "{run:?}");
        for rank in 0..2 {
            let line = format!("rank {rank} of 2, sum 1, word \"a word\", preload {said}, before unset, libpcm called");
            assert_eq!(run.stdout.lines().filter(|found| *found == line).count(), 1, "{run:?}");
        }
    }
}

/// What a user preloads is taken at its word.
#[test]
fn another_libpcm_that_is_preloaded_is_refused_under_mpiexec_with_the_way_out() {
    let Some(compiler) = compiler() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(&compiler, HEAT, folder.path(), With::ItsOwn);
    let mut launcher = Command::new(mpiexec());
    launcher.args(["-n", "1", "-env", "LD_PRELOAD"]).arg(built("libpcm.so"));
    let began = Instant::now();
    let refused = limited::run(launcher.arg(program), LIMIT);
    assert!(began.elapsed() < REFUSED_WITHIN, "{refused:?}");
    assert!(
        refused.status.code() == Some(1) && refused.stderr.contains("link the program with libpcm_abi.so in place"),
        "{refused:?}"
    );
    assert_eq!(refused.stderr.matches("pcm: ").count(), 1, "{refused:?}");
}

/// The package of PyPI has a module for the ABI of MPICH and one for Open MPI.
#[test]
fn mpi4py_has_no_module_for_the_standard_abi_and_that_is_said() {
    let (Some(_), Some(variables)) = (compiler(), for_python()) else {
        return;
    };
    let cluster = Cluster::up(1);
    let heat2d = source("heat2d/heat2d.py");
    let arguments = ["--rows", "20", "--cols", "20", "--iterations", "3"];
    let named = library();
    let run = |options: &[&str]| {
        let mut command = cluster.pcmctl(&["run", "-n", "2"]);
        command.args(options).arg("--").arg(&heat2d).args(arguments);
        command
            .envs(variables.iter().cloned())
            .env("PCM_MPI_ABI", "standard")
            .env_remove("PCM_MPI");
        let began = Instant::now();
        let refused = limited::run(&mut command, LIMIT);
        assert!(!refused.status.success(), "{refused:?}");
        assert!(began.elapsed() < REFUSED_WITHIN, "{refused:?}");
        refused.stderr
    };
    let other = run(&[]);
    assert!(other.contains("was compiled for the ABI of MPICH"), "{other}");
    // Once for each rank, however often it asked for MPI; a rank may be ended before it said so.
    assert!((1..=2).contains(&other.matches("pcm: ").count()), "{other}");
    let none = run(&["--mpi-lib", text(&named)]);
    assert!(none.contains("cannot import name 'MPI' from 'mpi4py'"), "{none}");
    cluster.down();
}

/// Its numbers are those of another ABI.
#[test]
fn a_fortran_program_over_the_bindings_of_an_mpich_is_refused() {
    let (Some(_), Some(bindings)) = (compiler(), fortran::of_debian()) else {
        return;
    };
    let cluster = Cluster::up(1);
    let mpi = library().with_file_name("libmpi.so.12");
    let program = fortran::over_debians(&bindings, MPI_F08, &mpi, cluster.files());
    let mut command = cluster.pcmctl(&["run", "--mpi-lib", text(&library()), "--"]);
    let refused = limited::run(command.arg(program), LIMIT);
    assert!(
        refused.status.code() == Some(2) && refused.stderr.contains("was compiled for the ABI of MPICH"),
        "{refused:?}"
    );
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
        unknown.status.code() == Some(2) && unknown.stderr.contains("mpich, standard or openmpi"),
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
fn a_rank_that_joins_waited_before() {
    let Some(compiler) = compiler() else { return };
    let cluster = Cluster::up(2);
    let program = compiled(&compiler, HEAT, cluster.files(), With::ItsOwn);
    standbys::joins_and_ends_right(&cluster, text(&program), &[]);
    cluster.down();
}

#[test]
fn a_job_is_relaunched_and_ends_right() {
    let Some(compiler) = compiler() else { return };
    let cluster = Cluster::up(2);
    let program = compiled(&compiler, HEAT, cluster.files(), With::ItsOwn);
    whole_jobs::is_relaunched_and_ends_right(&cluster, text(&program), &[]);
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

/// MPICH 5.0.2 has no bindings for Fortran of that ABI: the module of the examples stands for one.
#[test]
fn a_fortran_program_over_the_c_functions_changes_and_recovers() {
    if compiler().is_none() || !fortran::is_there() {
        return;
    }
    let cluster = Cluster::that_crashes(NODES);
    let program = compiled_fortran(cluster.files());
    let job = Malleable::start(&cluster, text(&program), 2, 8000, 500);
    assert_eq!(loaded(job.ranks()[0].pid), ["libmpi_abi.so.1", "libpcm_abi.so"]);
    random_changes::survives(&cluster, job, 12);
    crashing::loses_a_rank_and_ends_right(&cluster, text(&program), &[]);
    cluster.down();
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
    found.extend(differences_around(
        &cluster,
        &linked,
        &conformance_runs::CHANGES[..2],
        &[],
        &expected,
    ));
    cluster.down();
    println!("{} checks, {} differ", expected.len(), found.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}
