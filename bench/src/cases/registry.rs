//! Which benches exist and how one is run from start to printed result. Must never know what a bench measures.

use super::{
    adapt, agents,
    bench::{Bench, Context},
    calls, checkpoint, checkpoint_files, dynamic, fabric, fabric_rdma, interrupted, iteration, launch,
    other_mpis::{intel_mpi, open_mpi},
    overhead, pieces, plain_exchange, python, reconfigure, recovery, redistribute, spawn, table, waiting, watching,
    wide,
};
use clap::Parser;
use pcm_bench::{
    Failure, OnPath, Report,
    environment::Environment,
    record::{self, Measured},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The benches, in the order `list` shows them.
const BENCHES: &[&[Bench]] = &[
    &[adapt::BENCH],
    &adapt::PARTS,
    &[
        agents::BENCH,
        calls::BENCH,
        checkpoint::BENCH,
        checkpoint_files::OVERHEAD,
        checkpoint_files::FILES,
    ],
    &[dynamic::BENCH],
    &dynamic::PARTS,
    &[
        fabric::BENCH,
        fabric_rdma::BENCH,
        intel_mpi::BENCH,
        iteration::BENCH,
        launch::BENCH,
        fabric::LINKS,
    ],
    &[
        open_mpi::BENCH,
        overhead::BENCH,
        pieces::BENCH,
        python::BENCH,
        reconfigure::BENCH,
        recovery::BENCH,
        redistribute::BENCH,
    ],
    &redistribute::PARTS,
    &[plain_exchange::BENCH, spawn::BENCH, waiting::BENCH, watching::BENCH],
    &watching::PARTS,
    &[wide::BENCH],
    &wide::PARTS,
];

/// Where results are kept, from the root of the repository.
const RESULTS: &str = "bench/results";

fn benches() -> impl Iterator<Item = &'static Bench> {
    BENCHES.iter().copied().flatten()
}

/// Measures one thing of a finished build.
#[derive(Parser)]
#[command(
    name = "pcm-bench",
    after_help = "Example: cargo xtask bench iteration --quick\n\nExit codes: 0 done, 1 it failed, 2 wrong command \
                  line."
)]
pub(crate) struct Options {
    /// A name from `list`, or `list`.
    name: String,
    /// Fewer and shorter runs: shows that it works, not a figure to quote.
    #[arg(long)]
    quick: bool,
    /// Write machine, versions and every raw sample here.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the named bench, prints its table and writes its record; `list` prints the names.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let name = &options.name;
    if name == "list" {
        benches().for_each(|bench| println!("{:<12} {}", bench.name, bench.about));
        println!(
            "{:<12} the results of redistribute's parts as one page",
            redistribute::PAGE
        );
        return Ok(());
    }
    if name == redistribute::PAGE {
        println!("page in {}", redistribute::page(Path::new(RESULTS))?.display());
        return Ok(());
    }
    let bench = benches().find(|bench| bench.name == name);
    let bench = bench.ok_or_else(|| Failure::UnknownBench { name: name.to_owned() })?;
    let context = Context {
        environment: Environment::read()?,
        quick: options.quick,
    };
    let watch = interrupted::Watch::begin()?;
    let report = watch.judge((bench.run)(&context))?;
    print!("{}", table::render(&report));
    match &options.json {
        Some(path) => leave(path, bench, &context, &report),
        None => Ok(()),
    }
}

/// The record, and what belongs beside it.
fn leave(path: &Path, bench: &Bench, context: &Context, report: &Report) -> Result<(), Failure> {
    let measured = Measured {
        bench: bench.name,
        is_quick: context.quick,
        mpi: &context.environment.mpi_version,
    };
    record::write(path, &measured, report)?;
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bench_has_its_own_name() {
        let mut names: Vec<_> = benches().map(|bench| bench.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), benches().count());
        assert!(!names.contains(&"list") && !names.contains(&redistribute::PAGE));
    }
}
