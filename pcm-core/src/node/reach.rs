//! How other nodes are reached.

/// What carries datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Udp,
    /// InfiniBand or RoCE.
    Rdma,
}

/// How a node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Whether the node has confirmed datagrams.
    pub confirms_datagrams: bool,
    pub rdma: RdmaReach,
}

/// Whether InfiniBand or RoCE leads to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaReach {
    /// No device is in use here or there.
    NoDevice,
    /// It confirms nothing there.
    Silent,
    /// As far as is known.
    There,
}
