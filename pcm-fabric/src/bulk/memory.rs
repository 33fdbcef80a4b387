//! Memory of bulk transfers: bytes of this process, or a mapped file that others have too.

use super::mapped::Alone;
use std::{
    fmt,
    ops::{Deref, DerefMut},
};

/// Memory that is offered, and given back when it is whole.
pub enum RegionMemory {
    /// Bytes of this process.
    Bytes(Vec<u8>),
    /// A mapped file.
    Mapped(Alone),
}

/// What is sent. Others may write it meanwhile: each block is copied before it is sealed or summed.
pub trait Lent: Send + Sync {
    /// So many bytes there are.
    fn length(&self) -> usize;

    /// Copies out what is there now; false when that is not all within it.
    fn copy_out(&self, at: usize, into: &mut [u8]) -> bool;

    /// Where a device reads it.
    fn start(&self) -> *const u8;
}

impl Lent for Vec<u8> {
    fn length(&self) -> usize {
        self.len()
    }

    fn copy_out(&self, at: usize, into: &mut [u8]) -> bool {
        let range = at.checked_add(into.len()).and_then(|end| self.get(at..end));
        range.map(|range| into.copy_from_slice(range)).is_some()
    }

    fn start(&self) -> *const u8 {
        self.as_ptr()
    }
}

impl Default for RegionMemory {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl From<Vec<u8>> for RegionMemory {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Alone> for RegionMemory {
    fn from(map: Alone) -> Self {
        Self::Mapped(map)
    }
}

impl Deref for RegionMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

impl DerefMut for RegionMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

impl PartialEq for RegionMemory {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl PartialEq<Vec<u8>> for RegionMemory {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == **other
    }
}

impl fmt::Debug for RegionMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Bytes(_) => "Bytes",
            Self::Mapped(_) => "Mapped",
        };
        write!(f, "{kind}({})", self.len())
    }
}
