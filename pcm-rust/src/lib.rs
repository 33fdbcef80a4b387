//! Malleable MPI programs in Rust. A program registers its data and says where an iteration begins; while it runs, node
//! daemons move its ranks between nodes, add and remove ranks, and let it continue after a crash. Under plain
//! `mpiexec` it is a plain MPI program.
//!
//! [`Session::start`] registers arrays, which are divided among the ranks, and values, which are the same on all ranks.
//! [`Session::iterate`] is the top of an iteration, and the only place where ranks change. Indexing a session by an
//! [`Array`] gives this rank's part as a slice; none can outlive an iteration, after which its data may be elsewhere.
//!
//! MPI itself comes from any package that calls the functions of C by their names; here it is `mpi-abi`.
//!
//! ```no_run
#![doc = include_str!("../examples/rod.rs")]
//! ```
//!
//! # Features
//!
//! `ndarray` (off by default): views of arrays as those of the crate `ndarray`, by the trait `Views`.

#[cfg(any(feature = "ndarray", test))]
mod views;

#[doc(inline)]
pub use pcm_lib::{
    Array, ArrayOptions, AxisSpec, CheckpointError, Edge, GlobalBox, HaloFill, Registry, Scalar, Session, SessionError,
    Split, Step,
    region::{
        CustomHooks, Delivered, Divide, Element, HookFailed, Owner, Owners, PerRankHooks, Records, RegionError, Rows,
        Value,
    },
    session::NotUsable,
};
#[cfg(any(feature = "ndarray", test))]
pub use views::Views;
