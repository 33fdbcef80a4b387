//! Bench `open-mpi`: how long ranks of Open MPI take to start, by `pcmctl run` and by its own launcher, and what
//! changes of heat2d cost on Open MPI and on MPICH, in turns on one cluster.

use super::{
    super::bench::{Bench, Context},
    Mpi, changes,
};
use pcm_bench::{Failure, OnPath, Report, trial};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

pub(in super::super) const BENCH: Bench = Bench {
    name: "open-mpi",
    about: "Open MPI 5: launch by pcmctl run and by its mpirun, 1 to 16 ranks; pauses of live changes beside MPICH's",
    run,
};

/// A folder for what is compiled, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = env::temp_dir().join(format!("pcm-bench-open-mpi-{}", std::process::id()));
        fs::create_dir_all(&path).on("create", &path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the folder for temporary files.
        _ = fs::remove_dir_all(&self.0);
    }
}

fn run(context: &Context) -> Result<Report, Failure> {
    let mpi = Mpi::find(BENCH.name, ["open-mpi", "mpirun"], ".mpi-open")?;
    let folder = Folder::new()?;
    let program = compiled(&mpi, "tests/programs/trial.c", &folder.0, &[])?;
    let mut report = mpi.launches(context, &program, &|count| {
        let mut command = context.environment.command(mpi.program("mpirun"));
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        command.args(["--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "self,sm,tcp"]);
        command.args(["-n", count]);
        command
    })?;
    let release = context.environment.release.display();
    let (look, rpath) = (format!("-L{release}"), format!("-Wl,-rpath,{release}"));
    let libpcm = [
        "-Ipcm-lib/include",
        &look,
        &rpath,
        "-Wl,--no-as-needed",
        "-lpcm_openmpi",
    ];
    let program = compiled(&mpi, "examples/heat2d/heat2d.c", &folder.0, &libpcm)?;
    let programs = [context.program("heat2d-c"), program];
    report.extend(changes::compare(context, &mpi, [&programs[0], &programs[1]], "<= 2.0")?);
    report.remarks = vec![
        "launch: from typing to the end of MPI_Init on the last rank; both with ob1 over shared memory and TCP".into(),
        "changes: two jobs of heat2d on one cluster of four nodes, one on each MPI, changed in turns".into(),
    ];
    Ok(report)
}

/// Compiles a program with the compiler of Open MPI.
fn compiled(mpi: &Mpi, source: &str, folder: &Path, more: &[&str]) -> Result<PathBuf, Failure> {
    let program = folder.join(Path::new(source).file_stem().unwrap_or_default());
    let mut compiler = Command::new(mpi.program("mpicc"));
    compiler.args(["-std=gnu11", "-O2", "-ffp-contract=off", source, "-o"]);
    trial::must(compiler.arg(&program).args(more).arg("-lm"))?;
    Ok(program)
}
