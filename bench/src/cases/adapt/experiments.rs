//! The three experiments of the paper: load comes to one node, and the job leaves it for a node that joins, or for its
//! own other nodes. What could be gained is arithmetic, and stands beside what was.

use super::{
    super::{
        bench::{Bench, Context},
        events,
    },
    field::{Field, plate},
    race::{Act, Runner, Script},
};
use pcm_bench::{Failure, Ratio, Report, Samples, pace::Pace, push_each};
use pcm_view::lines::Plot;
use std::{collections::BTreeSet, process::Command, thread, time::Duration};

pub(super) const JOINS: Bench = Bench {
    name: "adapt-joins",
    about: "load on one of three nodes, an idle node joins: against plain mpiexec with the same load",
    run: |context| run(context, &A),
};
pub(super) const OWN: Bench = Bench {
    name: "adapt-own",
    about: "load on one of four nodes, none is free: against plain mpiexec with the same load",
    run: |context| run(context, &B),
};
pub(super) const SLOW: Bench = Bench {
    name: "adapt-slow",
    about: "three fast nodes and a slow one, load on that, a fast one joins: against plain mpiexec with the same load",
    run: |context| run(context, &C),
};

const LIMIT: Duration = Duration::from_secs(150);

/// Rows and columns of the job.
const PLATE: (u32, u32) = (3000, 3000);

/// When the load comes, and when the node.
const LOAD_S: f64 = 2.0;
const JOIN_S: f64 = 3.0;

/// The first instants of a job belong to its start.
const START_S: f64 = 0.3;

/// Iterations by which it is found out how fast the job is, and how fast where it might have been.
const CALIBRATION: u64 = 300;
const SETTLED: u64 = 600;

/// Starts until a job has a rank on each of the nodes it may use, and how long each follows the job before.
const PLACINGS: u32 = 4;
const AT_REST: Duration = Duration::from_secs(2);

/// An experiment. A rank is on each node.
struct Experiment {
    bench: &'static str,
    speeds: &'static [f64],
    loaded: usize,
    /// Processes that compute beside the rank there.
    processes: usize,
    joins: bool,
    /// How long the job takes when nothing happens.
    work_s: f64,
    /// Races with agents for each plain one; it takes the longest, and two of ours differ by a tenth.
    pairs: u32,
    paper: &'static str,
}

const A: Experiment = Experiment {
    bench: "adapt-joins",
    speeds: &[1.0, 1.0, 1.0],
    loaded: 1,
    processes: 2,
    joins: true,
    work_s: 15.0,
    pairs: 3,
    paper: ">= 0.43",
};
const B: Experiment = Experiment {
    bench: "adapt-own",
    speeds: &[1.0, 1.0, 1.0, 1.0],
    loaded: 1,
    processes: 3,
    joins: false,
    work_s: 13.0,
    pairs: 1,
    paper: ">= 0.33",
};
const C: Experiment = Experiment {
    bench: "adapt-slow",
    speeds: &[1.0, 1.0, 1.0, 0.5],
    loaded: 3,
    processes: 3,
    joins: true,
    work_s: 15.0,
    pairs: 1,
    paper: ">= 0.79",
};

impl Experiment {
    /// The places there are at a time, each with its speed, fastest first.
    fn places(&self, at_s: f64) -> Vec<(usize, f64)> {
        let mut speeds = self.speeds.to_vec();
        if at_s >= LOAD_S {
            speeds[self.loaded] /= self.processes as f64 + 1.0;
        }
        if self.joins && at_s >= JOIN_S {
            speeds.push(1.0);
        }
        let mut places: Vec<_> = speeds.into_iter().enumerate().collect();
        places.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        places
    }

    /// Greatest speed at a time, over the one without load and with equal shares: the best places, and shares of the
    /// data that follow their speeds.
    fn best(&self, at_s: f64) -> f64 {
        let ranks = self.speeds.len();
        let best: f64 = self.places(at_s).iter().take(ranks).map(|(_, speed)| speed).sum();
        let slowest = self.speeds.iter().copied().fold(f64::INFINITY, f64::min);
        best / (slowest * ranks as f64)
    }

    /// Time for so many iterations when every change is made at once and costs nothing.
    fn ideal_s(&self, iterations: f64, rate: f64) -> f64 {
        let mut left = iterations / rate;
        for (from, to) in [(0.0, LOAD_S), (LOAD_S, JOIN_S)] {
            let speed = self.best(from);
            if left <= (to - from) * speed {
                return from + left / speed;
            }
            left -= (to - from) * speed;
        }
        JOIN_S + left / self.best(JOIN_S)
    }

    /// The best places at the end, where they are alike: the job with equal shares can be run on such.
    fn alike_at_the_end(&self) -> Option<Vec<usize>> {
        let mut best = self.places(f64::INFINITY);
        best.truncate(self.speeds.len());
        let is_alike = best.iter().all(|(_, speed)| *speed == best[0].1);
        is_alike.then(|| best.into_iter().map(|(node, _)| node).collect())
    }

    fn race(&self, field: &mut Field<'_>, is_ours: bool, command: Command, script: &Script) -> Result<Pace, Failure> {
        let runner = Runner {
            bench: self.bench,
            field,
            is_ours,
            limit: LIMIT,
        };
        runner.run(command, script, None)
    }

    fn script(&self) -> Script {
        let mut script = vec![(LOAD_S, Act::Load(self.loaded, self.processes))];
        if self.joins {
            script.push((JOIN_S, Act::Join));
        }
        script
    }
}

/// A race with agents, and how many iterations a second the ideal placement of its end does.
struct Pair {
    ours: Pace,
    ideal_rate: f64,
}

/// One plain race, and ours, each on nodes that were not used before.
fn round(context: &Context, of: &Experiment) -> Result<(Pace, Vec<Pair>), Failure> {
    let (plain, iterations) = plain(context, of)?;
    let pairs = (0..of.pairs).map(|_| pair(context, of, iterations));
    Ok((plain, pairs.collect::<Result<_, _>>()?))
}

/// The plain race, and its iterations.
fn plain(context: &Context, of: &Experiment) -> Result<(Pace, u64), Failure> {
    let mut field = Field::up(&context.environment, of.bench, of.speeds)?;
    let mut race = |iterations, script: &Script| {
        let job = field.plain(
            &context.environment,
            of.speeds.len(),
            &plate(context, PLATE, iterations),
        );
        of.race(&mut field, false, job, script)
    };
    let calibration = race(CALIBRATION, &Script::new())?;
    let iterations = (of.work_s * calibration.iterations() / calibration.seconds()) as u64;
    let plain = race(iterations, &of.script())?;
    field.down()?;
    Ok((plain, iterations))
}

/// Ours, then the ideal placement on the same nodes with the same load. Where its places differ in speed that placement
/// is arithmetic: from the job's own beginning.
fn pair(context: &Context, of: &Experiment, iterations: u64) -> Result<Pair, Failure> {
    let mut field = Field::up(&context.environment, of.bench, of.speeds)?;
    let ranks = of.speeds.len().to_string();
    let ours = field.ours(&["-n", &ranks, "--policy", "cost"], &plate(context, PLATE, iterations));
    let ours = of.race(&mut field, true, ours, &of.script())?;
    let ideal_rate = match of.alike_at_the_end() {
        Some(nodes) => ideal_rate(context, of, &mut field, &nodes)?,
        None => ours.rate(START_S, LOAD_S) * of.best(f64::INFINITY),
    };
    field.down()?;
    Ok(Pair { ours, ideal_rate })
}

/// Iterations a second with a rank on each of these nodes from the beginning, and the load where it was.
fn ideal_rate(context: &Context, of: &Experiment, field: &mut Field<'_>, nodes: &[usize]) -> Result<f64, Failure> {
    let names: Vec<String> = nodes.iter().map(|node| format!("n{node}")).collect();
    let (ranks, names) = (nodes.len().to_string(), names.join(","));
    for number in 0..PLACINGS {
        let name = format!("ideal-{number}");
        let options = ["-n", &ranks, "--policy", "none", "--nodes", &names, "--name", &name];
        // A node whose CPUs were just in use would be passed over.
        thread::sleep(AT_REST);
        let job = field.ours(&options, &plate(context, PLATE, SETTLED));
        let race = of.race(field, true, job, &vec![(0.0, Act::Load(of.loaded, of.processes))])?;
        let accepted = events::of(&field.cluster, &name, "job_accepted")?;
        let placement = accepted.last().and_then(|event| event["placement"].as_array().cloned());
        let used: BTreeSet<String> = placement.into_iter().flatten().map(|node| node.to_string()).collect();
        if used.len() == nodes.len() {
            return Ok(race.rate(START_S, race.seconds()));
        }
    }
    Err(Failure::bench(
        of.bench,
        format!("no rank on one of {names} in {PLACINGS} starts"),
    ))
}

fn run(context: &Context, of: &Experiment) -> Result<Report, Failure> {
    let rounds = if context.quick { 1 } else { 3 };
    let name = |what: &str| format!("{}: {what}", of.bench);
    let mut series = [
        ("plain mpiexec", "s"),
        ("with agents", "s"),
        ("ideal", "s"),
        ("gain", "part"),
        ("ideal gain", "part"),
        ("gain / ideal gain", "part"),
        ("throughput afterwards / ideal", "part"),
    ]
    .map(|(what, unit)| Samples::new(name(what), unit));
    let mut plots = Vec::new();
    for _ in 0..rounds {
        let (plain, pairs) = round(context, of)?;
        let rate = plain.rate(START_S, LOAD_S);
        let ideal_s = of.ideal_s(plain.iterations(), rate);
        for Pair { ours, ideal_rate } in pairs {
            let (gain, ideal) = (1.0 - ours.seconds() / plain.seconds(), 1.0 - ideal_s / plain.seconds());
            let late = ours.seconds();
            let after = ours.rate(late * 0.75, late) / ideal_rate;
            let values = [
                plain.seconds(),
                ours.seconds(),
                ideal_s,
                gain,
                ideal,
                gain / ideal,
                after,
            ];
            push_each(&mut series, values);
            if plots.is_empty() {
                plots.push(plot(of, &plain, &ours));
            }
        }
    }
    let [.., gains, _, part, after] = &series;
    let ratio = |samples: &Samples, target| Ratio::new(samples.name.clone(), samples.median(), target);
    let ratios = vec![ratio(gains, of.paper), ratio(part, ">= 0.9"), ratio(after, ">= 0.97")];
    let remarks = vec![format!(
        "{}: {} with agents for each plain race; {} processes on node n{} after {LOAD_S} s{}; nodes of a quarter of a \
         CPU times {:?}; ideal: every change at once and for nothing, shares of the data by speed",
        of.bench,
        of.pairs,
        of.processes,
        of.loaded,
        if of.joins { ", a node joins after 3 s" } else { "" },
        of.speeds
    )];
    Ok(Report {
        series: series.into(),
        ratios,
        remarks,
        plots,
        ..Report::default()
    })
}

fn plot(of: &Experiment, plain: &Pace, ours: &Pace) -> Plot {
    let mut marks = vec![(LOAD_S, "load".to_owned())];
    if of.joins {
        marks.push((JOIN_S, "node joins".to_owned()));
    }
    Plot {
        name: of.bench.to_owned(),
        title: format!("{}: iterations per second", of.bench),
        x: "seconds".to_owned(),
        lines: vec![
            ("plain mpiexec".to_owned(), plain.rates()),
            ("with agents".to_owned(), ours.rates()),
        ],
        marks,
        ..Plot::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_is_arithmetic() {
        assert!((A.best(0.0) - 1.0).abs() < 1e-9 && (A.best(2.5) - 7.0 / 9.0).abs() < 1e-9);
        assert!((A.best(4.0) - 1.0).abs() < 1e-9);
        assert!((B.best(9.0) - 3.25 / 4.0).abs() < 1e-9);
        assert!((C.best(0.0) - 1.75).abs() < 1e-9 && (C.best(9.0) - 2.0).abs() < 1e-9);
        assert_eq!(A.alike_at_the_end(), Some(vec![0, 2, 3]));
        assert_eq!(B.alike_at_the_end(), None);
        assert_eq!(C.alike_at_the_end(), Some(vec![0, 1, 2, 4]));
        // Fifteen seconds' worth, of which the second after the load yields seven ninths.
        assert!((A.ideal_s(1500.0, 100.0) - (15.0 + 2.0 / 9.0)).abs() < 1e-9);
        assert!((A.ideal_s(100.0, 100.0) - 1.0).abs() < 1e-9);
    }
}
