//! Which MPI the ranks of a job get: the one that the user names, else what the program was linked with; and programs
//! that are refused for theirs.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};
use tests::{
    binaries::built,
    c_program::compiled,
    cluster::{Cluster, LIMIT},
    limited,
};

fn mpi_folder() -> PathBuf {
    let path = env::var_os("PCM_MPI_LIB").map(PathBuf::from);
    path.expect("PCM_MPI_LIB is not set: test through `cargo xtask test`, or `eval \"$(cargo xtask env)\"` first")
}

#[test]
fn ranks_get_the_mpi_that_is_named_else_that_of_the_environment_else_the_programs_own() {
    let cluster = Cluster::up(1);
    let program = compiled("programs/which_mpi.c", cluster.files());
    // MPI finds its other libraries from the place by which it was loaded.
    let by_option = cluster.files().join("by option");
    let prefix = cluster.files().join("prefix");
    fs::create_dir(&prefix).expect("a folder of the test");
    for link in [&by_option, &prefix.join("lib")] {
        symlink(mpi_folder(), link).expect("a link in a folder of the test");
    }
    let run = |option: Option<&str>, variable: Option<&str>| {
        let mut arguments = vec!["run", "-n", "2"];
        arguments.extend(option.into_iter().flat_map(|path| ["--mpi-lib", path]));
        arguments.push("--");
        let mut command = cluster.pcmctl(&arguments);
        command.arg(&program).env_remove("PCM_MPI");
        command.envs(variable.map(|prefix| ("PCM_MPI", prefix)));
        limited::run(&mut command, LIMIT)
    };
    let text = |path: &PathBuf| path.to_str().expect("UTF-8").to_owned();
    let own = mpi_folder().join("libmpi.so.12").canonicalize().expect("an MPI");
    let (option, variable) = (text(&by_option), text(&prefix));
    for (option, variable, expected) in [
        (Some(&option), Some(&variable), format!("{option}/libmpi.so.12")),
        (None, Some(&variable), format!("{variable}/lib/libmpi.so.12")),
        (None, None, text(&own)),
    ] {
        let outcome = run(option.map(String::as_str), variable.map(String::as_str));
        assert!(outcome.status.success(), "{outcome:?}");
        let lines: Vec<&str> = outcome.stdout.lines().collect();
        assert_eq!(lines, vec![format!("runs with {expected}"); 2]);
    }
    let nowhere = run(Some("/nowhere"), None);
    assert!(
        nowhere.status.code() == Some(2) && nowhere.stderr.contains("--mpi-lib /nowhere"),
        "{nowhere:?}"
    );
    cluster.down();
}

fn assert_explains(said: &str, libpcm: &str, mpi: &str) {
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].starts_with("pcmctl: libpcm: ") && lines[0].contains(libpcm),
        "{libpcm}: {said}"
    );
    assert!(
        lines[1].starts_with("pcmctl: MPI: ") && lines[1].contains(mpi),
        "{mpi}: {said}"
    );
    assert!(
        said.contains("  FI_PROVIDER=tcp  ours\n      the provider that"),
        "{said}"
    );
    assert!(
        said.contains("outnumber the CPUs of a node:\n  MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE=0  ours"),
        "{said}"
    );
}

#[test]
fn a_verbose_run_says_what_was_chosen_and_why() {
    let cluster = Cluster::up(1);
    let program = compiled("programs/which_mpi.c", cluster.files());
    let (program, own) = (program.to_str().expect("UTF-8"), mpi_folder().join("libmpi.so.12"));
    let own = own.to_str().expect("UTF-8");
    let said = |options: &[&str], program: &str, prefix: Option<&str>| {
        let mut command = cluster.pcmctl(&["run", "-v"]);
        command.args(options).arg("--").arg(program);
        command
            .env_remove("PCM_MPI")
            .envs(prefix.map(|prefix| ("PCM_MPI", prefix)));
        command.env_remove("FI_PROVIDER");
        let outcome = limited::run(&mut command, LIMIT);
        assert!(outcome.status.success(), "{outcome:?}");
        outcome.stderr
    };
    let prefix = mpi_folder().join("..");
    let prefix = prefix.to_str().expect("UTF-8");
    let cases = [
        (
            said(&[], program, None),
            format!("libpcm.so, for the ABI of MPICH: {program} was linked with libmpi.so.12"),
            format!("/libmpi.so.12: {program} was linked with it"),
        ),
        (
            said(&[], program, Some(prefix)),
            "libpcm.so, for the ABI of MPICH".to_owned(),
            format!("{prefix}/lib/libmpi.so.12: the one in PCM_MPI"),
        ),
        (
            said(&["--mpi-lib", own], program, None),
            format!("for the ABI of MPICH: {own} has it"),
            format!("{own}: named by --mpi-lib or PCM_MPI_LIBRARY"),
        ),
        (
            said(&[], "true", None),
            "the file of true names no MPI".to_owned(),
            "nothing names one".to_owned(),
        ),
        (
            said(&["--no-preload"], program, None),
            "libpcm: not preloaded: --no-preload".to_owned(),
            "MPI: what the ranks load".to_owned(),
        ),
    ];
    for (said, libpcm, mpi) in cases {
        assert_explains(&said, &libpcm, &mpi);
    }
    let by_hand = said(&["--mpi", "FI_PROVIDER=sockets"], program, None);
    assert!(
        by_hand.contains("  FI_PROVIDER=sockets  from the command line"),
        "{by_hand}"
    );
    cluster.down();
}

#[test]
fn a_program_with_mpi_inside_is_refused_before_it_starts_and_one_with_libpcm_inside_is_not() {
    let cluster = Cluster::up(1);
    let source = cluster.files().join("inside.c");
    fs::write(
        &source,
        "int PMPI_Init(void) { return 0; }\nint main(void) { return PMPI_Init(); }\n",
    )
    .expect("a source");
    let program = cluster.files().join("inside");
    let outcome = Command::new("cc").arg("-o").arg(&program).arg(&source).status();
    assert!(outcome.expect("a C compiler").success());
    let run = |options: &[&str], program: &Path| {
        let mut command = cluster.pcmctl(&["run"]);
        limited::run(command.args(options).arg("--").arg(program), LIMIT)
    };
    let refused = run(&[], &program);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("linked statically") && refused.stderr.contains("--no-preload"),
        "{refused:?}"
    );
    assert!(run(&["--no-preload"], &program).status.success());
    // Its symbols of MPI are libpcm's own.
    let with_libpcm = run(&[], &built("heat2d"));
    assert!(!with_libpcm.stderr.contains("linked statically"), "{with_libpcm:?}");
    cluster.down();
}
