//! Prints what the demo shows.

use crate::parts::Part;
use pcm_bench::{Failure, trial};
use std::{process::Command, time::Duration};

/// A command that only looks answers at once; this is for a loaded machine.
const LOOK_MAX: Duration = Duration::from_secs(60);

/// A new part of the demo.
pub(super) fn heading(text: &str) {
    println!("\n== {text}");
}

/// Prints what a command says, or only its lines with a word.
pub(super) fn show(command: Command, word: Option<&str>) -> Result<(), Failure> {
    let said = trial::run("demo", command, LOOK_MAX)?;
    for line in said.lines().filter(|line| word.is_none_or(|word| line.contains(word))) {
        println!("{line}");
    }
    println!();
    Ok(())
}

/// The throughput of each part of the run.
pub(super) fn throughput(parts: &[Part]) {
    println!("{:<44}  SECONDS  ITERATIONS/S", "PART");
    for part in parts {
        println!("{:<44}  {:>7.2}  {:>12.0}", part.name, part.seconds, part.per_second);
    }
}
