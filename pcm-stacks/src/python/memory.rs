//! Memory of another process, read in small pieces: whatever lies there may be garbage.

use crate::thread;
use libc::pid_t;

/// Where bytes can be read.
pub(super) trait Memory {
    /// At most so many bytes from an address on; fewer where memory ends, none where there is none.
    fn read(&self, address: u64, bytes: usize) -> Option<Block>;

    fn word(&self, address: u64) -> Option<u64> {
        self.read(address, 8)?.word(0)
    }
}

/// The memory of the process with this number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process(pub(super) pid_t);

impl Memory for Process {
    fn read(&self, address: u64, bytes: usize) -> Option<Block> {
        thread::memory(self.0, address, bytes).ok().map(Block::new)
    }
}

/// Bytes that were read at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Block(Vec<u8>);

impl Block {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&self, at: u64, count: usize) -> Option<&[u8]> {
        let begin = usize::try_from(at).ok()?;
        self.0.get(begin..begin.checked_add(count)?)
    }

    pub(super) fn word(&self, at: u64) -> Option<u64> {
        let bytes = self.bytes(at, 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    pub(super) fn half_word(&self, at: u64) -> Option<u32> {
        let bytes = self.bytes(at, 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    pub(super) fn byte(&self, at: u64) -> Option<u8> {
        self.bytes(at, 1)?.first().copied()
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
