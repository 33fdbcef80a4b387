//! Datagrams: messages of some KiB to any address, without a connection, each delivered once or reported failed.

mod core;
mod counters;
mod epoch;
mod inbound;
mod limits;
mod outbound;
mod path;
mod replay;
mod seal;
mod service;
mod udp;
pub mod wire;

pub use self::core::{Address, Core, Received, Refusal};
pub use counters::DatagramCounters;
pub use epoch::key_epoch;
pub use limits::{DEADLINE_MAX, DatagramLimits, MESSAGE_LENGTH_MAX, PACKET_LENGTH_SAFE};
pub use outbound::{ExchangeFailure, ExchangeId};
pub use service::{Datagram, DatagramService, ExchangeError, PacketIo};
pub use wire::Incarnation;
