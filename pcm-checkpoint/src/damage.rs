//! What is wrong with a part of a checkpoint. Only names it.

use std::{fmt, io, path::PathBuf};

/// A part that cannot be used.
#[derive(Debug)]
pub struct Damage {
    pub region: String,
    pub rank: u32,
    pub path: PathBuf,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a part.
#[derive(Debug)]
pub enum Fault {
    /// The file is not there.
    Missing,
    /// The file has another length.
    Length {
        /// Bytes it should have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// A block is not what was written.
    Block {
        /// Its first byte in the file.
        offset: u64,
    },
    /// The system cannot read it.
    Unreadable(io::Error),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the part of rank {} of {:?}, {}, ",
            self.rank,
            self.region,
            self.path.display()
        )?;
        match &self.fault {
            Fault::Missing => f.write_str("is missing"),
            Fault::Length { expected, found } if found < expected => {
                write!(f, "is truncated: it has {found} of {expected} bytes")
            }
            Fault::Length { expected, found } => write!(f, "has {found} bytes instead of {expected}"),
            Fault::Block { offset } => write!(f, "is damaged: the block at byte {offset} has another checksum"),
            Fault::Unreadable(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

impl std::error::Error for Damage {}
