//! The page of memory that a rank and the daemon of its node share: counters out, orders in.
//!
//! The daemon creates it (a memfd), the library maps it. Both sides only load and store atomics, so neither can stop
//! the other, and neither may trust what it reads: an application can write anything here. Nothing here does I/O.
//!
//! # Who writes what
//!
//! | part | writer | when |
//! | --- | --- | --- |
//! | [`Heading`] | daemon | at creation; `magic` last |
//! | [`Orders`] | daemon | at any time |
//! | [`Progress`] | rank | at start, at a change of state, `iteration` at each iteration |
//! | [`Call`], [`Class`], [`Peer`] | rank | at each MPI call |
//! | [`Name`] | rank | once, before it leaves [`State::Starting`] |
//! | [`Record`](crate::record::Record) | rank | at each collective and each send, and when it has a new communicator |
//! | [`OtherCommunicators`](crate::other_communicators::OtherCommunicators) | rank | at each message on a communicator
//! that is not the job's own |
//! | [`Ring`](crate::trace::Ring) | rank, but for `until` | at each call and iteration, while the job is traced |
//!
//! # The current call
//!
//! `Call::word` holds the number of calls so far (upper 48 bits) and the function the rank is in (lower 16, 0 for
//! none). On entry the rank stores `peer`, `tag`, `bytes`, `communicator` and `since`, then the word with `Release`;
//! on return it stores the word with function 0, then a `Release` fence, so that no detail of the next call is seen
//! under the word of this one. A reader loads the word with `Acquire`, the details, and after an `Acquire` fence the
//! word again: equal words mean that the details belong to it, because the count never repeats. On x86-64 all of
//! this is plain stores and loads. Only one thread of a rank writes a call.
//!
//! # The ceiling
//!
//! Before it starts an iteration the rank raises `iteration` with a `SeqCst` addition and then loads `ceiling` with
//! `SeqCst`; the daemon stores `ceiling` with `SeqCst` and then loads `iteration` with `SeqCst`. So of a rank that goes
//! on and a daemon that believes it stopped at least one has seen the other's number.
//!
//! # Time
//!
//! Ticks are the rank's own (time stamp counter or nanoseconds). `monotonic_ns + (ticks - ticks_at) * scale / 2^32`
//! translates them to CLOCK_MONOTONIC; the rank writes these three once.

#![allow(unsafe_code, reason = "refers to memory that others write")]

mod layout;

use crate::handshake::PROTOCOL_VERSION;
use crate::trace::{Entry, ITERATION, TraceEntry};
pub use layout::{
    ANY, CEILING_NONE, CLASSES_MAX, Call, Class, FUNCTION_NAME_MAX, FUNCTIONS_MAX, Head, Heading, MAGIC, NOT_ONE, Name,
    Orders, PEERS_MAX, Peer, Progress, State,
};
use layout::{FUNCTION_BITS, FUNCTION_MASK, name_load, name_store, peer_tag};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

const _: () = assert!(align_of::<Head>() >= align_of::<Peer>() && size_of::<Head>().is_multiple_of(align_of::<Peer>()));

/// Why some bytes are no page for this build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// More peers than [`PEERS_MAX`], or none.
    #[error("a page has 1 to {PEERS_MAX} peers, not {peers_max}")]
    Peers { peers_max: usize },
    /// Fewer bytes than the page needs, or bytes that are not aligned.
    #[error("a shared page of {needed} aligned bytes is needed, {given} were given")]
    Size { given: usize, needed: usize },
    /// The bytes do not begin with [`MAGIC`].
    #[error("the shared memory does not hold a page of this software")]
    Magic,
    /// Another version made the page.
    #[error(
        "the shared page has protocol version {page}, this library version {own}: install the libpcm that came with \
         the daemon, or restart the cluster with `pcmctl down` and `pcmctl up`, then run the job again"
    )]
    Version {
        /// The page's version.
        page: u64,
        /// This build's version.
        own: u64,
    },
}

/// Bytes of a page with rows for `peers_max` ranks and one for all others.
pub fn page_size(peers_max: usize) -> usize {
    size_of::<Head>() + (peers_max + 1) * size_of::<Peer>()
}

/// One call as a reader saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSeen {
    /// Its MPI name, without `MPI_`.
    pub function: String,
    /// Rank in the job's communicator that it sends to or receives from.
    pub peer: Option<i32>,
    pub tag: Option<i32>,
    /// Bytes it was given to carry.
    pub bytes: u64,
    /// The communicator's identity, see [`crate::record`]; 0 where it has none.
    pub communicator: u64,
    /// CLOCK_MONOTONIC at its beginning.
    pub since_ns: u64,
}

/// A page, seen from either side.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// All fixed parts.
    pub head: &'a Head,
    peers: &'a [Peer],
}

impl<'a> Page<'a> {
    /// Makes a page in `memory`, which must be zeroed and shared with nobody yet.
    pub fn create(memory: &'a mut [u8], peers_max: usize) -> Result<Self, PageError> {
        let given = memory.len();
        if peers_max == 0 || peers_max > PEERS_MAX {
            return Err(PageError::Peers { peers_max });
        }
        // SAFETY: the memory is borrowed for `'a`, exclusively.
        let page = unsafe { Self::over(NonNull::from(&mut *memory).cast(), given, |_| Ok(peers_max)) }?;
        let heading = &page.head.heading;
        heading.version.store(u64::from(PROTOCOL_VERSION), Relaxed);
        heading.size.store(given as u64, Relaxed);
        heading.peers_max.store(peers_max as u64, Relaxed);
        page.head.orders.ceiling.store(CEILING_NONE, Relaxed);
        page.head.progress.state.store(State::Starting as u64, Relaxed);
        heading.magic.store(MAGIC, Release);
        Ok(page)
    }

    /// The page that another process made in `memory`, which is this one's alone now.
    pub fn open(memory: &'a mut [u8]) -> Result<Self, PageError> {
        // SAFETY: the memory is borrowed for `'a`, exclusively.
        unsafe { Self::at(NonNull::from(&mut *memory).cast(), memory.len()) }
    }

    /// The page that another process made here, and may write at any time: no reference to its bytes is made, only to
    /// atomics.
    ///
    /// # Safety
    /// `length` bytes from `first` on can be read and written for `'a`, and others in this process touch them as
    /// atomics only.
    pub unsafe fn at(first: NonNull<u8>, length: usize) -> Result<Self, PageError> {
        let own = u64::from(PROTOCOL_VERSION);
        let peers_max = |heading: &Heading| {
            if heading.magic.load(Acquire) != MAGIC {
                return Err(PageError::Magic);
            }
            let page = heading.version.load(Relaxed);
            if page != own {
                return Err(PageError::Version { page, own });
            }
            let peers_max = usize::try_from(heading.peers_max.load(Relaxed)).unwrap_or(usize::MAX);
            if peers_max == 0 || peers_max > PEERS_MAX {
                return Err(PageError::Peers { peers_max });
            }
            Ok(peers_max)
        };
        // SAFETY: the caller promises the same.
        unsafe { Self::over(first, length, peers_max) }
    }

    /// # Safety
    /// As of [`Page::at`].
    unsafe fn over(
        first: NonNull<u8>,
        given: usize,
        peers_max: impl FnOnce(&Heading) -> Result<usize, PageError>,
    ) -> Result<Self, PageError> {
        let size_error = |needed| PageError::Size { given, needed };
        let at = first.cast::<Head>();
        if given < size_of::<Head>() || !at.is_aligned() {
            return Err(size_error(page_size(1)));
        }
        // SAFETY: so many bytes are there and aligned; a head is atomics only, for which any bytes will do.
        let head: &'a Head = unsafe { at.as_ref() };
        let peers_max = peers_max(&head.heading)?;
        if given < page_size(peers_max) {
            return Err(size_error(page_size(peers_max)));
        }
        // SAFETY: the rows are within these bytes, aligned as the head is, and atomics only, too.
        let peers = unsafe { slice::from_raw_parts(at.add(1).cast::<Peer>().as_ptr(), peers_max + 1) };
        Ok(Self { head, peers })
    }

    /// Ranks that have a row of their own.
    pub fn peers_max(&self) -> usize {
        self.peers.len() - 1
    }

    /// The row of a rank; ranks beyond [`Page::peers_max`] share the last one.
    #[inline]
    pub fn peer(&self, rank: usize) -> &'a Peer {
        &self.peers[rank.min(self.peers.len() - 1)]
    }

    /// The state the rank last wrote; a number that is none counts as [`State::Done`].
    pub fn state(&self) -> State {
        match self.head.progress.state.load(Acquire) {
            0 => State::Starting,
            1 => State::Running,
            2 => State::Finalizing,
            _ => State::Done,
        }
    }

    /// For the rank: publishes its state and all it wrote before.
    pub fn set_state(&self, state: State) {
        self.head.progress.state.store(state as u64, Release);
    }

    /// For the daemon: sets the ceiling and answers how many iterations the rank had started when it could not yet
    /// have seen it.
    pub fn set_ceiling(&self, ceiling: u64) -> u64 {
        self.head.orders.ceiling.store(ceiling, SeqCst);
        self.head.progress.iteration.load(SeqCst)
    }

    /// Iterations that the rank has begun; one that begins none any more has begun those that it declared.
    pub fn iterations(&self) -> u64 {
        let progress = &self.head.progress;
        match progress.iteration.load(Relaxed) {
            CEILING_NONE => progress.iterations_declared.load(Relaxed),
            begun => begun,
        }
    }

    /// For the daemon: tells the rank that a message waits on the channel.
    pub fn ring(&self) {
        self.head.orders.doorbell.fetch_add(1, Release);
    }

    /// For the rank: names function `id` (from 1; 0 is no function). A name or number without room is not stored.
    pub fn set_function_name(&self, id: usize, name: &str) {
        if let Some(slot) = self.head.names.get(id) {
            name_store(&slot.0, name);
        }
    }

    /// For the rank: names a class of calls.
    pub fn set_class_name(&self, class: usize, name: &str) {
        if let Some(slot) = self.head.classes.get(class) {
            name_store(&slot.name, name);
        }
    }

    /// The name of a class, empty where the library has none.
    pub fn class_name(&self, class: usize) -> String {
        self.head
            .classes
            .get(class)
            .map(|slot| name_load(&slot.name))
            .unwrap_or_default()
    }

    /// The name of a function, empty where the library has none.
    pub fn function_name(&self, id: usize) -> String {
        self.head
            .names
            .get(id)
            .map(|slot| name_load(&slot.0))
            .unwrap_or_default()
    }

    /// MPI calls begun so far.
    pub fn calls(&self) -> u64 {
        self.head.call.word.load(Relaxed) >> FUNCTION_BITS
    }

    /// Nanoseconds inside MPI, calls that have returned.
    pub fn mpi_ns(&self) -> u64 {
        self.ticks_as_ns(self.head.call.ticks.load(Relaxed))
    }

    /// The call the rank is in, or None when it is in none or changes calls too fast to be caught.
    pub fn call_seen(&self) -> Option<CallSeen> {
        // Three tries: a rank in a blocking call is caught at once; one that is not is not worth waiting for.
        (0..3).find_map(|_| self.call_seen_once())
    }

    fn call_seen_once(&self) -> Option<CallSeen> {
        let call = &self.head.call;
        let word = call.word.load(Acquire);
        let function = (word & FUNCTION_MASK) as usize;
        if function == 0 {
            return None;
        }
        let peer_tag = call.peer_tag.load(Relaxed);
        let bytes = call.bytes.load(Relaxed);
        let communicator = call.communicator.load(Relaxed);
        let since = call.since.load(Relaxed);
        fence(Acquire);
        if call.word.load(Relaxed) != word {
            return None;
        }
        let one = |value: i32| (value != NOT_ONE).then_some(value);
        Some(CallSeen {
            function: self.function_name(function),
            peer: one((peer_tag >> 32) as u32 as i32),
            tag: one(peer_tag as u32 as i32),
            bytes,
            communicator,
            since_ns: self.ticks_as_monotonic_ns(since),
        })
    }

    /// For the daemon: the rank records until this moment of CLOCK_MONOTONIC; 0 ends it now. Does nothing before the
    /// rank has said how its ticks translate.
    pub fn trace_until(&self, monotonic_ns: u64) {
        let progress = &self.head.progress;
        let scale = u128::from(progress.scale.load(Relaxed));
        let after = monotonic_ns.saturating_sub(progress.monotonic_ns.load(Relaxed));
        let until = match (u128::from(after) << 32).checked_div(scale) {
            Some(ticks) if monotonic_ns != 0 => progress.ticks_at.load(Relaxed).wrapping_add(ticks as u64),
            _ => 0,
        };
        self.head.trace.until.store(until, Relaxed);
    }

    /// An entry of the trace, in the node's time.
    pub fn trace_entry(&self, entry: &Entry) -> TraceEntry {
        TraceEntry {
            begin_ns: self.ticks_as_monotonic_ns(entry.begin),
            ns: self.ticks_as_ns(entry.ticks),
            function: entry.function,
            peer: (entry.peer_tag >> 32) as u32 as i32,
            tag: entry.peer_tag as u32 as i32,
            bytes: entry.bytes,
        }
    }

    /// For the rank: an iteration begins, or it was held in the library since `begin`.
    pub fn trace_mark(&self, function: u16, begin: u64, now: u64, number: u64) {
        if self.head.trace.is_on(now) {
            self.head.trace.write(&Entry {
                begin,
                ticks: if function == ITERATION {
                    0
                } else {
                    now.wrapping_sub(begin)
                },
                function,
                peer_tag: peer_tag(NOT_ONE, NOT_ONE),
                bytes: number,
            });
        }
    }

    fn ticks_as_monotonic_ns(&self, ticks: u64) -> u64 {
        let progress = &self.head.progress;
        let passed = ticks.wrapping_sub(progress.ticks_at.load(Relaxed));
        progress
            .monotonic_ns
            .load(Relaxed)
            .wrapping_add(self.ticks_as_ns(passed))
    }

    fn ticks_as_ns(&self, ticks: u64) -> u64 {
        let scale = self.head.progress.scale.load(Relaxed);
        ((u128::from(ticks) * u128::from(scale)) >> 32) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use zerocopy::IntoBytes;

    fn memory(peers_max: usize) -> Vec<u128> {
        // One cache line more, so that an aligned page fits wherever the allocation begins.
        vec![0; (page_size(peers_max) + 64) / 16 + 1]
    }

    fn aligned(memory: &mut [u128]) -> &mut [u8] {
        let bytes = memory.as_mut_bytes();
        let skip = bytes.as_ptr().align_offset(64);
        &mut bytes[skip..]
    }

    #[test]
    fn a_page_is_opened_as_it_was_created() {
        let mut memory = memory(3);
        let bytes = aligned(&mut memory);
        Page::create(bytes, 3).unwrap().set_ceiling(17);
        let page = Page::open(bytes).unwrap();
        assert_eq!((page.peers_max(), page.state()), (3, State::Starting));
        assert_eq!(page.head.orders.ceiling.load(Relaxed), 17);
    }

    #[test]
    fn a_rank_past_its_last_iteration_shows_those_that_it_declared() {
        let mut memory = memory(3);
        let page = Page::create(aligned(&mut memory), 3).unwrap();
        let progress = &page.head.progress;
        progress.iterations_declared.store(500, Relaxed);
        progress.iteration.store(7, Relaxed);
        assert_eq!(page.iterations(), 7);
        progress.iteration.store(CEILING_NONE, Relaxed);
        assert_eq!(page.iterations(), 500);
    }

    #[test]
    fn a_foreign_old_or_short_page_is_refused() {
        let mut memory = memory(3);
        let bytes = aligned(&mut memory);
        assert_eq!(Page::open(bytes).unwrap_err(), PageError::Magic);
        Page::create(bytes, 3).unwrap();
        assert!(matches!(
            Page::open(&mut bytes[..page_size(3) - 1]),
            Err(PageError::Size { .. })
        ));
        assert!(matches!(Page::open(&mut bytes[..64]), Err(PageError::Size { .. })));
        Page::create(bytes, 3)
            .unwrap()
            .head
            .heading
            .version
            .store(9999, Relaxed);
        assert!(matches!(Page::open(bytes), Err(PageError::Version { page: 9999, .. })));
        assert_eq!(Page::create(bytes, 0).unwrap_err(), PageError::Peers { peers_max: 0 });
    }

    #[test]
    fn the_current_call_is_seen_only_while_it_lasts() {
        let mut memory = memory(1);
        let page = Page::create(aligned(&mut memory), 1).unwrap();
        page.head.progress.monotonic_ns.store(5_000, Relaxed);
        page.head.progress.ticks_at.store(100, Relaxed);
        page.head.progress.scale.store(2 << 32, Relaxed);
        page.set_function_name(7, "Recv");
        assert_eq!(page.call_seen(), None);
        page.head.call.enter(7, 3, -1, 64, 0x44, 160);
        let seen = page.call_seen().unwrap();
        assert_eq!(
            (seen.function.as_str(), seen.peer, seen.tag, seen.bytes),
            ("Recv", Some(3), Some(-1), 64)
        );
        assert_eq!((seen.communicator, seen.since_ns), (0x44, 5_120));
        page.head.call.leave(40);
        assert_eq!((page.call_seen(), page.calls(), page.mpi_ns()), (None, 1, 80));
    }

    #[test]
    fn a_traced_call_is_told_in_the_time_of_the_node_and_recording_ends_by_itself() {
        let mut memory = memory(1);
        let page = Page::create(aligned(&mut memory), 1).unwrap();
        page.trace_until(9_000);
        assert!(
            !page.head.trace.is_wanted(),
            "the rank has not said how its ticks translate"
        );
        page.head.progress.monotonic_ns.store(5_000, Relaxed);
        page.head.progress.ticks_at.store(100, Relaxed);
        page.head.progress.scale.store(2 << 32, Relaxed);
        page.trace_until(5_400);
        assert!(page.head.trace.is_on(299) && !page.head.trace.is_on(300));
        page.head.call.enter(7, 3, -1, 64, 0x44, 160);
        page.head.trace.write(&page.head.call.trace_entry(160, 40));
        page.trace_mark(ITERATION, 210, 210, 12);
        page.trace_mark(ITERATION, 300, 300, 13);
        let entries = page.head.trace.read(0, 10).entries;
        assert_eq!(entries.len(), 2);
        let call = page.trace_entry(&entries[0]);
        assert_eq!((call.begin_ns, call.ns, call.function, call.bytes), (5_120, 80, 7, 64));
        assert_eq!((call.peer(), call.tag()), (Some(3), Some(-1)));
        let mark = page.trace_entry(&entries[1]);
        assert_eq!((mark.begin_ns, mark.ns, mark.peer(), mark.bytes), (5_220, 0, None, 12));
        page.trace_until(0);
        assert!(!page.head.trace.is_wanted());
    }

    #[test]
    fn ranks_without_a_row_share_the_last_one() {
        let mut memory = memory(2);
        let page = Page::create(aligned(&mut memory), 2).unwrap();
        page.peer(2).messages_sent.store(1, Relaxed);
        assert_eq!(page.peer(9).messages_sent.load(Relaxed), 1);
        assert_eq!(page.peer(1).messages_sent.load(Relaxed), 0);
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the readers and writers of shared memory are threads here"
    )]
    fn a_reader_never_pairs_details_with_the_wrong_call() {
        let mut memory = memory(1);
        let page = Page::create(aligned(&mut memory), 1).unwrap();
        page.head.progress.scale.store(1 << 32, Relaxed);
        let is_enough = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let is_enough = &is_enough;
            // Goes on until the reader had its turn; the bound is minutes of work.
            let writer = scope.spawn(move || {
                for i in 1..1_000_000_000_u64 {
                    if is_enough.load(Relaxed) {
                        return;
                    }
                    page.head.call.enter((i % 200 + 1) as u16, i as i32, i as i32, i, i, i);
                    page.head.call.leave(0);
                }
            });
            let mut seen = 0;
            while !writer.is_finished() {
                let Some(call) = page.call_seen() else { continue };
                let number = call.bytes;
                assert_eq!((call.peer, call.tag), (Some(number as i32), Some(number as i32)));
                assert_eq!((call.communicator, call.since_ns), (number, number));
                seen += 1;
                // Miri takes a thousand times as long for each.
                is_enough.store(seen > if cfg!(miri) { 20 } else { 10_000 }, Relaxed);
            }
            seen
        });
        assert!(seen > 0, "the reader caught no call at all");
    }
}
