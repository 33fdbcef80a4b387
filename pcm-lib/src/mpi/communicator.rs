//! Communicators of the library. Ending one is collective, so nothing is ended by dropping: a communicator that is
//! dropped stays with MPI until `MPI_Finalize`.
#![allow(unsafe_code, reason = "calls MPI")]

use super::{ErrorsReturned, Info, MpiError, Port, error::check};
use mpi_abi::{Family, MPI_Comm};
use std::{ffi::CStr, os::raw::c_int, time::Duration};

/// Processes that can talk to each other by rank.
#[derive(Debug, PartialEq)]
pub struct Communicator(MPI_Comm);

/// Two groups that can talk to each other.
#[derive(Debug, PartialEq)]
pub struct InterCommunicator(MPI_Comm);

impl Communicator {
    /// The world this process started in, whatever the application calls MPI_COMM_WORLD.
    pub fn world() -> Self {
        Self(mpi_abi::MPI_COMM_WORLD())
    }

    /// This process alone.
    pub fn own() -> Self {
        Self(mpi_abi::MPI_COMM_SELF())
    }

    /// While the answer lives, errors on this communicator and errors of no communicator come back as codes.
    pub fn errors_returned(&self) -> ErrorsReturned {
        ErrorsReturned::begin_on(self.handle())
    }

    /// A communicator that MPI made and nobody has ended.
    pub(crate) fn from_handle(handle: MPI_Comm) -> Self {
        Self(handle)
    }

    pub fn handle(&self) -> MPI_Comm {
        self.0
    }

    /// Position of this process.
    pub fn rank(&self) -> Result<u32, MpiError> {
        let mut rank: c_int = 0;
        // SAFETY: the communicator exists; the output is a local.
        check("Comm_rank", unsafe { mpi_abi::PMPI_Comm_rank(self.0, &mut rank) })?;
        Ok(rank.unsigned_abs())
    }

    /// Number of processes.
    pub fn size(&self) -> Result<u32, MpiError> {
        let mut size: c_int = 0;
        // SAFETY: as in `rank`.
        check("Comm_size", unsafe { mpi_abi::PMPI_Comm_size(self.0, &mut size) })?;
        Ok(size.unsigned_abs())
    }

    /// The same processes, a traffic of its own; errors come back as codes. Collective.
    pub fn dup(&self) -> Result<Self, MpiError> {
        let mut made = null();
        // SAFETY: as in `rank`.
        check("Comm_dup", unsafe { mpi_abi::PMPI_Comm_dup(self.0, &mut made) })?;
        returns_errors(made)?;
        Ok(Self(made))
    }

    /// These ranks in this order; None for a process that is none of them. Collective over all: every process knows the
    /// ranks, so that nothing is gathered as in `MPI_Comm_split`.
    pub fn create(&self, ranks: &[u32]) -> Result<Option<Self>, MpiError> {
        let mut made = null();
        self.with_group(ranks, |group| {
            // SAFETY: as in `rank`; the group exists.
            check("Comm_create", unsafe {
                mpi_abi::PMPI_Comm_create(self.0, group, &mut made)
            })
        })?;
        if made == null() {
            return Ok(None);
        }
        returns_errors(made)?;
        Ok(Some(Self(made)))
    }

    /// These ranks in this order. Collective over them alone; each of them must be among them.
    pub fn create_group(&self, ranks: &[u32], tag: u32) -> Result<Self, MpiError> {
        let mut made = null();
        self.with_group(ranks, |group| {
            // SAFETY: as in `create`.
            check("Comm_create_group", unsafe {
                mpi_abi::PMPI_Comm_create_group(self.0, group, tag.cast_signed(), &mut made)
            })
        })?;
        returns_errors(made)?;
        Ok(Self(made))
    }

    fn with_group(
        &self,
        ranks: &[u32],
        then: impl FnOnce(mpi_abi::MPI_Group) -> Result<(), MpiError>,
    ) -> Result<(), MpiError> {
        let ranks: Vec<c_int> = ranks.iter().map(|rank| rank.cast_signed()).collect();
        let count = c_int::try_from(ranks.len()).unwrap_or(c_int::MAX);
        // SAFETY: as in `rank`; the list has `count` places; each group that was made is freed.
        unsafe {
            let (mut all, mut some) = (mpi_abi::MPI_GROUP_NULL(), mpi_abi::MPI_GROUP_NULL());
            check("Comm_group", mpi_abi::PMPI_Comm_group(self.0, &mut all))?;
            let chosen = check(
                "Group_incl",
                mpi_abi::PMPI_Group_incl(all, count, ranks.as_ptr(), &mut some),
            );
            mpi_abi::PMPI_Group_free(&mut all);
            chosen?;
            let done = then(some);
            // The empty group is MPI's own.
            if count > 0 {
                mpi_abi::PMPI_Group_free(&mut some);
            }
            done
        }
    }

    /// On a communicator that [`Communicator::dup`] made, waits at most `limit` for the processes that
    /// [`Communicator::connect`] to `port`. Collective; the port counts at `root`. After an error the communicator is
    /// as before.
    pub fn accept(&self, port: &Port, root: u32, limit: Duration) -> Result<InterCommunicator, MpiError> {
        let info = Info::with_timeout(limit)?;
        let mut made = null();
        // SAFETY: the communicator, the info and the port's name live through the call.
        let code =
            unsafe { mpi_abi::PMPI_Comm_accept(port.as_ptr(), info.handle(), root.cast_signed(), self.0, &mut made) };
        check("Comm_accept", code)?;
        returns_errors(made)?;
        Ok(InterCommunicator(made))
    }

    /// The other side of [`Communicator::accept`].
    pub fn connect(&self, port: &Port, root: u32, limit: Duration) -> Result<InterCommunicator, MpiError> {
        let info = Info::with_timeout(limit)?;
        let mut made = null();
        // SAFETY: as in `accept`.
        let code =
            unsafe { mpi_abi::PMPI_Comm_connect(port.as_ptr(), info.handle(), root.cast_signed(), self.0, &mut made) };
        check("Comm_connect", code)?;
        returns_errors(made)?;
        Ok(InterCommunicator(made))
    }

    /// This group and another that is apart from it, for processes that `all` knows: `leader` is a rank here, the other
    /// side's leader has rank `remote_leader` in `all`. Collective over both groups.
    pub fn between(
        &self,
        leader: u32,
        all: &Self,
        remote_leader: u32,
        tag: u32,
    ) -> Result<InterCommunicator, MpiError> {
        let mut made = null();
        let (leader, remote, tag) = (leader.cast_signed(), remote_leader.cast_signed(), tag.cast_signed());
        // SAFETY: as in `rank`.
        let code = unsafe { mpi_abi::PMPI_Intercomm_create(self.0, leader, all.0, remote, tag, &mut made) };
        check("Intercomm_create", code)?;
        returns_errors(made)?;
        Ok(InterCommunicator(made))
    }

    /// Treats errors as `other` does, and has this name.
    pub fn takes_after(&self, other: &Self, name: &CStr) -> Result<(), MpiError> {
        // SAFETY: both communicators exist; the handler that was got counts a reference, which is freed; the name ends
        // with a zero byte.
        unsafe {
            let mut handler = mpi_abi::MPI_ERRORS_ARE_FATAL();
            let code = mpi_abi::PMPI_Comm_get_errhandler(other.0, &mut handler);
            check("Comm_get_errhandler", code)?;
            let code = mpi_abi::PMPI_Comm_set_errhandler(self.0, handler);
            mpi_abi::PMPI_Errhandler_free(&mut handler);
            check("Comm_set_errhandler", code)?;
            check("Comm_set_name", mpi_abi::PMPI_Comm_set_name(self.0, name.as_ptr()))
        }
    }

    /// Lets MPI do what it has to do for others. Receives nothing.
    pub fn progress(&self) -> Result<(), MpiError> {
        let mut is_there: c_int = 0;
        // SAFETY: as in `rank`; a status that is ignored is not written.
        check("Iprobe", unsafe {
            let (any, tag) = (mpi_abi::MPI_ANY_SOURCE, mpi_abi::MPI_ANY_TAG);
            mpi_abi::PMPI_Iprobe(any, tag, self.0, &mut is_there, mpi_abi::MPI_STATUS_IGNORE)
        })
    }

    /// Ends the communicator after all its messages; afterwards its processes may end apart. Collective.
    pub fn disconnect(self) -> Result<(), MpiError> {
        end(self.0)
    }
}

impl InterCommunicator {
    pub fn handle(&self) -> MPI_Comm {
        self.0
    }

    /// Number of processes on the other side.
    pub fn remote_size(&self) -> Result<u32, MpiError> {
        let mut size: c_int = 0;
        // SAFETY: the communicator exists; the output is a local.
        check("Comm_remote_size", unsafe {
            mpi_abi::PMPI_Comm_remote_size(self.0, &mut size)
        })?;
        Ok(size.unsigned_abs())
    }

    /// Both groups as one, the side that says `is_high` behind the other. Collective.
    pub fn merge(&self, is_high: bool) -> Result<Communicator, MpiError> {
        let mut made = null();
        // SAFETY: as in `remote_size`.
        check("Intercomm_merge", unsafe {
            mpi_abi::PMPI_Intercomm_merge(self.0, c_int::from(is_high), &mut made)
        })?;
        returns_errors(made)?;
        Ok(Communicator(made))
    }

    pub fn disconnect(self) -> Result<(), MpiError> {
        end(self.0)
    }
}

fn null() -> MPI_Comm {
    mpi_abi::MPI_COMM_NULL()
}

/// Collective. Open MPI's `MPI_Comm_disconnect` of a communicator over several worlds is a fence of PMIx, which never
/// returned for one that was merged (5.0.11), and takes 10 ms between two groups; its `MPI_Comm_free` leaves nothing
/// that processes which end apart would wait for.
fn end(mut communicator: MPI_Comm) -> Result<(), MpiError> {
    // SAFETY: the communicator exists and is not used again.
    unsafe {
        if mpi_abi::FAMILY != Family::OpenMpi {
            return check("Comm_disconnect", mpi_abi::PMPI_Comm_disconnect(&mut communicator));
        }
        let met = check("Barrier", mpi_abi::PMPI_Barrier(communicator));
        met.and(check("Comm_free", mpi_abi::PMPI_Comm_free(&mut communicator)))
    }
}

fn returns_errors(communicator: MPI_Comm) -> Result<(), MpiError> {
    // SAFETY: MPI has just made the communicator.
    let code = unsafe { mpi_abi::PMPI_Comm_set_errhandler(communicator, mpi_abi::MPI_ERRORS_RETURN()) };
    check("Comm_set_errhandler", code)
}
