//! The MPI functions that libpcm defines on top of PMPI; see `interpose/table.txt`.

mod callbacks;
mod datatypes;
mod era;
mod from_groups;
mod handle_table;
mod host_name;
mod last_words;
pub(crate) mod lifecycle;
mod open_mpi;
mod order;
mod place;
mod process_id;
mod ranks;
pub(crate) mod recorder;
pub(crate) mod refusal;
mod sessions;
mod spawn_hints;
mod spawns;
pub(crate) mod traits;
pub(crate) mod waiting;
mod wide;
pub(crate) mod wrappers;
