//! MPI as programs see it that were compiled for the ABI of MPICH, which Intel MPI, MVAPICH and Cray MPICH share: what
//! this repository uses of it. Nothing here is linked: functions are found in the MPI that the program has loaded. A
//! test holds every line against the `mpi.h` of an MPI, where there is one.
#![allow(
    unsafe_code,
    non_camel_case_types,
    non_snake_case,
    reason = "declares C functions by the names they have there"
)]

#[macro_use]
mod numbers;

mod as_called;
mod constants;
mod datatypes;
mod family;
mod functions;
mod loaded;
mod predefined;
mod types;

pub use as_called::*;
pub use constants::*;
pub use datatypes::*;
pub use family::{Family, OTHERS};
pub use functions::*;
pub use loaded::{Function, libpcm_in_front, library, linked_library, other_family, usable};
pub use predefined::*;
pub use types::*;
