//! The programs of the gallery that no other test runs, under changes, a kill and a restart; and the page that shows
//! what makes each program of `examples/` malleable.

use std::{collections::BTreeSet, ffi::OsString, fs, path::Path, process::Command, time::Duration};
use tests::{
    binaries::built,
    cluster::{Cluster, LIMIT},
    example::{Example, MANY_CHANGES, NODES, assert_agrees, assert_survives, for_python, micros, mpi_compiler, source},
    language::{fortran, with_modules},
    limited,
    pieces::{pieces, root},
};

fn python(name: &'static str, arguments: fn(&Path, u64, Duration) -> Vec<String>) -> Option<Example> {
    let command = |file: String| -> Vec<OsString> { vec!["python3".into(), source(name).join(file).into_os_string()] };
    Some(Example {
        name,
        plain: command(format!("{name}_plain.py")),
        malleable: command(format!("{name}.py")),
        arguments,
        variables: for_python()?,
        changes: MANY_CHANGES,
        iterations_each: 130,
        is_exact: true,
        restarts_on_the_same_number: false,
        options: &[],
    })
}

fn life() -> Option<Example> {
    python("life", |_, generations, pause| {
        let (generations, pause) = (generations.to_string(), pause.as_secs_f64().to_string());
        ["61", "45", &generations, &pause].map(str::to_owned).into()
    })
}

fn farm() -> Option<Example> {
    python("farm", |_, steps, pause| {
        let (steps, pause) = (steps.to_string(), pause.as_secs_f64().to_string());
        ["150", "12", &steps, &pause].map(str::to_owned).into()
    })
}

/// None where there is no Fortran compiler.
fn jacobi3d(folder: &Path) -> Option<Example> {
    let plain = [source("heat2d/mpi_over_c.f90"), source("jacobi3d/jacobi3d-plain.f90")];
    let plain = fortran("jacobi3d-plain", &plain, &mpi_compiler("mpicc"), folder)?;
    let sources = with_modules(source("jacobi3d/jacobi3d.f90"));
    Some(Example {
        name: "jacobi3d",
        plain,
        malleable: fortran("jacobi3d", &sources, &built("pcmfort"), folder)?,
        arguments: |_, iterations, pause| {
            let (iterations, pause) = (iterations.to_string(), micros(pause));
            ["9", "17", "14", &iterations, &pause].map(str::to_owned).into()
        },
        variables: Vec::new(),
        changes: MANY_CHANGES,
        iterations_each: 60,
        is_exact: true,
        restarts_on_the_same_number: false,
        options: &[],
    })
}

fn assert_agrees_and_survives(example: &Example, cluster: Cluster) {
    assert_agrees(example, cluster.files());
    assert_survives(example, cluster);
}

#[test]
fn the_game_of_life_survives_changes_a_kill_and_a_restart() {
    let Some(example) = life() else { return };
    assert_agrees_and_survives(&example, Cluster::up(NODES as u32));
}

#[test]
fn a_monte_carlo_farm_survives_changes_a_kill_and_a_restart() {
    let Some(example) = farm() else { return };
    assert_agrees_and_survives(&example, Cluster::up(NODES as u32));
}

#[test]
fn jacobi_on_a_grid_of_ranks_survives_changes_a_kill_and_a_restart() {
    let cluster = Cluster::up(NODES as u32);
    let Some(example) = jacobi3d(cluster.files()) else {
        return;
    };
    assert_agrees_and_survives(&example, cluster);
}

/// A program of the gallery: its plain and its malleable version, and the most lines that may make the difference.
struct Shown {
    plain: &'static str,
    malleable: &'static str,
    lines_max: usize,
}

const fn shown(plain: &'static str, malleable: &'static str, lines_max: usize) -> Shown {
    Shown {
        plain,
        malleable,
        lines_max,
    }
}

/// In the order of the page.
const GALLERY: [Shown; 12] = [
    shown("heat2d/heat2d-plain.c", "heat2d/heat2d.c", 7),
    shown("heat2d/heat2d-plain.cpp", "heat2d/heat2d.cpp", 7),
    shown("heat2d/heat2d-plain.f90", "heat2d/heat2d.f90", 10),
    shown("heat2d/heat2d_plain.py", "heat2d/heat2d.py", 6),
    shown("heat2d/src/plain.rs", "heat2d/src/run.rs", 29),
    shown("life/life_plain.py", "life/life.py", 6),
    shown("farm/farm_plain.py", "farm/farm.py", 18),
    shown("jacobi3d/jacobi3d-plain.f90", "jacobi3d/jacobi3d.f90", 25),
    shown("particles/particles-plain.c", "particles/particles.c", 53),
    shown("python/gray_scott_plain.py", "python/gray_scott.py", 5),
    shown("sparse_cg/sparse_cg-plain.cpp", "sparse_cg/sparse_cg.cpp", 30),
    shown("render/render-plain.c", "render/render.c", 38),
];

/// What `diff -U1` says of both versions, without the names of the files.
fn difference(program: &Shown) -> String {
    let mut diff = Command::new("diff");
    diff.arg("-U1").args([program.plain, program.malleable].map(source));
    let outcome = limited::run(&mut diff, LIMIT);
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    outcome.stdout.split_inclusive('\n').skip(2).collect()
}

#[test]
fn the_gallery_shows_what_makes_each_program_malleable() {
    let shown_there = pieces("gallery.md", "diff");
    for (number, program) in GALLERY.iter().enumerate() {
        let difference = difference(program);
        let is_there = shown_there.get(number) == Some(&difference);
        assert!(
            is_there,
            "{}: docs/gallery.md must show\n{difference}",
            program.malleable
        );
    }
    assert_eq!(shown_there.len(), GALLERY.len());
}

#[test]
fn the_gallery_counts_the_lines_added_or_changed() {
    let page = fs::read_to_string(root().join("docs/gallery.md")).expect("the page");
    for program in &GALLERY {
        let lines = difference(program).lines().filter(|line| line.starts_with('+')).count();
        assert!(lines <= program.lines_max, "{}: {lines} lines", program.malleable);
        let row = page
            .lines()
            .find(|line| line.starts_with('|') && line.contains(&format!("/{})", program.malleable)));
        let row = row.unwrap_or_else(|| panic!("no row links to {}", program.malleable));
        assert!(row.ends_with(&format!("| {lines} |")), "{lines} lines, but: {row}");
    }
}

/// Names of the functions that a program in Rust calls.
fn calls(program: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(source(program)).expect("a program");
    let before = text.match_indices('(').map(|(at, _)| &text[..at]);
    let name = |before: &str| {
        let other = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
        before.rsplit(other).next().unwrap_or_default().to_owned()
    };
    before.map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn heat2d_in_rust_becomes_malleable_with_five_calls() {
    let plain = calls("heat2d/src/plain.rs");
    let mut added: Vec<String> = calls("heat2d/src/run.rs").difference(&plain).cloned().collect();
    // What describes an axis, and what handles a failure.
    let beside = [
        "block",
        "whole",
        "with_halo",
        "default",
        "abort",
        "Err",
        "unwrap_or_default",
    ];
    added.retain(|name| !beside.contains(&name.as_str()));
    assert_eq!(
        added,
        ["array_of", "bounds", "iterate", "value_of"],
        "and Session::start"
    );
    let text = fs::read_to_string(source("heat2d/src/run.rs")).expect("the program");
    assert_eq!(text.matches("Session::start(").count(), 1);
    for name in &added {
        assert_eq!(text.matches(&format!(".{name}(")).count(), 1, "{name}");
    }
}

/// Each folder of examples is on the page or has a guide of its own.
#[test]
fn no_example_is_left_out_of_the_gallery() {
    let page = fs::read_to_string(root().join("docs/gallery.md")).expect("the page");
    for folder in fs::read_dir(root().join("examples")).expect("the examples").flatten() {
        let name = folder.file_name().into_string().expect("UTF-8");
        assert!(page.contains(&format!("(../examples/{name}")), "examples/{name}");
    }
}
