//! Why memory could not be had.

use std::io;

/// Memory that the system cannot give. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// More than is free: taking it would make the kernel end a process.
    #[error("this rank needs {wanted} bytes and {available} are available ({limit}); use more ranks or nodes")]
    NotAvailable {
        /// Bytes wanted, with what was promised before but not yet used.
        wanted: u64,
        /// Bytes there are.
        available: u64,
        /// What sets that limit.
        limit: &'static str,
    },
    /// The kernel refused.
    #[error("the system refuses {wanted} bytes ({error}); use more ranks, or raise the limit on memory (ulimit -v)")]
    Refused {
        wanted: u64,
        /// The kernel's words.
        #[source]
        error: io::Error,
    },
    /// The program makes the memory of this array and did not.
    #[error("the program's hook made no memory of {wanted} bytes")]
    Program { wanted: u64 },
    /// The address range is longer than a process can have.
    #[error("{wanted} bytes are more than a process can address; use more ranks")]
    NotAddressable { wanted: u64 },
}
