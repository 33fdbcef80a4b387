//! Data that ranks park with the daemons for a relaunch: what it is called, how its bytes lie in an *image*, and what a
//! restored rank and its daemon say to each other about it. Nothing here does I/O.
//!
//! An image is a memory file with everything one process had registered. Daemons and keepers carry images without
//! looking inside; what they hold is told in `pcm-core/src/parked`. Images travel and are asked for in blocks.

use crate::ids::{JobId, ProcessId, Rank};
use crate::reconfiguration::Attempt;
use serde::{Deserialize, Serialize};

/// Unit in which parts of images are asked for, checked and sent: a few of them on a link delay nobody, and the
/// checksums of 1 GiB are 128 KiB.
pub const BLOCK_BYTES: u64 = 64 * 1024;

/// Largest image: above the memory of the machines of this day, below what could overflow anything.
pub const IMAGE_BYTES_MAX: u64 = 1 << 46;

/// Most stretches an image is made of: the regions of one process with what custom regions packed for each new rank.
pub const STRETCHES_MAX: u32 = 64 * 1024;

/// Most runs of blocks in one request; with two numbers of at most nine bytes each it fits into one packet.
pub const RUNS_MAX: usize = 2048;

/// Names an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ParkKey {
    pub job: JobId,
    /// The relaunch it was parked for.
    pub attempt: Attempt,
    /// The process whose data it is.
    pub process: ProcessId,
}

/// Where a part of an image lies in the memory of its process, for whoever copies it out of one that hangs. A table of
/// these stands in the process's own memory, in the machine's byte order; its address is on the shared page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// First byte in the process.
    pub address: u64,
    /// Number of bytes.
    pub length: u64,
    /// First byte in the image.
    pub offset: u64,
}

impl Stretch {
    /// Bytes of one entry of the table.
    pub const BYTES: usize = 24;

    /// The entry's bytes.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip([self.address, self.length, self.offset]) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// The entry with these bytes.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        Self {
            address: word(0),
            length: word(8),
            offset: word(16),
        }
    }

    /// One past its last byte in the image, if it lies within what an image may be.
    pub fn end(self) -> Option<u64> {
        let end = self.offset.checked_add(self.length)?;
        (end <= IMAGE_BYTES_MAX).then_some(end)
    }
}

/// `count` blocks from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRun {
    pub first: u64,
    pub count: u64,
}

/// Which request for blocks an answer belongs to. One that is repeated may be answered twice, and the second answer may
/// come when other blocks of the same image have been asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Of which old rank.
    pub rank: Rank,
    /// Another one for each request of a process, and the same for its repetitions.
    pub number: u32,
}

/// What a restored rank asks its daemon. May be repeated; each is answered when the answer is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestoreAsk {
    /// What the relaunch changes. Before a meeting the answer is
    /// [`crate::reconfiguration::ReconfigurationOrder::Ahead`].
    Plan,
    /// These blocks of what an old rank parked; those beyond its end are left out.
    Blocks {
        /// The old rank, and which request this is.
        asked: Asked,
        /// Which blocks, at most [`RUNS_MAX`] runs.
        runs: Vec<BlockRun>,
    },
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestoreAnswer {
    Plan {
        /// The relaunch whose decision the asker waits for once it has its data; none of a checkpoint.
        awaited: Option<Attempt>,
        /// Number of old ranks.
        old_size: u32,
        /// For each new rank the old one it continues.
        continues: Vec<Option<Rank>>,
        /// Shares of the new ranks; empty means equal.
        weights: Vec<u32>,
    },
    /// To `Blocks`: they are in the memory file that comes with this packet, where they were in the image.
    Image {
        /// For which attempt it was parked; none of a checkpoint.
        attempt: Option<Attempt>,
        asked: Asked,
        /// Bytes of the image.
        bytes: u64,
    },
    /// To `Blocks`: there is no such image any more, or it cannot be had.
    Lost {
        /// For which attempt it was asked for; none of a checkpoint.
        attempt: Option<Attempt>,
        asked: Asked,
        /// What happened, for a person.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{AppToDaemon, packet_encode};

    #[test]
    fn a_stretch_survives_its_bytes_and_knows_where_it_ends() {
        let stretch = Stretch {
            address: 0x7fff_0000_1234,
            length: 5,
            offset: 70_000,
        };
        assert_eq!(Stretch::decode(&stretch.encode()), stretch);
        assert_eq!(stretch.end(), Some(70_005));
        assert_eq!(
            Stretch {
                length: u64::MAX,
                ..stretch
            }
            .end(),
            None
        );
    }

    #[test]
    fn the_longest_request_is_one_packet() {
        let run = BlockRun {
            first: IMAGE_BYTES_MAX,
            count: IMAGE_BYTES_MAX,
        };
        let ask = AppToDaemon::Restore(RestoreAsk::Blocks {
            asked: Asked {
                rank: Rank(u32::MAX),
                number: u32::MAX,
            },
            runs: vec![run; RUNS_MAX],
        });
        assert!(packet_encode(&ask).is_ok());
    }
}
