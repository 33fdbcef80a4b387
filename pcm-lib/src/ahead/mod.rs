//! Constant arrays that travel before a meeting, while the ranks compute on. Each old rank describes what others need
//! of it (`offer.rs`), its keeper copies that out of its memory into an image, and whoever needs it takes it from there
//! (`taking.rs`) over shared memory or the daemons' links, as the processes of a relaunch do. No MPI, nothing that
//! could harm the present layout: what did not arrive travels at the meeting. And memory for what a rank that stays
//! will get, which is made meanwhile (`memory.rs`) and filled with what came (`placing.rs`). Told in
//! `redistribute/README.md`.

mod memory;
mod need;
mod offer;
mod patient;
mod placing;
mod taking;
mod trip;

pub(crate) use memory::{Fresh, Memory, WhenDone};
pub(crate) use offer::Offer;
pub(crate) use patient::Patient;
pub(crate) use taking::Taken;
pub(crate) use taking::take;
pub(crate) use trip::Trip;
