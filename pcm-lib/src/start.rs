//! The start of a rank under a daemon: reads what the daemon put into the environment, maps the shared page, says on
//! the channel that MPI is initialised. Whatever goes wrong leaves the program plain MPI, with the reason kept; never
//! prints, never ends the process, touches nothing in a process that no daemon started.
#![allow(unsafe_code, reason = "takes descriptors by number and maps shared memory")]

use crate::{
    channel::Channel,
    clock::{Clock, Moment},
    interpose::recorder::Recorder,
    interpose::waiting,
    interpose::wrappers,
    mpi::Communicator,
    orders::Orders,
    phase_delay::PhaseDelay,
    role::{self, Role},
    start_error::{StartError, failure_keep},
};
use memmap2::MmapRaw;
use pcm_proto::{
    app::{AppToDaemon, environment},
    handshake::PROTOCOL_VERSION,
    page::{Page, PageError, State},
};
use rustix::{
    fs::fstat,
    io::{FdFlags, fcntl_setfd},
};
use std::{
    env, io,
    os::fd::{BorrowedFd, RawFd},
    path::PathBuf,
    ptr::NonNull,
    sync::{OnceLock, atomic::Ordering::Relaxed},
};

/// A process that works with its daemon.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) channel: Channel,
    pub(crate) recorder: &'static Recorder,
    /// What it is to the layout it belongs to.
    pub(crate) role: Role,
    pub(crate) orders: Orders,
    /// The phase that is to last, in a test.
    pub(crate) phase_delay: Option<PhaseDelay>,
}

static STARTED: OnceLock<Started> = OnceLock::new();

/// The working directory when MPI was initialised.
static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// Keeps the working directory, which a program may change later; to be called before `PMPI_Init`.
pub(crate) fn directory_keep() {
    if let Ok(directory) = env::current_dir() {
        _ = DIRECTORY.set(directory);
    }
}

/// The directory the program was started in, as near as is known.
pub(crate) fn directory() -> io::Result<PathBuf> {
    DIRECTORY.get().cloned().map_or_else(env::current_dir, Ok)
}

/// The daemon's part in this process's life, if it has one.
pub(crate) fn started() -> Option<&'static Started> {
    STARTED.get()
}

/// The job's communicator; in a plain MPI program, the world.
pub(crate) fn communicator() -> Communicator {
    started().map_or_else(Communicator::world, |started| {
        Communicator::from_handle(started.recorder.job())
    })
}

/// To be called once, after `PMPI_Init`; `before` is a moment before it.
pub(crate) fn start(clock: Clock, before: Moment, has_many_threads: bool) {
    match environment_read() {
        Ok(None) => {}
        Ok(Some(given)) => match start_as(&given, clock, before, has_many_threads) {
            Ok(started) => _ = STARTED.set(started),
            Err(error) => failure_keep(error),
        },
        Err(error) => failure_keep(error),
    }
}

struct Given {
    channel: RawFd,
    page: RawFd,
}

fn environment_read() -> Result<Option<Given>, StartError> {
    if env::var_os(environment::PAGE_FD).is_none() && env::var_os(environment::CHANNEL_FD).is_none() {
        return Ok(None);
    }
    Ok(Some(Given {
        page: descriptor(environment::PAGE_FD)?,
        channel: descriptor(environment::CHANNEL_FD)?,
    }))
}

fn descriptor(name: &'static str) -> Result<RawFd, StartError> {
    let value = env::var(name).map_err(|_| StartError::Variable { name, value: None })?;
    // The first three are the program's own.
    let number = value.parse().ok().filter(|number| *number > 2);
    number.ok_or(StartError::Variable {
        name,
        value: Some(value),
    })
}

fn start_as(given: &Given, clock: Clock, before: Moment, has_many_threads: bool) -> Result<Started, StartError> {
    let role = role::read()?;
    let phase_delay = PhaseDelay::read()?;
    let page = page_map(given.page)?;
    let channel = Channel::inherited(given.channel).map_err(StartError::Channel)?;
    let world = Communicator::world();
    let (world_rank, world_size) = (
        world.rank().map_err(StartError::Mpi)?,
        world.size().map_err(StartError::Mpi)?,
    );
    let (job_rank, job_size) = match role {
        Role::First => (world_rank, world_size),
        Role::Newcomer(planned) | Role::Restored(planned) => (planned.rank, planned.size),
    };
    let pid = std::process::id();
    let progress = &page.head.progress;
    if let Err(owner) = progress.pid.compare_exchange(0, u64::from(pid), Relaxed, Relaxed) {
        return Err(StartError::Taken { pid: owner });
    }
    for (word, value) in [
        (&progress.world_rank, u64::from(world_rank)),
        (&progress.world_size, u64::from(world_size)),
        (&progress.job_rank, u64::from(job_rank)),
        (&progress.job_size, u64::from(job_size)),
        (&progress.monotonic_ns, before.monotonic_ns),
        (&progress.ticks_at, before.ticks),
        (&progress.scale, clock.scale_since(before)),
    ] {
        word.store(value, Relaxed);
    }
    wrappers::FUNCTIONS
        .iter()
        .enumerate()
        .for_each(|(id, name)| page.set_function_name(id, name));
    wrappers::CLASSES
        .iter()
        .enumerate()
        .for_each(|(class, name)| page.set_class_name(class, name));
    let initialized = AppToDaemon::Initialized {
        version: PROTOCOL_VERSION,
        pid,
        world_rank,
        world_size,
    };
    channel.send(&initialized).map_err(StartError::Channel)?;
    page.set_state(State::Running);
    waiting::choose(waiting::of_environment());
    let mut recorder = Recorder::new(page, clock, has_many_threads);
    if let Role::Newcomer(planned) = role {
        recorder.prelude_begin(planned.rank, planned.size);
    }
    Ok(Started {
        channel,
        recorder: recorder.activate(),
        role,
        orders: Orders::default(),
        phase_delay,
    })
}

fn page_map(number: RawFd) -> Result<Page<'static>, StartError> {
    // SAFETY: borrowed for this call; a number that is not open gives an error below, not undefined behaviour.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let bad = |errno| StartError::Descriptor {
        name: environment::PAGE_FD,
        number,
        errno,
    };
    let length = fstat(fd).map_err(bad)?.st_size;
    if length <= 0 {
        return Err(StartError::Page(PageError::Magic));
    }
    fcntl_setfd(fd, FdFlags::CLOEXEC).map_err(bad)?;
    let map = MmapRaw::map_raw(&fd).map_err(|e| StartError::Map { detail: e.to_string() })?;
    let map: &'static MmapRaw = Box::leak(Box::new(map));
    let first = NonNull::new(map.as_mut_ptr()).ok_or(StartError::Page(PageError::Magic))?;
    // SAFETY: the mapping stays; the memory is shared with the daemon on purpose, which never shrinks the file.
    unsafe { Page::at(first, map.len()) }.map_err(StartError::Page)
}
