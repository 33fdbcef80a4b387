//! The examples beside heat2d, built and run as a user does.

use std::{fs, path::Path, process::Command};
use tests::{
    binaries::built,
    cluster::{Cluster, LIMIT},
    example::{
        Example, MANY_CHANGES, NODES, assert_agrees, assert_survives, compile, for_python, micros, mpi_compiler, source,
    },
    language::cpp,
    limited,
};

fn particles(folder: &Path) -> Example {
    let flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"];
    let build = |name: &str, with: &Path| {
        let program = folder.join(name);
        let source = source("particles").join(name).with_extension("c");
        compile(
            Command::new(with)
                .args(flags)
                .arg(source)
                .args(["-lm", "-o"])
                .arg(&program),
        );
        vec![program.into_os_string()]
    };
    Example {
        name: "particles",
        plain: build("particles-plain", &mpi_compiler("mpicc")),
        malleable: build("particles", &built("pcmcc")),
        arguments: |folder, iterations, pause| {
            let (iterations, pause) = (iterations.to_string(), micros(pause));
            let log = folder.join("log").to_str().expect("UTF-8").to_owned();
            ["800", "20", "12", &iterations, &pause, &log].map(str::to_owned).into()
        },
        variables: Vec::new(),
        changes: MANY_CHANGES,
        iterations_each: 60,
        is_exact: true,
        restarts_on_the_same_number: false,
        options: &[],
    }
}

/// None where there is no C++ compiler.
fn sparse_cg(folder: &Path) -> Option<Example> {
    let build = |name: &str, with: &Path| cpp(&source("sparse_cg").join(name), with, folder);
    let mut mesh = Command::new("python3");
    let mesh = limited::run(mesh.arg(source("sparse_cg/mesh.py")).arg("300"), LIMIT);
    assert!(mesh.status.success(), "{mesh:?}");
    fs::write(folder.join("mesh.mtx"), mesh.stdout).expect("a file of the test");
    Some(Example {
        name: "sparse_cg",
        plain: build("sparse_cg-plain.cpp", &mpi_compiler("mpicxx"))?,
        malleable: build("sparse_cg.cpp", &built("pcmcxx"))?,
        // The log is the history of all residuals.
        arguments: |folder, steps, pause| {
            let file = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
            vec![file("mesh.mtx"), steps.to_string(), micros(pause), file("log")]
        },
        variables: Vec::new(),
        changes: MANY_CHANGES,
        iterations_each: 20, // of some dozens of collectives each
        is_exact: true,
        restarts_on_the_same_number: false,
        options: &["--reproducible"],
    })
}

/// None where there is no numpy.
fn gray_scott() -> Option<Example> {
    let command = |name: &str| vec!["python3".into(), source("python").join(name).into_os_string()];
    Some(Example {
        name: "gray_scott",
        plain: command("gray_scott_plain.py"),
        malleable: command("gray_scott.py"),
        arguments: |_, iterations, pause| {
            let (iterations, pause) = (iterations.to_string(), pause.as_secs_f64().to_string());
            ["60", "40", &iterations, &pause].map(str::to_owned).into()
        },
        variables: for_python()?,
        changes: MANY_CHANGES,
        iterations_each: 130,
        is_exact: true,
        restarts_on_the_same_number: false,
        options: &[],
    })
}

#[test]
fn particles_survive_changes_a_kill_and_a_restart() {
    let cluster = Cluster::up(NODES as u32);
    let example = particles(cluster.files());
    assert_agrees(&example, cluster.files());
    assert_survives(&example, cluster);
}

#[test]
fn a_sparse_matrix_survives_changes_a_kill_and_a_restart() {
    let cluster = Cluster::up(NODES as u32);
    let Some(example) = sparse_cg(cluster.files()) else {
        return;
    };
    assert_agrees(&example, cluster.files());
    assert_survives(&example, cluster);
}

#[test]
fn a_python_program_survives_changes_a_kill_and_a_restart() {
    let Some(example) = gray_scott() else { return };
    let cluster = Cluster::up(NODES as u32);
    assert_agrees(&example, cluster.files());
    assert_survives(&example, cluster);
}
