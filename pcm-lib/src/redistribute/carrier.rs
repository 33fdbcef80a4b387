//! What carries the data of a move: messages between pairs, or collective operations. The same questions to both.

use super::{
    MoveError,
    exchange::Exchange,
    leg::{Leg, LegBytes},
    together::Together,
};
use crate::mpi::Transport;
use pcm_proto::reconfiguration::Tally;

/// See the file head.
#[derive(Debug)]
pub(super) enum Carrier {
    PointToPoint(Exchange),
    Collective(Together),
}

impl Carrier {
    /// Goes on as far as possible without waiting; says whether anything happened.
    pub(super) fn step(&mut self, transfer: &dyn Transport) -> Result<bool, MoveError> {
        match self {
            Self::PointToPoint(exchange) => exchange.step(transfer),
            Self::Collective(together) => together.step(transfer),
        }
    }

    /// Whether everything has left and everything has come.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::PointToPoint(exchange) => exchange.is_complete(),
            Self::Collective(together) => together.is_complete(),
        }
    }

    /// What left and what came.
    pub(super) fn tallies(&self) -> (Tally, Tally) {
        match self {
            Self::PointToPoint(exchange) => exchange.tallies(),
            Self::Collective(together) => together.tallies(),
        }
    }

    /// The move is called off.
    pub(super) fn stop(&mut self, transfer: &dyn Transport) -> Result<(), MoveError> {
        match self {
            Self::PointToPoint(exchange) => exchange.stop(transfer),
            Self::Collective(together) => {
                together.stop();
                Ok(())
            }
        }
    }

    /// After [`Carrier::stop`]: as [`Carrier::step`].
    pub(super) fn drain(&mut self, transfer: &dyn Transport) -> Result<bool, MoveError> {
        match self {
            Self::PointToPoint(exchange) => exchange.drain(transfer),
            Self::Collective(together) => together.step(transfer),
        }
    }

    /// Number of messages, or operations, that are not over.
    pub(super) fn under_way(&self) -> usize {
        match self {
            Self::PointToPoint(exchange) => exchange.under_way(),
            Self::Collective(together) => together.under_way(),
        }
    }

    /// Leaves all memory that may still be used to MPI.
    pub(super) fn abandon(self) {
        match self {
            Self::PointToPoint(exchange) => exchange.abandon(),
            Self::Collective(together) => std::mem::forget(together),
        }
    }

    /// The opaque data that arrived.
    pub(super) fn into_parcels(self) -> Vec<(Leg, Vec<u8>)> {
        let legs: Vec<Leg> = match self {
            Self::PointToPoint(exchange) => exchange.into_inbound().into_legs().collect(),
            Self::Collective(together) => together.into_legs().collect(),
        };
        let with_bytes = |mut leg: Leg| match &mut leg.bytes {
            LegBytes::Parcel(bytes) => bytes.take().map(|bytes| (leg, bytes)),
            LegBytes::Array { .. } | LegBytes::Lent { .. } | LegBytes::Landing { .. } => None,
        };
        legs.into_iter().filter_map(with_bytes).collect()
    }
}
