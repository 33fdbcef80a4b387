//! A process of the application: iterates over its part of the array, stops at ceilings, joins, moves, leaves. What it
//! may do when is decided by the library's own state machine.

use pcm_core::reconfiguration::rank::RankSide;
use pcm_proto::ids::{ProcessId, Rank};
use pcm_proto::layout::Layout;
use pcm_proto::reconfiguration::{Attempt, MeetOrder, ReconfigurationOrder};
use std::collections::BTreeMap;

/// Elements by index, each with the number of iterations it has seen.
pub(super) type Data = BTreeMap<u32, u64>;

/// What a process is doing between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    Starting,
    /// Has announced an iteration and not yet looked at the ceiling.
    Announced,
    /// In an iteration.
    Computing,
    /// Has computed and waits for the neighbours' halo.
    Blocked,
    /// Waits at the ceiling, for a call or for a decision, or is called.
    Waiting,
    /// Left its loop.
    Finished,
}

/// The call to the meeting that a process follows.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) attempt: Attempt,
    pub(super) meeting: Option<Box<MeetOrder>>,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: ProcessId,
    pub(super) node: usize,
    pub(super) is_alive: bool,
    pub(super) side: Option<RankSide>,
    pub(super) activity: Activity,
    /// Layout it runs in and its place there; for a newcomer the one it waits for.
    pub(super) epoch: u64,
    pub(super) rank: Rank,
    pub(super) is_member: bool,
    /// The iteration it is in or at the top of.
    pub(super) iteration: u64,
    pub(super) started: u64,
    pub(super) ceiling: u64,
    pub(super) data: Data,
    pub(super) staged: Option<Data>,
    pub(super) call: Option<Call>,
    /// Raised whenever an event that is under way for it no longer counts.
    pub(super) turn: u32,
    /// The ceiling it looked at too early, when that fault is planted.
    pub(super) peeked: Option<u64>,
    /// When the last word on its channel arrives, in each direction.
    pub(super) said_at: u64,
    pub(super) told_at: u64,
    /// Hangs inside MPI.
    pub(super) is_stuck: bool,
    /// What the daemon said while it was computing.
    pub(super) inbox: Vec<ReconfigurationOrder>,
}

impl Process {
    pub(super) fn new(id: ProcessId, node: usize, epoch: u64, rank: Rank) -> Self {
        Self {
            id,
            node,
            is_alive: true,
            side: None,
            activity: Activity::Starting,
            epoch,
            rank,
            is_member: false,
            iteration: 0,
            started: 0,
            ceiling: u64::MAX,
            data: Data::new(),
            staged: None,
            call: None,
            turn: 0,
            peeked: None,
            said_at: 0,
            told_at: 0,
            is_stuck: false,
            inbox: Vec::new(),
        }
    }
}

/// The elements of a rank: blocks in rank order, sized by weight.
pub(super) fn block(layout: &Layout, elements: u32, rank: usize) -> std::ops::Range<u32> {
    let weight = |rank: usize| u64::from(layout.weights.get(rank).copied().unwrap_or(1));
    let total: u64 = (0..layout.size()).map(weight).sum();
    let edge = |rank: usize| ((0..rank).map(weight).sum::<u64>() * u64::from(elements) / total) as u32;
    edge(rank)..edge(rank + 1)
}

/// What the checksum of one element is.
pub(super) fn digest(index: u32, value: u64) -> u64 {
    (u64::from(index) << 32 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
