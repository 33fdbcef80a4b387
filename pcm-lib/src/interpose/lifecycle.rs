//! The functions in which a rank's life under a daemon begins and ends, or that ask for it. Everything that can fail
//! for reasons of ours happens behind a boundary that lets no panic through, so the MPI part of each call is always
//! done.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(non_snake_case, reason = "the names are those of MPI")]

use super::{
    host_name, last_words, process_id,
    recorder::{self, Entered, Recorder},
    refusal,
    traits::{self, Finalize, traits},
    wrappers::CLASSES,
    wrappers::number,
};
use crate::{
    assembly,
    clock::Clock,
    session, standby,
    start::{self, started},
};
use cpu_turns::ShortTurns;
use mpi_abi::MPI_Comm;
use pcm_proto::{
    app::AppToDaemon,
    page::{NOT_ONE, State},
};
use std::{
    os::raw::{c_int, c_void},
    panic::catch_unwind,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// Exit code of a program whose MPI cannot be used.
const NO_MPI: i32 = 1;

/// Whether MPI is at work in one of these functions: some call each other by their names.
static IS_BUSY: AtomicBool = AtomicBool::new(false);

/// Whether the process manager alone was told that this process is done with MPI.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Init(argc: *mut c_int, argv: *mut c_void) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    initialize(|| unsafe { mpi_abi::PMPI_Init(argc, argv.cast()) })
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Init_thread(
    argc: *mut c_int,
    argv: *mut c_void,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    initialize(|| unsafe { mpi_abi::PMPI_Init_thread(argc, argv.cast(), required, provided) })
}

fn initialize(init: impl FnOnce() -> c_int) -> c_int {
    if IS_BUSY.swap(true, Relaxed) {
        return init();
    }
    let usable = mpi_abi::usable();
    if let Err(reason) = usable.and_then(|()| traits::refusal().map_or(Ok(()), |reason| Err(reason.to_owned()))) {
        // As the default error handler does.
        refusal::say_unusable(&reason);
        std::process::exit(NO_MPI);
    }
    standby::wait();
    let clock = Clock::choose();
    let before = clock.moment();
    start::directory_keep();
    traits::before_init();
    process_id::find_libfabric();
    // A child of a spawn meets its parent in here, which spins while it waits for it.
    let turns = std::env::var_os("PMI_SPAWNED").map(|_| ShortTurns::begin());
    let code = host_name::started_by(init);
    drop(turns);
    IS_BUSY.store(false, Relaxed);
    if code == 0 {
        _ = catch_unwind(|| start::start(clock, before, has_many_threads()));
        // A program must not run on in a part of its job that takes itself for the whole.
        return catch_unwind(assembly::join).unwrap_or(mpi_abi::MPI_ERR_INTERN);
    }
    code
}

fn has_many_threads() -> bool {
    let mut level: c_int = 0;
    // SAFETY: MPI is initialised.
    unsafe { mpi_abi::PMPI_Query_thread(&mut level) != 0 || level == mpi_abi::MPI_THREAD_MULTIPLE }
}

fn enter(function: u16) -> Option<(&'static Recorder, Entered)> {
    let class = CLASSES.iter().position(|name| *name == "process").unwrap_or(0);
    recorder::active().map(|recorder| (recorder, recorder.enter(function, class, NOT_ONE, NOT_ONE, 0, 0)))
}

/// As MPI says.
///
/// # Safety
/// MPI is initialised, and this thread is the one that did it.
pub(super) unsafe fn MPI_Finalize() -> c_int {
    let is_changed = started().is_some_and(|started| started.recorder.job_apart_from_world().is_some());
    // SAFETY: the caller's call.
    unsafe { finalize(is_changed) }
}

/// Ends MPI in a rank that leaves the others, which do not.
///
/// # Safety
/// MPI is initialised, and this thread is the one that did it.
pub(crate) unsafe fn finalize_alone() -> c_int {
    // SAFETY: the caller's call.
    unsafe { finalize(true) }
}

/// As MPI says.
///
/// # Safety
/// The caller's argument of the MPI function.
pub(super) unsafe fn MPI_Finalized(flag: *mut c_int) -> c_int {
    // SAFETY: the caller's call, unchanged; then the flag is that of a caller who may be told.
    unsafe {
        let code = mpi_abi::PMPI_Finalized(flag);
        if code == 0 && is_over() {
            *flag = 1;
        }
        code
    }
}

/// Whether MPI has ended although its own function was not called.
pub(crate) fn is_over() -> bool {
    IS_OVER.load(Relaxed)
}

/// With `is_changed` the world in which this process started may have lost ranks, or has some that go on.
unsafe fn finalize(is_changed: bool) -> c_int {
    if is_over() {
        return 0;
    }
    if IS_BUSY.swap(true, Relaxed) {
        // SAFETY: the caller's call, unchanged.
        return unsafe { mpi_abi::PMPI_Finalize() };
    }
    let entered = catch_unwind(|| {
        let entered = enter(number::MPI_Finalize);
        session::before_finalize();
        if let Some(started) = started() {
            started.recorder.page().set_state(State::Finalizing);
            // A daemon that cannot be told sees the end of the process instead.
            _ = started.channel.send(&AppToDaemon::Finalizing);
        }
        assembly::part();
        super::wide::over();
        entered
    });
    let code = match traits().finalize {
        Finalize::WithStartWorld if is_changed => {
            traits::tell_process_manager();
            IS_OVER.store(true, Relaxed);
            0
        }
        // SAFETY: the caller's call, unchanged.
        _ => unsafe { mpi_abi::PMPI_Finalize() },
    };
    IS_BUSY.store(false, Relaxed);
    if let Ok(Some((recorder, entered))) = entered {
        recorder.leave(entered);
        recorder.page().set_state(State::Done);
    }
    code
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Abort(communicator: MPI_Comm, code: c_int) -> c_int {
    let told = catch_unwind(|| {
        enter(number::MPI_Abort);
        let told = started().map(|started| started.channel.send(&AppToDaemon::Aborting { code }));
        if told.is_none() {
            last_words::wait_until_read();
        }
        told
    });
    let target = match told {
        // Aborting a communicator of several worlds leaves ranks running; the daemon ends the others.
        Ok(Some(_)) => mpi_abi::MPI_COMM_WORLD(),
        _ => communicator,
    };
    // SAFETY: the caller's arguments, or a constant of the MPI library.
    unsafe { mpi_abi::PMPI_Abort(target, code) }
}
