//! Compiles the C programs of the repository and sets their run paths. Must never use mpicc: it splits paths at blanks.

use crate::{
    environment::{Environment, must},
    failure::{Failure, OnPath},
    repository::Repository,
};
use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process,
    process::Command,
};

struct Program {
    name: &'static str,
    /// A file, or a folder of which every C file is part of the program.
    source: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It knows MPI alone.
    Plain,
    /// Linked with libpcm before MPI, as soon as there is a libpcm.
    Malleable,
    /// A library that is loaded before the C library.
    InFront,
}

const fn plain(name: &'static str, source: &'static str) -> Program {
    let kind = Kind::Plain;
    Program { name, source, kind }
}

const fn malleable(name: &'static str, source: &'static str) -> Program {
    let kind = Kind::Malleable;
    Program { name, source, kind }
}

const fn in_front(name: &'static str, source: &'static str) -> Program {
    let kind = Kind::InFront;
    Program { name, source, kind }
}

const PROGRAMS: [Program; 24] = [
    malleable("heat2d-c", "examples/heat2d/heat2d.c"),
    plain("heat2d-c-plain", "examples/heat2d/heat2d-plain.c"),
    plain("pcm-probe", "dispatcher/probe/probe.c"),
    malleable("pcm-changing", "tests/programs/changing.c"),
    malleable("pcm-various", "tests/programs/various.c"),
    malleable("pcm-hooks", "tests/programs/hooks.c"),
    malleable("pcm-constant", "tests/programs/constant.c"),
    malleable("pcm-uneven", "tests/programs/uneven.c"),
    plain("pcm-conformance-plain", "tests/programs/conformance"),
    malleable("pcm-conformance", "tests/programs/conformance"),
    plain("pcm-trial", "tests/programs/trial.c"),
    plain("pcm-deadlock", "tests/programs/deadlock.c"),
    malleable("pcm-faulty", "tests/programs/faulty.c"),
    in_front("libpcm-sick-disk.so", "tests/programs/sick_disk.c"),
    in_front("libpcm-wild-clock.so", "tests/programs/wild_clock.c"),
    plain("pcm-wire", "tests/programs/wire.c"),
    plain("pcm-calls", "bench/programs/calls.c"),
    plain("pcm-wide", "bench/programs/wide.c"),
    malleable("pcm-keeping", "bench/programs/keeping.c"),
    malleable("pcm-moving", "bench/programs/moving.c"),
    plain("pcm-dynamic-spawn", "bench/dynamic/spawn.c"),
    plain("pcm-dynamic-rate", "bench/dynamic/rate.c"),
    plain("pcm-dynamic-pair", "bench/dynamic/pair.c"),
    plain("pcm-dynamic-connect", "bench/dynamic/connect.c"),
];

/// No contraction to fused operations: C and Rust must compute the same bits.
const FLAGS: [&str; 5] = ["-std=c11", "-O3", "-Wall", "-Wextra", "-ffp-contract=off"];

/// A program stops at undefined behaviour, at an address that is not its own and with memory that it left. The checks
/// are linked in, so that other libraries may come before them.
const CHECKS: [&str; 6] = [
    "-O1",
    "-g",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-static-libasan",
    "-static-libubsan",
];

/// Other names of what cargo builds, beside it.
const LINKS: [(&str, &str); 5] = [
    ("libpcm.so.0", "libpcm.so"),
    ("libpcm_abi.so.0", "libpcm_abi.so"),
    ("libpcm_openmpi.so.0", "libpcm_openmpi.so"),
    ("pcmcxx", "pcmcc"),
    ("pcmfort", "pcmcc"),
];

/// Builds the C programs that are wanted by name beside the Rust ones.
pub(crate) fn build(
    repository: &Repository,
    environment: &Environment,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    for (name, goal) in LINKS {
        let link = environment.release.join(name);
        if fs::read_link(&link).is_err() {
            symlink(goal, &link).on("make", &link)?;
        }
    }
    for program in PROGRAMS.iter().filter(|program| is_wanted(program.name)) {
        build_one(repository, environment, program, &environment.release, &[])?;
    }
    Ok(())
}

/// The C programs with checks, in a folder of their own with all else that a release has.
pub(crate) fn build_checked(repository: &Repository, environment: &Environment, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).on("make", folder)?;
    let is_checked = |program: &&Program| program.kind != Kind::InFront;
    for entry in fs::read_dir(&environment.release).on("read", &environment.release)? {
        let (file, place) = entry
            .map(|entry| (entry.path(), folder.join(entry.file_name())))
            .on("read", folder)?;
        if file.is_file() && fs::symlink_metadata(&place).is_err() {
            symlink(&file, &place).on("make", &place)?;
        }
    }
    for program in PROGRAMS.iter().filter(is_checked) {
        build_one(repository, environment, program, folder, &CHECKS)?;
    }
    Ok(())
}

fn build_one(
    repository: &Repository,
    environment: &Environment,
    program: &Program,
    folder: &Path,
    more: &[&str],
) -> Result<(), Failure> {
    let finished = folder.join(program.name);
    // A running job keeps its program: the new one takes the name when it is complete.
    let fresh = folder.join(format!(".{}-{}", program.name, process::id()));
    let mut compiler = compiler(repository, environment, program)?;
    compiler.args(more).arg("-o").arg(&fresh);
    if program.kind == Kind::InFront {
        compiler.args(["-shared", "-fPIC"]);
    }
    if program.kind == Kind::Malleable && folder.join("libpcm.so").is_file() {
        compiler.arg("-L").arg(folder).args(["-lpcm", "-Wl,-rpath,$ORIGIN"]);
    }
    if program.kind != Kind::InFront {
        link_mpi(&mut compiler, environment, environment.mpi.library.as_os_str());
    }
    must(compiler, "the compiler's messages are above")?;
    fs::rename(&fresh, &finished).on("replace", &finished)
}

/// The program that `pcmctl doctor` runs, which finds MPI by this run path.
pub(crate) fn build_probe(
    repository: &Repository,
    environment: &Environment,
    finished: &Path,
    run_path: &str,
) -> Result<(), Failure> {
    let probe = PROGRAMS.iter().find(|program| program.name == "pcm-probe");
    let mut compiler = compiler(repository, environment, probe.unwrap_or(&PROGRAMS[0]))?;
    compiler.args(["-s", "-o"]).arg(finished);
    link_mpi(&mut compiler, environment, run_path.as_ref());
    must(compiler, "the compiler's messages are above")
}

fn link_mpi(compiler: &mut Command, environment: &Environment, run_path: &OsStr) {
    compiler
        .arg("-L")
        .arg(&environment.mpi.library)
        .arg("-Wl,--no-as-needed")
        .args(environment.mpi.link.iter().map(|name| format!("-l{name}")));
    // The old kind of run path comes before LD_LIBRARY_PATH: another MPI there has the same soname.
    compiler
        .args(["-Wl,--disable-new-dtags", "-Xlinker", "-rpath", "-Xlinker"])
        .arg(run_path);
}

/// Compiles without output, warnings denied.
pub(crate) fn lint(repository: &Repository, environment: &Environment) -> Result<(), Failure> {
    for program in &PROGRAMS {
        let mut compiler = compiler(repository, environment, program)?;
        compiler.args(["-Werror", "-Wconversion", "-fsyntax-only"]);
        must(compiler, "mend the C source named above")?;
    }
    Ok(())
}

fn compiler(repository: &Repository, environment: &Environment, program: &Program) -> Result<Command, Failure> {
    let mut compiler = environment.command("cc");
    compiler.args(FLAGS).arg("-isystem").arg(&environment.mpi.include);
    compiler.arg("-I").arg(repository.root.join("pcm-lib/include"));
    compiler.args(sources(&repository.root.join(program.source))?);
    Ok(compiler)
}

fn sources(source: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !source.is_dir() {
        return Ok(vec![source.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(source).on("read", source)? {
        files.push(entry.on("read", source)?.path());
    }
    files.retain(|file| file.extension().is_some_and(|ending| ending == "c"));
    files.sort();
    Ok(files)
}
