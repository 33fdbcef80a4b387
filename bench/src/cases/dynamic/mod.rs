//! Benches `dynamic…`: dynamic processes in the manner of the OSU suite (programs in bench/dynamic, plain MPI), side by
//! side under our daemons, hydra of the same MPICH, Open MPI and LAM/MPI, as far as these are installed.

mod attempt;
mod cases;
mod lam;
mod launchers;
mod rounds;

use super::bench::{Bench, Context};
use cases::Case;
use launchers::Launchers;
use pcm_bench::{Failure, OwnCluster, Report};

pub(super) const BENCH: Bench = Bench {
    name: "dynamic",
    about: "spawn, spawn rate, inter- against intra-communicators, connect: our daemons, hydra, Open MPI, LAM/MPI",
    run: |context| run(context, "dynamic", cases::all(context.quick)),
};

/// The same in parts that take less than four minutes each.
pub(super) const PARTS: [Bench; 5] = [
    Bench {
        name: "dynamic-spawn",
        about: "of dynamic, latency of a spawn by parents and children, merge and disconnect",
        run: |context| run(context, "dynamic-spawn", cases::spawns(context.quick)),
    },
    Bench {
        name: "dynamic-growth",
        about: "of dynamic, one parent and 1 to 32 children",
        run: |context| run(context, "dynamic-growth", cases::growth(context.quick)),
    },
    Bench {
        name: "dynamic-rate",
        about: "of dynamic, spawns a second while the children sleep until the end",
        run: |context| run(context, "dynamic-rate", cases::rates(context.quick)),
    },
    Bench {
        name: "dynamic-pair",
        about: "of dynamic, latency and bandwidth by communicator, and connect/accept",
        run: |context| run(context, "dynamic-pair", cases::pairs()),
    },
    Bench {
        name: "dynamic-spares",
        about: "of dynamic, spawns of one child, alone and in a row, with warm spares and without",
        run: |context| run(context, "dynamic-spares", cases::spares(context.quick)),
    },
];

/// Nodes of our cluster, on which processes share the CPUs.
const NODES: u32 = 2;

fn run(context: &Context, bench: &'static str, cases: Vec<Case>) -> Result<Report, Failure> {
    let cluster = OwnCluster::up(&context.environment, NODES)?;
    let launchers = Launchers::find(bench, context, &cluster)?;
    let measured = rounds::measure(bench, &launchers, &cases, context.rounds());
    let absent = launchers.absent.clone();
    let versions: Vec<String> = launchers
        .present
        .iter()
        .map(|launcher| format!("{}: {}", launcher.name, launcher.version))
        .collect();
    drop(launchers);
    cluster.down()?;
    let mut report = measured?.report(&cases);
    report.remarks.extend(versions);
    report.remarks.extend(absent);
    Ok(report)
}
