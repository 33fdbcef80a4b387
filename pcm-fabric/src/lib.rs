//! Links between the processes of a cluster: over TCP, authenticated by the cluster's key and encrypted; over unix
//! sockets, checked by user id. No byte of a stranger reaches a message decoder, and every queue, frame and wait has
//! a limit. What the messages mean is not known here. How a link is made and ends stands in this crate's README.

mod accept;
pub mod bulk;
mod counters;
pub mod datagram;
mod door;
mod endpoint;
mod handshake;
pub mod hybrid;
pub mod infiniband;
mod key;
mod limits;
mod link;
mod local;
pub mod noise;
pub mod peers;
mod receiver;
mod record;
mod sender;
#[cfg(feature = "rdma")]
pub mod verbs;
#[cfg(not(feature = "rdma"))]
mod without_verbs;

pub use accept::{BindError, Listener};
pub use counters::{Counters, CountersSnapshot};
pub use endpoint::{ConnectError, Endpoint};
pub use key::{ClusterKey, KeyError};
pub use limits::Limits;
pub use link::{Link, LinkEnd, PeerAddress};
pub use local::{LocalAddress, LocalConnectError, LocalEndpoint, LocalListenError, LocalListener};
pub use receiver::{Receiver, RecvError};
pub use sender::{SendError, Sender};
