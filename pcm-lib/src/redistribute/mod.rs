//! Carries out the redistribution of all registered regions among the processes of a transfer communicator: survivors,
//! leavers and newcomers. Owns the messages and the memory they land in until the decision; never joins or ends
//! processes, never speaks with a daemon. The protocol is told in `README.md` beside this file.
//!
//! ```text
//! let mut movement = Movement::begin(&registry, &transfer, NextLayout::from(&order), token, Limits::default())?;
//! loop {
//!     match movement.drive(&mut registry, &transfer, soon)? {      // an error: report Failed, wait for the decision
//!         Progress::Pending => look at the channel,                // an abort may come at any time
//!         Progress::Complete { sent, received } => break report Moved { sent, received },
//!     }
//! }
//! committed: movement.commit(&mut registry)?                       // nobody fails from here but an unpack hook
//! aborted:   movement.abort(&mut registry, &transfer, deadline)?   // every process that began calls it
//! ```

mod array_move;
mod carrier;
mod checksum;
mod error;
mod exchange;
#[cfg(test)]
mod hook_order;
mod in_stream;
mod inbound;
mod leg;
mod limits;
mod local_copy;
mod movement;
mod next_layout;
mod notes;
mod outbound;
mod parcel_move;
mod pending;
mod round;
mod staging;
mod statement;
mod together;
mod vote;

pub use error::{MoveError, NotDrained};
pub use limits::Limits;
pub(crate) use local_copy::LocalCopies;
pub use movement::{Movement, Progress};
pub use next_layout::NextLayout;
