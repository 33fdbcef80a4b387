//! Standbys: processes of a job's program that are started before the job grows, and held before `MPI_Init` by the
//! keepers of the nodes where its next ranks will be placed. The leader says again and again how many it wants where;
//! what is not asked for again ends. So nothing of this is remembered, and nothing of the job depends on it.

use super::led::Led;
use super::placing::place_next;
use super::table::Table;
use crate::node::context::Context;
use crate::node::timer::{JobTimer, Timer};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::JobSpec;
use pcm_proto::keeper::{DaemonToKeeper, ProcessSpec, Standby};
use pcm_proto::peer::{CoordinatorToNode, NodeToCoordinator};
use std::collections::BTreeMap;
use std::time::Duration;

/// Well within the time for which a keeper holds standbys.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// A job that has just begun is looked at this soon; it has registered its data by then, mostly.
const FIRST_ASK_AFTER: Duration = Duration::from_secs(1);

/// What starts takes CPU time from what runs; a job that has just changed gets its first iterations.
const AFTER_CHANGE: Duration = Duration::from_millis(100);

/// Looks after the standbys of a job that this node begins to lead.
pub(super) fn begin(job: JobId, spec: &JobSpec, cx: &mut Context<'_>) {
    if has_standbys(spec) {
        let is_regular = true;
        cx.arm(FIRST_ASK_AFTER, Timer::Job(job, JobTimer::Standbys { is_regular }));
    }
}

/// The job has other ranks: some may have been standbys, and the next ones may be placed elsewhere.
pub(super) fn on_changed(led: &mut Led, job: JobId, spec: &JobSpec, cx: &mut Context<'_>) {
    if has_standbys(spec) {
        led.forget_standbys();
        let is_regular = false;
        cx.arm(AFTER_CHANGE, Timer::Job(job, JobTimer::Standbys { is_regular }));
    }
}

/// The programs of a job of several are fixed to its ranks, and their number stays.
fn has_standbys(spec: &JobSpec) -> bool {
    spec.spares > 0 && spec.commands.is_empty()
}

impl Table {
    /// Asks the nodes for standbys where the job's next ranks would be placed now.
    pub(super) fn ask_for_standbys(&mut self, job: JobId, is_regular: bool, cx: &mut Context<'_>) {
        let Some(coordinator) = self.coordinator(job) else {
            return;
        };
        if is_regular {
            cx.arm(ASK_EVERY, Timer::Job(job, JobTimer::Standbys { is_regular }));
        }
        if !coordinator.is_running() {
            // A job that starts again takes those that there are.
            return;
        }
        let spec = coordinator.spec();
        let mut wanted: BTreeMap<NodeName, u32> = BTreeMap::new();
        if spec.registered.has_begun && !cx.is_going_down {
            for share in place_next(self, coordinator, spec.spares, cx) {
                *wanted.entry(share.node).or_default() += share.count;
            }
        }
        for (node, count) in &wanted {
            let (count, spec) = (*count, Box::new(spec.clone()));
            cx.send_job(node, job, CoordinatorToNode::Standbys { count, spec });
        }
        if let Some((_, led)) = self.led_with(job) {
            for node in wanted.keys() {
                led.standbys.entry(node.clone()).or_default();
            }
            for (node, _) in led.standbys.extract_if(.., |node, _| !wanted.contains_key(node)) {
                cx.send_job(&node, job, CoordinatorToNode::EndStandbys);
            }
        }
    }

    /// A node says which it holds.
    pub(super) fn on_standbys_held(&mut self, job: JobId, node: &NodeName, standbys: Vec<Standby>) {
        if let Some((_, led)) = self.led_with(job)
            && let Some(known) = led.standbys.get_mut(node)
        {
            *known = standbys;
        }
    }
}

/// Leaders of jobs that asked for standbys here, until the keeper has said which it holds.
#[derive(Debug, Default)]
pub(super) struct Askers {
    nodes: BTreeMap<JobId, NodeName>,
}

impl Askers {
    pub(super) fn ask(&mut self, node: &NodeName, count: u32, order: ProcessSpec, cx: &mut Context<'_>) {
        if cx.is_going_down || cx.cluster.is_leaving() {
            return;
        }
        self.nodes.insert(order.key.job, node.clone());
        let spec = Box::new(order);
        cx.out.keeper(DaemonToKeeper::Standbys { count, spec });
    }

    pub(super) fn tell(&mut self, job: JobId, standbys: Vec<Standby>, cx: &mut Context<'_>) {
        if let Some(node) = self.nodes.remove(&job) {
            cx.send_job(&node, job, NodeToCoordinator::StandbysHeld(standbys));
        }
    }
}

/// A job is over.
pub(super) fn end(job: JobId, standbys: &BTreeMap<NodeName, Vec<Standby>>, cx: &mut Context<'_>) {
    for node in standbys.keys() {
        cx.send_job(node, job, CoordinatorToNode::EndStandbys);
    }
}
