//! How a job outlives the node of its coordinator: what the coordinator tells its heirs beforehand, and how an heir
//! takes the job over. What runs of the job is ended and started again from the newest checkpoint, as after any crash;
//! a job without one is brought to a clear end. Knows nothing of who the heirs are.

use super::coordinator::{Coordinator, Effect};
use super::ending::GRACE_MS;
use super::phase::{NodeStage, Phase};
use crate::checkpoint::Fault;
use pcm_proto::event::EventKind;
use pcm_proto::fnv::fnv1a;
use pcm_proto::ids::{Epoch, Iteration, NodeName};
use pcm_proto::job::JobEnd;
use pcm_proto::peer::SuccessionMessage;

/// A will is older than the coordinator's last orders: numbers above it may be in use already. No job comes near these
/// numbers of processes and worlds between two wills.
const PROCESSES_AHEAD: u32 = 100_000;
const WORLDS_AHEAD: u32 = 10_000;

/// The same for layouts: the coordinator before may go on unseen, and what it and the heir lay out must differ, above
/// all in the stamps of checkpoints.
const EPOCHS_AHEAD: u64 = 1000;

/// Of two heirs behind a cut each may take the job over from a will of its own: what they lay out must differ, too. How
/// many times the steps above an heir is ahead follows from its name, because the wills need not name the same heirs. A
/// power of two: names that differ in their last letter never share a number.
const TIMES_MAX: u64 = 256;

fn times_ahead(heir: &NodeName) -> u32 {
    1 + (fnv1a(heir.as_str().bytes()) % TIMES_MAX) as u32
}

/// What makes a new will worth its bytes: when this is the same, an heir would do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gist {
    epoch: Epoch,
    restarts: u32,
    checkpoint: Option<Iteration>,
    nodes: usize,
    stage: u8,
}

/// How far a job is. It never goes back, so of two wills the one that is further is the newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Progress {
    pub(crate) reign: u32,
    pub(crate) epoch: Epoch,
    pub(crate) stage: u8,
}

impl Coordinator {
    pub fn progress(&self) -> Progress {
        Progress {
            reign: self.reign,
            epoch: self.epoch,
            stage: self.stage(),
        }
    }

    /// A phase that follows another in one epoch has a higher one.
    fn stage(&self) -> u8 {
        match self.phase {
            Phase::Starting => 0,
            Phase::Running => 1,
            Phase::Recovering(_) => 2,
            Phase::Ending(_) => 3,
            Phase::Ended(_) => 4,
        }
    }

    pub fn gist(&self) -> Gist {
        Gist {
            epoch: self.epoch,
            restarts: self.recovery.restarts,
            checkpoint: self.checkpoint(),
            nodes: self.nodes.len(),
            stage: self.stage(),
        }
    }

    /// The job as `own` leads it now, `lost` being the node that did before.
    pub fn inherit(mut self, own: NodeName, lost: &NodeName, now_us: u64) -> (Self, Vec<Effect>) {
        let times = times_ahead(&own);
        self.own = own;
        self.reign += 1;
        self.doubts_since_us = None;
        self.recovery.silent.clear();
        self.process_next = self.process_next.saturating_add(PROCESSES_AHEAD * times);
        self.world_next = self.world_next.saturating_add(WORLDS_AHEAD * times);
        self.epoch = Epoch(self.epoch.0 + EPOCHS_AHEAD * u64::from(times));
        self.spares.skip_numbers();
        let mut effects = vec![Effect::Note(EventKind::Inherited {
            from: lost.clone(),
            name: self.own.clone(),
        })];
        if let Some(stage) = self.nodes.get_mut(lost) {
            *stage = NodeStage::Gone;
        }
        let decided = self.decided_end();
        // A restart that was under way is begun anew, and an end that was decided is carried out anew.
        self.phase = Phase::Running;
        if let Some(end) = decided {
            self.begin_ending(now_us, end, GRACE_MS, &mut effects);
            return (self, effects);
        }
        let cause = format!("node {lost}, which coordinated the job, does not answer any more");
        let reason = format!("{cause}: see `pcmctl nodes` and the daemon's log on that node");
        self.crash(now_us, cause, (JobEnd { code: 1, reason }, Fault::Node), &mut effects);
        self.on_time(now_us, &mut effects);
        (self, effects)
    }

    /// What the new coordinator says to every node.
    pub fn claim(&self) -> SuccessionMessage {
        SuccessionMessage::Led { reign: self.reign }
    }
}
