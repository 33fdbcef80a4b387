//! heat2d in Rust: how heat spreads over a plate whose border is held at fixed temperatures. Same options and
//! same result, bit for bit, as `heat2d.c`, which explains the method.

mod mpi;
mod options;
mod plate;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    run::run()
}
