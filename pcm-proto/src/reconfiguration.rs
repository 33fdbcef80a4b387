//! Messages of a reconfiguration: coordinator ↔ participant, candidate for the lease ↔ voter, daemon ↔ rank.
//!
//! An order carries the reign of the one who gives it and is refused when a higher one is known. A decision carries
//! none: it is a fact about one attempt, made once, and anybody who knows it may pass it on. What each message means
//! in each state is told in `pcm-core/src/reconfiguration/README.md`.

use crate::ids::{Bytes, Epoch, Iteration, NodeName, ProcessId, Rank, Term, WorldId};
use crate::layout::{Layout, Mode, Plan};
use crate::method::Method;
pub use crate::outcome::{AbortReason, Decision, Failure, Loss};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Names one try at one reconfiguration. Attempts of one job are ordered as they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// The layout it starts from.
    pub epoch: Epoch,
    /// The lease under which it was planned.
    pub term: Term,
    /// Its number under that lease.
    pub number: u32,
}

impl Attempt {
    /// The lease under which it was planned.
    pub fn reign(self) -> Reign {
        Reign {
            epoch: self.epoch,
            term: self.term,
        }
    }
}

/// One holder's lease in one epoch: the fence between a holder and those it replaced. A commit ends all claims that
/// were raised in the epoch before; the lease under which it was made goes on in the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reign {
    /// The layout whose voters gave the lease, or the one it lived to see committed.
    pub epoch: Epoch,
    /// Counts the holders.
    pub term: Term,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.epoch, self.term, self.number)
    }
}

/// Phases of a reconfiguration as the coordinator counts them; also the names of `phases_ms` in events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Newcomers are started and initialised.
    Preparing,
    /// The ranks are being stopped at one iteration.
    Converging,
    /// Old and new processes join.
    Meeting,
    /// Data moves; in a relaunch, it is parked with the daemons.
    Moving,
    /// Relaunch only: the new set starts and takes up the parked data, while the old one stands.
    Starting,
    /// Decided; ranks take up the new layout or return to the old one, leavers end.
    Closing,
}

impl Phase {
    /// The phase's name in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Converging => "converging",
            Self::Meeting => "meeting",
            Self::Moving => "moving",
            Self::Closing => "closing",
            Self::Starting => "starting",
        }
    }
}

/// What was moved, so that sums over all senders and all receivers can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of bytes.
    pub bytes: Bytes,
    /// Wrapping sum of the chunks' checksums.
    pub checksum: u64,
    /// Number of bytes that had travelled ahead of the meeting, not counted in `bytes`.
    pub ahead: Bytes,
}

impl Tally {
    /// The tally of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: Bytes(self.bytes.0.wrapping_add(other.bytes.0)),
            checksum: self.checksum.wrapping_add(other.checksum),
            ahead: Bytes(self.ahead.0.wrapping_add(other.ahead.0)),
        }
    }
}

/// Where a world of processes waits to be joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorldPort {
    pub world: WorldId,
    /// What its rank 0 said of it.
    pub port: String,
}

/// Coordinator to participant; each may be repeated and is answered each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Start the newcomers of this node and answer when all are initialised.
    Prepare {
        plan: Box<Plan>,
        /// The attempt that made the plan's old layout, for those who have not seen it; `None` at the job's start.
        made_by: Option<Attempt>,
        /// Set when the ranks already stand at this ceiling, left there by a failed meeting.
        standing: Option<Iteration>,
    },
    /// Let no rank start this iteration or a later one, and say how far they have come.
    SetCeiling {
        /// Grows with each new ceiling.
        round: u32,
        ceiling: Iteration,
    },
    /// The ceiling is final: answer when every rank stands there.
    Stop { ceiling: Iteration },
    /// Everybody stands there: join and move the data, or in a relaunch, park it.
    Meet {
        ceiling: Iteration,
        /// Where the worlds wait.
        ports: Vec<WorldPort>,
        /// How long a rank that has done its part waits for the decision.
        patience_us: u64,
    },
    /// Relaunch: all data is parked everywhere, start the new processes.
    Start,
    /// Others are still preparing. A sign of life that does not carry the plan again.
    Wait,
    /// The attempt is over everywhere: parked data may be dropped.
    Release,
}

/// Participant to coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The newcomers here are initialised.
    Prepared {
        /// Ports they opened, if any.
        ports: Vec<WorldPort>,
    },
    /// The ceiling is set.
    CeilingSet {
        round: u32,
        /// The most iterations any rank here has announced as started; the ceiling holds if this is not above it.
        started: Iteration,
        /// The iteration at which their loops end, as far as any has declared it.
        ends: Option<Iteration>,
    },
    /// Every rank here stands at the ceiling.
    Stopped {
        /// Ports opened by ranks that stand there.
        ports: Vec<WorldPort>,
    },
    /// Every process here has joined, or in a relaunch parked its data.
    Met,
    /// Every process here has moved its data, or in a relaunch every new one has it; from now on only the decision can
    /// release them.
    Moved {
        /// What left them.
        sent: Tally,
        /// What came to them.
        received: Tally,
    },
    /// This participant cannot agree to the attempt any more.
    Failed { failure: Failure },
    /// The decision was carried out here: ranks run on, leavers are gone.
    Closed {
        /// Longest time the application code of a rank was held, in microseconds.
        held_us: u64,
        /// Processes that did not come back from the meeting; their memory still holds their data.
        stuck: Vec<ProcessId>,
    },
}

/// What a voter tells a candidate about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The attempt it is engaged in or was left standing by, its plan, and whether it has agreed to it.
    pub engaged: Option<(Attempt, Plan, bool)>,
    /// Where its ranks stand for that attempt, if they may not go on by themselves.
    pub ceiling: Option<Iteration>,
    /// The newest decision it knows.
    pub decided: Option<(Attempt, Decision)>,
    /// Set when it has ended its ranks for good.
    pub lost: Option<Loss>,
}

/// Candidate for the lease ↔ voter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseMessage {
    /// Promise to obey no lower reign.
    Ask {
        /// The candidate's reign.
        reign: Reign,
    },
    Promise {
        /// The reign promised.
        reign: Reign,
        /// What the voter knows.
        standing: Box<Standing>,
    },
    /// A higher reign is known: stop coordinating.
    Stale {
        reign: Reign,
        /// Its candidate or holder.
        holder: NodeName,
    },
    /// A newer layout was committed than the one you speak of.
    Newer {
        layout: Box<Layout>,
        /// The attempt that made it.
        made_by: Attempt,
        /// The reign known in it.
        reign: Reign,
        holder: NodeName,
    },
    /// The sender holds the lease.
    Held { reign: Reign },
    /// Answer to `Held`: the sender goes by it.
    Obeyed { reign: Reign },
    /// The sender knows nothing of the job although it should: its machine was started anew.
    Forgot,
    /// The sender holds the lease but is no voter of the layout any more: take it over.
    Offer { reign: Reign },
}

/// Everything daemons say to each other about the reconfigurations of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReconfigurationMessage {
    /// Coordinator to participant.
    Order {
        /// Under which lease it is given.
        reign: Reign,
        attempt: Attempt,
        /// What to do.
        order: Order,
    },
    /// Participant to coordinator.
    Answer {
        attempt: Attempt,
        /// What was done.
        answer: Answer,
    },
    /// A fact, from anyone who knows it.
    Decided {
        attempt: Attempt,
        /// What became of it.
        decision: Decision,
        /// Ranks return to the ceiling and stay there: a relaunch will follow.
        stand: bool,
    },
    /// From a participant that has agreed and heard nothing since: what became of it?
    AskDecision { attempt: Attempt },
    /// The job is lost: end every process. Answered by `Buried`.
    Bury {
        /// Under which lease it is ordered.
        reign: Reign,
        loss: Loss,
    },
    /// Every process of the job here has ended.
    Buried,
    /// Outside any attempt, or too late for one: the job has lost something here.
    Lost {
        /// The layout it happened in.
        epoch: Epoch,
        loss: Loss,
    },
    /// About the lease.
    Lease(LeaseMessage),
}

/// A world as a rank needs to know it at the meeting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeetingWorld {
    pub world: WorldId,
    /// Its number of processes, all newcomers.
    pub size: u32,
    /// What its rank 0 said of it; empty when it is to connect to the old communicator's port.
    pub port: String,
}

/// Call to the meeting. Ranks of the transfer communicator: the old ranks, then the worlds in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeetOrder {
    /// The old communicator's size.
    pub old_size: u32,
    /// The port of the old communicator's rank 0, if it opened one.
    pub port: String,
    /// The worlds of newcomers, in the order in which they are joined.
    pub worlds: Vec<MeetingWorld>,
    /// For each new rank its rank in the transfer communicator.
    pub order: Vec<u32>,
    /// For each new rank the old one it continues.
    pub continues: Vec<Option<Rank>>,
    /// Shares of the new ranks; empty means equal.
    pub weights: Vec<u32>,
    /// How they join and how data moves.
    pub method: Method,
}

/// Daemon to rank, about a reconfiguration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReconfigurationOrder {
    /// Join and move.
    Meet {
        attempt: Attempt,
        /// Only a rank that stands exactly there may enter.
        ceiling: Iteration,
        meeting: Box<MeetOrder>,
        /// How long to wait for the decision once done.
        patience_us: u64,
    },
    /// Hand the data to the daemon.
    Park {
        attempt: Attempt,
        /// Only a rank that stands exactly there may do so.
        ceiling: Iteration,
        /// Number of ranks of the next layout, for regions that pack what each is to get.
        size_after: u32,
        /// How long to wait for the decision once done.
        patience_us: u64,
    },
    /// This is planned: constant data may travel now, and memory for what will come be made, while the rank iterates
    /// on.
    Ahead {
        attempt: Attempt,
        /// The meeting to come, without ports.
        meeting: Box<MeetOrder>,
    },
    /// The daemon was started again and may not have heard the last report: repeat it.
    Repeat,
    /// What became of the attempt.
    Decided {
        attempt: Attempt,
        /// Whether it was committed.
        committed: bool,
        /// The mode it was planned in: after the commit of a relaunch every old process ends.
        mode: Mode,
    },
}

/// What kept a rank from taking part in a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// The processes could not be joined.
    Joining,
    /// Memory, the network or MPI failed while data moved.
    Moving,
    /// What the program registered, or one of its hooks, does not allow the change in any way.
    Program,
}

/// Rank to daemon, about a reconfiguration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReconfigurationReport {
    /// A newcomer is initialised, or a restored process has its data.
    Ready {
        /// How its world is found, a text that only the library reads; empty when it opened no port.
        port: String,
    },
    /// The rank has the constant data and the memory it needs, or does without until the meeting; its own data can be
    /// had.
    Ahead {
        attempt: Attempt,
    },
    /// The rank waits at the ceiling and has not started this iteration.
    AtCeiling {
        iteration: Iteration,
        /// The port the communicator's rank 0 opened; empty otherwise.
        port: String,
    },
    Met {
        attempt: Attempt,
    },
    /// Its data has moved or is parked; the rank does nothing more until it hears the decision.
    Moved {
        attempt: Attempt,
        /// What left it.
        sent: Tally,
        /// What came to it.
        received: Tally,
    },
    /// It cannot take part; it stands at the ceiling again, or ends if it is a newcomer.
    Failed {
        attempt: Attempt,
        trouble: Trouble,
        /// What went wrong.
        reason: String,
    },
    /// It was not standing where the order said, or refuses an attempt it has left.
    NotStanding {
        attempt: Attempt,
    },
    /// It has carried out the decision: runs on, or stands at the ceiling again.
    Settled {
        attempt: Attempt,
        /// How long its application code has been held so far, in microseconds.
        held_us: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt() -> Attempt {
        Attempt {
            epoch: Epoch(1),
            term: Term(2),
            number: 3,
        }
    }

    #[test]
    fn attempts_are_ordered_as_they_were_made() {
        let first = attempt();
        let same_lease = Attempt { number: 4, ..first };
        let next_lease = Attempt {
            term: Term(3),
            number: 0,
            ..first
        };
        let next_layout = Attempt {
            epoch: Epoch(2),
            term: Term(2),
            number: 0,
        };
        assert!(first < same_lease && same_lease < next_lease && next_lease < next_layout);
    }

    #[test]
    fn tallies_of_all_senders_and_receivers_can_be_compared() {
        let part = Tally {
            bytes: Bytes(4),
            checksum: u64::MAX,
            ahead: Bytes(3),
        };
        let sum = part.plus(part);
        assert_eq!((sum.bytes, sum.checksum, sum.ahead), (Bytes(8), u64::MAX - 1, Bytes(6)));
    }
}
