//! Datagrams and bulk transfers over InfiniBand or RoCE, where this build and this machine have them, else the reason
//! why not: the same questions for every build.

#[cfg(feature = "rdma")]
pub use crate::verbs::{RcBulk, bulk, datagrams};
#[cfg(not(feature = "rdma"))]
pub use crate::without_verbs::{RcBulk, bulk, datagrams};
pub use pcm_proto::fabric::UdAddress;
