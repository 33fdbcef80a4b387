//! Compiles the C programs of the repository and sets their run paths. Must never use mpicc: it splits paths at blanks.

use crate::{
    environment::{Environment, must},
    failure::{Failure, OnPath},
    repository::Repository,
};
use std::{fs, process, process::Command};

struct Program {
    name: &'static str,
    source: &'static str,
    /// Linked with libpcm before MPI, as soon as there is a libpcm.
    malleable: bool,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "heat2d-c",
        source: "examples/heat2d/heat2d.c",
        malleable: true,
    },
    Program {
        name: "heat2d-c-plain",
        source: "examples/heat2d/heat2d-plain.c",
        malleable: false,
    },
    Program {
        name: "pcm-probe",
        source: "dispatcher/probe/probe.c",
        malleable: false,
    },
    Program {
        name: "pcm-changing",
        source: "tests/programs/changing.c",
        malleable: true,
    },
    Program {
        name: "pcm-constant",
        source: "tests/programs/constant.c",
        malleable: true,
    },
    Program {
        name: "pcm-trial",
        source: "tests/programs/trial.c",
        malleable: false,
    },
    Program {
        name: "pcm-deadlock",
        source: "tests/programs/deadlock.c",
        malleable: false,
    },
    Program {
        name: "pcm-faulty",
        source: "tests/programs/faulty.c",
        malleable: true,
    },
    Program {
        name: "pcm-wire",
        source: "tests/programs/wire.c",
        malleable: false,
    },
    Program {
        name: "pcm-pingpong",
        source: "bench/programs/pingpong.c",
        malleable: true,
    },
    Program {
        name: "pcm-keeping",
        source: "bench/programs/keeping.c",
        malleable: true,
    },
    Program {
        name: "pcm-moving",
        source: "bench/programs/moving.c",
        malleable: true,
    },
    Program {
        name: "pcm-dynamic-spawn",
        source: "bench/dynamic/spawn.c",
        malleable: false,
    },
    Program {
        name: "pcm-dynamic-rate",
        source: "bench/dynamic/rate.c",
        malleable: false,
    },
    Program {
        name: "pcm-dynamic-pair",
        source: "bench/dynamic/pair.c",
        malleable: false,
    },
    Program {
        name: "pcm-dynamic-connect",
        source: "bench/dynamic/connect.c",
        malleable: false,
    },
];

/// No contraction to fused operations: C and Rust must compute the same bits.
const FLAGS: [&str; 5] = ["-std=c11", "-O3", "-Wall", "-Wextra", "-ffp-contract=off"];

/// Builds the C programs that are wanted by name beside the Rust ones.
pub(crate) fn build(
    repository: &Repository,
    environment: &Environment,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    for program in PROGRAMS.iter().filter(|program| is_wanted(program.name)) {
        let finished = environment.release.join(program.name);
        // A running job keeps its program: the new one takes the name when it is complete.
        let fresh = environment.release.join(format!(".{}-{}", program.name, process::id()));
        let mut compiler = compiler(repository, environment, program);
        compiler.arg("-o").arg(&fresh);
        if program.malleable && environment.release.join("libpcm.so").is_file() {
            compiler
                .arg("-L")
                .arg(&environment.release)
                .args(["-lpcm", "-Wl,-rpath,$ORIGIN"]);
        }
        compiler
            .arg("-L")
            .arg(&environment.mpi.library)
            .args(environment.mpi.link.iter().map(|name| format!("-l{name}")));
        // The old kind of run path comes before LD_LIBRARY_PATH: another MPI there has the same soname.
        compiler
            .args(["-Wl,--disable-new-dtags", "-Xlinker", "-rpath", "-Xlinker"])
            .arg(&environment.mpi.library);
        must(compiler, "the compiler's messages are above")?;
        fs::rename(&fresh, &finished).on("replace", &finished)?;
    }
    Ok(())
}

/// Compiles without output, warnings denied.
pub(crate) fn lint(repository: &Repository, environment: &Environment) -> Result<(), Failure> {
    for program in PROGRAMS {
        let mut compiler = compiler(repository, environment, program);
        compiler.args(["-Werror", "-Wconversion", "-fsyntax-only"]);
        must(compiler, "mend the C source named above")?;
    }
    Ok(())
}

fn compiler(repository: &Repository, environment: &Environment, program: &Program) -> Command {
    let mut compiler = environment.command("cc");
    compiler.args(FLAGS).arg("-isystem").arg(&environment.mpi.include);
    compiler
        .arg("-I")
        .arg(repository.root.join("pcm-lib/include"))
        .arg(repository.root.join(program.source));
    compiler
}
