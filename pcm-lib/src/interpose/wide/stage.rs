//! What an operation does on this rank, in stages: each a plan to carry out, and what follows when that is done.

use super::carry::{Carrier, Memory, Plan};
use super::communicator::Wide;
use super::extensions::look_for_messages;
use super::failed::Failed;
use mpi_abi::MPI_Op;
use pcm_core::wide::schedule::Schedule;
use std::sync::Arc;
use std::thread;

/// What follows a stage. Keeps what the stage uses.
pub(super) type Next = Box<dyn FnOnce() -> Result<Stage, Failed>>;

pub(super) enum Stage {
    Carry(Plan, Next),
    Done,
}

impl Stage {
    /// Bytes that travel.
    pub(super) fn moving(
        schedule: Schedule,
        memory: Memory,
        next: impl FnOnce() -> Result<Self, Failed> + 'static,
    ) -> Self {
        let plan = Plan {
            schedule,
            memory,
            op: None,
        };
        Self::Carry(plan, Box::new(next))
    }

    /// Elements that are combined.
    pub(super) fn combining(
        schedule: Schedule,
        memory: Memory,
        op: MPI_Op,
        next: impl FnOnce() -> Result<Self, Failed> + 'static,
    ) -> Self {
        let plan = Plan {
            schedule,
            memory,
            op: Some(op),
        };
        Self::Carry(plan, Box::new(next))
    }
}

/// Carries out an operation to its end.
pub(super) fn run(wide: &Arc<Wide>, begin: impl FnOnce(&Arc<Wide>) -> Result<Stage, Failed>) -> Result<(), Failed> {
    let turn = wide.turns.take();
    let outcome = (|| {
        while !wide.turns.may_begin(turn, wide.slots) {
            look_for_messages();
            thread::yield_now();
        }
        let mut stage = begin(wide)?;
        while let Stage::Carry(plan, next) = stage {
            Carrier::new(wide, turn, plan)?.carry()?;
            stage = next()?;
        }
        Ok(())
    })();
    wide.turns.over(turn);
    outcome
}
