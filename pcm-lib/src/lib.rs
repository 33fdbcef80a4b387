//! The library inside an MPI application. Linked before MPI, or preloaded, it defines MPI_* and PMPI_* on top of those
//! of the MPI that the program has loaded, whichever of its ABI that is; in a process that a daemon started it counts,
//! shows the current call on the shared page, and gives MPI_COMM_WORLD the meaning "the job's communicator". In any
//! other process it passes every call through. It never prints, never ends the process (but for a rank that is ordered
//! to leave, and where there is no MPI to call), never installs a signal handler, and does nothing before `MPI_Init`
//! but to hand a program over that was linked with the libpcm for another MPI.

mod ahead;
mod assembly;
mod capi;
mod channel;
mod clock;
mod file_checkpoint;
mod hand_over;
mod interpose;
mod keep;
pub mod mpi;
mod orders;
mod park;
mod phase_delay;
pub mod redistribute;
pub mod region;
mod role;
pub mod session;
mod standby;
mod start;
mod start_error;
mod status;

pub use file_checkpoint::CheckpointError;
pub use pcm_core::{
    partition::{AxisSpec, Edge, GlobalBox, Split},
    redistribution::HaloFill,
};
pub use region::{Array, ArrayOptions, Registry, Scalar};
pub use session::{Session, SessionError, Step};

/// The guides' Rust code is compiled with the tests of the documentation.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../docs/guide.md")]
    struct Guide;

    #[doc = include_str!("../../docs/guide-rust.md")]
    struct GuideToRust;
}
