//! How a job outlives the node of its coordinator: what the coordinator tells its heirs beforehand, and how an heir
//! takes the job over. What runs of the job is ended and started again from the newest checkpoint, as after any crash;
//! a job without one is brought to a clear end. Knows nothing of who the heirs are.

use super::coordinator::{Coordinator, Effect, processes_of};
use super::ending::GRACE_MS;
use super::phase::{NodeStage, Phase};
use crate::checkpoint::Fault;
use pcm_proto::event::EventKind;
use pcm_proto::fnv::fnv1a;
use pcm_proto::ids::{Epoch, Iteration, NodeName};
use pcm_proto::job::{JobEnd, RANKS_MAX};
use pcm_proto::peer::SuccessionMessage;
use pcm_proto::sound::{self, fault_of_order, fault_of_spec};

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

    /// What is wrong with this state as another node wrote it, if anything: what its parts say of each other is taken
    /// for granted from then on.
    pub fn fault(&self) -> Option<sound::Fault> {
        let orders = self.orders.values().map(|open| &open.order);
        let fault = fault_of_spec(&self.spec).or_else(|| orders.clone().find_map(fault_of_order));
        if fault.is_some() {
            return fault;
        }
        let (ranks, reign, epoch) = (self.layout.len(), self.reign, self.epoch);
        if ranks > RANKS_MAX as usize || reign > u32::MAX / 2 || epoch.0 > u64::MAX / 2 {
            return Some(format!("{ranks} ranks in epoch {epoch} under coordinator {reign}"));
        }
        let mut named = self.layout.iter().copied().chain(orders.flat_map(processes_of));
        let unknown = named.find(|process| !self.processes.contains_key(process))?;
        Some(format!("process {unknown} is none of its processes"))
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
        // Nodes say again what is left there; one that is back as a new node does not know what it had said before.
        for stage in self.nodes.values_mut().filter(|stage| **stage == NodeStage::Emptied) {
            *stage = NodeStage::Active;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::placement::{Placed, Share};
    use crate::node::layout_request::tests::spec;
    use pcm_proto::ids::{JobId, ProcessId};

    #[test]
    fn a_state_whose_parts_do_not_fit_each_other_is_not_believed() {
        let fault = |spoil: fn(&mut Coordinator)| {
            let node = NodeName::new("n1").unwrap();
            let (count, host) = (2, 7);
            let share = Share {
                node: node.clone(),
                count,
                host,
            };
            let (mut state, _) = Coordinator::accept(JobId(1), node, spec(), &Placed::on(vec![share]), 0);
            spoil(&mut state);
            state.fault()
        };
        assert_eq!(fault(|_| {}), None);
        let elsewhere = fault(|state| {
            let open = state.orders.values_mut().next().unwrap();
            open.order.worlds[0].runs[0].node = 7;
        });
        assert!(elsewhere.unwrap().contains("no node number 7"));
        let unknown = fault(|state| _ = state.processes.remove(&ProcessId(1)));
        assert!(unknown.unwrap().contains("process 1"));
        assert!(fault(|state| state.layout = vec![ProcessId(0); RANKS_MAX as usize + 1]).is_some());
        assert!(fault(|state| state.reign = u32::MAX).is_some());
        assert!(fault(|state| state.spec.spares = u32::MAX).is_some());
    }
}
