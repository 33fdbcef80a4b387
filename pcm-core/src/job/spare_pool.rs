//! What the coordinator of a job keeps of warm spares: the programs they run, and those that no spawn has taken.

use pcm_proto::ids::{ProcessId, WorldId};
use pcm_proto::spawn::WorldCommand;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// A coordinator that inherits the job may not know of the last spares.
const NUMBERS_AHEAD: u32 = 1 << 20;

/// A program that is spawned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Program {
    pub(super) command: WorldCommand,
    /// Spares that died in a row.
    pub(super) failures: u32,
    pub(super) not_before_us: u64,
}

/// A world of one process that no spawn has taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spare {
    pub(super) process: ProcessId,
    pub(super) command: WorldCommand,
    pub(super) since_us: u64,
    pub(super) is_ready: bool,
}

/// What the coordinator keeps of spares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spares {
    /// The one spawned last comes first.
    pub(super) programs: Vec<Program>,
    pub(super) pool: BTreeMap<WorldId, Spare>,
    pub(super) taken: VecDeque<WorldId>,
    /// Spares there have been.
    pub(super) count: u32,
}

impl Spares {
    /// All processes of the job were ended; the programs are still those it spawns.
    pub(super) fn forget_processes(&mut self) {
        self.pool.clear();
        self.taken.clear();
    }

    /// Another coordinator led the job, and may have started more than is known here.
    pub(super) fn skip_numbers(&mut self) {
        self.count = self.count.saturating_add(NUMBERS_AHEAD);
    }

    /// Whether a world was a spare before a spawn took it.
    pub(super) fn has_been(&self, world: WorldId) -> bool {
        self.taken.contains(&world)
    }

    pub(super) fn program_mut(&mut self, command: &WorldCommand) -> Option<&mut Program> {
        self.programs.iter_mut().find(|program| program.command == *command)
    }

    pub(super) fn unready(&self) -> usize {
        self.pool.values().filter(|spare| !spare.is_ready).count()
    }
}
