//! Bench `intel-mpi`: starts, spawns, what libpcm costs and live changes on Intel MPI, with programs that were compiled
//! for MPICH; the changes beside MPICH's, in turns on one cluster.

use super::{
    super::{
        bench::{Bench, Context},
        overhead, spawn,
    },
    Mpi, changes,
};
use pcm_bench::{Failure, OwnCluster, Report};

pub(in super::super) const BENCH: Bench = Bench {
    name: "intel-mpi",
    about: "Intel MPI: launch and spawn by pcmctl run and by its mpiexec, libpcm against none; pauses of live changes \
            beside MPICH's",
    run,
};

fn run(context: &Context) -> Result<Report, Failure> {
    let mpi = Mpi::find(BENCH.name, ["intel-mpi", "mpiexec"], ".mpi-intel")?;
    let folder = mpi.prefix.join("lib");
    // A program that was compiled for another MPI of the same ABI finds that one by itself.
    let variables = [
        ("LD_PRELOAD", folder.join("libmpi.so.12")),
        ("LD_LIBRARY_PATH", folder.clone()),
        ("FI_PROVIDER_PATH", folder),
        ("PCM_MPI", mpi.prefix.clone()),
    ];
    let by_mpiexec = |count: &str| {
        let mut command = context.environment.command(mpi.program("mpiexec.hydra"));
        command.env("I_MPI_ROOT", &mpi.prefix);
        command.envs([("I_MPI_FABRICS", "shm:ofi"), ("FI_PROVIDER", "tcp")]);
        for (name, value) in &variables {
            command.arg("-genv").arg(name).arg(value);
        }
        command.args(["-n", count]);
        command
    };
    let heat2d = context.program("heat2d-c");
    let mut report = changes::compare(context, &mpi, [&heat2d, &heat2d], "<= 1.5")?;
    report.extend(mpi.launches(context, &context.program("pcm-trial"), &by_mpiexec)?);
    let cluster = OwnCluster::up(&context.environment, 2)?;
    report.extend(spawn::compare(context, &cluster, Some(mpi.variable()), || {
        by_mpiexec("1")
    })?);
    report.extend(overhead::compare(context, &cluster, &variables)?);
    cluster.down()?;
    report.remarks = vec![
        "changes: two jobs of heat2d on one cluster of four nodes, one on each MPI, changed in turns".into(),
        "launch: from typing to the end of MPI_Init on the last rank; spawn: the median of five in one run".into(),
    ];
    Ok(report)
}
