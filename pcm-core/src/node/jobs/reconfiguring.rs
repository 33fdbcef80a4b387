//! Drives this daemon's part in the reconfigurations of each job: what the machine of [`crate::reconfiguration`]
//! decides is carried out here in its order, the record first.

use crate::job::{coordinator, participant, worlds};
use crate::node::machine::Node;
use crate::node::ranks::effect::RankEffect;
use crate::node::record::Record;
use crate::node::requester::Requester;
use crate::node::store::input::StoreInput;
use crate::node::timer::Timer;
use crate::reconfiguration::effects::{Effect, EndCause, Input, Report};
use crate::reconfiguration::limits::Limits;
use crate::reconfiguration::reconfigurer::Reconfigurer;
use crate::reconfiguration::record::JobRecord;
use pcm_proto::app::DaemonToApp;
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{JobId, NodeName, ProcessId, Rank, WorldId};
use pcm_proto::keeper::{ExitStatus, ProcessKey};
use pcm_proto::layout::{Layout, Member};
use pcm_proto::parked::ParkKey;
use pcm_proto::peer::{CoordinatorToNode, JobMessage, MpiStage, NodeToCoordinator, StartOrder};
use pcm_proto::reconfiguration::{Attempt, Order, ReconfigurationMessage};
use pcm_proto::refusal;
use pcm_proto::shortened::Shortened;
use std::collections::{BTreeMap, BTreeSet};

/// Time between SIGTERM and SIGKILL for the processes of a lost job.
const LOST_GRACE_MS: u32 = 500;

/// A job's reconfigurations on this daemon.
pub(in crate::node) struct Reforming {
    machine: Reconfigurer,
    /// Processes of the last layout known.
    members: BTreeSet<ProcessId>,
    /// Who asked for what is under way.
    requesters: BTreeMap<Attempt, Requester>,
    /// Who asks at this moment.
    asking: Option<Requester>,
}

impl Reforming {
    fn new(machine: Reconfigurer) -> Self {
        let members = machine.layout().map(members_of).unwrap_or_default();
        Self {
            machine,
            members,
            requesters: BTreeMap::new(),
            asking: None,
        }
    }

    /// For a node that a first order tells of a job. The effects are for [`Daemon::carry_out_reform`].
    pub(in crate::node) fn at_start(own: &NodeName, order: &StartOrder, limits: Limits) -> (Self, Vec<Effect>) {
        let (machine, effects) = if order.layout.is_empty() {
            let machine = Reconfigurer::at_first_message(own.clone(), order.coordinator.clone(), limits);
            (machine, Vec::new())
        } else {
            Reconfigurer::at_start(
                own.clone(),
                order.coordinator.clone(),
                worlds::first_layout(order),
                limits,
            )
        };
        (Self::new(machine), effects)
    }

    /// Until the record of a part from the journal is taken up.
    pub(in crate::node) fn unknown(own: &NodeName, coordinator: &NodeName, limits: Limits) -> Self {
        Self::new(Reconfigurer::at_first_message(own.clone(), coordinator.clone(), limits))
    }

    pub(in crate::node) fn record(&self) -> &JobRecord {
        self.machine.record()
    }

    /// Whether a reconfiguration is under way, as its coordinator knows.
    pub(in crate::node) fn is_under_way(&self) -> bool {
        self.machine.under_way().is_some()
    }

    /// The layout that counts, as far as it is known here.
    pub(in crate::node) fn layout(&self) -> Option<&Layout> {
        self.machine.layout()
    }
}

fn members_of(layout: &Layout) -> BTreeSet<ProcessId> {
    layout.members.iter().map(|member| member.process).collect()
}

impl Node {
    /// Gives an input to the job's machine and carries out what follows.
    pub(in crate::node) fn reform(&mut self, job: JobId, input: Input) {
        let now = self.out.now();
        let Some(part) = self.parts.get_mut(&job) else { return };
        // A job that is being ended is not reconfigured any more; the machine's own timers lead here, too.
        if part.state.is_ending() {
            return self.reform_given_up(job);
        }
        tracing::debug!(%job, input = %Shortened(&input));
        let effects = part.reforming.machine.on_input(now, input);
        self.carry_out_reform(job, effects);
    }

    /// Carries out what a machine wants.
    pub(in crate::node) fn carry_out_reform(&mut self, job: JobId, effects: Vec<Effect>) {
        for effect in effects {
            tracing::debug!(%job, effect = %Shortened(&effect));
            match effect {
                Effect::Persist(record) => self.persist_reform(job, record),
                Effect::Send { to, message } => self.send_reform(job, to, message),
                Effect::StartWorld {
                    world,
                    members,
                    layout,
                    restored,
                    ..
                } => {
                    self.start_newcomers(job, world, &members, &layout, restored);
                }
                Effect::SetCeiling { process, ceiling } => {
                    let key = ProcessKey { job, process };
                    self.out.rank(RankEffect::SetCeiling { key, ceiling });
                }
                Effect::LiftCeiling { process } => {
                    let key = ProcessKey { job, process };
                    self.out.rank(RankEffect::LiftCeiling { key });
                }
                Effect::TellApp { process, order } => {
                    self.tell_app(job, process, DaemonToApp::Reconfiguration(order));
                }
                Effect::Salvage { process, attempt } => {
                    let key = ParkKey { job, attempt, process };
                    self.store_input(StoreInput::Salvage { key });
                }
                Effect::SendAhead { process, attempt } => {
                    let key = ParkKey { job, attempt, process };
                    self.out.rank(RankEffect::WeighData { key });
                }
                Effect::DropParked { attempt } => self.store_input(StoreInput::DropParked { job, attempt }),
                Effect::EndProcess { process, cause } => {
                    self.log_hang(job, process, cause);
                    let grace_ms = if cause == EndCause::Lost { LOST_GRACE_MS } else { 0 };
                    let order = CoordinatorToNode::EndProcesses {
                        processes: vec![process],
                        grace_ms,
                    };
                    let node = self.own.clone();
                    self.participate(job, participant::Input::Ordered { node, order });
                }
                Effect::ArmTimer { timer, after } => self.out.arm(after, Timer::Reform(job, Box::new(timer))),
                Effect::Report(report) => self.on_reform_report(job, report),
            }
        }
    }

    /// A newcomer that is ended may be the one for which a meeting failed.
    fn log_hang(&mut self, job: JobId, process: ProcessId, cause: EndCause) {
        if matches!(cause, EndCause::Aborted | EndCause::LeftLate) {
            let (key, cause) = (ProcessKey { job, process }, format!("{cause:?}"));
            self.out.rank(RankEffect::LogHang { key, cause });
        }
    }

    fn persist_reform(&mut self, job: JobId, record: Box<JobRecord>) {
        let numbers = record.coordinator.as_ref().map(|c| (c.next_process.0, c.next_world.0));
        self.record(Record::Reform { job, record });
        let Some(coordinated) = self.jobs.get(&job) else { return };
        let known = (coordinated.state.process_next().0, coordinated.state.world_next().0);
        if let Some((process_next, world_next)) = numbers
            && (process_next > known.0 || world_next > known.1)
        {
            self.coordinate(
                job,
                coordinator::Input::NumbersUsed {
                    process_next,
                    world_next,
                },
            );
        }
    }

    fn send_reform(&mut self, job: JobId, to: NodeName, message: ReconfigurationMessage) {
        if let ReconfigurationMessage::Order {
            order: Order::Prepare { plan, .. },
            ..
        } = &message
        {
            let hosts = plan.new.nodes().into_iter();
            let hosts = hosts.map(|node| (node.clone(), self.nodes.host(&node))).collect();
            let coordinated = self.jobs.get(&job);
            if coordinated.is_some_and(|coordinated| !coordinated.state.has_node(&to)) {
                self.coordinate(job, coordinator::Input::Enlist { node: to.clone() });
            }
            self.send_job(&to, job, CoordinatorToNode::Hosts(hosts));
        }
        self.send_job(&to, job, JobMessage::Reconfiguration(Box::new(message)));
    }

    fn start_newcomers(
        &mut self,
        job: JobId,
        world: WorldId,
        members: &[(Rank, Member)],
        layout: &Layout,
        is_restored: bool,
    ) {
        let placed: Vec<(ProcessId, NodeName, u64)> = members
            .iter()
            .map(|(_, member)| (member.process, member.node.clone(), self.nodes.host(&member.node)))
            .collect();
        let input = participant::Input::StartWorld {
            start: worlds::world_of_members(world, &placed),
            places: members.iter().map(|(rank, member)| (member.process, *rank)).collect(),
            epoch: layout.epoch,
            size: layout.size() as u32,
            is_restored,
        };
        self.participate(job, input);
    }

    /// A process on this node ended.
    pub(in crate::node) fn reform_exited(&mut self, job: JobId, process: ProcessId, status: ExitStatus) {
        let Some(part) = self.parts.get(&job) else { return };
        if !part.reforming.machine.processes().contains(&process) {
            return;
        }
        let stage = part
            .state
            .processes()
            .get(&process)
            .and_then(|local| match &local.state {
                participant::LocalState::Ended(end) => Some(end.stage),
                _ => None,
            });
        let finished = status == ExitStatus::Code(0) && stage != Some(MpiStage::Inside);
        self.reform(job, Input::Exited { process, finished });
    }

    /// A newcomer could not be started.
    pub(in crate::node) fn reform_start_failed(&mut self, job: JobId, process: ProcessId, reason: String) {
        let local = self
            .parts
            .get(&job)
            .and_then(|part| part.state.processes().get(&process));
        if local.is_some_and(|local| local.newcomer.is_some()) {
            self.reform(job, Input::StartFailed { process, reason });
        }
    }

    /// Something about a node concerns every job that has ranks there, or might.
    pub(in crate::node) fn reform_node(&mut self, input: &Input) {
        for job in self.parts.keys().copied().collect::<Vec<_>>() {
            self.reform(job, input.clone());
        }
    }

    fn on_reform_report(&mut self, job: JobId, report: Report) {
        match report {
            Report::Accepted { attempt } => {
                if let Some(part) = self.parts.get_mut(&job)
                    && let Some(from) = part.reforming.asking.take()
                {
                    part.reforming.requesters.insert(attempt, from);
                }
            }
            Report::Refused(refused) => {
                let from = self.parts.get_mut(&job).and_then(|part| part.reforming.asking.take());
                if let Some(from) = from {
                    self.refuse_layout(from, &refused);
                }
            }
            Report::PhaseBegan { attempt, phase } => {
                tracing::info!(%job, %attempt, phase = phase.as_str(), "reconfiguration");
            }
            Report::Reconfigured { attempt, mut event } => {
                self.on_changed_by_method(job, &mut event);
                let epoch = self.jobs.get(&job).map(|job| job.state.epoch()).unwrap_or_default();
                self.note(Some(job), epoch, EventKind::Reconfigured(event.clone()));
                if let Some(from) = self.take_requester(job, attempt) {
                    self.answer(from, DaemonToControl::Reconfigured(event));
                }
            }
            Report::Aborted {
                attempt,
                phase,
                reason,
                followed_by,
            } => {
                tracing::warn!(%job, %attempt, phase = phase.as_str(), ?reason, ?followed_by, "reconfiguration aborted");
                let epoch = self.jobs.get(&job).map(|job| job.state.epoch()).unwrap_or_default();
                let given_up = EventKind::GivenUp {
                    phase: phase.as_str().to_owned(),
                    reason: reason.to_string(),
                    again: followed_by.is_some(),
                };
                self.note(Some(job), epoch, given_up);
                let Some(from) = self.take_requester(job, attempt) else {
                    return;
                };
                if let (Some(next), Some(part)) = (followed_by, self.parts.get_mut(&job)) {
                    part.reforming.requesters.insert(next, from);
                    return;
                }
                let message = format!(
                    "the reconfiguration was given up while {}: {reason}; job {job} goes on as before",
                    phase.as_str()
                );
                self.answer(from, DaemonToControl::Refused(Refusal::new(refusal::ABORTED, message)));
            }
            Report::LayoutChanged { .. } => self.on_layout_changed(job),
            Report::JobLost { loss } => {
                let Some(part) = self.parts.get(&job) else { return };
                let coordinator = part.state.coordinator().clone();
                let reason = format!("the job lost what it cannot go on without: {loss}; see `pcmctl events {job}`");
                self.send_job(&coordinator, job, NodeToCoordinator::Lost { reason });
            }
            Report::LeaseTaken { reign } => tracing::info!(%job, ?reign, "holds the job's lease"),
            Report::LeaseLost { reign } => tracing::info!(%job, ?reign, "holds the job's lease no more"),
            Report::EndedHere { loss } => tracing::warn!(%job, ?loss, "the job's processes here are ended"),
            Report::JobBuried { unreachable } => tracing::info!(%job, ?unreachable, "the lost job is buried"),
        }
    }

    /// The job ends under a reconfiguration: whoever asked for it is told.
    pub(in crate::node) fn reform_given_up(&mut self, job: JobId) {
        let asked = self
            .parts
            .get_mut(&job)
            .map(|part| std::mem::take(&mut part.reforming.requesters));
        for from in asked.into_iter().flatten().map(|(_, from)| from) {
            let message = format!("job {job} ended before the reconfiguration was done: see `pcmctl events {job}`");
            self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::JOB_ENDED, message)),
            );
        }
    }

    fn take_requester(&mut self, job: JobId, attempt: Attempt) -> Option<Requester> {
        self.parts.get_mut(&job)?.reforming.requesters.remove(&attempt)
    }

    /// Another layout counts: who is not in it was told to leave, and the job's coordinator has to know.
    fn on_layout_changed(&mut self, job: JobId) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        let Some(layout) = part.reforming.machine.layout().cloned() else {
            return;
        };
        let members = members_of(&layout);
        let leaving: Vec<ProcessId> = part.reforming.members.difference(&members).copied().collect();
        part.reforming.members = members;
        self.participate(job, participant::Input::Leaving { processes: leaving });
        self.coordinate(job, coordinator::Input::LayoutCommitted { layout });
    }

    /// Somebody wants another layout; this daemon answers when it is there or was given up.
    pub(in crate::node) fn ask_reform(&mut self, from: Requester, job: JobId, input: Input) {
        let Some(part) = self.parts.get_mut(&job) else {
            return self.refuse_unknown_job(from, job);
        };
        part.reforming.asking = Some(from);
        self.reform(job, input);
        let unheard = self.parts.get_mut(&job).and_then(|part| part.reforming.asking.take());
        if let Some(from) = unheard {
            let message = format!("job {job} is ending");
            self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::JOB_ENDED, message)),
            );
        }
    }

    /// The daemon started again: the machines go on from their records.
    pub(in crate::node) fn restore_reforms(&mut self, mut records: BTreeMap<JobId, JobRecord>) {
        for job in self.parts.keys().copied().collect::<Vec<_>>() {
            let Some(record) = records.remove(&job) else { continue };
            let now = self.out.now();
            let (machine, effects) = Reconfigurer::at_restart(self.own.clone(), record, self.limits.clone(), now);
            let known = machine.processes();
            if let Some(part) = self.parts.get_mut(&job) {
                part.reforming = Reforming::new(machine);
            }
            self.carry_out_reform(job, effects);
            // What was committed just before the daemon died may not have come to the job's coordinator.
            if let Some(layout) = self.parts.get(&job).and_then(|part| part.reforming.layout().cloned()) {
                self.coordinate(job, coordinator::Input::LayoutCommitted { layout });
            }
            let locals = self
                .parts
                .get(&job)
                .map(|part| part.state.processes().clone())
                .unwrap_or_default();
            for process in known {
                match locals.get(&process).map(|local| &local.state) {
                    Some(participant::LocalState::Ended(end)) => self.reform_exited(job, process, end.status),
                    Some(participant::LocalState::Refused { reason, .. }) => {
                        self.reform_start_failed(job, process, reason.clone());
                    }
                    Some(_) => {}
                    None => self.reform(
                        job,
                        Input::Exited {
                            process,
                            finished: false,
                        },
                    ),
                }
            }
        }
    }
}
