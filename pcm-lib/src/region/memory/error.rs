//! Why memory could not be had.

use std::{fmt, io};

/// Memory that the system cannot give. Nothing has changed.
#[derive(Debug)]
pub enum MemoryError {
    /// More than is free: taking it would make the kernel end a process.
    NotAvailable {
        /// Bytes wanted, with what was promised before but not yet used.
        wanted: u64,
        /// Bytes there are.
        available: u64,
        /// What sets that limit.
        limit: &'static str,
    },
    /// The kernel refused.
    Refused {
        wanted: u64,
        /// The kernel's words.
        error: io::Error,
    },
    /// The address range is longer than a process can have.
    NotAddressable { wanted: u64 },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAvailable {
                wanted,
                available,
                limit,
            } => write!(
                f,
                "this rank needs {wanted} bytes and {available} are available ({limit}); use more ranks or nodes"
            ),
            Self::Refused { wanted, error } => write!(
                f,
                "the system refuses {wanted} bytes ({error}); use more ranks, or raise the limit on memory (ulimit -v)"
            ),
            Self::NotAddressable { wanted } => {
                write!(f, "{wanted} bytes are more than a process can address; use more ranks")
            }
        }
    }
}

impl std::error::Error for MemoryError {}
