//! What every provider of bulk transfers gives: memory offered by its receiver, filled by one sender, checked, and
//! gone on with after a broken connection.

use super::{
    ledger::Ledger,
    memory::{Lent, RegionMemory},
    wire::{Reason, RegionToken},
};
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// What a transfer took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutReport {
    /// Blocks sent, those sent again too.
    pub blocks_sent: u64,
    /// How often the connection broke and was made again.
    pub reconnects: u32,
}

/// Why a transfer did not succeed. The region keeps what has arrived; another `put` goes on there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutError {
    /// The deadline passed.
    Deadline {
        /// What ended the last connection, if one did.
        last: Option<String>,
    },
    /// The receiver has no such region, or not of this length, or somebody else fills it.
    Refused(Reason),
    /// The receiver is not a member of this cluster, or of another release.
    Stranger(String),
    /// The receiver wants transfers encrypted.
    Protection,
    /// The device does not take the data's memory.
    Unregistered(String),
    /// The data are longer than a region may be.
    TooLong,
}

impl fmt::Display for PutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline { last: None } => write!(
                f,
                "the transfer was not done in time: the network is slower than planned, or the receiver is stuck"
            ),
            Self::Deadline { last: Some(last) } => write!(
                f,
                "the transfer was not done in time; the last connection ended: {last}"
            ),
            Self::Refused(Reason::Unknown) => write!(
                f,
                "the receiver does not offer this region (any more): ask it for a new one"
            ),
            Self::Refused(Reason::Length) => write!(f, "the receiver's region has another length than the data"),
            Self::Refused(Reason::Busy) => write!(f, "another sender fills this region and does not let go"),
            Self::Refused(Reason::Unregistered) => write!(
                f,
                "the receiver's device does not take the memory: raise its limit of locked memory (ulimit -l)"
            ),
            Self::Unregistered(why) => write!(
                f,
                "the device does not take the memory ({why}): raise the limit of locked memory (ulimit -l)"
            ),
            Self::Stranger(what) => write!(f, "the receiver cannot be trusted: {what}"),
            Self::Protection | Self::Refused(Reason::Protection) => {
                write!(f, "the receiver takes only encrypted transfers")
            }
            Self::TooLong => write!(f, "the data are longer than one region may be: send them in several"),
        }
    }
}

impl std::error::Error for PutError {}

/// Sends memory into memory that its receiver offered.
pub trait BulkService: Clone + Send + Sync + 'static {
    /// How peers are named.
    type Address;

    /// Memory on offer.
    type Offer;

    /// Where peers reach this endpoint.
    fn local(&self) -> Self::Address;

    /// Offers memory to one sender; `None` when too much is on offer.
    fn offer(&self, memory: impl Into<RegionMemory>) -> Option<Self::Offer> {
        let memory = memory.into();
        let nothing = Ledger::new(u64::try_from(memory.len()).ok()?)?;
        self.offer_rest(memory, nothing)
    }

    /// The same, for what a ledger of this memory lacks.
    fn offer_rest(&self, memory: impl Into<RegionMemory>, there: Ledger) -> Option<Self::Offer>;

    /// Fills a region at `to` with `data`.
    fn put<D: Lent + 'static>(
        &self,
        to: Self::Address,
        region: RegionToken,
        data: Arc<D>,
        deadline: Duration,
    ) -> impl Future<Output = Result<PutReport, PutError>> + Send;
}
