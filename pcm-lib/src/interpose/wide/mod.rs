//! Collective operations of a job whose nodes are at several sites: in place of MPI's, which takes all ranks for
//! neighbours, each message crosses a slow link once (`pcm_core::wide`). A communicator within one site has MPI's own,
//! except for sums whose bits must not depend on where ranks are.

mod blocks;
mod carry;
mod communicator;
mod data;
mod extensions;
mod failed;
mod forms;
mod held;
mod inquiry;
mod operation;
mod persistent;
mod progress;
mod requests;
mod stage;
mod sums;
mod task;
mod trial;
mod turns;

pub(super) use communicator::{ended, job_changed};
pub(super) use forms::*;
pub(super) use held::{MPI_Op_free, MPI_Type_free};
pub(super) use progress::over;
pub(super) use requests::{
    MPI_Request_free, MPI_Request_get_status, MPI_Request_get_status_all, MPI_Request_get_status_any,
    MPI_Request_get_status_some, MPI_Start, MPI_Startall, MPI_Test, MPI_Testall, MPI_Testany, MPI_Testsome, MPI_Wait,
    MPI_Waitall, MPI_Waitany, MPI_Waitsome,
};
