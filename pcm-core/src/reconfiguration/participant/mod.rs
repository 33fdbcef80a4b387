//! The part of every daemon that has something to do with a job: it carries out the coordinator's orders on its own
//! processes and keeps its word about what it has agreed to.

mod ahead;
mod calling;
mod engagement;
mod losses;
mod settlement;
mod work;

pub(super) use work::Participant;
