//! [`Jobs`]: gives each job its inputs, one step after the other, and carries out what the job decides. A step has one
//! record, which comes before its first effect.

use super::data;
use super::heirs::Wills;
use super::numbering::Waiting;
use super::table::Table;
use super::testators::Testators;
use crate::job::at_node::{Effect, Input, Step};
use crate::job::coordinator;
use crate::job::ended::Ended;
use crate::node::context::Context;
use crate::node::layout_request::LayoutAsked;
use crate::node::methods::MethodBook;
use crate::node::numbers::Numbers;
use crate::node::queries::early_messages::EarlyMessages;
use crate::node::ranks::launch::Launcher;
use crate::node::record::{LostJob, Panics, Record};
use crate::node::requester::{LinkId, Requester};
use crate::node::store::image_key::ImageKey;
use crate::node::store::input::StoreInput;
use crate::node::timer::Timer;
use crate::reconfiguration::effects as change;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::JobStatus;
use pcm_proto::peer::{CoordinatorToNode, JobMessage, NodeToCoordinator, StreamToCoordinator};
use pcm_proto::refusal;
use pcm_proto::shortened::Shortened;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Job numbers remembered as over, so that a late order does not start them again.
const CLOSED_MAX: usize = 4096;

/// What the failure detector rounds, and the way of its news to a coordinator.
const GONE_IS_HEARD_WITHIN: Duration = Duration::from_secs(1);

/// See the file head.
pub(in crate::node) struct Jobs {
    pub(in crate::node) table: Table,
    pub(super) closed: VecDeque<JobId>,
    pub(super) numbers: Numbers,
    /// Requests for jobs that have no number yet.
    pub(super) unnumbered: Vec<Waiting>,
    /// Changes that name a node of which this one, just started, may hear yet.
    pub(super) unheard_of: Vec<(Requester, LayoutAsked)>,
    pub(super) ended: Ended,
    /// Jobs that this daemon could not read in the journal, as long as others have to hear of it.
    pub(super) lost: BTreeMap<JobId, LostJob>,
    pub(in crate::node) panics: Panics,
    pub(super) early: EarlyMessages,
    pub(super) wills: Wills,
    pub(super) testators: Testators,
    pub(super) launcher: Launcher,
    pub(super) methods: MethodBook,
    /// Whether the node was given notice: a signal may end its ranks before they have left.
    pub(in crate::node) is_taken_away: bool,
}

impl Jobs {
    pub(in crate::node) fn new(launcher: Launcher, numbers: Numbers) -> Self {
        Self {
            table: Table::default(),
            closed: VecDeque::new(),
            numbers,
            unnumbered: Vec::new(),
            unheard_of: Vec::new(),
            ended: Ended::default(),
            lost: BTreeMap::new(),
            panics: Panics::default(),
            early: EarlyMessages::default(),
            wills: Wills::default(),
            testators: Testators::default(),
            launcher,
            methods: MethodBook::default(),
            is_taken_away: false,
        }
    }

    /// Takes in how a job ended before this daemon was started.
    pub(in crate::node) fn remember_ended(&mut self, ended_us: u64, status: JobStatus) {
        self.close(status.job);
        self.ended.remember(ended_us, status);
    }

    pub(in crate::node) fn highest(&self) -> JobId {
        self.numbers.highest()
    }

    /// Remembers that a job is over here.
    pub(super) fn close(&mut self, job: JobId) {
        self.panics.forget(job);
        if !self.closed.contains(&job) {
            self.closed.push_back(job);
        }
        if self.closed.len() > CLOSED_MAX {
            self.closed.pop_front();
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

    /// Everything a successor would have to know of the jobs.
    pub(in crate::node) fn present(&mut self, now_us: u64) -> Vec<Record> {
        let mut records = Vec::from(self.numbers.records());
        let ended = self.ended.list(now_us);
        records.extend(ended.map(|status| Record::Ended {
            now_us,
            status: Box::new(status.clone()),
        }));
        for (job, known) in self.table.all() {
            records.push(Record::Job {
                job,
                entry: Box::new(known.machine.state()),
            });
            records.extend(known.led.iter().flat_map(|led| led.output.written_records()));
            records.extend(known.local.iter().flat_map(|local| local.output.printed_records()));
        }
        records.extend(self.panics.records());
        records
    }

    // Steps.

    /// Gives an input to a job's coordinator.
    pub(in crate::node) fn coordinate(&mut self, job: JobId, input: coordinator::Input, cx: &mut Context<'_>) {
        self.step(job, Input::Lead(input), cx);
    }

    pub(super) fn coordinate_all(
        &mut self,
        job: JobId,
        inputs: impl IntoIterator<Item = coordinator::Input>,
        cx: &mut Context<'_>,
    ) {
        for input in inputs {
            self.coordinate(job, input, cx);
        }
    }

    /// Gives an input to this node's part of a job.
    pub(in crate::node) fn participate(
        &mut self,
        job: JobId,
        input: crate::job::participant::Input,
        cx: &mut Context<'_>,
    ) {
        self.step(job, Input::Run(input), cx);
    }

    /// Gives an input to a job's reconfigurations.
    pub(in crate::node) fn reform(&mut self, job: JobId, input: change::Input, cx: &mut Context<'_>) {
        tracing::debug!(%job, input = %Shortened(&input));
        self.step(job, Input::Change(input), cx);
    }

    /// The same for every job that has ranks here.
    pub(in crate::node) fn reform_all(&mut self, input: &change::Input, cx: &mut Context<'_>) {
        for job in self.table.local_ids() {
            self.reform(job, input.clone(), cx);
        }
    }

    pub(super) fn step(&mut self, job: JobId, input: Input, cx: &mut Context<'_>) {
        let now = cx.now();
        let Some(known) = self.table.get_mut(job) else { return };
        if known.led.is_some() && cx.cluster.is_leaving() {
            // An heir leads it: what is decided here would be decided twice.
            return;
        }
        let step = known.machine.handle(now, input, cx.cluster.nodes());
        self.finish(job, step, cx);
    }

    pub(in crate::node) fn on_job_timer(&mut self, job: JobId, cx: &mut Context<'_>) {
        let now = cx.now();
        let Some(known) = self.table.get_mut(job) else { return };
        known.armed = None;
        if known.led.is_some() && cx.cluster.is_leaving() {
            return;
        }
        let step = known.machine.tick(now);
        self.finish(job, step, cx);
    }

    /// Writes the entry of a step down, carries out its effects, arms the job's timer, and tells the heirs.
    pub(super) fn finish(&mut self, job: JobId, step: Step, cx: &mut Context<'_>) {
        let Step {
            entry,
            effects,
            renews_will,
        } = step;
        if let Some(entry) = entry {
            let entry = Box::new(entry);
            cx.record(Record::Job { job, entry });
        }
        for effect in effects {
            match effect {
                Effect::Lead(effect) => self.carry_out_lead(job, effect, cx),
                Effect::Run(effect) => self.carry_out_run(job, effect, cx),
                Effect::Change(effect) => {
                    if let Some(known) = self.table.get_mut(job) {
                        known.carry_out_change(effect, cx);
                    }
                }
                Effect::SendHosts { to, nodes } => {
                    let known = cx.cluster.nodes();
                    let hosts = nodes.into_iter().map(|node| (node.clone(), known.host(&node)));
                    let hosts = CoordinatorToNode::Hosts(hosts.collect());
                    cx.send_job(&to, job, hosts);
                    let spec = self.table.coordinator(job).map(coordinator::Coordinator::spec);
                    let registered = spec.map(|spec| spec.registered.clone());
                    if let Some(registered) = registered.filter(|registered| !registered.is_empty()) {
                        cx.send_job(&to, job, CoordinatorToNode::Registered(registered));
                    }
                }
                Effect::ChangesGivenUp => {
                    if let Some(known) = self.table.get_mut(job) {
                        known.give_up_changes(cx);
                    }
                }
            }
        }
        self.arm(job, cx);
        if renews_will {
            self.leave_will(job, cx);
        }
    }

    fn arm(&mut self, job: JobId, cx: &mut Context<'_>) {
        let Some(known) = self.table.get_mut(job) else { return };
        let deadline = known.machine.deadline();
        if deadline != known.armed {
            known.armed = deadline;
            if let Some(at) = deadline {
                cx.out.arm_at(at, Timer::Job(job));
            }
        }
    }

    // Messages and links.

    /// A message about a job, for its coordinator or for this node's part of it.
    pub(in crate::node) fn on_message(
        &mut self,
        job: JobId,
        node: &NodeName,
        message: JobMessage,
        cx: &mut Context<'_>,
    ) {
        match message {
            JobMessage::ToNode(order) => self.on_order(job, node, order, cx),
            JobMessage::ToCoordinator(message) => self.on_report(job, node, message, cx),
            JobMessage::World(message) => self.on_world_message(job, node, message, cx),
            JobMessage::StreamToNode(message) => self.on_reader_said(job, node, message, cx),
            JobMessage::StreamToCoordinator(StreamToCoordinator::Output(piece)) => {
                self.on_output_piece(job, node, piece, cx);
            }
            JobMessage::StreamToCoordinator(StreamToCoordinator::StdinTaken { bytes }) => {
                if let Some((coordinator, led)) = self.table.led_with(job) {
                    led.stdin(coordinator, |stdin, view| stdin.on_taken(bytes, view, cx.out));
                }
            }
            JobMessage::Succession(message) => self.on_succession(job, node, message, cx),
            JobMessage::Reconfiguration(message) => self.on_reconfiguration_message(job, node, *message, cx),
            JobMessage::Image { name, message } => cx.store(data::of_node(ImageKey { job, name }, node, message)),
            JobMessage::Checkpoint(message) => self.on_checkpoint_message(job, node, *message, cx),
        }
    }

    fn on_report(&mut self, job: JobId, node: &NodeName, message: NodeToCoordinator, cx: &mut Context<'_>) {
        if self.table.leads(job) {
            let node = node.clone();
            self.coordinate(job, coordinator::Input::Said { node, message }, cx);
        } else if !cx.cluster.is_leaving() {
            // The job is over, or this is not its coordinator; either way the node need not keep it.
            cx.send_job(node, job, CoordinatorToNode::Close);
        }
    }

    /// A node is linked (again): says what it may have missed of the jobs coordinated here and of those it coordinates.
    pub(in crate::node) fn on_linked(&mut self, node: &NodeName, cx: &mut Context<'_>) {
        self.on_wills_linked(node, cx);
        self.say_lost(node, cx);
        let known: Vec<JobId> = self.table.all().map(|(job, _)| job).collect();
        for job in known {
            let effects = self.table.get(job).map(|known| known.machine.on_linked(node));
            let effects = effects.unwrap_or_default();
            let step = Step {
                effects,
                ..Step::default()
            };
            self.finish(job, step, cx);
            if let Some(known) = self.table.get_mut(job) {
                known.say_output_again(node, cx);
            }
            if let Some((coordinator, led)) = self.table.led_with(job)
                && coordinator.has_node(node)
            {
                led.output(coordinator, |output, view| output.ask(Some(node), view, cx.out));
            }
        }
    }

    /// Whether a job runs here and there, so that a broken link must be mended before there is something to say.
    pub(in crate::node) fn is_any_shared_with(&self, node: &NodeName) -> bool {
        let mut led = self.table.coordinators();
        let mut parts = self.table.parts();
        led.any(|(_, coordinator)| coordinator.has_node(node)) || parts.any(|(_, part)| part.has_part_with(node))
    }

    /// A node is gone: the jobs with processes there hear of it.
    pub(in crate::node) fn on_node_gone(&mut self, node: &NodeName, cx: &mut Context<'_>) {
        for job in self.table.led_ids() {
            if let Some((coordinator, led)) = self.table.led_with(job) {
                let inputs = led.leading.on_node_lost(node, coordinator, cx);
                self.coordinate_all(job, inputs, cx);
            }
        }
        cx.store(StoreInput::NodeGone { node: node.clone() });
        let with_node = self.table.coordinators();
        let with_node = with_node.filter(|(_, coordinator)| coordinator.has_node(node));
        for job in with_node.map(|(job, _)| job).collect::<Vec<_>>() {
            self.coordinate(job, coordinator::Input::NodeGone { node: node.clone() }, cx);
        }
        self.reform_all(&change::Input::NodeGone { node: node.clone() }, cx);
    }

    /// A node does not answer, so that it is taken for dead before long, or it answers again.
    pub(in crate::node) fn tell_silence(&mut self, node: &NodeName, is_silent: bool, cx: &mut Context<'_>) {
        let gone_by = cx.now().plus(cx.settings.spec.patience() + GONE_IS_HEARD_WITHIN);
        let gone_by_us = is_silent.then_some(gone_by.0);
        let led = self.table.coordinators();
        let with_ranks = led.filter(|(_, job)| job.is_enlisted(node) && (is_silent || job.is_silent(node)));
        for job in with_ranks.map(|(job, _)| job).collect::<Vec<_>>() {
            let node = node.clone();
            self.coordinate(job, coordinator::Input::Silent { node, gone_by_us }, cx);
        }
    }

    /// Doubt begins or ends.
    pub(in crate::node) fn tell_doubt(&mut self, is_in_doubt: bool, cx: &mut Context<'_>) {
        for job in self.table.led_ids() {
            self.coordinate(job, coordinator::Input::Doubt { is_in_doubt }, cx);
        }
    }

    // What other parts of the node read.

    /// The job that a `pcmctl` is attached to.
    pub(in crate::node) fn attached(&self, link: LinkId) -> Option<JobId> {
        let mut led = self.table.led_ids().into_iter();
        led.find(|job| self.table.led(*job).is_some_and(|led| led.link == Some(link)))
    }

    /// The links of all attached `pcmctl`.
    pub(in crate::node) fn links(&self) -> Vec<LinkId> {
        let led = self.table.led_ids().into_iter();
        led.filter_map(|job| self.table.led(job)?.link).collect()
    }

    /// Jobs that this node coordinates or remembers.
    pub(in crate::node) fn statuses(&mut self, now_us: u64) -> Vec<JobStatus> {
        let ended: Vec<JobStatus> = self.ended.list(now_us).cloned().collect();
        let led = self.table.coordinators().map(|(_, coordinator)| coordinator.status());
        led.chain(ended).collect()
    }

    pub(in crate::node) fn ended(&self, job: JobId) -> Option<&JobStatus> {
        self.ended.find(job)
    }

    /// The ranks of all jobs on this node; spares are none.
    pub(in crate::node) fn ranks_here(&self) -> usize {
        self.table.parts().map(|(_, part)| part.alive().count()).sum()
    }
}
