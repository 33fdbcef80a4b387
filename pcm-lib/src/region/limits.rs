//! Limits of what a process can register.

/// Most regions of one process: far above what programs have, and it bounds the statement that opens a move.
pub const REGIONS_MAX: usize = 1024;

/// Longest name of a region, in bytes: short enough for a line of an error.
pub const NAME_LENGTH_MAX: usize = 64;
