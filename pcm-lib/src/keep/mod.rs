//! Checkpoints in memory, from the rank's side: its registered data is copied into memory files that its daemon and
//! keeper hold too. Which of them may be overwritten the daemon says. Never waits for anybody.

mod buffers;
mod filled;
mod orders;

pub(crate) use buffers::{Begun, Buffers, Kept};
pub(crate) use filled::{Filled, Filling};
pub(crate) use orders::CheckpointOrders;
