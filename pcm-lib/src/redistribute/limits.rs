//! How much is under way at once.

use serde::{Deserialize, Serialize};

/// Limits of one move. Those of process 0 of the transfer communicator hold for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Most bytes of a chunk.
    pub chunk_bytes: usize,
    /// Chunks under way to (and as many from) one process.
    pub in_flight: usize,
    /// Processes served at a time; the next one's turn comes when one is done.
    pub peers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            chunk_bytes: 1 << 20,
            in_flight: 4,
            peers: 8,
        }
    }
}

impl Limits {
    /// Most memory for chunks that cannot be sent from, or received into, their place: both directions.
    pub fn window_bytes(&self) -> u64 {
        2 * (self.chunk_bytes * self.in_flight * self.peers) as u64
    }
}
