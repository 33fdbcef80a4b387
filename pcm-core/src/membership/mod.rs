//! Who is in the cluster: a failure detector and the news about it, as a state machine without I/O or clock. The
//! README beside this file tells the protocol. It says what bytes to send to whom; opening links is the daemon's part.

mod detector;
mod message;
mod news;
mod probing;
mod ring;
pub mod timing;
mod view;

pub use detector::{Counters, Effect, LocalNode, Membership, Target};
pub use message::Rejection;
pub use view::{Change, Details, Health, Member};
