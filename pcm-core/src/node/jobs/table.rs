//! The jobs that this node leads or runs processes of, and those that are over. Each has one machine, and beside that
//! machine what belongs to the leader and what belongs to the processes here.

use super::led::Led;
use super::local::Local;
use super::past::PastJobs;
use crate::job::at_node::JobAtNode;
use crate::job::coordinator::Coordinator;
use crate::job::participant::Participant;
use crate::moment::Moment;
use crate::node::queries::early_messages::EarlyMessages;
use crate::node::ranks::launch::Launcher;
use crate::node::record::Record;
use crate::node::requester::LinkId;
use pcm_proto::ids::{JobId, NodeName, ProcessId, Rank};
use pcm_proto::job::JobStatus;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::link::LINKS_OF_JOB_MAX;
use std::collections::BTreeMap;

/// A job at this node.
#[derive(Debug)]
pub(in crate::node) struct Job {
    pub(in crate::node) id: JobId,
    pub(in crate::node) machine: JobAtNode,
    /// Where this node leads the job.
    pub(in crate::node) led: Option<Led>,
    /// Where the job has processes here, or had.
    pub(in crate::node) local: Option<Local>,
    /// The deadline for which a timer is armed.
    pub(in crate::node) armed: Option<Moment>,
}

impl Job {
    /// Everything a successor would have to know of the job.
    fn records(&self) -> Vec<Record> {
        let entry = Box::new(self.machine.state());
        let mut records = vec![Record::Job { job: self.id, entry }];
        records.extend(self.led.iter().flat_map(|led| led.output.written_records()));
        records.extend(self.local.iter().flat_map(|local| local.output.printed_records()));
        records
    }
}

/// See the file head.
pub(in crate::node) struct Table {
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(in crate::node) past: PastJobs,
    /// Words about jobs of which the first order is still on its way.
    pub(super) early: EarlyMessages,
    pub(super) launcher: Launcher,
    /// The job that the present event led to last: a panic is that job's.
    touched: Option<JobId>,
}

impl Table {
    pub(in crate::node) fn new(launcher: Launcher) -> Self {
        Self {
            jobs: BTreeMap::new(),
            past: PastJobs::default(),
            early: EarlyMessages::default(),
            launcher,
            touched: None,
        }
    }

    pub(in crate::node) fn insert(&mut self, job: JobId, machine: JobAtNode) -> &mut Job {
        self.touched = Some(job);
        self.jobs.entry(job).or_insert(Job {
            id: job,
            machine,
            led: None,
            local: None,
            armed: None,
        })
    }

    pub(in crate::node) fn get(&self, job: JobId) -> Option<&Job> {
        self.jobs.get(&job)
    }

    pub(in crate::node) fn get_mut(&mut self, job: JobId) -> Option<&mut Job> {
        self.touched = Some(job);
        self.jobs.get_mut(&job)
    }

    /// Another event is handled.
    pub(in crate::node) fn touch_none(&mut self) {
        self.touched = None;
    }

    pub(in crate::node) fn touched(&self) -> Option<JobId> {
        self.touched
    }

    pub(in crate::node) fn all(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs.iter().map(|(job, known)| (*job, known))
    }

    /// Whether no job is led from here and none has processes here.
    pub(in crate::node) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether this node leads a job.
    pub(in crate::node) fn leads(&self, job: JobId) -> bool {
        self.coordinator(job).is_some()
    }

    /// Whether a job has processes here, or had.
    pub(in crate::node) fn runs(&self, job: JobId) -> bool {
        self.part(job).is_some()
    }

    /// The jobs that this node leads.
    pub(in crate::node) fn coordinators(&self) -> impl Iterator<Item = (JobId, &Coordinator)> {
        self.all()
            .filter_map(|(job, known)| Some((job, known.machine.coordinator()?)))
    }

    pub(in crate::node) fn led_ids(&self) -> Vec<JobId> {
        self.coordinators().map(|(job, _)| job).collect()
    }

    /// The jobs with processes here.
    pub(in crate::node) fn parts(&self) -> impl Iterator<Item = (JobId, &Participant)> {
        self.all().filter_map(|(job, known)| Some((job, known.machine.part()?)))
    }

    pub(in crate::node) fn local_ids(&self) -> Vec<JobId> {
        self.parts().map(|(job, _)| job).collect()
    }

    pub(in crate::node) fn coordinator(&self, job: JobId) -> Option<&Coordinator> {
        self.get(job)?.machine.coordinator()
    }

    pub(in crate::node) fn part(&self, job: JobId) -> Option<&Participant> {
        self.get(job)?.machine.part()
    }

    pub(in crate::node) fn led(&self, job: JobId) -> Option<&Led> {
        self.get(job)?.led.as_ref()
    }

    pub(in crate::node) fn led_with(&mut self, job: JobId) -> Option<(&Coordinator, &mut Led)> {
        let known = self.get_mut(job)?;
        Some((known.machine.coordinator()?, known.led.as_mut()?))
    }

    pub(in crate::node) fn local_mut(&mut self, job: JobId) -> Option<&mut Local> {
        self.get_mut(job)?.local.as_mut()
    }

    /// This node leads a job no more.
    pub(in crate::node) fn stop_leading(&mut self, job: JobId) -> Option<(Coordinator, Led)> {
        let known = self.get_mut(job)?;
        let stopped = known.machine.stop_leading().zip(known.led.take());
        self.forget_if_done(job);
        stopped
    }

    /// Nothing of a job is left here.
    pub(in crate::node) fn stop_running(&mut self, job: JobId) -> Option<Local> {
        let known = self.get_mut(job)?;
        known.machine.stop_running();
        let stopped = known.local.take();
        self.forget_if_done(job);
        stopped
    }

    fn forget_if_done(&mut self, job: JobId) {
        let is_done = |known: &Job| known.machine.coordinator().is_none() && known.machine.part().is_none();
        if self.get(job).is_some_and(is_done) {
            self.jobs.remove(&job);
        }
    }

    /// The job that a `pcmctl` is attached to.
    pub(in crate::node) fn attached(&self, link: LinkId) -> Option<JobId> {
        let mut led = self.led_ids().into_iter();
        led.find(|job| self.led(*job).is_some_and(|led| led.attachment.link() == Some(link)))
    }

    /// The links of all attached `pcmctl`.
    pub(in crate::node) fn links(&self) -> Vec<LinkId> {
        let led = self.led_ids().into_iter();
        led.filter_map(|job| self.led(job)?.attachment.link()).collect()
    }

    /// A job that this node leads.
    pub(in crate::node) fn status(&self, job: JobId) -> Option<JobStatus> {
        let (coordinator, led) = (self.coordinator(job)?, self.led(job)?);
        let mut status = coordinator.status();
        status.spares.extend(led.standby_rows(coordinator));
        Some(status)
    }

    /// Jobs that this node leads or remembers.
    pub(in crate::node) fn statuses(&mut self, now_us: u64) -> Vec<JobStatus> {
        let ended = self.past.statuses(now_us);
        let led = self.led_ids().into_iter().filter_map(|job| self.status(job));
        led.chain(ended).collect()
    }

    /// Everything a successor would have to know of the jobs.
    pub(super) fn records(&mut self, now_us: u64) -> Vec<Record> {
        let ended = self.past.statuses(now_us).into_iter().map(|status| Record::Ended {
            now_us,
            status: Box::new(status),
        });
        let mut records: Vec<Record> = ended.collect();
        records.extend(self.jobs.values().flat_map(Job::records));
        records.extend(self.past.panic_records());
        records
    }

    // Of all jobs with processes here.

    /// The ranks of all jobs; spares are none.
    pub(in crate::node) fn ranks_here(&self) -> usize {
        self.parts().map(|(_, part)| part.alive().count()).sum()
    }

    /// The ranks of each job that is not ending.
    pub(in crate::node) fn ranks_by_job(&self) -> Vec<(JobId, BTreeMap<ProcessId, Rank>)> {
        let jobs = self.all().filter_map(|(job, known)| {
            let is_ending = known.machine.part()?.is_ending();
            let members = known.machine.layout()?.members.iter().zip(0..);
            let ranks = members.map(|(member, rank)| (member.process, Rank(rank))).collect();
            (!is_ending).then_some((job, ranks))
        });
        jobs.collect()
    }

    /// The processes that live.
    pub(in crate::node) fn pids(&self) -> Vec<(ProcessKey, u32)> {
        let ranks = self.all().flat_map(|(job, known)| {
            let key = move |process| ProcessKey { job, process };
            let alive = known.machine.part().into_iter().flat_map(Participant::alive);
            alive.filter_map(move |process| Some((key(process), known.local.as_ref()?.ranks.pid(process)?)))
        });
        ranks.collect()
    }

    /// When each process was first seen that lives and has not initialised MPI.
    pub(in crate::node) fn starting_since(&self) -> impl Iterator<Item = Moment> + '_ {
        self.all().flat_map(|(_, known)| {
            let alive = known.machine.part().into_iter().flat_map(Participant::alive);
            alive.filter_map(|process| known.local.as_ref()?.ranks.starting_since(process))
        })
    }

    /// Of each job the coordinator, then the nodes whose ranks come after those here.
    pub(in crate::node) fn nodes_of_parts(&self, own: &NodeName) -> Vec<NodeName> {
        let mut found = Vec::new();
        for (_, known) in self.all() {
            let (Some(part), Some(layout)) = (known.machine.part(), known.machine.layout()) else {
                continue;
            };
            if part.is_ending() {
                continue;
            }
            let mut nodes = layout.nodes();
            let position = nodes.iter().position(|node| node == own);
            nodes.rotate_left(position.map_or(0, |position| position + 1));
            let next = nodes.into_iter().take(LINKS_OF_JOB_MAX - 1);
            found.extend([part.coordinator().clone()].into_iter().chain(next));
        }
        found
    }
}
