//! A process of a job: starts, joins MPI, iterates over its part of an array, stops at ceilings, meets, moves, parks,
//! keeps checkpoints, leaves, ends. What it may do when is decided by the library's own machine ([`RankSide`]).

use super::groups::GroupKey;
use super::happening::{Boot, Turn};
use super::image::{Data, File};
use pcm_core::pmi::wire::Request;
use pcm_core::reconfiguration::rank::RankSide;
use pcm_proto::app::{AppToDaemon, DaemonToApp};
use pcm_proto::ids::{CheckpointId, Rank as RankNumber, WorldId};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::Asked;
use pcm_proto::reconfiguration::{Attempt, MeetOrder};
use std::collections::VecDeque;

/// What a program is, the same for all its processes.
#[derive(Clone, Debug)]
pub struct Program {
    pub elements: u32,
    /// Iterations after which it ends.
    pub iterations: u64,
    /// Typical time of one, in microseconds.
    pub iteration_us: u64,
    /// A checkpoint is due at every iteration that this divides; 0 for never.
    pub checkpoint_every: u64,
    /// Checkpoints that are due go into files, too.
    pub has_files: bool,
    /// A line is printed at every iteration that this divides; 0 for never.
    pub prints_every: u64,
}

/// What a process is to the layout it begins in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    First,
    Newcomer,
    Restored,
}

/// What a process is doing between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// Before `MPI_Init` has returned.
    Starting,
    /// Asks for its data.
    Restoring,
    /// Has announced an iteration and not yet looked at the ceiling.
    Announced,
    Computing,
    /// Copies its data into a buffer.
    Keeping,
    /// Has computed and waits for what others send.
    Blocked,
    /// Waits at the ceiling, for a call or a decision, or is called.
    Waiting,
    /// Left its loop.
    Finished,
}

/// The call that a process follows.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) attempt: Attempt,
    /// None of a call to park.
    pub(super) meeting: Option<Box<MeetOrder>>,
}

/// Where its environment says that it belongs.
#[derive(Clone, Debug)]
pub(super) struct Belonging {
    pub(super) generation: u32,
    pub(super) role: Role,
    pub(super) world: WorldId,
    pub(super) world_rank: u32,
    pub(super) world_size: u32,
    /// Epoch, rank and size of the layout it is planned for.
    pub(super) planned: (u64, u32, u32),
    /// Directories of checkpoints to begin with, the best first.
    pub(super) files: Vec<Vec<u8>>,
}

/// Its talk with its process manager.
#[derive(Debug, Default)]
pub(super) struct Pmi {
    pub(super) step: u32,
    /// The request that stands unanswered in its socket.
    pub(super) asks: Option<Request>,
    /// Requests so far.
    pub(super) count: u64,
}

/// The channel to its daemon. It outlives daemons and keeps its order.
#[derive(Debug, Default)]
pub(super) struct Channel {
    pub(super) said: VecDeque<(AppToDaemon, Option<File>)>,
    pub(super) said_at: u64,
    pub(super) told_at: u64,
}

/// One of its two buffers for checkpoints.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) number: u32,
    pub(super) file: File,
    pub(super) holds: CheckpointId,
    pub(super) is_handed: bool,
}

/// Its checkpoints in memory.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    pub(super) buffers: [Option<Buffer>; 2],
    pub(super) count: u32,
    pub(super) made: Option<CheckpointId>,
    /// The iteration of the checkpoint in memory that it began with. What it keeps there is no second one.
    pub(super) begun_with: Option<u64>,
    pub(super) settled: CheckpointId,
    pub(super) given_up: CheckpointId,
    pub(super) is_wanted: bool,
    pub(super) in_files: bool,
    /// The buffer it copies into, and since when.
    pub(super) filling: Option<(usize, u64)>,
}

/// How far it is with getting its data back.
#[derive(Debug, Default)]
pub(super) struct Restoring {
    /// The relaunch whose decision it waits for; none of a checkpoint.
    pub(super) awaited: Option<Attempt>,
    /// Ranks of the layout whose data it is; none before the plan is known.
    pub(super) old_size: Option<u32>,
    pub(super) weights: Vec<u32>,
    pub(super) next: u32,
    pub(super) asked: Option<Asked>,
    pub(super) asks: u32,
    pub(super) iteration: Option<u64>,
    pub(super) data: Data,
    /// Whether it is of a checkpoint, and was not parked.
    pub(super) is_checkpoint: bool,
    pub(super) has_failed: bool,
}

/// What its page shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) started: u64,
    pub(super) ceiling: u64,
    /// Where its data is, for its keeper.
    pub(super) is_published: bool,
    pub(super) is_initialized: bool,
}

/// See the file head.
#[derive(Debug)]
pub(super) struct Rank {
    pub(super) key: ProcessKey,
    pub(super) on: Boot,
    pub(super) pid: u32,
    pub(super) is_alive: bool,
    pub(super) program: Program,
    pub(super) belonging: Belonging,
    pub(super) pmi: Pmi,
    pub(super) channel: Channel,
    pub(super) page: Page,
    pub(super) side: Option<RankSide>,
    pub(super) activity: Activity,
    pub(super) epoch: u64,
    pub(super) rank: RankNumber,
    pub(super) is_member: bool,
    pub(super) iteration: u64,
    pub(super) data: Data,
    pub(super) staged: Option<Data>,
    pub(super) call: Option<Call>,
    pub(super) inbox: Vec<DaemonToApp>,
    pub(super) keeping: Keeping,
    pub(super) restoring: Restoring,
    /// Lines printed, and those that its daemon has not read.
    pub(super) lines: u64,
    /// What its daemon has read and not yet written down.
    pub(super) read: Vec<u8>,
    /// All output that a daemon has counted in its journal, in order.
    pub(super) counted: Vec<u8>,
    pub(super) pipe: VecDeque<Vec<u8>>,
    /// Raised whenever what is under way for it does not count any more.
    turn: u32,
    /// Hangs inside MPI.
    pub(super) is_stuck: bool,
    /// All have come to its meeting, and it is not back.
    pub(super) is_joining: bool,
    /// A daemon had it signalled.
    pub(super) is_signalled: bool,
    /// The ceiling it looked at too early, when that fault is planted.
    pub(super) peeked: Option<u64>,
}

impl Rank {
    pub(super) fn new(key: ProcessKey, on: Boot, pid: u32, program: Program, belonging: Belonging) -> Self {
        let (epoch, rank, _) = belonging.planned;
        Self {
            key,
            on,
            pid,
            is_alive: true,
            program,
            belonging,
            pmi: Pmi::default(),
            channel: Channel::default(),
            page: Page {
                started: 0,
                ceiling: u64::MAX,
                is_published: false,
                is_initialized: false,
            },
            side: None,
            activity: Activity::Starting,
            epoch,
            rank: RankNumber(rank),
            is_member: false,
            iteration: 0,
            data: Data::new(),
            staged: None,
            call: None,
            inbox: Vec::new(),
            keeping: Keeping::default(),
            restoring: Restoring::default(),
            lines: 0,
            read: Vec::new(),
            counted: Vec::new(),
            pipe: VecDeque::new(),
            turn: 0,
            is_stuck: false,
            is_joining: false,
            is_signalled: false,
            peeked: None,
        }
    }

    pub(super) fn group(&self) -> GroupKey {
        GroupKey {
            job: self.key.job,
            generation: self.belonging.generation,
            epoch: self.epoch,
        }
    }

    /// What is under way for it counts as long as it does nothing else.
    pub(super) fn turn(&self) -> Turn {
        Turn {
            key: self.key,
            number: self.turn,
        }
    }

    /// Something else begins.
    pub(super) fn next_turn(&mut self) -> Turn {
        self.turn += 1;
        self.turn()
    }

    pub(super) fn is_at(&self, turn: Turn) -> bool {
        self.is_alive && !self.is_stuck && self.turn == turn.number
    }
}
