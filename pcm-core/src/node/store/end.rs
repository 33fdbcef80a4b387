//! The endpoints for bulk transfers, and where other nodes reach those of this one.

use pcm_proto::fabric::BulkAddress;

/// An endpoint for bulk transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Tcp,
    Rdma,
}

/// Where other nodes reach the endpoints of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndAddresses {
    pub port: u16,
    /// Or why there is none.
    pub rdma: Result<BulkAddress, String>,
}

impl EndAddresses {
    pub(super) fn of(&self, end: End) -> Result<BulkAddress, &str> {
        match end {
            End::Tcp => Ok(BulkAddress::Tcp(self.port)),
            End::Rdma => self.rdma.as_ref().copied().map_err(String::as_str),
        }
    }
}
