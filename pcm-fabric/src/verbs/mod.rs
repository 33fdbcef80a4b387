//! InfiniBand and RoCE through the verbs library, opened at run time: datagrams over UD, bulk transfers over RC.

mod completions;
mod device;
mod first;
mod memory;
mod pair;
mod rc;
mod rc_message;
mod rc_receive;
mod ud;

pub use device::{Device, Gid, NoDevice};
pub use first::{bulk, datagrams};
pub use pcm_proto::fabric::UdAddress;
pub use rc::RcBulk;
