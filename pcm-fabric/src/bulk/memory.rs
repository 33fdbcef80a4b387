//! Memory of bulk transfers: bytes of this process, or a mapped file that others have too.

use memmap2::MmapMut;
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// Memory that is offered, and given back when it is whole.
pub enum RegionMemory {
    /// Bytes of this process.
    Bytes(Vec<u8>),
    /// A mapped file.
    Mapped(MmapMut),
}

/// What is sent. It may be memory that others write meanwhile: each block is copied before it is sealed or summed.
pub type Source = Arc<dyn AsRef<[u8]> + Send + Sync>;

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

impl From<MmapMut> for RegionMemory {
    fn from(map: MmapMut) -> Self {
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
