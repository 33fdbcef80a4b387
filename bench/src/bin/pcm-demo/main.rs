//! `pcm-demo`: shows on a local cluster what this software does, and leaves nothing behind. `cargo xtask demo` starts
//! it.

mod acts;
mod interrupt;
mod job;
mod parts;
mod show;
mod story;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match story::run(&story::Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
