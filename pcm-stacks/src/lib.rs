//! Stacks of other processes with source lines: each thread is stopped for the time of copying its registers and the
//! used part of its stack, and all else is found out from the copy. Linux on x86-64; elsewhere each stack is a sentence
//! that says so.

mod helper;

#[cfg(target_arch = "x86_64")]
mod classify;
#[cfg(target_arch = "x86_64")]
mod image;
#[cfg(target_arch = "x86_64")]
mod images;
#[cfg(target_arch = "x86_64")]
mod lines;
#[cfg(target_arch = "x86_64")]
mod python;
#[cfg(target_arch = "x86_64")]
mod reader;
#[cfg(target_arch = "x86_64")]
mod thread;
#[cfg(target_arch = "x86_64")]
mod unwind;

#[cfg(not(target_arch = "x86_64"))]
#[path = "no_reader.rs"]
mod reader;

pub use helper::{Found, run};
