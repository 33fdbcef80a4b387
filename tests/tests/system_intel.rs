//! Jobs of a real Intel MPI, compiled with its headers: they change live and by relaunch, leave and recover, and the
//! result is that of an undisturbed run bit for bit.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};
use tests::{
    binaries::built,
    cell::{self, PACE},
    cluster::{Cluster, LIMIT},
    crashing, intel, limited,
    malleable::Malleable,
    random_changes::{self, NODES},
    standard_abi, standbys, whole_jobs,
};

const CHANGES: u32 = 50;

/// A job whose ranks do not fit together is ended so soon.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// For `PCM_MPI`, in place of the one that the tests were started with.
fn its_prefix() -> String {
    text(&intel::prefix()).to_owned()
}

fn heat2d(cluster: &Cluster) -> String {
    text(&intel::compiled("examples/heat2d/heat2d.c", cluster.files())).to_owned()
}

#[test]
fn ranks_find_intel_mpi_by_their_run_path_and_what_it_needs_beside_it() {
    let cluster = Cluster::up(1);
    let program = intel::compiled("tests/programs/which_mpi.c", cluster.files());
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--"]);
    command
        .arg(&program)
        .env_remove("PCM_MPI")
        .env_remove("LD_LIBRARY_PATH");
    let outcome = limited::run(&mut command, LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let expected = format!("runs with {}/lib/libmpi.so.12", its_prefix());
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines, [expected.as_str(); 2]);
    cluster.down();
}

#[test]
fn ranks_with_different_mpis_are_refused_with_a_line_that_names_them() {
    // On two nodes with a rank each, none meets one of its node.
    for (nodes, ranks) in [(1, "3"), (2, "3"), (2, "2")] {
        let cluster = Cluster::up(nodes);
        let (intel, mpich) = (heat2d(&cluster), built("heat2d-c"));
        let choice = format!("[ $PMI_RANK = 0 ] && exec '{}'; exec '{intel}'", text(&mpich));
        let mut command = cluster.pcmctl(&["run", "-n", ranks, "--", "sh", "-c", &choice]);
        command.env_remove("PCM_MPI").env_remove("LD_LIBRARY_PATH");
        let began = Instant::now();
        let outcome = limited::run(&mut command, LIMIT);
        let took = began.elapsed();
        assert!(!outcome.status.success(), "{outcome:?}");
        // A rank that comes late may not be named.
        for part in [
            "its ranks have different MPIs",
            "rank 0 has MPICH Version: 5.0.2",
            "Intel(R) MPI Library 2021.18",
        ] {
            assert!(outcome.stderr.contains(part), "{part}: {outcome:?}");
        }
        assert!(took < REFUSED_WITHIN, "{took:?}: {outcome:?}");
        cluster.down();
    }
}

/// Both functions wait for the other ranks there, so both say the MPI before.
#[test]
fn ranks_that_start_it_by_a_session_and_by_mpi_init_meet() {
    for nodes in ["1", "2"] {
        let cluster = Cluster::up_with(&["--local", nodes]);
        let program = intel::compiled("tests/programs/session_or_init.c", cluster.files());
        let mut command = cluster.pcmctl(&["run", "-n", "3", "--"]);
        command
            .arg(&program)
            .env_remove("LD_LIBRARY_PATH")
            .env("PCM_MPI", its_prefix());
        let outcome = limited::run(&mut command, LIMIT);
        assert!(outcome.status.success(), "{outcome:?}");
        let mut lines: Vec<&str> = outcome.stdout.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["by MPI_Init", "by MPI_Init", "by a session"]);
        cluster.down();
    }
}

#[test]
fn ranks_that_join_with_another_mpi_are_refused_and_the_job_goes_on() {
    let cluster = Cluster::up(2);
    let (intel, mpich) = (heat2d(&cluster), built("heat2d-c"));
    let (program, is_other) = (cluster.files().join("chosen"), cluster.files().join("other"));
    let (mpich, flag) = (text(&mpich), text(&is_other));
    let script = format!("#!/bin/sh\n[ -e '{flag}' ] && exec '{intel}' \"$@\"\nexec '{mpich}' \"$@\"\n");
    fs::write(&program, script).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    let unset = [("PCM_MPI", ""), ("LD_LIBRARY_PATH", "")];
    let job = Malleable::start_with(&cluster, text(&program), 2, (6000, 1000), &unset);
    fs::write(&is_other, "").expect("a file of the test");
    for mode in ["live", "auto"] {
        let began = Instant::now();
        let outcome = cluster.run(&["expand", "1", "--to", "3", "--mode", mode]);
        let took = began.elapsed();
        println!("{mode}: {took:?}: {}", outcome.stderr);
        let said = format!(
            "the ranks have MPICH Version: 5.0.2, and processes that join them {}",
            "Intel(R) MPI Library 2021.18"
        );
        assert!(
            !outcome.status.success() && outcome.stderr.contains(&said),
            "{outcome:?}"
        );
        assert!(took < REFUSED_WITHIN, "{took:?}: {outcome:?}");
        job.goes_on();
    }
    fs::remove_file(&is_other).expect("a file of the test");
    job.resize(3);
    assert_eq!(job.ends_right().ranks, 3);
    cluster.down();
}

/// On this library of Intel MPI alone; what the first rank had loaded.
fn survives_fifty_changes(cluster: &Cluster, program: &str, library: &str) -> String {
    let prefix = its_prefix();
    let job = Malleable::start_with(cluster, program, 2, random_changes::PACE, &[("PCM_MPI", &prefix)]);
    let maps = fs::read_to_string(format!("/proc/{}/maps", job.ranks()[0].pid)).expect("the rank lives");
    assert!(
        maps.contains(&format!("/.mpi-intel/lib/{library}")) && !maps.contains("/.mpi/"),
        "{maps}"
    );
    random_changes::survives(cluster, job, CHANGES);
    maps
}

#[test]
fn fifty_random_live_changes_keep_the_result_and_who_leaves_is_gone() {
    let cluster = Cluster::up(NODES);
    survives_fifty_changes(&cluster, &heat2d(&cluster), "libmpi.so.12");
    cluster.down();
}

/// Intel MPI itself looks at the network at every ten thousandth turn when its world began on one host: what is left of
/// such a job then takes more than a minute, where the change does not fail.
#[test]
fn a_program_bound_by_messages_is_as_fast_with_ranks_of_two_worlds() {
    let cluster = Cluster::up(2);
    let program = heat2d(&cluster);
    whole_jobs::is_as_fast_with_ranks_of_two_worlds(&cluster, &program, &[("PCM_MPI", &its_prefix())]);
    cluster.down();
}

#[test]
fn mpi_is_finalized_for_a_program_whose_ranks_have_changed() {
    let cluster = Cluster::up(2);
    let program = intel::compiled("tests/programs/changing.c", cluster.files());
    whole_jobs::finalizes_after_a_change(&cluster, &program, &its_prefix());
    cluster.down();
}

#[test]
fn a_rank_that_joins_waited_before() {
    let cluster = Cluster::up(2);
    standbys::joins_and_ends_right(&cluster, &heat2d(&cluster), &[("PCM_MPI", &its_prefix())]);
    cluster.down();
}

#[test]
fn a_job_is_relaunched_and_ends_right() {
    let cluster = Cluster::up(2);
    let program = heat2d(&cluster);
    whole_jobs::is_relaunched_and_ends_right(&cluster, &program, &[("PCM_MPI", &its_prefix())]);
    cluster.down();
}

#[test]
fn a_killed_rank_costs_the_iterations_since_the_last_checkpoint_and_nothing_else() {
    let cluster = Cluster::that_crashes(3);
    let program = heat2d(&cluster);
    crashing::loses_a_rank_and_ends_right(&cluster, &program, &[("PCM_MPI", &its_prefix())]);
    cluster.down();
}

/// heat2d for the standard ABI with the header that Intel MPI has for it.
fn of_standard(cluster: &Cluster) -> String {
    text(&intel::compiled_standard("examples/heat2d/heat2d.c", cluster.files())).to_owned()
}

#[test]
fn a_program_of_its_standard_abi_keeps_its_result_over_fifty_random_live_changes() {
    let cluster = Cluster::up(NODES);
    let maps = survives_fifty_changes(&cluster, &of_standard(&cluster), "libmpi_abi.so.1");
    assert!(maps.contains("/libpcm_abi.so"), "{maps}");
    cluster.down();
}

#[test]
fn a_program_of_its_standard_abi_is_relaunched_and_ends_right() {
    let cluster = Cluster::up(2);
    whole_jobs::is_relaunched_and_ends_right(&cluster, &of_standard(&cluster), &[("PCM_MPI", &its_prefix())]);
    cluster.down();
}

#[test]
fn a_killed_rank_of_its_standard_abi_costs_the_iterations_since_the_last_checkpoint() {
    let cluster = Cluster::that_crashes(3);
    crashing::loses_a_rank_and_ends_right(&cluster, &of_standard(&cluster), &[("PCM_MPI", &its_prefix())]);
    cluster.down();
}

/// The headers differ in eight numbers, of which heat2d has none.
#[test]
fn a_program_of_one_header_of_the_standard_abi_changes_and_recovers_on_the_library_of_the_other() {
    let Some(compiler) = standard_abi::compiler() else {
        return;
    };
    let cluster = Cluster::that_crashes(NODES);
    let with = standard_abi::With::ItsOwn;
    let program = standard_abi::compiled(&compiler, "examples/heat2d/heat2d.c", cluster.files(), with);
    let folder = intel::prefix().join("lib");
    cell::survives(&cluster, &program, PACE, &folder, &[("PCM_MPI", &its_prefix())]);
    cluster.down();

    let cluster = Cluster::that_crashes(NODES);
    let library = standard_abi::library();
    let folder = library.parent().expect("a folder");
    let variables = [("PCM_MPI", text(folder.parent().expect("a folder")))];
    cell::survives(&cluster, Path::new(&of_standard(&cluster)), PACE, folder, &variables);
    cluster.down();
}

#[test]
fn a_program_spawns_children_and_all_end() {
    let cluster = Cluster::up(2);
    let program = intel::compiled("tests/programs/spawning.c", cluster.files());
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--"]);
    command.args([text(&program), text(&program), "2", "hello"]);
    let outcome = limited::run(command.env("PCM_MPI", its_prefix()), LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    // It does so twice.
    assert_eq!(outcome.stdout.matches("spawned by 2 ranks").count(), 2, "{outcome:?}");
    assert_eq!(outcome.stdout.matches(" with hello\n").count(), 4, "{outcome:?}");
    cluster.down();
}
