//! Bench `waiting`: iterations of heat2d with polite waits against polling, where ranks share CPUs, where each has one,
//! and, as root, on nodes with a fifth of a CPU.

use super::{
    bench::{Bench, Context},
    interleave::{self, Variant},
};
use limited_nodes::{LimitedNodes, Share};
use pcm_bench::{Failure, OwnCluster, Ratio, Report, heat2d, trial};
use pcm_proto::waiting::Waiting;
use std::{path::PathBuf, process::Command, time::Duration};

pub(super) const BENCH: Bench = Bench {
    name: "waiting",
    about: "iterations with polite waits against polling: 8 ranks on 2 CPUs, alike or uneven, ranks alone, nodes of \
            0.2 CPU",
    run,
};

/// Polling ranks on a fifth of a CPU need a hundred times what polite ones need.
const LIMIT: Duration = Duration::from_secs(300);

/// Iterations in a block of `pcm-trial sweeps`.
const BLOCK: u32 = 50;

/// Where ranks are crowded or alone.
const CPUS: &str = "0-1";

/// CPU time of a limited node.
const SHARE: Share = Share {
    quota_us: 2_000,
    period_us: 10_000,
};

/// What is run, where, and how it must turn out.
struct Case {
    name: &'static str,
    ranks: u32,
    work: Work,
    iterations: u32,
    /// Where each of them lasts for time slices when ranks spin, fewer of them say as much.
    spun: u32,
    target: &'static str,
    manners: &'static [&'static str],
}

/// What the ranks do.
enum Work {
    /// heat2d on a plate with so many rows and columns: all compute alike and wait for their neighbours.
    Plate(u32),
    /// One computes for so many microseconds, or all do, and all wait for the others in an allreduce.
    Uneven(u32, Who),
    /// Short iterations over so many rows, counted as if all of them lasted as long as the fastest twentieth: with a
    /// CPU for each rank, what differs else is what others do on the machine.
    Sweeps(u32),
}

#[derive(Clone, Copy)]
enum Who {
    All,
    EachInTurn,
    TheFirst,
}

/// MPICH itself, without us.
const PLAIN: &str = "plain mpiexec";

/// MPICH's waiting under our daemons.
const AS_MPI: &str = Waiting::AsMpi.word();

/// Polling that never yields.
const SPIN: &str = Waiting::Spin.word();

/// Polite waits that are asked for: these make collectives of messages anywhere.
const ADAPTIVE: &str = Waiting::Adaptive.word();

/// What happens where nobody asks for anything: polite waits that leave collectives alone where each rank has a CPU.
const BY_ITSELF: &str = "by itself";

/// These are compared with all the others.
const POLITE: [&str; 2] = [ADAPTIVE, BY_ITSELF];

const UNDER_DAEMONS: &[&str] = &[AS_MPI, SPIN, ADAPTIVE];
const BESIDE_PLAIN: &[&str] = &[PLAIN, AS_MPI, SPIN, ADAPTIVE];
const ASKED_OR_NOT: &[&str] = &[PLAIN, AS_MPI, SPIN, ADAPTIVE, BY_ITSELF];

/// Eight ranks on two CPUs.
const fn crowded(name: &'static str, work: Work, iterations: u32, spun: u32) -> Case {
    Case {
        name,
        ranks: 8,
        work,
        iterations,
        spun,
        target: ">= 3",
        manners: BESIDE_PLAIN,
    }
}

/// A CPU for each of two ranks.
const fn alone(name: &'static str, work: Work, iterations: u32) -> Case {
    Case {
        name,
        ranks: 2,
        work,
        iterations,
        spun: iterations,
        target: ">= 0.99",
        manners: ASKED_OR_NOT,
    }
}

const UNLIMITED: [Case; 7] = [
    crowded("8 ranks on 2 CPUs", Work::Plate(200), 2000, 100),
    crowded(
        "8 ranks on 2 CPUs, 50 us of work each and an allreduce",
        Work::Uneven(50, Who::All),
        800,
        80,
    ),
    crowded(
        "8 ranks on 2 CPUs, one late by 1 ms, each in turn",
        Work::Uneven(1000, Who::EachInTurn),
        80,
        80,
    ),
    crowded(
        "8 ranks on 2 CPUs, the first computes 12 ms",
        Work::Uneven(12_000, Who::TheFirst),
        32,
        32,
    ),
    alone(
        "a CPU for each of 2 ranks, undisturbed iterations of 7 us",
        Work::Sweeps(64),
        40_000,
    ),
    alone(
        "a CPU for each of 2 ranks, undisturbed iterations of 60 us",
        Work::Sweeps(640),
        40_000,
    ),
    alone("a CPU for each of 2 ranks", Work::Plate(500), 24_000),
];

const LIMITED: Case = Case {
    name: "4 nodes of 0.2 CPU",
    ranks: 4,
    work: Work::Plate(200),
    iterations: 400,
    spun: 120,
    target: ">= 3",
    manners: UNDER_DAEMONS,
};

fn run(context: &Context) -> Result<Report, Failure> {
    let mut report = Report::default();
    let one = OwnCluster::up_on(&context.environment, &[CPUS])?;
    for case in &UNLIMITED {
        compare(context, &one, case, &mut report)?;
    }
    one.down()?;
    let four = OwnCluster::up(&context.environment, 4)?;
    match LimitedNodes::limit(&four.id().unwrap_or_default(), SHARE) {
        Ok(_limited) => compare(context, &four, &LIMITED, &mut report)?,
        Err(reason) => report.remarks.push(format!("{}: not measured, {reason}", LIMITED.name)),
    }
    four.down()?;
    report.remarks = [
        "iterations per second with polite waits over those with polling, median of paired ratios",
        "plain mpiexec: MPICH's own settings, which yield between two looks for a message; mpi: the same under our \
         daemons, which make collectives of messages where ranks outnumber CPUs; spin: polling that never yields",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain(report.remarks)
    .collect();
    Ok(report)
}

impl Case {
    fn iterations(&self, context: &Context, manner: &str) -> u32 {
        let all = if manner == SPIN { self.spun } else { self.iterations };
        if context.quick { all / 4 } else { all }
    }

    /// What is run, without its launcher.
    fn program(&self, context: &Context, manner: &str) -> (PathBuf, Vec<String>) {
        let iterations = self.iterations(context, manner);
        let (program, arguments) = match self.work {
            Work::Plate(cells) => {
                let arguments = heat2d::plate(cells, cells, iterations.into());
                ("heat2d-c-plain", arguments.to_vec())
            }
            Work::Uneven(us, who) => {
                let who = match who {
                    Who::All => "all",
                    Who::EachInTurn => "turns",
                    Who::TheFirst => "first",
                };
                let arguments = ["uneven", &us.to_string(), &iterations.to_string(), who];
                ("pcm-trial", arguments.map(str::to_owned).to_vec())
            }
            Work::Sweeps(rows) => {
                let arguments = ["sweeps", &(iterations / BLOCK).to_string(), &rows.to_string()];
                ("pcm-trial", arguments.map(str::to_owned).to_vec())
            }
        };
        (context.program(program), arguments)
    }

    fn command(&self, context: &Context, cluster: &OwnCluster<'_>, manner: &str) -> Command {
        let ranks = self.ranks.to_string();
        let mut command = if manner == PLAIN {
            let mut command = context.environment.command("taskset");
            command.args(["-c", CPUS]).arg(&context.environment.mpiexec);
            command.args(["-n", &ranks]);
            command
        } else {
            let waits: &[&str] = if manner == BY_ITSELF { &[] } else { &["--wait", manner] };
            cluster.pcmctl(&[&["run", "-n", &ranks], waits, &["--"]].concat())
        };
        let (program, arguments) = self.program(context, manner);
        command.arg(program).args(arguments);
        command
    }

    /// How its program's closing line begins.
    fn line(&self) -> &'static str {
        match self.work {
            Work::Plate(_) => "heat2d: ",
            Work::Uneven(..) => "uneven: ",
            Work::Sweeps(_) => "sweeps: ",
        }
    }

    /// Iterations a second, by what its program printed.
    fn rate(&self, iterations: u32, output: &str) -> Result<f64, Failure> {
        let figure = |name| trial::figure(BENCH.name, output, self.line(), name);
        match self.work {
            Work::Sweeps(_) => Ok(1.0 / figure("undisturbed")?),
            Work::Plate(_) | Work::Uneven(..) => Ok(f64::from(iterations) / figure("seconds")?),
        }
    }
}

fn compare(context: &Context, cluster: &OwnCluster<'_>, case: &Case, report: &mut Report) -> Result<(), Failure> {
    let variant = |manner: &&'static str| {
        let manner = *manner;
        Variant::new(format!("{}, {manner}", case.name), move || {
            let output = trial::run(BENCH.name, case.command(context, cluster, manner), LIMIT)?;
            case.rate(case.iterations(context, manner), &output)
        })
    };
    let mut variants: Vec<Variant<'_>> = case.manners.iter().map(variant).collect();
    let series = interleave::rounds(&mut variants, context.rounds(), "it/s")?;
    let of_manners = case.manners.iter().zip(&series);
    let (polite, polling): (Vec<_>, Vec<_>) = of_manners.partition(|(manner, _)| POLITE.contains(manner));
    for (wait, polite) in polite {
        report.ratios.extend(polling.iter().map(|(manner, polling)| {
            Ratio::new(
                format!("{wait} / {manner}, {}", case.name),
                polite.paired_ratio(polling),
                case.target,
            )
        }));
    }
    report.series.extend(series);
    Ok(())
}
