//! Every limit of the protocol in one place, with the reason for its size.

use pcm_proto::layout::Mode;
use std::time::Duration;

/// Waits, periods and counts. The daemon uses [`Limits::default`]; tests and the simulator shorten them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For newcomers to start and initialise. MPI_Init takes 30–140 ms; a loaded node and a cold program file much
    /// more.
    pub prepare_max: Duration,
    /// For constant data to travel, and memory to be made, ahead of the meeting; what is not done by then is done
    /// there. Below
    /// `prepare_max`. At 500 MB/s of a link it is enough for 10 GB.
    pub ahead_max: Duration,
    /// For all ranks to stand at the ceiling. Must exceed a long iteration.
    pub converge_max: Duration,
    /// For accept, connect and merge. Takes 0.3–20 ms for each world.
    pub meet_max: Duration,
    /// For the data to move or to be parked: 1 GB/s moves 120 GB in this time.
    pub move_max: Duration,
    /// For a decision to be carried out everywhere. Above `settle_max` and `leave_max`, and long enough for a daemon
    /// to be started again meanwhile.
    pub close_max: Duration,
    /// Relaunch: for the new set to start and take up its data, while the old one stands.
    pub start_max: Duration,
    /// For one rank to take up the new layout or to come back from MPI.
    pub settle_max: Duration,
    /// For a leaver to run its exit hooks and end by itself; then it is ended.
    pub leave_max: Duration,
    /// Period in which the coordinator repeats what has not been answered; also its sign of life.
    pub resend_every: Duration,
    /// How long a participant goes without a sign of life of its coordinator: a few dozen `resend_every`, so that a
    /// daemon on a loaded node is not taken for dead.
    pub patience: Duration,
    /// Period in which a participant that has agreed asks what was decided, or reports a loss again.
    pub ask_every: Duration,
    /// How long a participant that has agreed asks before its ranks are ended: enough for a daemon to restart.
    pub undecided_max: Duration,
    /// The first voter tries for a lost lease after this time, the second after twice this time, and so on.
    pub candidate_step: Duration,
    /// How long a voter goes without a coordinator before its ranks are ended.
    pub orphan_max: Duration,
    /// How long a node that hosts ranks may be gone before the job is given up.
    pub gone_max: Duration,
    /// A rank at the ceiling that hears nothing goes on after this time; one that has agreed ends after the time its
    /// order gave it. Above everything its daemon could be doing meanwhile, a restart included.
    pub rank_max: Duration,
    /// New ceilings tried. The margin doubles each time, so this many outrun any rank.
    pub rounds_max: u32,
    /// Worlds in one communicator. MPICH 5.0.2 asserts at 100.
    pub worlds_in_communicator_max: u32,
    /// Worlds one process has met. MPICH 5.0.2 crashes at the 1,024th.
    pub worlds_met_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            prepare_max: Duration::from_secs(30),
            ahead_max: Duration::from_secs(20),
            converge_max: Duration::from_secs(120),
            meet_max: Duration::from_secs(10),
            move_max: Duration::from_secs(120),
            close_max: Duration::from_secs(30),
            start_max: Duration::from_secs(60),
            settle_max: Duration::from_secs(10),
            leave_max: Duration::from_secs(5),
            resend_every: Duration::from_millis(200),
            patience: Duration::from_secs(6),
            ask_every: Duration::from_millis(500),
            undecided_max: Duration::from_secs(30),
            candidate_step: Duration::from_millis(500),
            orphan_max: Duration::from_secs(30),
            gone_max: Duration::from_secs(15),
            rank_max: Duration::from_secs(180),
            rounds_max: 32,
            worlds_in_communicator_max: 90,
            worlds_met_max: 900,
        }
    }
}

impl Limits {
    /// How long a rank that has agreed waits for the decision before it ends.
    pub fn decision_patience(&self, mode: Mode) -> Duration {
        let starting = match mode {
            Mode::Live => Duration::ZERO,
            Mode::Relaunch => self.start_max,
        };
        self.move_max + starting + self.undecided_max + self.patience
    }
}
