//! Output and standard input of jobs: how far each stream has come, been passed on and been taken. The pipes and files are
//! the driver's.

pub mod part_output;
pub mod part_stdin;
