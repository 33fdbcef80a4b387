//! heat2d in Rust as a plain MPI program, without the library: the program that `main.rs` makes malleable.

mod mpi;
mod options;
mod plain;
mod plate;

use std::process::ExitCode;

fn main() -> ExitCode {
    plain::run()
}
