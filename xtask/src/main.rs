//! Entry of `cargo xtask`: reads the command line and hands over. Must never depend on MPI.

mod advisories;
mod browser;
mod built;
mod c_parts;
mod clang;
mod cli;
mod compile;
mod dist;
mod docs;
mod environment;
mod failure;
mod fortran;
mod fuzz;
mod house;
mod lint;
mod miri;
mod mpi;
mod pictures;
mod planted;
mod repository;
mod runners;
mod setup;
mod side_by_side;
mod softroce;
mod source_tree;
mod suites;
mod tools;
mod wheel;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        // The counts are already there, and are to be the last line.
        Err(failure::Failure::Tests { .. }) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
