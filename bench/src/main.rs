//! `pcm-bench NAME`: one case of a finished build, as `cargo xtask bench` starts it.

mod cases;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cases::registry::run(&cases::registry::Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
