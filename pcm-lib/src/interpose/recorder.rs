//! What a wrapper does beside the call itself: gives MPI_COMM_WORLD its meaning, counts, and shows the current call on
//! the shared page. Never fails, never prints, never calls MPI with a handle that the application made up: what it
//! does not know about a handle it leaves out of the counts.
//!
//! Counted is the outermost call only; an MPI function called by MPI itself, by a callback or a reduction is part of
//! it, and where it is called by its PMPI name, as MPI does, not even looked at. With `MPI_THREAD_MULTIPLE` messages,
//! bytes and calls of all threads are counted, while the current call and the time in MPI are those of the thread that
//! initialised MPI.
#![allow(unsafe_code, reason = "reads handles that MPI wrote, and the tables behind numbers")]

use super::era::Era;
use super::handle_table::HandleTable;
use super::order::Order;
use super::ranks::{OUTSIDE, Ranks};
use crate::{clock::Clock, mpi::handle};
use pcm_proto::other_communicators::{Row, UNKNOWN};
use pcm_proto::page::{ANY, NOT_ONE, Page};
use pcm_proto::record::{CollectiveSeen, JOB, SendSeen};
use std::cell::Cell;
use std::os::raw::{c_int, c_void};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Communicators, datatypes and persistent requests that are known at once; what goes beyond is counted less exactly.
const COMMUNICATORS_MAX: usize = 1024;
const DATATYPES_MAX: usize = 1024;
const PERSISTENT_MAX: usize = 4096;

static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    static IS_MAIN: Cell<bool> = const { Cell::new(false) };
}

/// The recorder, once a daemon's environment has been found and MPI is initialised.
#[inline]
pub(crate) fn active() -> Option<&'static Recorder> {
    let recorder = RECORDER.load(Acquire);
    // SAFETY: null, or a leaked box stored by `activate`.
    unsafe { recorder.as_ref() }
}

/// The recorder, if this thread is in a call that is counted. Then the caller of a PMPI function is MPI itself, at work
/// on that call, or a function of the program that MPI called.
#[inline]
pub(super) fn inside() -> Option<&'static Recorder> {
    active().filter(|recorder| {
        if recorder.has_many_threads {
            IS_INSIDE.get()
        } else {
            recorder.page.head.call.is_inside()
        }
    })
}

/// See the file head.
#[derive(Debug)]
pub(crate) struct Recorder {
    page: Page<'static>,
    clock: Clock,
    has_many_threads: bool,
    world: u64,
    job: AtomicU64,
    /// Whether the application gave MPI_COMM_SELF an error handler.
    is_own_handler_chosen: AtomicBool,
    in_place: u64,
    communicators: HandleTable,
    datatypes: HandleTable,
    persistent: HandleTable,
    era: Era,
    order: Order,
}

/// That a call was entered, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered(u64);

impl Entered {
    const NESTED: Self = Self(0);
    const OTHER_THREAD: Self = Self(1);

    /// Whether the page shows the call.
    #[inline]
    fn is_shown(self) -> bool {
        self != Self::NESTED && self != Self::OTHER_THREAD
    }
}

struct Persistent {
    is_send: bool,
    peer: i32,
    bytes: u64,
    communicator: u64,
}

impl Recorder {
    /// Makes the recorder of a process whose MPI is initialised, by the thread that initialised it.
    pub(crate) fn new(page: Page<'static>, clock: Clock, has_many_threads: bool) -> Self {
        let (world, own) = (mpi_abi::MPI_COMM_WORLD(), mpi_abi::MPI_COMM_SELF());
        let in_place = mpi_abi::MPI_IN_PLACE as u64;
        IS_MAIN.set(true);
        let recorder = Self {
            page,
            clock,
            has_many_threads,
            world: handle::word(world),
            job: AtomicU64::new(handle::word(world)),
            is_own_handler_chosen: AtomicBool::new(false),
            in_place,
            communicators: HandleTable::new(COMMUNICATORS_MAX * 2),
            datatypes: HandleTable::new(DATATYPES_MAX * 2),
            persistent: HandleTable::new(PERSISTENT_MAX * 2),
            era: Era::new(COMMUNICATORS_MAX * 2),
            order: Order::new(COMMUNICATORS_MAX * 2),
        };
        recorder.communicator_made(own);
        recorder.communicator_ordered(own);
        for datatype in mpi_abi::predefined() {
            recorder.datatype_made(*datatype);
        }
        recorder
    }

    /// Lets the wrappers find it, for the rest of the process's life.
    pub(crate) fn activate(self) -> &'static Self {
        let recorder: &'static Self = Box::leak(Box::new(self));
        RECORDER.store(std::ptr::from_ref(recorder).cast_mut(), Release);
        recorder
    }

    /// The shared page.
    pub(crate) fn page(&self) -> Page<'static> {
        self.page
    }

    /// The job's communicator.
    pub(crate) fn job(&self) -> mpi_abi::MPI_Comm {
        // SAFETY: `job` only ever holds words of communicators.
        unsafe { handle::from_word(self.job.load(Relaxed)) }
    }

    /// From now on the job's communicator is this one.
    pub(crate) fn job_is(&self, communicator: mpi_abi::MPI_Comm) {
        self.job.store(handle::word(communicator), Relaxed);
    }

    /// The job's communicator, unless it is the world this process started in.
    pub(crate) fn job_apart_from_world(&self) -> Option<mpi_abi::MPI_Comm> {
        (self.job.load(Relaxed) != self.world).then(|| self.job())
    }

    /// The communicator that an argument means: the job's for MPI_COMM_WORLD, else itself.
    #[inline]
    pub(super) fn current(&self, communicator: mpi_abi::MPI_Comm) -> mpi_abi::MPI_Comm {
        if handle::word(communicator) == self.world {
            self.job()
        } else {
            communicator
        }
    }

    /// What the application calls a communicator: the opposite of [`Recorder::current`].
    pub(super) fn shown(&self, communicator: mpi_abi::MPI_Comm) -> mpi_abi::MPI_Comm {
        if handle::word(communicator) == self.job.load(Relaxed) {
            mpi_abi::MPI_COMM_WORLD()
        } else {
            communicator
        }
    }

    /// Why there is no MPI_COMM_WORLD now, if there is none.
    pub(super) fn world_now(&self) -> Result<(), String> {
        self.era.refusal_of_world().map_or(Ok(()), Err)
    }

    /// As [`Recorder::current`], for a call that other processes have part in: the code of an error where such a call
    /// cannot be made.
    #[inline]
    pub(super) fn checked(&self, communicator: mpi_abi::MPI_Comm) -> Result<mpi_abi::MPI_Comm, c_int> {
        let current = self.current(communicator);
        if self.era.is_plain() {
            return Ok(current);
        }
        let word = handle::word(communicator);
        let is_known = word != self.world && self.communicators.value(word).is_some();
        let refusal = if word == self.world {
            self.era.refusal_of_world()
        } else if is_known {
            self.era.refusal_of(communicator)
        } else {
            None
        };
        match refusal {
            Some(text) => Err(super::refusal::raise(current, &text)),
            None => Ok(current),
        }
    }

    /// Rank and size planned for a process that joins, if it asks about MPI_COMM_WORLD.
    #[inline]
    pub(super) fn planned(&self, communicator: mpi_abi::MPI_Comm) -> Option<(u32, u32)> {
        if self.era.is_plain() || handle::word(communicator) != self.world {
            return None;
        }
        self.era.planned()
    }

    /// Before [`Recorder::activate`]: the process joins, and has this rank of so many in the layout that is planned.
    pub(crate) fn prelude_begin(&mut self, rank: u32, size: u32) {
        self.era.prelude_begin(rank, size);
    }

    /// The job's communicator is another one from now on, and communicators made before are stale.
    pub(crate) fn job_change(&self, communicator: mpi_abi::MPI_Comm) {
        self.job.store(handle::word(communicator), Relaxed);
        self.era.next();
        super::wide::job_changed();
        self.order.begin_anew(self.page);
        for ranks in self.communicators.values_clear() {
            self.ranks_drop(Some(ranks));
        }
    }

    /// Nanoseconds since `start`, a number of ticks, that were not spent in MPI; `in_mpi` were spent there before.
    #[inline]
    pub(crate) fn useful_ns_since(&self, start: u64, in_mpi: u64) -> u64 {
        let scale = self.page.head.progress.scale.load(Relaxed);
        let ticks = self.clock.ticks().wrapping_sub(start);
        let passed = ((u128::from(ticks) * u128::from(scale)) >> 32) as u64;
        passed.saturating_sub(self.page.mpi_ns().saturating_sub(in_mpi))
    }

    /// Now, in ticks.
    pub(crate) fn ticks(&self) -> u64 {
        self.clock.ticks()
    }

    /// MPICH raises errors that belong to no communicator on MPI_COMM_SELF, and where that was never given a handler,
    /// on the world the process started in. A program that gives MPI_COMM_WORLD a handler means these as well, and ours
    /// has given both a handler when it joined worlds.
    pub(super) fn errhandler_set(&self, communicator: mpi_abi::MPI_Comm, handler: mpi_abi::MPI_Errhandler) {
        let (world, own) = (mpi_abi::MPI_COMM_WORLD(), mpi_abi::MPI_COMM_SELF());
        if handle::word(communicator) == handle::word(own) {
            self.is_own_handler_chosen.store(true, Relaxed);
        }
        if handle::word(communicator) != self.world || self.job_apart_from_world().is_none() {
            return;
        }
        let follows = !self.is_own_handler_chosen.load(Relaxed);
        for predefined in [Some(world), follows.then_some(own)].into_iter().flatten() {
            // SAFETY: a predefined communicator and the application's own handler; the call that follows for the job's
            // communicator tells the application what MPI thinks of it.
            unsafe { mpi_abi::PMPI_Comm_set_errhandler(predefined, handler) };
        }
    }

    /// Bytes of `count` elements; 0 for a type that is not known.
    #[inline]
    pub(super) fn bytes(&self, count: i64, datatype: mpi_abi::MPI_Datatype) -> u64 {
        let size = self.datatypes.value(handle::word(datatype)).unwrap_or(0);
        u64::try_from(count).unwrap_or(0).wrapping_mul(size)
    }

    /// Whether a buffer is MPI_IN_PLACE, so that the arguments beside it mean nothing.
    #[inline]
    pub(super) fn is_in_place(&self, buffer: *mut c_void) -> bool {
        buffer as u64 == self.in_place
    }

    /// Rank in the job of a rank in `communicator`: [`ANY`] for the wildcard, [`NOT_ONE`] for MPI_PROC_NULL.
    #[inline]
    pub(super) fn peer(&self, communicator: mpi_abi::MPI_Comm, rank: c_int) -> i32 {
        let word = handle::word(communicator);
        if rank < 0 {
            no_rank(rank)
        } else if word == self.job.load(Relaxed) {
            rank
        } else {
            self.peer_elsewhere(word, rank)
        }
    }

    fn peer_elsewhere(&self, communicator: u64, rank: i32) -> i32 {
        let ranks = match self.communicators.value(communicator) {
            None => return OUTSIDE,
            Some(0) => {
                // SAFETY: a known communicator is one MPI made and the application has not freed.
                let ranks = unsafe { Ranks::translate(handle::from_word(communicator), self.job()) };
                let ranks = Box::into_raw(Box::new(ranks));
                // Two threads may both come here; the table of the first then stays allocated, as it may be in use.
                self.communicators.set(communicator, ranks as u64);
                ranks
            }
            Some(ranks) => ranks as *mut Ranks,
        };
        // SAFETY: made by the line above here or in another thread; freed only when the communicator ends.
        unsafe { (*ranks).rank_in_job(rank) }
    }

    /// A call begins. The order of the stores is told in `pcm_proto::page`.
    #[inline]
    pub(super) fn enter(
        &self,
        function: u16,
        class: usize,
        peer: i32,
        tag: i32,
        bytes: u64,
        communicator: u64,
    ) -> Entered {
        let head = self.page.head;
        let entered = if self.has_many_threads {
            if IS_INSIDE.replace(true) {
                return Entered::NESTED;
            }
            if IS_MAIN.get() {
                Entered(self.clock.ticks())
            } else {
                Entered::OTHER_THREAD
            }
        } else {
            if head.call.is_inside() {
                return Entered::NESTED;
            }
            Entered(self.clock.ticks())
        };
        if entered != Entered::OTHER_THREAD {
            let peer = if peer == OUTSIDE { NOT_ONE } else { peer };
            head.call.enter(function, peer, tag, bytes, communicator, entered.0);
        }
        self.add(&head.classes[class].calls, 1);
        self.add(&head.classes[class].bytes, bytes);
        entered
    }

    /// The number of the call that this thread is in; none where it is not in one that the page shows.
    pub(super) fn call_of_this_thread(&self) -> Option<u64> {
        let call = &self.page.head.call;
        (IS_MAIN.get() && call.is_inside()).then(|| call.number())
    }

    /// The call that [`Recorder::enter`] began is over.
    #[inline]
    pub(super) fn leave(&self, entered: Entered) {
        if entered == Entered::NESTED {
            return;
        }
        if entered != Entered::OTHER_THREAD {
            let (head, now) = (self.page.head, self.clock.ticks());
            let ticks = now.wrapping_sub(entered.0);
            if head.trace.is_on(now) {
                head.trace.write(&head.call.trace_entry(entered.0, ticks));
            }
            head.call.leave(ticks);
        }
        if self.has_many_threads {
            IS_INSIDE.set(false);
        }
    }

    /// A message begins its way to a peer, on the communicator with this identity.
    #[inline]
    pub(super) fn sent(&self, entered: Entered, peer: i32, bytes: u64, communicator: u64) {
        if entered != Entered::NESTED && peer != NOT_ONE {
            let row = self.page.peer(row(peer));
            self.add(&row.messages_sent, 1);
            self.add(&row.bytes_sent, bytes);
            if let Some(row) = self.row_of(communicator, peer) {
                self.add(&row.messages_sent, 1);
                self.add(&row.bytes_sent, bytes);
            }
        }
    }

    /// The row of a peer on a communicator that is not the job's own.
    #[inline]
    fn row_of(&self, communicator: u64, peer: i32) -> Option<&'static Row> {
        if communicator == JOB || peer == OUTSIDE {
            return None;
        }
        let communicator = if communicator == 0 { UNKNOWN } else { communicator };
        self.page.head.other_communicators.row(communicator, peer)
    }

    /// A receive from a peer is posted, on the communicator with this identity.
    #[inline]
    pub(super) fn received(&self, entered: Entered, peer: i32, bytes: u64, communicator: u64) {
        if entered == Entered::NESTED || peer == NOT_ONE {
            return;
        }
        if let Some(row) = self.row_of(communicator, peer) {
            self.add(&row.receives_posted, 1);
        }
        if peer == ANY {
            self.add(&self.page.head.record.from_anybody, 1);
        } else {
            let row = self.page.peer(row(peer));
            self.add(&row.messages_received, 1);
            self.add(&row.bytes_received, bytes);
        }
    }

    /// What the page calls a communicator.
    #[inline]
    pub(super) fn identity(&self, communicator: mpi_abi::MPI_Comm) -> u64 {
        let word = handle::word(communicator);
        if word == self.job.load(Relaxed) {
            JOB
        } else {
            self.order.identity(word)
        }
    }

    /// A message was begun, for who asks later why nobody took it.
    #[inline]
    pub(super) fn send_noted(
        &self,
        entered: Entered,
        peer: i32,
        tag: c_int,
        bytes: u64,
        communicator: mpi_abi::MPI_Comm,
    ) {
        if entered.is_shown() && peer >= 0 {
            self.page.head.record.send_begun(&SendSeen {
                communicator: self.identity(communicator),
                peer,
                tag,
                bytes,
            });
        }
    }

    /// A collective operation was begun.
    #[inline]
    pub(super) fn collective_noted(
        &self,
        entered: Entered,
        function: u16,
        root: i32,
        bytes: u64,
        communicator: mpi_abi::MPI_Comm,
    ) {
        if !entered.is_shown() {
            return;
        }
        let word = handle::word(communicator);
        let next = if word == self.job.load(Relaxed) {
            Some((JOB, self.order.next_on_job()))
        } else {
            self.order.next(word)
        };
        if let Some((communicator, sequence)) = next {
            self.page.head.record.collective_begun(&CollectiveSeen {
                communicator,
                sequence,
                function,
                root: if root < 0 { NOT_ONE } else { root },
                bytes,
            });
        }
    }

    #[inline]
    fn add(&self, counter: &AtomicU64, amount: u64) {
        if self.has_many_threads {
            counter.fetch_add(amount, Relaxed);
        } else {
            // Not a locked addition: in this case one thread at a time is in MPI.
            counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
        }
    }

    /// The application has a new communicator.
    pub(super) fn communicator_made(&self, communicator: mpi_abi::MPI_Comm) {
        if communicator != mpi_abi::MPI_COMM_NULL() {
            self.era.made(communicator);
            self.ranks_drop(self.communicators.set(handle::word(communicator), 0));
        }
    }

    /// The ranks of a new communicator can be told.
    pub(super) fn communicator_ordered(&self, communicator: mpi_abi::MPI_Comm) {
        if communicator != mpi_abi::MPI_COMM_NULL() {
            // SAFETY: MPI is initialised and has just made the communicator.
            unsafe { self.order.made(communicator, self.job(), &self.page.head.record) };
        }
    }

    /// The application ends a communicator.
    pub(super) fn communicator_ended(&self, communicator: mpi_abi::MPI_Comm) {
        self.era.ended(communicator);
        super::wide::ended(communicator);
        self.order.ended(communicator, &self.page.head.other_communicators);
        self.ranks_drop(self.communicators.remove(handle::word(communicator)));
    }

    fn ranks_drop(&self, ranks: Option<u64>) {
        if let Some(ranks) = ranks.filter(|ranks| *ranks != 0) {
            // SAFETY: a box of `peer_elsewhere`; its communicator has ended, so nobody looks it up any more.
            drop(unsafe { Box::from_raw(ranks as *mut Ranks) });
        }
    }

    /// The application has a type it can communicate with.
    pub(super) fn datatype_made(&self, datatype: mpi_abi::MPI_Datatype) {
        if let Some(size) = super::datatypes::size(datatype) {
            self.datatypes.set(handle::word(datatype), size);
        }
    }

    /// The application ends a type.
    pub(super) fn datatype_ended(&self, datatype: mpi_abi::MPI_Datatype) {
        self.datatypes.remove(handle::word(datatype));
    }

    /// The application has a persistent request.
    pub(super) fn persistent_made(
        &self,
        request: mpi_abi::MPI_Request,
        is_send: bool,
        peer: i32,
        bytes: u64,
        communicator: u64,
    ) {
        let persistent = Box::into_raw(Box::new(Persistent {
            is_send,
            peer,
            bytes,
            communicator,
        }));
        self.persistent_drop(self.persistent.set(handle::word(request), persistent as u64));
    }

    /// The application ends a request, persistent or not.
    pub(super) fn persistent_ended(&self, request: mpi_abi::MPI_Request) {
        self.persistent_drop(self.persistent.remove(handle::word(request)));
    }

    fn persistent_drop(&self, persistent: Option<u64>) {
        if let Some(persistent) = persistent {
            // SAFETY: a box of `persistent_made`; its request has ended.
            drop(unsafe { Box::from_raw(persistent as *mut Persistent) });
        }
    }

    /// Persistent requests are started; each is a message.
    pub(super) fn started(&self, entered: Entered, requests: &[mpi_abi::MPI_Request]) {
        for request in requests {
            if let Some(persistent) = self.persistent.value(handle::word(*request)) {
                // SAFETY: a box of `persistent_made`, dropped only when its request ends.
                let known = unsafe { &*(persistent as *const Persistent) };
                if known.is_send {
                    self.sent(entered, known.peer, known.bytes, known.communicator);
                } else {
                    self.received(entered, known.peer, known.bytes, known.communicator);
                }
            }
        }
    }
}

/// What a number that is no rank means.
fn no_rank(number: c_int) -> i32 {
    if number == mpi_abi::MPI_ANY_SOURCE {
        ANY
    } else {
        NOT_ONE
    }
}

fn row(peer: i32) -> usize {
    usize::try_from(peer).unwrap_or(usize::MAX)
}
