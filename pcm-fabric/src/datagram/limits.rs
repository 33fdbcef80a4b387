//! Every limit of a datagram endpoint and where its number comes from.

use super::wire::{DATA_HEADER_LENGTH, FRAGMENTS_MAX, HEADER_LENGTH, TAG_LENGTH};
use std::time::Duration;

/// Longest packet on an Ethernet with the smallest MTU that IPv6 allows: 1,280 less the headers of IPv6 and UDP.
pub const PACKET_LENGTH_SAFE: usize = 1232;

/// What the smallest packet can carry, so that it fits the 1,024 bytes that RoCE makes of an Ethernet's 1,500.
const FRAGMENT_LENGTH_LEAST: usize = 896;

const PACKET_LENGTH_LEAST: usize = HEADER_LENGTH + TAG_LENGTH + DATA_HEADER_LENGTH + FRAGMENT_LENGTH_LEAST;

/// Longest message: it fits into as many of the smallest packets as a message may have.
pub const MESSAGE_LENGTH_MAX: usize = FRAGMENT_LENGTH_LEAST * FRAGMENTS_MAX as usize;

/// Longest time an exchange may take.
pub const DEADLINE_MAX: Duration = Duration::from_secs(30);

/// Limits of one endpoint; the defaults suit a cluster, tests make them smaller.
#[derive(Clone, Copy, Debug)]
pub struct DatagramLimits {
    pub packet_length_max: usize,
    /// Peers we send to, and peers we hear, at a time: as many daemons as one cluster is planned for, at about 1 KiB
    /// each when idle.
    pub peers_max: usize,
    /// Messages waiting for one peer, and the distance by which messages to it may overtake one another.
    pub messages_max: usize,
    /// Bytes waiting for one peer.
    pub queue_bytes_max: usize,
    /// Bytes of unfinished messages from one peer.
    pub unfinished_bytes_max: usize,
    /// Bytes of unfinished messages from all peers.
    pub unfinished_bytes_all_max: usize,
    /// Received messages the application has not taken yet; more stay with their senders.
    pub received_max: usize,
    /// After this silence a peer is forgotten. More than twice the longest exchange, so that no exchange of which it
    /// knew anything can still be under way.
    pub idle_max: Duration,
    /// How long a challenge may be answered; only the first packet of a session needs to.
    pub challenge_life: Duration,
}

impl Default for DatagramLimits {
    fn default() -> Self {
        Self {
            packet_length_max: PACKET_LENGTH_SAFE,
            peers_max: 4096,
            messages_max: 256,
            queue_bytes_max: 1 << 20,
            unfinished_bytes_max: 256 << 10,
            unfinished_bytes_all_max: 64 << 20,
            received_max: 1024,
            idle_max: 2 * DEADLINE_MAX + Duration::from_secs(10),
            challenge_life: Duration::from_secs(10),
        }
    }
}

impl DatagramLimits {
    /// The same limits, made to agree with each other and with the format.
    pub(super) fn agreed(mut self) -> Self {
        self.packet_length_max = self.packet_length_max.clamp(PACKET_LENGTH_LEAST, 65_000);
        self.idle_max = self.idle_max.max(2 * DEADLINE_MAX + Duration::from_secs(1));
        self.messages_max = self.messages_max.clamp(1, 256);
        self.unfinished_bytes_max = self.unfinished_bytes_max.max(MESSAGE_LENGTH_MAX);
        self
    }

    pub(super) fn fragment_length_max(&self) -> usize {
        self.packet_length_max - HEADER_LENGTH - TAG_LENGTH - DATA_HEADER_LENGTH
    }
}
