//! What daemons and agents write into their logs: levels per part of the software, from the environment at the start
//! and changed while they run.

mod levels;
mod queue;
mod writing;

pub use levels::{BadLevels, Levels};
pub use writing::{begin, finish, write_as_told, write_from_now_on};
