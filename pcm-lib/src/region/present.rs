//! The registry of this process, for the C API: made at the first registration, used by the thread that initialised
//! MPI, never dropped, as the program has pointers into it.

use super::{Home, Registry};
use crate::mpi::{Communicator, MpiError, Phase, phase};
use std::{cell::RefCell, env, fmt};

/// Why the registry cannot be used now. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotUsable {
    /// MPI is not initialised.
    BeforeMpi,
    /// MPI is finalised.
    AfterMpi,
    /// The calling thread is not the one that initialised MPI.
    OtherThread,
    /// A hook that the library has called calls the library.
    InHook,
    /// MPI does not answer.
    Mpi(MpiError),
}

thread_local! {
    static REGISTRY: RefCell<Option<&'static mut Registry>> = const { RefCell::new(None) };
}

/// Uses the registry.
pub(crate) fn with<R>(act: impl FnOnce(&mut Registry) -> R) -> Result<R, NotUsable> {
    match phase().map_err(NotUsable::Mpi)? {
        Phase::NotInitialized => return Err(NotUsable::BeforeMpi),
        Phase::Finalized => return Err(NotUsable::AfterMpi),
        Phase::OtherThread => return Err(NotUsable::OtherThread),
        Phase::MainThread => {}
    }
    REGISTRY.with(|registry| {
        let mut registry = registry.try_borrow_mut().map_err(|_| NotUsable::InHook)?;
        let registry = match &mut *registry {
            Some(registry) => registry,
            none => none.insert(Box::leak(Box::new(Registry::new(home()?)))),
        };
        Ok(act(registry))
    })
}

fn home() -> Result<Home, NotUsable> {
    let world = Communicator::world();
    // What MPICH's and Open MPI's launchers, and our daemons, say. Without it each rank takes the host for its own.
    let ranks_here = ["MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"]
        .iter()
        .find_map(|name| env::var(name).ok()?.parse().ok());
    Ok(Home {
        rank: world.rank().map_err(NotUsable::Mpi)?,
        size: world.size().map_err(NotUsable::Mpi)?,
        ranks_here: ranks_here.unwrap_or(1),
        is_first: true,
    })
}

impl fmt::Display for NotUsable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeforeMpi => f.write_str("MPI is not initialised; call MPI_Init first"),
            Self::AfterMpi => f.write_str("MPI is finalised; call this before MPI_Finalize"),
            Self::OtherThread => {
                f.write_str("this thread is not the one that called MPI_Init; functions of libpcm belong to that one")
            }
            Self::InHook => {
                f.write_str("a hook called libpcm, which had called the hook; use only what the hook was given")
            }
            Self::Mpi(error) => error.fmt(f),
        }
    }
}
