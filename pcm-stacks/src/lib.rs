//! Stacks of other processes with source lines: each thread is stopped for the time of copying its registers and the
//! used part of its stack, and all else is found out from the copy. Linux on x86-64.

mod classify;
mod helper;
mod image;
mod lines;
mod maps;
mod reader;
mod thread;
mod unwind;

pub use helper::{Found, run};
