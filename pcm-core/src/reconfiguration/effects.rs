//! What goes into the state machines of this folder and what comes out.
//!
//! An effect is an instruction to the driver, to be carried out in the order given. [`Effect::Persist`] always stands
//! first, so whatever follows from a record is done after the record is safe.

use super::record::JobRecord;
use super::refusal::Refused;
use pcm_proto::event::Reconfigured;
use pcm_proto::ids::{Epoch, Iteration, NodeName, ProcessId, Rank, WorldId};
use pcm_proto::keeper::ExitStatus;
use pcm_proto::layout::{Layout, Member, PlanRequest};
use pcm_proto::reconfiguration::{
    AbortReason, Attempt, Loss, Phase, ReconfigurationMessage, ReconfigurationOrder, ReconfigurationReport, Reign,
    Tally,
};
use std::time::Duration;

/// What the driver tells the state machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Somebody asks for a reconfiguration. Answered by [`Report::Accepted`] or [`Report::Refused`] in the same step.
    Request {
        /// What is wanted.
        request: PlanRequest,
        /// Lowest process number that nothing else in the job has used.
        next_process: ProcessId,
        /// Lowest world number that nothing else in the job has used.
        next_world: WorldId,
        /// The most worlds any process of the job has met in its life.
        worlds_met: u32,
    },
    /// Somebody takes a request back; without effect once it is decided.
    Cancel,
    /// From another daemon.
    Message {
        /// Its node, as the link authenticated it.
        from: NodeName,
        /// What it says.
        message: ReconfigurationMessage,
    },
    /// From a process on this node.
    Report {
        process: ProcessId,
        /// What it says.
        report: ReconfigurationReport,
    },
    /// The answer to [`Effect::SetCeiling`].
    CeilingWritten {
        process: ProcessId,
        /// The ceiling written.
        ceiling: Iteration,
        /// The iterations its page announced as started when read afterwards.
        started: Iteration,
        /// The iteration at which its loop ends, if it declared one.
        ends: Option<Iteration>,
    },
    /// The answer to [`Effect::Salvage`].
    Salvaged {
        process: ProcessId,
        /// What was saved, or why nothing was.
        result: Result<Tally, String>,
    },
    /// A process of a world could not be started.
    StartFailed {
        process: ProcessId,
        /// The system's words.
        reason: String,
    },
    /// A rank left its loop; it will not start another iteration.
    Finalizing { process: ProcessId },
    /// A process on this node is gone.
    Exited {
        process: ProcessId,
        /// Whether it had finalized MPI and returned.
        finished: bool,
    },
    /// Membership takes a node for gone.
    NodeGone { node: NodeName },
    /// A node that was gone is back with its record and its processes.
    NodeBack { node: NodeName },
    /// A node is back, or restarted unnoticed, without record and processes.
    NodeReborn { node: NodeName },
    /// A timer ended.
    Timer(Timer),
}

impl Input {
    /// A newcomer ended before it joined. `said` is the end of its output.
    pub fn ended_early(process: ProcessId, status: ExitStatus, said: &str) -> Self {
        let (code, said) = (status.shell_code(), if said.is_empty() { "nothing" } else { said });
        let reason = format!("it ended with code {code} before it joined; it printed last: {said}");
        Self::StartFailed { process, reason }
    }
}

/// A timer carries what was true when it was armed; one that is no longer true is ignored, so none is ever cancelled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Coordinator: the phase of the attempt may not last longer.
    Deadline { attempt: Attempt, phase: Phase },
    /// Coordinator: repeat what is not answered.
    Resend {
        attempt: Attempt,
        /// The coordinator's reign.
        reign: Reign,
    },
    /// Coordinator: repeat the order to bury the job.
    BuryAgain {
        /// The coordinator's reign.
        reign: Reign,
        /// How often it was repeated.
        times: u32,
    },
    /// Coordinator: nobody could tell what became of an attempt of its predecessor.
    Unresolved {
        attempt: Attempt,
        /// The coordinator's reign.
        reign: Reign,
    },
    /// Coordinator: a node with ranks has been gone too long.
    NodeLost {
        node: NodeName,
        /// Which absence of the node this is.
        absence: u32,
    },
    /// Participant: nothing was heard of the coordinator.
    Patience {
        attempt: Attempt,
        /// Orders heard when it was armed.
        heard: u64,
    },
    /// Participant: what travels ahead of the meeting has had its time.
    Ahead { attempt: Attempt },
    /// Participant: ask again what was decided.
    AskDecision {
        attempt: Attempt,
        /// Orders heard when it began to ask.
        heard: u64,
        /// How often it asked.
        times: u32,
    },
    /// Participant: ranks that have not carried out the decision by now are stuck.
    Settle { attempt: Attempt },
    /// Participant: processes that should have left are ended.
    Leave { attempt: Attempt },
    /// Participant: report a loss again.
    Damage,
    /// Voter: try for the lease.
    Candidate {
        /// The reign promised when it was armed.
        reign: Reign,
    },
    /// Candidate: ask again.
    AskLease { reign: Reign },
    /// Holder: see again that every voter knows it.
    ConfirmLease { reign: Reign },
    /// Holder that is no voter any more: offer the lease again.
    OfferLease { reign: Reign },
    /// Voter without a coordinator: look for one again.
    Leaderless {
        /// Which time without a coordinator this is.
        since: u32,
        /// How often it looked.
        times: u32,
    },
}

/// Why the driver ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// It was a newcomer of an aborted attempt.
    Aborted,
    /// It is not part of the committed layout and had its time to leave.
    LeftLate,
    /// The job is lost.
    Lost,
    /// No layout knows it.
    Unknown,
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write the record; nothing after this may happen before it is safe.
    Persist(Box<JobRecord>),
    /// Send to another daemon; may be lost.
    Send {
        to: NodeName,
        message: ReconfigurationMessage,
    },
    /// Start this node's processes of a world. Those that cannot be started are reported by [`Input::StartFailed`].
    StartWorld {
        /// For which attempt.
        attempt: Attempt,
        world: WorldId,
        /// All its processes, on all nodes, in the world's rank order, each with its rank in the job.
        members: Vec<(Rank, Member)>,
        /// The layout they belong to.
        layout: Box<Layout>,
        /// Whether they restore parked data and run (relaunch), or wait for the meeting.
        restored: bool,
    },
    /// Write the ceiling on the page of a process, then read how far it is: [`Input::CeilingWritten`].
    SetCeiling { process: ProcessId, ceiling: Iteration },
    /// Take the ceiling off the page of a process.
    LiftCeiling { process: ProcessId },
    /// Send to a process on this node; lost if there is none.
    TellApp {
        process: ProcessId,
        order: ReconfigurationOrder,
    },
    /// Copy the registered data out of a process that hangs at the ceiling: [`Input::Salvaged`].
    Salvage {
        process: ProcessId,
        /// For which attempt.
        attempt: Attempt,
    },
    /// Tell a process to have its constant data copied, to take that of others, and to have memory made for what it
    /// will get, while it computes on. It reports [`ReconfigurationReport::Ahead`]; the driver does so for one that has
    /// nothing to do, or takes too long for what it would gain.
    SendAhead {
        process: ProcessId,
        /// For which attempt.
        attempt: Attempt,
    },
    /// Drop the data parked here for a relaunch, or sent ahead of a meeting.
    DropParked {
        /// Of which attempt.
        attempt: Attempt,
    },
    /// End a process by force; its end is reported by [`Input::Exited`].
    EndProcess { process: ProcessId, cause: EndCause },
    /// Hand back the timer after this time.
    ArmTimer { timer: Timer, after: Duration },
    /// Tell whoever watches the job.
    Report(Report),
}

/// What those who watch the job hear. Only the holder of the lease reports, but for `LayoutChanged` and `EndedHere`.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A request was taken on.
    Accepted {
        /// As this attempt.
        attempt: Attempt,
    },
    /// A request was not taken on.
    Refused(Refused),
    /// A phase began.
    PhaseBegan {
        /// Of which attempt.
        attempt: Attempt,
        phase: Phase,
    },
    /// A reconfiguration was committed and carried out everywhere.
    Reconfigured {
        attempt: Attempt,
        /// The fields of the event.
        event: Box<Reconfigured>,
    },
    /// An attempt was aborted; the old layout goes on.
    Aborted {
        attempt: Attempt,
        /// In which phase.
        phase: Phase,
        reason: AbortReason,
        /// The attempt that follows it as a relaunch, if any.
        followed_by: Option<Attempt>,
    },
    /// This daemon holds the lease now.
    LeaseTaken { reign: Reign },
    /// This daemon holds the lease no more.
    LeaseLost {
        /// The reign that replaced it.
        reign: Reign,
    },
    /// The job cannot go on; its processes are being ended everywhere.
    JobLost { loss: Loss },
    /// Every process of the lost job has ended, as far as its nodes can be reached.
    JobBuried {
        /// Nodes that did not answer; their daemons end their processes when they hear of it or by their own limits.
        unreachable: Vec<NodeName>,
    },
    /// This daemon's view of the layout changed.
    LayoutChanged {
        /// The new epoch.
        epoch: Epoch,
    },
    /// This daemon ends the job's processes here.
    EndedHere { loss: Loss },
}

/// Messages that were not acted on, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// An order of a reign lower than the one promised.
    pub stale_reign: u64,
    /// About an attempt that is over or was never heard of.
    pub stale_attempt: u64,
    /// Heard before; answered again where an answer is owed.
    pub duplicate: u64,
    /// Not for this state.
    pub unexpected: u64,
    /// Cannot be if everybody keeps to the protocol.
    pub impossible: u64,
    /// A timer of something that is no longer so.
    pub stale_timer: u64,
}
