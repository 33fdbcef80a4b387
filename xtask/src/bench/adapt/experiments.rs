//! The three experiments of the paper: load comes to one node, and the job leaves it for a node that joins, or for its
//! own other nodes. What could be gained is arithmetic, and stands beside what was.

use super::{
    super::{
        plot::Plot,
        registry::{Bench, Context, Report},
        samples::{Ratio, Samples},
    },
    field::{Field, plate},
    race::{Act, Race, Runner, Script},
};
use crate::failure::Failure;
use std::{process::Command, time::Duration};

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

/// Iterations by which it is found out how fast the job is.
const CALIBRATION: u64 = 300;

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
    paper: &'static str,
}

const A: Experiment = Experiment {
    bench: "adapt-joins",
    speeds: &[1.0, 1.0, 1.0],
    loaded: 1,
    processes: 2,
    joins: true,
    work_s: 15.0,
    paper: ">= 0.43",
};
const B: Experiment = Experiment {
    bench: "adapt-own",
    speeds: &[1.0, 1.0, 1.0, 1.0],
    loaded: 1,
    processes: 3,
    joins: false,
    work_s: 13.0,
    paper: ">= 0.33",
};
const C: Experiment = Experiment {
    bench: "adapt-slow",
    speeds: &[1.0, 1.0, 1.0, 0.5],
    loaded: 3,
    processes: 3,
    joins: true,
    work_s: 15.0,
    paper: ">= 0.79",
};

impl Experiment {
    /// Speeds of the places there are at a time, fastest first.
    fn places(&self, at_s: f64) -> Vec<f64> {
        let mut places = self.speeds.to_vec();
        if at_s >= LOAD_S {
            places[self.loaded] /= self.processes as f64 + 1.0;
        }
        if self.joins && at_s >= JOIN_S {
            places.push(1.0);
        }
        places.sort_by(|a, b| b.total_cmp(a));
        places
    }

    /// Greatest speed at a time, over the one without load and with equal shares: the best places, and shares of the data
    /// that follow their speeds.
    fn best(&self, at_s: f64) -> f64 {
        let ranks = self.speeds.len();
        let best: f64 = self.places(at_s).iter().take(ranks).sum();
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

    /// Speeds of the best places at the end, where they are alike: the job with equal shares can be run on such.
    fn alike_at_the_end(&self) -> Option<Vec<f64>> {
        let mut best = self.places(f64::INFINITY);
        best.truncate(self.speeds.len());
        best.iter().all(|speed| *speed == best[0]).then_some(best)
    }

    fn race(&self, field: &mut Field<'_>, is_ours: bool, command: Command, script: &Script) -> Result<Race, Failure> {
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

/// One race of each kind on the same nodes: plain, then ours.
fn round(context: &Context, of: &Experiment) -> Result<(Race, Race), Failure> {
    let mut field = Field::up(&context.environment, of.bench, of.speeds)?;
    let ranks = of.speeds.len();
    let mut race = |is_ours: bool, iterations: u64, script: &Script| {
        let words = plate(context, PLATE, iterations);
        let command = if is_ours {
            field.ours(&["-n", &ranks.to_string(), "--policy", "cost"], &words)
        } else {
            field.plain(&context.environment, ranks, &words)
        };
        of.race(&mut field, is_ours, command, script)
    };
    let calibration = race(false, CALIBRATION, &Script::new())?;
    let rate = calibration.iterations() / calibration.seconds();
    let iterations = (of.work_s * rate) as u64;
    let script = of.script();
    let plain = race(false, iterations, &script)?;
    let ours = race(true, iterations, &script)?;
    field.down()?;
    Ok((plain, ours))
}

/// Iterations a second in the ideal placement of the end, where nothing has happened before: the job's own beginning if that was
/// it; a run on such nodes if they are alike; else arithmetic.
fn rate_in_ideal_placement(context: &Context, of: &Experiment, ours: &Race) -> Result<f64, Failure> {
    let beginning = ours.rate(0.3, LOAD_S);
    let speeds = match of.alike_at_the_end() {
        Some(speeds) if speeds == of.speeds => return Ok(beginning),
        Some(speeds) => speeds,
        None => return Ok(beginning * of.best(f64::INFINITY)),
    };
    let mut field = Field::up(&context.environment, of.bench, &speeds)?;
    let ranks = speeds.len().to_string();
    let command = field.ours(&["-n", &ranks, "--policy", "none"], &plate(context, PLATE, CALIBRATION));
    let race = of.race(&mut field, true, command, &Script::new())?;
    field.down()?;
    Ok(race.rate(0.3, race.seconds()))
}

fn run(context: &Context, of: &Experiment) -> Result<Report, Failure> {
    let rounds = if context.quick { 1 } else { 2 };
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
    for number in 0..rounds {
        let (plain, ours) = round(context, of)?;
        // The first instants belong to the start.
        let rate = plain.rate(0.3, LOAD_S);
        let ideal_s = of.ideal_s(plain.iterations(), rate);
        let (gain, ideal) = (1.0 - ours.seconds() / plain.seconds(), 1.0 - ideal_s / plain.seconds());
        let late = ours.seconds();
        let after = ours.rate(late * 0.75, late) / rate_in_ideal_placement(context, of, &ours)?;
        let values = [
            plain.seconds(),
            ours.seconds(),
            ideal_s,
            gain,
            ideal,
            gain / ideal,
            after,
        ];
        for (samples, value) in series.iter_mut().zip(values) {
            samples.push(value);
        }
        if number == 0 {
            plots.push(plot(of, &plain, &ours));
        }
    }
    let [.., gains, _, part, after] = &series;
    let ratio = |samples: &Samples, target| Ratio {
        name: samples.name.clone(),
        value: samples.median(),
        target: Some(target),
    };
    let ratios = vec![ratio(gains, of.paper), ratio(part, ">= 0.9"), ratio(after, ">= 0.97")];
    let remarks = vec![format!(
        "{}: {} processes on node n{} after {LOAD_S} s{}; nodes of a quarter of a CPU times {:?}; ideal: every change at once \
         and for nothing, shares of the data by speed",
        of.bench,
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

fn plot(of: &Experiment, plain: &Race, ours: &Race) -> Plot {
    let mut marks = vec![(LOAD_S, "load".to_owned())];
    if of.joins {
        marks.push((JOIN_S, "node joins".to_owned()));
    }
    Plot {
        name: of.bench.to_owned(),
        title: format!("{}: iterations per second", of.bench),
        x: "seconds".to_owned(),
        is_logarithmic: false,
        lines: vec![
            ("plain mpiexec".to_owned(), plain.rates()),
            ("with agents".to_owned(), ours.rates()),
        ],
        marks,
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
        assert_eq!(A.alike_at_the_end(), Some(vec![1.0; 3]));
        assert_eq!(B.alike_at_the_end(), None);
        assert_eq!(C.alike_at_the_end(), Some(vec![1.0; 4]));
        // Fifteen seconds' worth, of which the second after the load yields seven ninths.
        assert!((A.ideal_s(1500.0, 100.0) - (15.0 + 2.0 / 9.0)).abs() < 1e-9);
        assert!((A.ideal_s(100.0, 100.0) - 1.0).abs() < 1e-9);
    }
}
