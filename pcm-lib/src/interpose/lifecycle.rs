//! The four functions in which a rank's life under a daemon begins and ends. Everything that can fail for reasons of
//! ours happens behind a boundary that lets no panic through, so the MPI part of each call is always done.
#![allow(unsafe_code, reason = "defines functions of MPI")]
#![allow(unreachable_pub, reason = "symbols for the linker")]
#![allow(non_snake_case, missing_docs, reason = "the names and meanings are those of MPI")]
#![allow(clippy::missing_safety_doc, clippy::not_unsafe_ptr_arg_deref, reason = "as MPI says")]

use super::{
    host_name, last_words, process_id,
    recorder::{self, Entered, Recorder},
    wrappers::CLASSES,
    wrappers::number,
};
use crate::{
    assembly,
    clock::Clock,
    session,
    start::{self, started},
};
use cpu_turns::ShortTurns;
use mpi_abi::MPI_Comm;
use pcm_proto::{
    app::AppToDaemon,
    page::{NOT_ONE, State},
};
use std::{
    os::raw::{c_char, c_int},
    panic::catch_unwind,
};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    initialize(|| unsafe { mpi_abi::PMPI_Init(argc, argv) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Init_thread(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    initialize(|| unsafe { mpi_abi::PMPI_Init_thread(argc, argv, required, provided) })
}

fn initialize(init: impl FnOnce() -> c_int) -> c_int {
    let clock = Clock::choose();
    let before = clock.moment();
    start::directory_keep();
    process_id::find_libfabric();
    // A child of a spawn meets its parent in here, which spins while it waits for it.
    let turns = std::env::var_os("PMI_SPAWNED").map(|_| ShortTurns::begin());
    let code = host_name::started_by(init);
    drop(turns);
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Finalize() -> c_int {
    let entered = catch_unwind(|| {
        let entered = enter(number::MPI_Finalize);
        session::before_finalize();
        if let Some(started) = started() {
            started.recorder.page().set_state(State::Finalizing);
            // A daemon that cannot be told sees the end of the process instead.
            _ = started.channel.send(&AppToDaemon::Finalizing);
        }
        assembly::part();
        entered
    });
    // SAFETY: the caller's call, unchanged.
    let code = unsafe { mpi_abi::PMPI_Finalize() };
    if let Ok(Some((recorder, entered))) = entered {
        recorder.leave(entered);
        recorder.page().set_state(State::Done);
    }
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Abort(communicator: MPI_Comm, code: c_int) -> c_int {
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
        Ok(Some(_)) => mpi_abi::MPI_COMM_WORLD,
        _ => communicator,
    };
    // SAFETY: the caller's arguments, or a constant of the MPI library.
    unsafe { mpi_abi::PMPI_Abort(target, code) }
}
