//! The end of a process that has no place any more: the only two ways in which the library ends a program, both on the
//! job's order.
#![allow(unsafe_code, reason = "flushes and ends the process")]

use super::{joint::Joint, part::Part};
use crate::{file_checkpoint, interpose::lifecycle, mpi::Communicator, region::Registry, start};
use pcm_core::reconfiguration::rank::EndReason;

/// Exit code of a process that agreed to a change and could not learn what became of it.
const UNDECIDED: i32 = 3;

/// A rank leaves: ends what connects it with the others, finalizes, and exits with success.
pub(super) fn leave(registry: &mut Registry, part: &mut Part, joint: Option<Joint>) -> ! {
    // Nothing that fails here is anybody's business any more.
    if let Some(joint) = joint {
        _ = joint.commit(registry);
    }
    let job = std::mem::replace(&mut part.job, Communicator::world());
    if job != Communicator::world() {
        _ = job.disconnect();
        part.started.recorder.job_is(Communicator::world().handle());
    }
    // SAFETY: MPI is initialised, and this thread is the one that did it.
    unsafe {
        lifecycle::finalize_alone();
        libc::exit(0)
    }
}

/// A process ends without touching MPI, which may wait for processes that are gone.
pub(super) fn end(reason: EndReason) -> ! {
    let code = match reason {
        EndReason::DecisionUnknown(_) => UNDECIDED,
        EndReason::NeverCalled | EndReason::NotNeeded => 0,
    };
    // SAFETY: NULL means all streams.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(code)
    }
}

/// What the session has to do before MPI is finalised: no ceiling waits for this process any more, and what it writes
/// into files is written.
pub(crate) fn before_finalize() {
    if let Some(started) = start::started() {
        Part::iterations_end(started);
    }
    file_checkpoint::finish_all();
}
