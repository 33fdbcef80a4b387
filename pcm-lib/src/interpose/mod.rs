//! The MPI functions that libpcm defines on top of PMPI; see `interpose/table.txt`.

mod datatypes;
mod handle_table;
pub(crate) mod lifecycle;
mod ranks;
pub(crate) mod recorder;
pub(crate) mod wrappers;
