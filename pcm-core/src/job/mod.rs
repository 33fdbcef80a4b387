//! The life of a job without I/O: where its ranks go, what its coordinator decides, what a node that runs part of it
//! does, and what is remembered of it afterwards. See `README.md` beside this file for the protocol.

mod asking;
pub mod at_node;
mod barrier_words;
mod clearing;
pub mod coordinator;
pub mod doubting;
pub mod ended;
mod ending;
mod hearsay;
pub mod inheriting;
pub mod local_world;
mod names;
pub mod participant;
mod phase;
pub mod placement;
pub mod process;
mod recovering;
pub mod recovery;
mod reforming;
mod spare_pool;
mod spares;
mod spawn_requests;
mod spawning;
mod starting;
mod status;
pub mod worlds;
