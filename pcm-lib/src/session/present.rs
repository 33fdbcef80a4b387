//! The session of this process: one at most. For the C API it is made at the first registration, used by the thread
//! that initialised MPI, and never dropped, as the program has pointers into it.

use super::{
    error::{NotUsable, SessionError},
    run::Session,
};
use crate::{
    mpi::{Phase, phase},
    region::Home,
    role::Role,
    start,
};
use std::{
    cell::RefCell,
    env,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

thread_local! {
    static SESSION: RefCell<Option<&'static mut Session>> = const { RefCell::new(None) };
}

/// Whether a session was begun, in C or in Rust.
static IS_CLAIMED: AtomicBool = AtomicBool::new(false);

/// The process's one session is about to be made.
pub(super) fn claim() -> Result<(), SessionError> {
    if IS_CLAIMED.swap(true, Relaxed) {
        return Err(SessionError::SecondSession);
    }
    Ok(())
}

/// Fails where the calling thread cannot use the library now.
pub(super) fn usable() -> Result<(), NotUsable> {
    match phase().map_err(NotUsable::Mpi)? {
        Phase::NotInitialized => Err(NotUsable::BeforeMpi),
        Phase::Finalized => Err(NotUsable::AfterMpi),
        Phase::OtherThread => Err(NotUsable::OtherThread),
        Phase::MainThread => Ok(()),
    }
}

/// Uses the C program's session.
pub(crate) fn with<R>(act: impl FnOnce(&mut Session) -> R) -> Result<R, SessionError> {
    usable()?;
    SESSION.with(|session| {
        let mut session = session.try_borrow_mut().map_err(|_| NotUsable::InHook)?;
        let session = match &mut *session {
            Some(session) => session,
            none => {
                claim()?;
                none.insert(Box::leak(Box::new(Session::new()?)))
            }
        };
        Ok(act(session))
    })
}

/// As [`with`], without asking MPI where that is known: for the top of each iteration.
pub(crate) fn with_quickly<R>(act: impl FnOnce(&mut Session) -> R) -> Result<R, SessionError> {
    // Only the thread that may use the session ever has one.
    let has_one = SESSION.with(|session| session.try_borrow().is_ok_and(|session| session.is_some()));
    if !has_one {
        return with(act);
    }
    SESSION.with(|session| match session.try_borrow_mut().as_deref_mut() {
        Ok(Some(session)) => Ok(act(session)),
        Ok(None) | Err(_) => Err(NotUsable::InHook.into()),
    })
}

/// Where this process stands while it registers.
pub(super) fn home() -> Result<Home, NotUsable> {
    let job = start::communicator();
    // What MPICH's and Open MPI's launchers, and our daemons, say. Without it each rank takes the host for its own.
    let ranks_here = ["MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"]
        .iter()
        .find_map(|name| env::var(name).ok()?.parse().ok());
    let home = Home {
        rank: job.rank().map_err(NotUsable::Mpi)?,
        size: job.size().map_err(NotUsable::Mpi)?,
        ranks_here: ranks_here.unwrap_or(1),
        is_first: true,
    };
    Ok(match start::started().map(|started| started.role) {
        Some(Role::Newcomer(planned) | Role::Restored(planned)) => Home {
            rank: planned.rank,
            size: planned.size,
            is_first: false,
            ..home
        },
        Some(Role::First) | None => home,
    })
}
