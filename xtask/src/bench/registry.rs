//! Which benches exist and how one is run from start to printed result. Must never know what a bench measures.

use super::{
    adapt, agents, checkpoint, checkpoint_files, dynamic, fabric, fabric_rdma, interrupted, iteration, launch,
    overhead, plain_exchange, reconfigure, record, recovery, redistribute, spawn, table, waiting, watching,
};
use crate::{
    compile,
    environment::Environment,
    failure::{Failure, OnPath},
    repository::Repository,
    setup,
};
use std::{fs, path::PathBuf};

pub(super) use super::samples::Report;

/// The benches, in the order `list` shows them.
const BENCHES: &[Bench] = &[
    adapt::BENCH,
    adapt::PARTS[0],
    adapt::PARTS[1],
    adapt::PARTS[2],
    adapt::PARTS[3],
    adapt::PARTS[4],
    adapt::PARTS[5],
    adapt::PARTS[6],
    adapt::PARTS[7],
    agents::BENCH,
    checkpoint::BENCH,
    checkpoint_files::OVERHEAD,
    checkpoint_files::FILES,
    dynamic::BENCH,
    dynamic::PARTS[0],
    dynamic::PARTS[1],
    dynamic::PARTS[2],
    dynamic::PARTS[3],
    dynamic::PARTS[4],
    fabric::BENCH,
    fabric_rdma::BENCH,
    iteration::BENCH,
    launch::BENCH,
    overhead::BENCH,
    reconfigure::BENCH,
    recovery::BENCH,
    redistribute::BENCH,
    redistribute::PARTS[0],
    redistribute::PARTS[1],
    redistribute::PARTS[2],
    redistribute::PARTS[3],
    plain_exchange::BENCH,
    spawn::BENCH,
    waiting::BENCH,
    watching::BENCH,
    watching::PARTS[0],
    watching::PARTS[1],
];

/// One thing that can be measured.
#[derive(Clone, Copy)]
pub(super) struct Bench {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) run: fn(&Context) -> Result<Report, Failure>,
}

/// The parts of a bench one after the other, as one report.
pub(super) fn run_all(parts: &[Bench], context: &Context) -> Result<Report, Failure> {
    let mut all = Report::default();
    for part in parts {
        eprintln!("{}", part.name);
        let report = (part.run)(context)?;
        all.series.extend(report.series);
        all.ratios.extend(report.ratios);
        all.remarks.extend(report.remarks);
        all.plots.extend(report.plots);
        all.beside.extend(report.beside);
    }
    Ok(all)
}

/// What a bench gets: a finished release build and how much time to take.
pub(super) struct Context {
    pub(super) environment: Environment,
    pub(super) quick: bool,
}

impl Context {
    /// A program that `cargo xtask build` left.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.environment.release.join(name)
    }

    /// How often to repeat: at least nine times for a figure to quote.
    pub(super) fn rounds(&self) -> usize {
        if self.quick { 3 } else { 9 }
    }
}

/// How a bench was asked for.
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) json: Option<PathBuf>,
}

/// Runs the named bench, prints its table and writes its record; `list` prints the names.
pub(crate) fn run(repository: &Repository, name: &str, options: Options) -> Result<(), Failure> {
    if name == "list" {
        for bench in BENCHES {
            println!("{:<12} {}", bench.name, bench.about);
        }
        return Ok(());
    }
    let bench = BENCHES
        .iter()
        .find(|bench| bench.name == name)
        .ok_or_else(|| Failure::UnknownBench { name: name.to_owned() })?;
    let environment = setup::run(repository)?;
    compile::release(repository, &environment)?;
    let context = Context {
        environment,
        quick: options.quick,
    };
    let watch = interrupted::Watch::begin()?;
    let report = watch.judge((bench.run)(&context))?;
    print!("{}", table::render(&report));
    if let Some(path) = options.json {
        record::write(&path, bench.name, &context, &report)?;
        println!("samples in {}", path.display());
        for plot in &report.plots {
            let picture = path.with_file_name(format!("{}.svg", plot.name));
            fs::write(&picture, plot.svg()).on("write", &picture)?;
            println!("plot in {}", picture.display());
        }
        for (ending, text) in &report.beside {
            let beside = path.with_extension(ending);
            fs::write(&beside, text).on("write", &beside)?;
            println!("{ending} in {}", beside.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bench_has_its_own_name() {
        let mut names: Vec<_> = BENCHES.iter().map(|bench| bench.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BENCHES.len());
        assert!(!names.contains(&"list"));
    }
}
