//! MPI as programs see it that were compiled for Open MPI: what this repository uses of it. Types and functions are
//! those of `mpi-abi`; numbers and the status are others, and predefined handles are addresses in the MPI that is
//! loaded. A test holds every line against Open MPI's `mpi.h`, where there is one.
#![allow(
    unsafe_code,
    non_camel_case_types,
    non_snake_case,
    reason = "declares C functions by the names they have there"
)]

#[macro_use]
mod objects;

#[path = "../../mpi-abi/src/as_called.rs"]
mod as_called;
mod constants;
mod datatypes;
#[path = "../../mpi-abi/src/family.rs"]
mod family;
#[path = "../../mpi-abi/src/functions.rs"]
mod functions;
#[path = "../../mpi-abi/src/loaded.rs"]
mod loaded;
#[path = "../../mpi-abi/src/predefined.rs"]
mod predefined;
#[path = "../../mpi-abi/src/types.rs"]
mod types;

pub use as_called::*;
pub use constants::*;
pub use datatypes::*;
pub use family::{Family, OTHERS};
pub use functions::*;
pub use loaded::{Function, libpcm_in_front, library, linked_library, other_family, usable};
pub use predefined::*;
pub use types::*;
