//! What carries the messages of a daemon: what its owner wished for, what is in use, and where it is reached. Never
//! does I/O, and chooses nothing.

use serde::{Deserialize, Serialize};

/// The file in a cluster's directory that says what exchanges cost on its fabric; `pcmctl doctor --tune` writes it.
pub const TUNING_FILE: &str = "fabric.json";

/// Where datagrams over InfiniBand or RoCE reach a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UdAddress {
    /// Its port on the fabric.
    #[serde(with = "serde_bytes")]
    pub gid: [u8; 16],
    /// The number of its queue pair.
    pub pair: u32,
}

/// Where a daemon is reached that offers memory to bulk transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkAddress {
    /// On this port at its address.
    Tcp(u16),
    /// Over InfiniBand or RoCE.
    Rdma(UdAddress),
}

/// What a cluster's owner wants messages to be carried by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FabricWish {
    /// InfiniBand or RoCE between nodes that have it, for small messages and copies of checkpoints; else UDP for small
    /// messages; TCP for the rest and wherever these cannot be used.
    #[default]
    Auto,
    /// UDP for small messages, TCP for the rest; a daemon that cannot open its UDP port does not start.
    Udp,
    /// TCP for everything.
    Tcp,
    /// As with `Auto`; a daemon without a device does not start.
    Rdma,
}

/// What carries a node's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricReport {
    /// Small messages: `rdma`, `udp`, or `rdma+udp` where nodes differ; `none` where connections carry them too.
    pub datagrams: String,
    /// Everything else: `tcp`.
    pub connections: String,
    /// The ways that copies of checkpoints take from the other nodes as things stand (`shared`, `rdma`, `bulk`,
    /// `link`), with
    /// `+` between them; empty while there is no other node.
    pub copies: String,
    /// Why nothing better is in use, a sentence for each.
    pub why_not: Vec<String>,
}
