//! What daemons and agents write into their logs: levels per part of the software, from the environment at the start
//! and changed while they run.

mod levels;
mod shortened;
mod writing;

pub use levels::{BadLevels, Levels};
pub use shortened::Shortened;
pub use writing::{begin, write_as_told, write_from_now_on};
