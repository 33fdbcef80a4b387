//! Jobs that are over here: those whose late orders must not start them again, how the last ones ended, and those that
//! could not be read in the journal, as long as others have to hear of them.

use crate::job::ended::Ended;
use crate::node::context::Context;
use crate::node::record::{LostJob, Panics, Record};
use crate::node::requester::Requester;
use crate::node::store::input::StoreInput;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::JobStatus;
use pcm_proto::keeper::DaemonToKeeper;
use pcm_proto::peer::{CoordinatorToNode, NodeToCoordinator};
use pcm_proto::refusal;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Job numbers remembered as over, so that a late order does not start them again.
const CLOSED_MAX: usize = 4096;

/// See the file head.
#[derive(Debug, Default)]
pub(in crate::node) struct PastJobs {
    closed: VecDeque<JobId>,
    ended: Ended,
    lost: BTreeMap<JobId, LostJob>,
    panics: Panics,
}

impl PastJobs {
    /// A job is over here.
    pub(super) fn close(&mut self, job: JobId) {
        self.panics.forget(job);
        if !self.closed.contains(&job) {
            self.closed.push_back(job);
        }
        if self.closed.len() > CLOSED_MAX {
            self.closed.pop_front();
        }
    }

    pub(super) fn is_closed(&self, job: JobId) -> bool {
        self.closed.contains(&job)
    }

    /// A job that was over here starts again.
    pub(super) fn reopen(&mut self, job: JobId) {
        self.closed.retain(|closed| *closed != job);
    }

    /// Others have heard of a job that was lost here.
    pub(super) fn forget_lost(&mut self, job: JobId) {
        self.lost.remove(&job);
    }

    /// Takes in how a job ended before this daemon was started.
    pub(in crate::node) fn remember(&mut self, ended_us: u64, status: JobStatus) {
        self.close(status.job);
        self.ended.remember(ended_us, status);
    }

    /// Takes in at which jobs earlier daemons panicked.
    pub(in crate::node) fn remember_panics(&mut self, panics: Panics) {
        self.panics = panics;
    }

    /// A job that was led here has ended.
    pub(super) fn end(&mut self, status: JobStatus, cx: &mut Context<'_>) {
        let now_us = cx.now().0;
        cx.record(Record::Ended {
            now_us,
            status: Box::new(status.clone()),
        });
        self.ended.remember(now_us, status);
    }

    /// How a job ended, if this node led it.
    pub(in crate::node) fn find(&self, job: JobId) -> Option<&JobStatus> {
        self.ended.find(job)
    }

    /// How jobs ended, oldest first.
    pub(super) fn statuses(&mut self, now_us: u64) -> Vec<JobStatus> {
        self.ended.list(now_us).cloned().collect()
    }

    /// Those that ended under an heir, with the reign of their last coordinator.
    pub(super) fn inherited(&self) -> Vec<(JobId, u32)> {
        self.ended.inherited()
    }

    /// A later coordinator leads a job that ended here.
    pub(super) fn on_led(&mut self, job: JobId, reign: u32) {
        if self.ended.find(job).is_some_and(|status| status.reign < reign) {
            self.ended.forget(job);
        }
    }

    pub(in crate::node) fn refuse_unknown(&self, from: Requester, job: JobId, cx: &mut Context<'_>) {
        match self.ended.find(job) {
            Some(_) => cx.refuse(
                from,
                refusal::JOB_ENDED,
                format!("job {job} has ended: `pcmctl jobs --all` says how"),
            ),
            None => cx.refuse(
                from,
                refusal::UNKNOWN_JOB,
                format!("there is no job {job}: `pcmctl jobs` lists all"),
            ),
        }
    }

    /// Ends what is left here of jobs whose records could not be read, and says so.
    pub(in crate::node) fn give_up_lost(&mut self, lost: BTreeMap<JobId, LostJob>, cx: &mut Context<'_>) {
        for (job, LostJob { reason, led, .. }) in &lost {
            let job = *job;
            tracing::error!(%job, reason, "the job is lost");
            self.close(job);
            cx.out.keeper(DaemonToKeeper::EndJob { job });
            let Some((status, _)) = led else {
                cx.store(StoreInput::JobEmptied { job });
                continue;
            };
            cx.store(StoreInput::JobOver { job });
            self.end(status.clone(), cx);
            let (code, reason) = (1, reason.clone());
            cx.note(Some(job), status.epoch, EventKind::JobEnded { code, reason });
        }
        let nodes = lost
            .values()
            .flat_map(|lost| lost.led.iter().flat_map(|(_, nodes)| nodes));
        let nodes = nodes.chain(lost.values().filter_map(|lost| lost.leader.as_ref()));
        let nodes: BTreeSet<NodeName> = nodes.cloned().collect();
        self.lost = lost;
        for node in nodes.iter().filter(|node| **node != cx.settings.own) {
            self.say_lost(node, cx);
        }
    }

    /// A node hears of the jobs that were lost here: the one that leads a job, or those that run a job led here.
    pub(super) fn say_lost(&self, node: &NodeName, cx: &mut Context<'_>) {
        for (job, lost) in &self.lost {
            if lost.leader.as_ref() == Some(node) {
                let reason = lost.reason.clone();
                cx.send_job(node, *job, NodeToCoordinator::Lost { reason });
            }
            if lost.led.as_ref().is_some_and(|(_, nodes)| nodes.contains(node)) && *node != cx.settings.own {
                cx.send_job(node, *job, CoordinatorToNode::Close);
            }
        }
    }

    /// What a successor has to know of the panics.
    pub(super) fn panic_records(&self) -> impl Iterator<Item = Record> + '_ {
        self.panics.records()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::{Details, LocalNode, Membership};
    use crate::moment::Moment;
    use crate::node::cluster::nodes::Nodes;
    use crate::node::outbox::Effect;
    use crate::node::ranks::launch::InFront;
    use crate::node::record::Past;
    use crate::node::store::route::AllowedRoutes;
    use crate::node::{Beginnings, Heritage, Node};
    use crate::reconfiguration::limits::Limits;
    use pcm_proto::boot::{BootSpec, NodeSpec, Reach};
    use pcm_proto::control::NodeState;
    use pcm_proto::fabric::{FabricReport, FabricWish};
    use pcm_proto::handshake::PROTOCOL_VERSION;
    use pcm_proto::ids::Epoch;
    use pcm_proto::job::{JobState, JobStatus};
    use pcm_proto::peer::{DaemonToDaemon, JobMessage, NodeReport};
    use pcm_proto::secret::Secret;
    use std::time::Duration;

    fn name(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn node(now: Moment) -> Node {
        let (own, address) = (name("n0"), "host:1".to_owned());
        let spec = BootSpec {
            version: PROTOCOL_VERSION,
            cluster_id: "c0ffee".to_owned(),
            cluster_dir: "/cluster".into(),
            key: Secret::default(),
            node: NodeSpec {
                name: own.clone(),
                address: address.clone(),
                site: "here".to_owned(),
                cpus: vec![0],
                reach: Reach::Local,
            },
            subtree: Vec::new(),
            seeds: Vec::new(),
            fabric: FabricWish::default(),
            is_rdma_sealed: false,
            patience_ms: 5000,
        };
        let local = LocalNode {
            node: own.clone(),
            boot: now.0,
            details: Details {
                address: address.clone(),
                site: "here".to_owned(),
                cpus: vec![0],
                host: 7,
                ud: None,
            },
            patience: spec.patience(),
        };
        let members = Membership::new(local, Vec::new(), Duration::from_micros(now.0));
        let report = NodeReport {
            node: own.clone(),
            address: address.clone(),
            site: "here".to_owned(),
            cpus: vec![0],
            state: NodeState::Up,
            host: 7,
            host_name: "host".to_owned(),
            speed: 0.0,
            load_by_others: 0.0,
            ranks: 0,
            free_memory: 0,
            daemon_pid: 1,
            highest_job: JobId(0),
            keeper_since_us: 1,
            fabric: FabricReport::default(),
            ends: None,
        };
        Node::new(Beginnings {
            address,
            cpus: vec![0],
            now,
            limits: Limits::default(),
            notice: Duration::from_secs(8),
            libraries: InFront::default(),
            nodes: Nodes::new(report, members),
            numbers: Past::new(own, Limits::default()).numbers,
            has_device: false,
            routes: AllowedRoutes::default(),
            bulk: None,
            spec,
        })
    }

    #[test]
    fn jobs_that_were_lost_are_ended_here_and_their_nodes_and_leaders_hear_of_it() {
        let (led, followed) = (JobId(1), JobId(2));
        let status = JobStatus {
            job: led,
            name: "test".to_owned(),
            state: JobState::Ended,
            epoch: Epoch(3),
            size: 2,
            nodes: Vec::new(),
            started_us: 5,
            end: None,
            coordinator: name("n0"),
            reign: 0,
            spares: Vec::new(),
        };
        let reason = "it panicked".to_owned();
        let mut past = Past::new(name("n0"), Limits::default());
        let here = LostJob {
            reason: reason.clone(),
            led: Some((status, vec![name("n0"), name("n2")])),
            leader: None,
        };
        let elsewhere = LostJob {
            reason: reason.clone(),
            led: None,
            leader: Some(name("n1")),
        };
        past.lost = BTreeMap::from([(led, here), (followed, elsewhere)]);
        let mut node = node(Moment(10));
        let effects = node.begin(Heritage {
            restarts: 1,
            held: Vec::new(),
            parked: Vec::new(),
            buffers: Vec::new(),
            past,
        });
        let (mut ends, mut words) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Keeper(DaemonToKeeper::EndJob { job }) => ends.push(job),
                Effect::Send {
                    node,
                    message: DaemonToDaemon::Job { job, message },
                } => words.push((node, job, *message)),
                Effect::Note {
                    job,
                    kind: EventKind::JobEnded { reason: told, .. },
                    ..
                } => assert_eq!((job, told), (Some(led), reason.clone())),
                _ => {}
            }
        }
        assert_eq!(ends, [led, followed]);
        let lost = NodeToCoordinator::Lost { reason };
        let wanted = [
            (name("n1"), followed, JobMessage::ToCoordinator(lost)),
            (name("n2"), led, JobMessage::ToNode(CoordinatorToNode::Close)),
        ];
        assert_eq!(words, wanted);
        let present = node.present();
        let is_ended = |record: &Record| matches!(record, Record::Ended { status, .. } if status.job == led);
        assert!(present.iter().any(is_ended));
        assert!(!present.iter().any(|record| matches!(record, Record::Job { .. })));
    }
}
