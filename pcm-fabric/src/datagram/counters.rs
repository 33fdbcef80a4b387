//! What a datagram endpoint has seen, refused and dropped. Only counts.

/// Counters of one datagram endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounters {
    pub packets_sent: u64,
    pub bytes_sent: u64,
    /// Packets received, of any kind.
    pub packets_received: u64,
    pub bytes_received: u64,
    /// Fragments of messages sent, the repeated ones too.
    pub fragments_sent: u64,
    /// Messages handed to the application.
    pub delivered: u64,
    /// Messages whose peer confirmed them.
    pub confirmed: u64,
    /// Messages that failed.
    pub failed: u64,
    /// Packets that are not of this protocol.
    pub not_ours: u64,
    /// Packets that nobody with the cluster's key sealed, or that were altered.
    pub forged: u64,
    /// Packets seen before, or too old to tell.
    pub replayed: u64,
    /// Authentic packets that are for another life of this endpoint, or come after it forgot their sender.
    pub challenged: u64,
    /// Authentic answers to nothing that is under way.
    pub stale: u64,
    /// Authentic packets whose content contradicts itself or the limits.
    pub malformed: u64,
    /// Fragments refused for want of room.
    pub no_room: u64,
    /// Peers refused because there are too many.
    pub peers_refused: u64,
    /// Peers found to have restarted.
    pub restarts_seen: u64,
}
