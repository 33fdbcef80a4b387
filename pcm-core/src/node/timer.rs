//! What is to happen at a later time. A timer only says what to look at again; its handler checks whether there is
//! still anything to do, so a timer that is out of date does no harm and is never cancelled.

use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::ParkKey;

/// What to look at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timer {
    /// At a job.
    Job(JobId, JobTimer),
    /// A process that ended may have nothing more to say.
    LastWords(ProcessKey),
    /// A question may be unanswered.
    Ask(u64),
    /// A gathering may be incomplete.
    Gather(u64),
    /// A follower of events may want news.
    Follow(u64),
    /// A job may get its number now.
    Number,
    /// Time to say how this node is.
    Beat,
    /// The failure detector wants to know the time.
    Membership,
    /// After a restart, everybody who is there should have been seen.
    Settled,
    /// A node should be dialled again.
    Redial(NodeName),
    /// The next job should leave the node.
    Drain,
    /// The time of this node may be nearly up.
    End,
    /// A node that was given notice may be ready to leave.
    Leave,
    /// Parts of checkpoints may be held for jobs that are over.
    Held,
    /// Blocks of images may have been lost.
    Images,
    /// A rank has had its time for what it does ahead of a meeting.
    Ahead(ParkKey),
    /// An image should not be needed any more.
    Unneeded(ParkKey),
    /// A job whose coordinator is gone may be ours to lead.
    Wills,
    /// Wills that came may be void already.
    WillsHeld,
    /// This node may see more of the cluster, or know that it does not.
    Quorum,
    /// Copies that a node's daemon had ordered may be of no use.
    Orphans(NodeName),
    /// The agent should be started again.
    Agent,
    /// The agent may have fallen silent.
    AgentSilent,
}

/// What to look at again at a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobTimer {
    /// Its machine has a deadline.
    Step,
    /// Its coordinator may have been out of reach for too long.
    CoordinatorLost,
    /// No node may need any more what this one holds of it.
    Abandoned,
    /// Perhaps no node has taken it over from a coordinator whose node is back as a new one.
    Orphan,
    /// Its attached `pcmctl` may have been away for too long.
    Unattended,
    /// A reconfiguration of it wants to go on.
    Reform(Box<crate::reconfiguration::effects::Timer>),
    /// Its checkpoints have a deadline.
    Checkpoint,
    /// A request for a checkpoint of it may be too old.
    CheckpointAsked(u64),
    /// Its next ranks may be placed elsewhere.
    Standbys {
        /// Whether it is looked at again later.
        is_regular: bool,
    },
    /// The output pipes of its processes, which have ended, should be closed by now.
    OutputEnd,
}
