//! The words of the shared page and where they stand. Part of the wire format: a change is a change of version.
//!
//! Who writes which of them, and in which order, is told in [`super`].

use crate::other_communicators::OtherCommunicators;
use crate::record::Record;
use crate::trace::{Entry, Ring};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use zerocopy::{FromBytes, IntoBytes, KnownLayout};

/// First word of a page that is ready ("PCM page" in memory order).
pub const MAGIC: u64 = u64::from_le_bytes(*b"PCM page");
/// Value of the ceiling that stops nobody.
pub const CEILING_NONE: u64 = u64::MAX;
/// Functions a page can name: MPI 5 has about 460 that take part, large-count variants included.
pub const FUNCTIONS_MAX: usize = 512;
/// Longest function name; the longest in MPI 5 has 31 bytes.
pub const FUNCTION_NAME_MAX: usize = 32;
/// Classes of calls a page has room for.
pub const CLASSES_MAX: usize = 16;
/// Ranks a page can have a row for; more would make it larger than 32 MiB.
pub const PEERS_MAX: usize = 1 << 20;
/// Stored as `peer` or `tag` when the call has none.
pub const NOT_ONE: i32 = i32::MIN;
/// Stored as `peer` when the call takes a message from anybody, and as `tag` when it takes any.
pub const ANY: i32 = -1;

pub(super) const FUNCTION_BITS: u32 = 16;
pub(super) const FUNCTION_MASK: u64 = (1 << FUNCTION_BITS) - 1;

/// What the daemon writes at creation.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Heading {
    pub(super) magic: AtomicU64,
    pub(super) version: AtomicU64,
    pub(super) size: AtomicU64,
    pub(super) peers_max: AtomicU64,
    unused: [AtomicU64; 4],
}

/// What the daemon orders. The rank reads the first two words at each iteration, the others while it waits inside MPI.
#[derive(Debug, Default, FromBytes, IntoBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Orders {
    /// No iteration with this number or a higher one may be started; [`CEILING_NONE`] for no limit.
    pub ceiling: AtomicU64,
    /// Raised by one for each message the daemon has put on the channel.
    pub doorbell: AtomicU64,
    /// Not 0 while processes outnumber the CPUs of the node.
    pub is_crowded: AtomicU64,
    /// CLOCK_MONOTONIC until when a process of the node may still be starting, in nanoseconds; 0 while none is.
    pub starting_until: AtomicU64,
    /// What the daemon notes for its successor: the hash of the PMI request whose answer is on its way; 0 when none is.
    pub pmi_answering: AtomicU64,
    unused: [AtomicU64; 3],
}

/// Who the rank is and how far it has come.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Progress {
    pub iteration: AtomicU64,
    pub(super) state: AtomicU64,
    /// The process as itself sees its number; 0 before the library has mapped the page.
    pub pid: AtomicU64,
    /// Rank and size in the world the process started in.
    pub world_rank: AtomicU64,
    pub world_size: AtomicU64,
    /// Rank and size in the job's current communicator.
    pub job_rank: AtomicU64,
    pub job_size: AtomicU64,
    /// Nanoseconds outside MPI since the first iteration began, as of the last iteration.
    pub useful_ns: AtomicU64,
    /// CLOCK_MONOTONIC at `ticks_at`.
    pub monotonic_ns: AtomicU64,
    /// See the file head, "Time".
    pub ticks_at: AtomicU64,
    /// Nanoseconds per tick times 2^32.
    pub scale: AtomicU64,
    /// Address, in the rank, of the table of [`crate::parked::Stretch`]es of its image while it is held at a ceiling; 0
    /// while there is none. Stored after `stretches`, and before the rank says that it is there.
    pub table: AtomicU64,
    /// Entries of that table.
    pub stretches: AtomicU64,
    /// Bytes of registered data the rank holds, as far as their contents count; 0 when it registered none.
    pub registered_bytes: AtomicU64,
    /// The iteration its loop ends at, as it declared; 0 when it never did.
    pub iterations_declared: AtomicU64,
    /// Those of `registered_bytes` that are of constant arrays, which can travel ahead of a meeting.
    pub constant_bytes: AtomicU64,
    /// Bytes it has taken from checkpoint files.
    pub restored_bytes: AtomicU64,
    /// The iteration this process began with: what came before was done by others.
    pub iterations_before: AtomicU64,
    unused: [AtomicU64; 6],
}

/// The call a rank is in, and the sum over all its calls.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Call {
    pub(super) word: AtomicU64,
    pub(super) peer_tag: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) communicator: AtomicU64,
    pub(super) since: AtomicU64,
    /// Ticks spent inside MPI, calls that have returned.
    pub ticks: AtomicU64,
    unused: [AtomicU64; 2],
}

/// Calls of one class. Which classes there are is the library's business; it names them as it names functions.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Class {
    pub calls: AtomicU64,
    /// Bytes they were given to carry.
    pub bytes: AtomicU64,
    pub(super) name: [AtomicU64; 2],
}

/// The name of a function, padded with zeros.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Name(pub(super) [AtomicU64; FUNCTION_NAME_MAX / 8]);

/// Point-to-point traffic with one rank of the job.
///
/// Sent is exact: counted when a send is begun. Received is counted when a receive that names its source is posted,
/// with the size of its buffer, so it is an upper bound; the exact number stands in the page of the sender.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Peer {
    /// Messages sent to it.
    pub messages_sent: AtomicU64,
    /// Bytes sent to it.
    pub bytes_sent: AtomicU64,
    /// Receives posted for it.
    pub messages_received: AtomicU64,
    /// Bytes those receives have room for.
    pub bytes_received: AtomicU64,
}

/// Everything before the table of peers.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Head {
    pub(super) heading: Heading,
    /// The daemon's part.
    pub orders: Orders,
    /// The rank's part.
    pub progress: Progress,
    /// The rank's part.
    pub call: Call,
    /// The rank's part.
    pub classes: [Class; CLASSES_MAX],
    pub(super) names: [Name; FUNCTIONS_MAX],
    /// The rank's part.
    pub record: Record,
    /// The rank's part.
    pub other_communicators: OtherCommunicators,
    /// The rank's part, but for `until`.
    pub trace: Ring,
}

/// Life cycle of a rank as its page shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Not yet through `MPI_Init`.
    Starting,
    /// Between `MPI_Init` and `MPI_Finalize`.
    Running,
    Finalizing,
    Done,
}

impl Call {
    /// For the rank: it enters `function`. See the file head for the order of the stores.
    #[inline]
    pub fn enter(&self, function: u16, peer: i32, tag: i32, bytes: u64, communicator: u64, since: u64) {
        let calls = (self.word.load(Relaxed) >> FUNCTION_BITS) + 1;
        self.peer_tag.store(peer_tag(peer, tag), Relaxed);
        self.bytes.store(bytes, Relaxed);
        self.communicator.store(communicator, Relaxed);
        self.since.store(since, Relaxed);
        self.word.store(calls << FUNCTION_BITS | u64::from(function), Release);
    }

    /// For the rank: it leaves the function it is in, `ticks` after it entered.
    #[inline]
    pub fn leave(&self, ticks: u64) {
        self.word.store(self.word.load(Relaxed) & !FUNCTION_MASK, Relaxed);
        self.ticks.store(self.ticks.load(Relaxed).wrapping_add(ticks), Relaxed);
        fence(Release);
    }

    /// For the rank: the call it is in as an entry of the trace, at its end.
    #[inline]
    pub fn trace_entry(&self, begin: u64, ticks: u64) -> Entry {
        Entry {
            begin,
            ticks,
            function: (self.word.load(Relaxed) & FUNCTION_MASK) as u16,
            peer_tag: self.peer_tag.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }

    /// For the rank: how many functions it has entered; it may be in the last.
    #[inline]
    pub fn number(&self) -> u64 {
        self.word.load(Relaxed) >> FUNCTION_BITS
    }

    /// For the rank: whether it is in a function already.
    #[inline]
    pub fn is_inside(&self) -> bool {
        self.word.load(Relaxed) & FUNCTION_MASK != 0
    }
}

#[inline]
pub(super) fn peer_tag(peer: i32, tag: i32) -> u64 {
    u64::from(peer as u32) << 32 | u64::from(tag as u32)
}

pub(super) fn name_store(slot: &[AtomicU64], name: &str) {
    let mut bytes = name.bytes();
    for word in slot {
        let chunk: [u8; 8] = std::array::from_fn(|_| bytes.next().unwrap_or(0));
        word.store(u64::from_le_bytes(chunk), Relaxed);
    }
}

pub(super) fn name_load(slot: &[AtomicU64]) -> String {
    let bytes = slot.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
    let shown = bytes
        .take_while(|byte| *byte != 0)
        .filter(|byte| byte.is_ascii_graphic());
    shown.map(char::from).collect()
}
