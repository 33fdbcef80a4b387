//! What ranks park for a relaunch: how an image is laid out, and which of its blocks somebody needs or has. Pure: never
//! touches memory, files or sockets. Told in `README.md` beside this file.

mod block_set;
mod checksum;
mod head;
mod preamble;

pub use block_set::{BlockSet, blocks_of};
pub use checksum::block_checksum;
pub use head::{Contents, Head, HeadError, ParkedRegion, Place};
pub use preamble::{MAGIC, Preamble, PreambleError};
