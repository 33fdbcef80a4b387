//! Every limit of a link and where its number comes from.

use pcm_proto::frame::PAYLOAD_LENGTH_MAX;
use std::time::Duration;

/// Limits of one endpoint's links; the defaults suit a cluster, tests make them smaller.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time a peer has from the first byte to the end of the handshake. A handshake costs 0.2 ms of CPU time and two
    /// messages, so this is generous even across an ocean on a loaded machine.
    pub handshake_deadline: Duration,
    /// Handshakes under way at one listener: as many as a tree of daemons and a burst of commands need, and few
    /// enough that a stranger who opens connections holds only about 200 KiB here.
    pub half_open_max: usize,
    /// When all places are taken, a handshake older than this makes room for the next connection. A handshake takes a
    /// member a few milliseconds; with all places 5,000 strangers a second are taken in and put out, so that no
    /// member waits outside behind a flood of less.
    pub half_open_grace: Duration,
    /// Connections of members at one receiver of bulk transfers, those kept for a next transfer among them; these make
    /// room for newer ones.
    pub bulk_max: usize,
    /// Finished links waiting for the daemon to accept them; more are dropped, their peers try again.
    pub accept_queue_max: usize,
    /// Bytes waiting for one peer at which further messages are refused, so that the most held is this and one frame.
    /// One of the longest frames may wait while another is under way.
    pub queue_bytes_max: usize,
    /// Time in which a peer must take 256 KiB (a slow long-distance link needs a quarter of a second for that).
    pub stall_deadline: Duration,
    /// Longest payload of a frame.
    pub payload_length_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake_deadline: Duration::from_secs(2),
            half_open_max: 256,
            half_open_grace: Duration::from_millis(50),
            bulk_max: 256,
            accept_queue_max: 1024,
            queue_bytes_max: PAYLOAD_LENGTH_MAX,
            stall_deadline: Duration::from_secs(5),
            payload_length_max: PAYLOAD_LENGTH_MAX,
        }
    }
}
