//! What lets nonblocking operations go on while the program waits in whatever call of MPI: MPICH calls a function of
//! ours. In a process whose threads may all call MPI it does so with a lock that MPI's own receives may want, too, so
//! there a thread of ours looks instead.
#![allow(unsafe_code, reason = "calls MPI, is called by it")]

use super::extensions::{NO_STREAM, extensions, look_for_messages};
use super::failed::Failed;
use super::task::Task;
use std::{
    mem,
    os::raw::{c_int, c_void},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Acquire, Release},
        },
    },
    thread,
    time::{Duration, Instant},
};

/// What a function that MPICH calls answers: to be called again, or no more.
const GO_ON: c_int = 0;
const NO_MORE: c_int = 1;

/// A thread of ours looks this often. Links between sites take milliseconds.
const PAUSE: Duration = Duration::from_micros(100);

/// It is in no call that waits, and leaves soon.
const LEAVES_WITHIN: Duration = Duration::from_secs(10);

/// Whether all threads of the program may call MPI.
fn has_many_threads() -> bool {
    let mut level: c_int = 0;
    // SAFETY: MPI is initialised: the program is in an operation of it.
    unsafe { mpi_abi::PMPI_Query_thread(&mut level) != 0 || level == mpi_abi::MPI_THREAD_MULTIPLE }
}

/// Set once MPI is about to end: what is still under way then is no longer looked at.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Set while MPICH calls our functions. It must not call them in one of them: its list of them may change then.
static IS_INSIDE: AtomicBool = AtomicBool::new(false);

/// Goes on with an operation until it is over.
pub(super) fn follow(task: Task) -> Result<(), Failed> {
    if has_many_threads() {
        Thread::follow(task);
        return Ok(());
    }
    let Some(extensions) = extensions() else {
        return Err(Failed(mpi_abi::MPI_ERR_UNSUPPORTED_OPERATION));
    };
    // SAFETY: MPICH calls `poll` with the task until it answers that it is over, one thread at a time.
    Failed::unless(unsafe { (extensions.async_start)(poll, Box::into_raw(Box::new(task)).cast(), NO_STREAM) })
}

unsafe extern "C" fn poll(thing: *mut c_void) -> c_int {
    if IS_OVER.load(Acquire) {
        // Whose memory MPI may still write to: it is left where it is.
        return NO_MORE;
    }
    let Some(extensions) = extensions() else { return NO_MORE };
    if IS_INSIDE.swap(true, AcqRel) {
        return GO_ON;
    }
    // SAFETY: the task that was given to MPICH with this function.
    let is_over = unsafe {
        let task = (extensions.async_state)(thing).cast::<Task>();
        let is_over = (*task).go_on();
        if is_over {
            (*Box::from_raw(task)).end();
        }
        is_over
    };
    IS_INSIDE.store(false, Release);
    if is_over { NO_MORE } else { GO_ON }
}

/// Operations that a thread of ours goes on with.
struct Thread {
    tasks: Vec<Task>,
    is_there: bool,
}

// SAFETY: memory of the program that it has given away until the operation is over, and requests, which MPI lets any
// thread use here.
unsafe impl Send for Thread {}

static THREAD: Mutex<Thread> = Mutex::new(Thread {
    tasks: Vec::new(),
    is_there: false,
});

impl Thread {
    fn lock() -> MutexGuard<'static, Self> {
        THREAD.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow(task: Task) {
        let mut thread = Self::lock();
        thread.tasks.push(task);
        if !thread.is_there {
            thread.is_there = thread::Builder::new()
                .name("pcm-wide".to_owned())
                .spawn(Self::run)
                .is_ok();
        }
    }

    fn run() {
        loop {
            let mut thread = Self::lock();
            if IS_OVER.load(Acquire) {
                mem::forget(mem::take(&mut thread.tasks));
            }
            let over = thread.tasks.extract_if(.., |task| task.go_on());
            let over: Vec<Task> = over.collect();
            thread.is_there = !thread.tasks.is_empty();
            let is_last = !thread.is_there;
            drop(thread);
            over.into_iter().for_each(Task::end);
            if is_last {
                return;
            }
            look_for_messages();
            thread::sleep(PAUSE);
        }
    }
}

/// MPI is about to end. A program that is right has waited for all its operations.
pub(in crate::interpose) fn over() {
    IS_OVER.store(true, Release);
    let until = Instant::now() + LEAVES_WITHIN;
    while Thread::lock().is_there && Instant::now() < until {
        thread::sleep(PAUSE);
    }
}
