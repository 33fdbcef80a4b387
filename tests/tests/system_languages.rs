//! heat2d in each language but C, built and run as a user does. The lines that make it malleable are counted.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    example::{Example, MANY_CHANGES, NODES, SOME_CHANGES, assert_survives, for_python, mpi_compiler, source},
    heat2d::reference_checksum,
    language::{cpp, fortran, with_modules},
    limited,
};

const ROWS: usize = 61;
const COLS: usize = 83;

fn arguments(_: &Path, iterations: u64, pause: Duration) -> Vec<String> {
    let pause = pause.as_micros();
    let line = format!("--rows {ROWS} --cols {COLS} --iterations {iterations} --sleep-us {pause}");
    line.split(' ').map(str::to_owned).collect()
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name)
}

fn heat2d(plain: Vec<OsString>, malleable: Vec<OsString>) -> Example {
    Example {
        name: "heat2d",
        plain,
        malleable,
        arguments,
        variables: Vec::new(),
        changes: MANY_CHANGES,
        iterations_each: 60,
        is_exact: true,
        restarts_on_the_same_number: false,
        options: &[],
    }
}

/// Lines that the malleable version has and the plain one has not.
fn lines_changed(plain: &str, malleable: &str) -> usize {
    let files = [plain, malleable].map(|name| source("heat2d").join(name));
    let outcome = limited::run(Command::new("diff").args(files), LIMIT);
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    outcome.stdout.lines().filter(|line| line.starts_with("> ")).count()
}

fn assert_right(example: &Example, folder: &Path) {
    for (iterations, program) in [(1, &example.plain), (200, &example.plain), (200, &example.malleable)] {
        for ranks in [1, 4, 7] {
            let closing = example.under_mpiexec(program, folder, ranks, iterations);
            assert_eq!(
                closing.checksum,
                reference_checksum(ROWS, COLS, iterations),
                "{program:?} on {ranks}"
            );
        }
    }
}

#[test]
fn heat2d_in_cpp_survives_changes_a_kill_and_a_restart() {
    let cluster = Cluster::up(NODES as u32);
    let (plain, malleable) = (source("heat2d/heat2d-plain.cpp"), source("heat2d/heat2d.cpp"));
    let Some(plain) = cpp(&plain, &mpi_compiler("mpicxx"), cluster.files()) else {
        return;
    };
    let malleable = cpp(&malleable, &built("pcmcxx"), cluster.files()).expect("there is a compiler");
    let example = heat2d(plain, malleable);
    assert_right(&example, cluster.files());
    assert_survives(&example, cluster);
}

#[test]
fn heat2d_in_cpp_becomes_malleable_in_seven_lines() {
    let lines = lines_changed("heat2d-plain.cpp", "heat2d.cpp");
    assert!(lines <= 7, "{lines}");
}

/// An exception of a hook passes through C and ends the program, with what it said.
fn assert_hook_fails(program: &[OsString], variables: &[(&str, OsString)]) {
    let cluster = Cluster::up(2);
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--"]);
    command.args(program).args(["100000", "10000", "fail"]);
    command.envs(variables.iter().cloned());
    let job = Background::start(&mut command);
    cluster.wait_until_ranks_iterate();
    cluster.run(&["expand", "1", "--to", "3"]);
    let outcome = job.end(3 * LIMIT);
    assert!(!outcome.status.success(), "{outcome:?}");
    assert!(outcome.stderr.contains("planted in a hook"), "{outcome:?}");
    cluster.down();
}

#[test]
fn an_exception_of_a_hook_in_cpp_arrives_at_iterate() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = cpp(&program("session.cpp"), &built("pcmcxx"), folder.path()) else {
        return;
    };
    assert_hook_fails(&program, &[]);
}

#[test]
fn an_exception_of_a_hook_in_python_arrives_at_iterate() {
    let Some(variables) = for_python() else { return };
    assert_hook_fails(&python(program("session.py")), &variables);
}

/// An example of its own, which is malleable only.
fn session(program: Vec<OsString>) -> Example {
    Example {
        name: "session",
        plain: program.clone(),
        malleable: program,
        arguments: |_, iterations, pause| vec![iterations.to_string(), pause.as_micros().to_string()],
        variables: Vec::new(),
        changes: SOME_CHANGES,
        iterations_each: 250,
        is_exact: true,
        restarts_on_the_same_number: true,
        options: &[],
    }
}

#[test]
fn values_hooks_and_custom_data_of_cpp_survive_changes_a_kill_and_a_restart() {
    let cluster = Cluster::up(NODES as u32);
    let Some(program) = cpp(&program("session.cpp"), &built("pcmcxx"), cluster.files()) else {
        return;
    };
    assert_survives(&session(program), cluster);
}

#[test]
fn heat2d_in_fortran_survives_changes_a_kill_and_a_restart() {
    let cluster = Cluster::up(NODES as u32);
    let folder = cluster.files();
    let plain = [source("heat2d/mpi_over_c.f90"), source("heat2d/heat2d-plain.f90")];
    let Some(plain) = fortran("heat2d-plain", &plain, &mpi_compiler("mpicc"), folder) else {
        return;
    };
    let sources = with_modules(source("heat2d/heat2d.f90"));
    let malleable = fortran("heat2d", &sources, &built("pcmfort"), folder).expect("there is a compiler");
    let example = heat2d(plain, malleable);
    assert_right(&example, cluster.files());
    assert_survives(&example, cluster);
}

#[test]
fn heat2d_in_fortran_becomes_malleable_in_ten_lines() {
    let lines = lines_changed("heat2d-plain.f90", "heat2d.f90");
    assert!(lines <= 10, "{lines}");
}

#[test]
fn values_hooks_and_custom_data_of_fortran_survive_changes_a_kill_and_a_restart() {
    let cluster = Cluster::up(NODES as u32);
    let sources = with_modules(program("session.f90"));
    let Some(program) = fortran("session", &sources, &built("pcmfort"), cluster.files()) else {
        return;
    };
    assert_survives(&session(program), cluster);
}

#[test]
fn allocatables_of_fortran_survive_changes_a_kill_and_a_restart() {
    let cluster = Cluster::up(NODES as u32);
    let sources = with_modules(program("adopt.f90"));
    let Some(program) = fortran("adopt", &sources, &built("pcmfort"), cluster.files()) else {
        return;
    };
    let example = Example {
        name: "adopt",
        restarts_on_the_same_number: false,
        options: &[],
        ..session(program)
    };
    assert_survives(&example, cluster);
}

fn python(program: PathBuf) -> Vec<OsString> {
    vec!["python3".into(), program.into_os_string()]
}

#[test]
fn heat2d_in_python_survives_changes_a_kill_and_a_restart() {
    let Some(variables) = for_python() else { return };
    let cluster = Cluster::up(NODES as u32);
    let (plain, malleable) = (source("heat2d/heat2d_plain.py"), source("heat2d/heat2d.py"));
    let example = Example {
        variables,
        changes: MANY_CHANGES,
        iterations_each: 130,
        ..heat2d(python(plain), python(malleable))
    };
    assert_right(&example, cluster.files());
    assert_survives(&example, cluster);
}

#[test]
fn heat2d_in_python_becomes_malleable_in_six_lines() {
    let lines = lines_changed("heat2d_plain.py", "heat2d.py");
    assert!(lines <= 6, "{lines}");
}

#[test]
fn heat2d_in_rust_survives_changes_a_kill_and_a_restart() {
    let cluster = Cluster::up(NODES as u32);
    let [plain, malleable] = ["heat2d-plain", "heat2d"].map(|name| vec![built(name).into_os_string()]);
    let example = heat2d(plain, malleable);
    assert_right(&example, cluster.files());
    assert_survives(&example, cluster);
}

#[test]
fn views_values_hooks_and_custom_data_of_python_survive_changes_a_kill_and_a_restart() {
    let Some(variables) = for_python() else { return };
    let cluster = Cluster::up(NODES as u32);
    let example = Example {
        variables,
        changes: SOME_CHANGES,
        iterations_each: 400,
        ..session(python(program("session.py")))
    };
    assert_survives(&example, cluster);
}
