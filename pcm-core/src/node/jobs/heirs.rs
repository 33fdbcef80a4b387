//! Wills: what a coordinator leaves with its heirs, and those that other nodes left here.

use crate::checkpoint::Filed;
use crate::job::coordinator::Coordinator;
use crate::job::inheriting::Progress;
use crate::node::context::Context;
use pcm_proto::frame::{self, FrameKind, HEADER_LENGTH, PAYLOAD_LENGTH_MAX};
use pcm_proto::ids::{Iteration, JobId, NodeName};
use pcm_proto::peer::{Heir, SuccessionMessage};
use std::collections::BTreeMap;

/// Heirs of a job: it goes on when its coordinator's node and one of these are lost at once.
pub(in crate::node) const HEIRS: usize = 2;

/// Jobs with a lost coordinator that are remembered, and such with a void will; a node knows no more of them at one
/// time.
const REIGNS_MAX: usize = 4096;

/// What the coordinator told its heirs last.
#[derive(Debug, Default)]
pub(in crate::node) struct Willed {
    pub(super) heirs: Vec<Heir>,
}

/// What a coordinator left here.
#[derive(Debug)]
pub(super) struct Will {
    pub(super) from: NodeName,
    pub(super) heirs: Vec<Heir>,
    pub(super) bytes: Vec<u8>,
    /// How far the job was.
    pub(super) progress: Progress,
    /// Whether its coordinator was asked if it is still good.
    pub(super) is_checked: bool,
}

impl Will {
    pub(super) fn new(from: NodeName, heirs: Vec<Heir>, bytes: Vec<u8>, progress: Progress) -> Self {
        Self {
            from,
            heirs,
            bytes,
            progress,
            is_checked: false,
        }
    }

    /// The heirs that would open it before this node.
    pub(super) fn heirs_before<'a>(&'a self, own: &NodeName) -> impl Iterator<Item = &'a Heir> {
        self.heirs.iter().take_while(move |heir| heir.node != *own)
    }
}

/// Wills that other nodes left here.
#[derive(Debug, Default)]
pub(in crate::node) struct Wills {
    pub(super) held: BTreeMap<JobId, Will>,
    /// The highest reigns of jobs whose coordinators' nodes were lost, and whose they are, by their heirs' account.
    reigns: BTreeMap<JobId, (u32, NodeName)>,
    /// Wills that were void: whose, and how far the job was.
    voided: BTreeMap<JobId, (NodeName, Progress)>,
}

impl Wills {
    /// The jobs of which a node left wills here.
    pub(super) fn of(&self, node: &NodeName) -> impl Iterator<Item = JobId> {
        let held = self.held.iter().filter(move |(_, will)| will.from == *node);
        held.map(|(job, _)| *job)
    }

    /// Whether a newer will of this coordinator came before this one, over another link, or another node has led the
    /// job since: a coordinator that was cut off does not know that.
    pub(super) fn is_outdated(&self, job: JobId, from: &NodeName, progress: Progress) -> bool {
        let held = self.held.get(&job).map(|will| (&will.from, will.progress));
        let newest = self.reign(job).max(held.map_or(0, |(_, progress)| progress.reign));
        if progress.reign < newest {
            return true;
        }
        let voided = self.voided.get(&job).map(|(from, progress)| (from, *progress));
        let mut known = held.into_iter().chain(voided);
        known.any(|(of, newest)| of == from && progress < newest)
    }

    /// A coordinator has other heirs, or its job is over.
    pub(super) fn void(&mut self, job: JobId, from: &NodeName) {
        if let Some(will) = self.held.get(&job).filter(|will| will.from == *from) {
            self.voided.insert(job, (from.clone(), will.progress));
            self.held.remove(&job);
        }
        if self.voided.len() > REIGNS_MAX {
            self.voided.pop_first();
        }
    }

    /// A node leads a job, so what coordinators before it left here is of no use.
    pub(super) fn on_led(&mut self, job: JobId, by: &NodeName, reign: u32) {
        let is_newest = |will: &Will| will.from == *by && will.progress.reign >= reign;
        if self.held.get(&job).is_some_and(|will| !is_newest(will)) {
            self.held.remove(&job);
        }
    }

    /// An heir says that it leads a job.
    pub(super) fn note_reign(&mut self, job: JobId, by: &NodeName, reign: u32) {
        if reign >= self.reign(job) {
            self.reigns.insert(job, (reign, by.clone()));
        }
        if self.reigns.len() > REIGNS_MAX {
            self.reigns.pop_first();
        }
    }

    pub(super) fn reign(&self, job: JobId) -> u32 {
        self.reigns.get(&job).map_or(0, |(reign, _)| *reign)
    }

    /// Whether a claim to lead a job is worth less than one that was heard before. Of two heirs with the same reign the
    /// first by name leads, as both of them see it; unless it is gone.
    pub(super) fn is_beaten(
        &self,
        job: JobId,
        by: &NodeName,
        reign: u32,
        may_live: impl Fn(&NodeName) -> bool,
    ) -> bool {
        let known = self.reigns.get(&job);
        known.is_some_and(|(highest, of)| reign < *highest || (reign == *highest && of < by && may_live(of)))
    }
}

impl Willed {
    /// Tells the heirs what they need to know.
    pub(super) fn leave(&mut self, coordinator: &Coordinator, filed: Vec<Filed>, cx: &mut Context<'_>) {
        let heirs = heirs(cx);
        let before = std::mem::replace(&mut self.heirs, heirs);
        for heir in before.iter().filter(|heir| !self.is_heir(&heir.node)) {
            cx.send_job(&heir.node, coordinator.job(), SuccessionMessage::WillVoid);
        }
        for heir in &self.heirs {
            self.send(&heir.node, coordinator, filed.clone(), cx);
        }
    }

    pub(super) fn is_heir(&self, node: &NodeName) -> bool {
        self.heirs.iter().any(|heir| heir.node == *node)
    }

    pub(super) fn send(&self, node: &NodeName, coordinator: &Coordinator, filed: Vec<Filed>, cx: &mut Context<'_>) {
        let job = coordinator.job();
        let filed = filed.into_iter().map(|one| (one.iteration, one.directory));
        let filed: Vec<(Iteration, Vec<u8>)> = filed.collect();
        let mut bytes = Vec::new();
        let content = (coordinator, filed);
        if let Err(error) = frame::encode(FrameKind::Message, &content, PAYLOAD_LENGTH_MAX / 2, &mut bytes) {
            return tracing::warn!(%job, %error, "the job would not outlive this node");
        }
        let heirs = self.heirs.clone();
        cx.send_job(node, job, SuccessionMessage::Will { heirs, bytes });
    }

    /// The job is over: it has no heirs.
    pub(super) fn void(&mut self, job: JobId, cx: &mut Context<'_>) {
        for heir in std::mem::take(&mut self.heirs) {
            cx.send_job(&heir.node, job, SuccessionMessage::WillVoid);
        }
    }
}

/// The heirs of jobs that this node leads.
pub(super) fn heirs(cx: &Context<'_>) -> Vec<Heir> {
    let nodes = cx.cluster.heirs(HEIRS).into_iter();
    let heirs = nodes.map(|node| Heir {
        boot: cx.cluster.nodes().boot(&node),
        node,
    });
    heirs.collect()
}

pub(super) type Content = (Coordinator, Vec<(Iteration, Vec<u8>)>);

/// What a will of a job says, or why it makes no sense.
pub(super) fn content(job: JobId, bytes: &[u8]) -> Result<Content, String> {
    let payload = bytes.get(HEADER_LENGTH..).unwrap_or_default();
    let content: Content = frame::decode(payload).map_err(|error| error.to_string())?;
    if content.0.job() != job {
        return Err(format!("it is that of job {}", content.0.job()));
    }
    content.0.fault().map_or(Ok(content), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::placement::{Placed, Share};
    use crate::node::layout_request::tests::spec;
    use pcm_proto::ids::Epoch;
    use pcm_proto::job::{JobSpec, RANKS_MAX};

    const JOB: JobId = JobId(1);

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn progress(stage: u8) -> Progress {
        let (reign, epoch) = (0, Epoch(3));
        Progress { reign, epoch, stage }
    }

    fn holding(stage: u8) -> Wills {
        let mut wills = Wills::default();
        let will = Will::new(node("n1"), Vec::new(), Vec::new(), progress(stage));
        wills.held.insert(JOB, will);
        wills
    }

    #[test]
    fn a_will_that_a_newer_one_of_the_same_coordinator_overtook_does_not_count() {
        let wills = holding(3);
        assert!(wills.is_outdated(JOB, &node("n1"), progress(1)));
        assert!(!wills.is_outdated(JOB, &node("n1"), progress(3)));
        assert!(
            !wills.is_outdated(JOB, &node("n2"), progress(1)),
            "another heir leads the job"
        );
    }

    /// Two of a cluster of three led a job behind a cut, the one with the lower reign outlived the other.
    #[test]
    fn a_will_of_a_coordinator_that_another_has_followed_does_not_count() {
        let of_reign = |reign| Progress { reign, ..progress(1) };
        let mut wills = holding(3);
        wills.held.get_mut(&JOB).unwrap().progress = of_reign(1);
        assert!(wills.is_outdated(JOB, &node("n2"), of_reign(0)));
        wills.on_led(JOB, &node("n1"), 1);
        assert!(wills.held.contains_key(&JOB), "its own claim came after its will");
        wills.on_led(JOB, &node("n2"), 2);
        wills.note_reign(JOB, &node("n2"), 2);
        assert!(wills.held.is_empty() && wills.is_outdated(JOB, &node("n1"), of_reign(1)));
        assert!(!wills.is_outdated(JOB, &node("n2"), of_reign(2)));
    }

    /// A node between two heirs that had opened one will behind a cut went over to the one that was going to give up.
    #[test]
    fn of_two_heirs_with_one_reign_the_first_by_name_leads() {
        let mut wills = Wills::default();
        wills.note_reign(JOB, &node("n2"), 1);
        let beats = |wills: &Wills, by: &str, reign| !wills.is_beaten(JOB, &node(by), reign, |_| true);
        assert!(beats(&wills, "n2", 1) && beats(&wills, "n1", 1) && beats(&wills, "n3", 2));
        assert!(!beats(&wills, "n3", 1) && !beats(&wills, "n1", 0));
        assert!(!wills.is_beaten(JOB, &node("n3"), 1, |_| false), "the other is gone");
    }

    #[test]
    fn a_will_that_comes_after_the_word_that_it_is_void_does_not_count() {
        let mut wills = holding(3);
        wills.void(JOB, &node("n2"));
        assert!(wills.held.contains_key(&JOB), "it is not the will of that node");
        wills.void(JOB, &node("n1"));
        assert!(wills.held.is_empty() && wills.is_outdated(JOB, &node("n1"), progress(1)));
    }

    /// A will as its coordinator leaves it.
    fn will(spec: JobSpec) -> Vec<u8> {
        let share = Share {
            node: node("n1"),
            count: spec.size,
            host: 7,
        };
        let (coordinator, _) = Coordinator::accept(JOB, node("n1"), spec, &Placed::on(vec![share]), 0);
        let filed: Vec<(Iteration, Vec<u8>)> = Vec::new();
        let (content, mut bytes) = ((coordinator, filed), Vec::new());
        frame::encode(FrameKind::Message, &content, PAYLOAD_LENGTH_MAX, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_will_that_makes_no_sense_is_not_believed() {
        let fault = |job, bytes: &[u8]| content(job, bytes).err();
        let sound = will(spec());
        assert_eq!(fault(JOB, &sound), None);
        assert!(fault(JobId(2), &sound).is_some(), "it is that of another job");
        assert!(fault(JOB, &sound[..100]).is_some() && fault(JOB, b"").is_some());
        let max = RANKS_MAX + 1;
        assert!(fault(JOB, &will(JobSpec { max, ..spec() })).is_some());
    }
}
