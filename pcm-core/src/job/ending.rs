//! How a job ends: what counts as the failure of a rank, what the person is told, and the way from the first failure
//! (or the last good end) to the point where no node has anything left.

use super::coordinator::{Coordinator, Effect, OpenOrder, RESEND_US, START_US_MAX};
use super::phase::{Ending, Failure, NodeStage, Phase};
use super::process::{Process, ProcessState, Role};
use crate::checkpoint::Fault;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{NodeName, ProcessId};
use pcm_proto::job::JobEnd;
use pcm_proto::keeper::ExitStatus;
use pcm_proto::peer::{CoordinatorToNode, EndedBy, MpiStage, ProcessEnd};

/// Time between SIGTERM and SIGKILL when a job is ended.
pub(super) const GRACE_MS: u32 = 500;

/// A rank that finished MPI and returned an error gives its mates so long to finish too, so that the worst of their
/// codes is known; all of them are about to end anyway.
const SETTLE_US: u64 = 500_000;

/// Codes above this, and below zero, are error codes of MPI's own and not of a program.
const ABORT_CODE_MAX: i32 = 0xffff;

/// A node that has not ended its processes so long after SIGKILL is reported and not waited for.
pub(super) const ENDING_US_MAX: u64 = 10_000_000;

impl Coordinator {
    pub(super) fn spec_grace_ms(&self) -> u32 {
        if !self.processes.values().any(|process| process.counts()) {
            0
        } else {
            GRACE_MS
        }
    }

    pub(super) fn on_exited(&mut self, now_us: u64, end: ProcessEnd, effects: &mut Vec<Effect>) {
        let Some(process) = self.processes.get_mut(&end.process) else {
            return;
        };
        if process.is_over() {
            return;
        }
        process.state = ProcessState::Ended(end);
        if end.by == EndedBy::Order && process.role != Role::Guest {
            process.role = Role::Leaver;
        }
        let (node, role, world) = (process.node.clone(), process.role, process.world);
        let code = end.status.shell_code();
        if let Some(rank) = self.rank_of(end.process) {
            effects.push(Effect::Note(EventKind::RankEnded {
                rank,
                name: node.clone(),
                code,
            }));
        }
        for order in self.orders.keys().copied().collect::<Vec<_>>() {
            self.close_order(order);
        }
        let lost = format!("process {} ended with code {code}", end.process);
        if role == Role::Spare {
            return self.on_spare_lost(now_us, world, lost, effects);
        }
        if role == Role::Guest && self.place_instead_of(world, effects) {
            effects.push(Effect::Note(EventKind::SpareLost {
                name: node,
                reason: lost,
            }));
            return;
        }
        if role == Role::Guest {
            self.on_guest_exited(world, effects);
        }
        if matches!(role, Role::Leaver | Role::Newcomer) {
            return;
        }
        if let Phase::Ending(ending) = &mut self.phase {
            // A mate that failed by itself at the same time; one we ended has a signal's code.
            if let ExitStatus::Code(code) = end.status
                && end.stage != MpiStage::Inside
                && ending.end.code > 0
                && ending.end.code < 128
            {
                ending.end.code = ending.end.code.max(code);
            }
            return;
        }
        if matches!(self.phase, Phase::Recovering(_)) || self.is_hearsay(end.process) {
            return;
        }
        self.judge(now_us, end, &node, effects);
    }

    /// Decides whether the end of a process is a failure of the job, and how urgent.
    pub(super) fn judge(&mut self, now_us: u64, end: ProcessEnd, node: &NodeName, effects: &mut Vec<Effect>) {
        let (who, job) = (self.describe(end.process, node), self.job);
        let (cause, consequence) = match (end.status, end.stage) {
            (ExitStatus::Code(0), MpiStage::Before | MpiStage::After) => return,
            (ExitStatus::Signal(signal), _) => (
                format!("{who} was ended by signal {signal} ({})", signal_name(signal)),
                format!(", so the job was ended: {}", signal_advice(signal)),
            ),
            (ExitStatus::Code(code), MpiStage::Inside) => (
                format!("{who} returned code {code} without MPI_Finalize"),
                ", so the job was ended: look at the last lines of its output".to_owned(),
            ),
            (ExitStatus::Code(code), _) => (
                format!("{who} returned code {code}"),
                format!(": look at the last lines of its output, or at `pcmctl events {job}`"),
            ),
        };
        if end.by == EndedBy::Loss {
            // A failure that waits for the codes of its mates knows better.
            if self.failure.is_some() {
                return;
            }
            let reason = format!("{who} was ended by its node, which could not reach the rest of the job");
            return self.on_hearsay(now_us, end.process, (JobEnd { code: 1, reason }, Fault::Node));
        }
        let code = end.status.shell_code();
        // A code of 0 without MPI_Finalize is a failure all the same.
        let end_of_job = JobEnd {
            code: if code == 0 { 1 } else { code },
            reason: format!("{cause}{consequence}"),
        };
        let may_settle = matches!(end.status, ExitStatus::Code(_)) && end.stage != MpiStage::Inside;
        if may_settle {
            let failure = self.failure.get_or_insert(Failure {
                end: end_of_job.clone(),
                since_us: now_us,
            });
            failure.end.code = failure.end.code.max(end_of_job.code);
        } else if is_wish(end.status) {
            self.begin_ending(now_us, end_of_job, GRACE_MS, effects);
        } else {
            // A program does not send itself SIGKILL: somebody did, or the memory of the node ran out.
            let fault = if end.status == ExitStatus::Signal(9) {
                Fault::Node
            } else {
                Fault::Rank
            };
            self.crash(now_us, cause, (end_of_job, fault), effects);
        }
    }

    fn describe(&self, process: ProcessId, node: &NodeName) -> String {
        match self.rank_of(process) {
            Some(rank) => format!("rank {rank} on node {node}"),
            None => format!("process {process} on node {node}"),
        }
    }

    pub(super) fn on_refused(
        &mut self,
        now_us: u64,
        process: ProcessId,
        code: &str,
        reason: &str,
        effects: &mut Vec<Effect>,
    ) {
        let Some(known) = self.processes.get_mut(&process) else {
            return;
        };
        if known.state != ProcessState::Ordered {
            return;
        }
        known.state = ProcessState::Refused;
        let (role, world, node) = (known.role, known.world, known.node.clone());
        for order in self.orders.keys().copied().collect::<Vec<_>>() {
            self.close_order(order);
        }
        if role == Role::Guest {
            self.on_guest_refused(world, reason, effects);
            return;
        }
        if role == Role::Spare {
            return self.on_spare_lost(now_us, world, reason.to_owned(), effects);
        }
        if role == Role::Leaver {
            // The world of a spawn was given up when the first of it was refused.
            return;
        }
        let reason = format!("{} was not started ({code}): {reason}", self.describe(process, &node));
        if self.restarts() > 0 {
            // It could be started before: the node is in trouble, or still busy with what was ended there.
            let end = JobEnd {
                code: refusal_exit_code(code),
                reason: reason.clone(),
            };
            return self.crash(now_us, reason, (end, Fault::Node), effects);
        }
        self.begin_ending(
            now_us,
            JobEnd {
                code: refusal_exit_code(code),
                reason,
            },
            0,
            effects,
        );
    }

    pub(super) fn on_aborted(
        &mut self,
        now_us: u64,
        process: ProcessId,
        code: i32,
        message: &str,
        effects: &mut Vec<Effect>,
    ) {
        if !(0..=ABORT_CODE_MAX).contains(&code) {
            return self.on_gave_up(now_us, process, code, message);
        }
        let Some(who) = self.at_work(process) else { return };
        let reason = format!("{who} called MPI_Abort with code {code}{}", said(message));
        let code = abort_code(code);
        self.begin_ending(now_us, JobEnd { code, reason }, 0, effects);
    }

    /// MPI in a process ends it, most often because another is lost: the end of that one tells more.
    pub(super) fn on_gave_up(&mut self, now_us: u64, process: ProcessId, code: i32, message: &str) {
        let Some(who) = self.at_work(process) else { return };
        let said = said(message);
        let reason = format!("MPI in {who} gave up with error code {code}{said}: most often it lost another rank");
        let code = abort_code(code);
        self.on_hearsay(now_us, process, (JobEnd { code, reason }, Fault::Rank));
    }

    /// Describes a process, unless it is a spare, which ends alone.
    fn at_work(&self, process: ProcessId) -> Option<String> {
        let known = self.processes.get(&process).filter(|known| known.role != Role::Spare)?;
        Some(self.describe(process, &known.node))
    }

    pub(super) fn on_node_gone(&mut self, now_us: u64, node: &NodeName, effects: &mut Vec<Effect>) {
        let Some(stage) = self.nodes.get_mut(node) else { return };
        let was_active = *stage == NodeStage::Active;
        *stage = NodeStage::Gone;
        self.recovery.silent.remove(node);
        let lost: Vec<ProcessId> = self
            .processes
            .iter()
            .filter(|(_, process)| {
                process.node == *node && !process.is_over() && matches!(process.role, Role::Member | Role::Guest)
            })
            .map(|(id, _)| *id)
            .collect();
        if was_active && !lost.is_empty() {
            let ranks: Vec<String> = lost
                .iter()
                .filter_map(|id| self.rank_of(*id))
                .map(|rank| rank.to_string())
                .collect();
            let cause = format!("node {node} with ranks {} does not answer any more", ranks.join(", "));
            self.lose_ranks(now_us, cause, effects);
        }
        self.end_when_nothing_is_left(effects);
    }

    /// A node knows nothing of the ranks that it has confirmed: another coordinator has ended them.
    pub(super) fn on_no_part(&mut self, now_us: u64, node: &NodeName, effects: &mut Vec<Effect>) {
        if !matches!(self.phase, Phase::Starting | Phase::Running) {
            return;
        }
        let is_there = |process: &Process| {
            process.node == *node && process.counts() && matches!(process.state, ProcessState::Running { .. })
        };
        let there = self.processes.iter().filter(|(_, process)| is_there(process));
        let there: Vec<ProcessId> = there.map(|(id, _)| *id).collect();
        if there.is_empty() {
            return;
        }
        self.lose_ranks(
            now_us,
            format!("node {node} knows nothing of its ranks any more"),
            effects,
        );
        for process in there {
            let end = ProcessEnd {
                process,
                status: ExitStatus::Signal(9),
                stage: MpiStage::Inside,
                by: EndedBy::Loss,
            };
            self.on_exited(now_us, end, effects);
        }
    }

    /// Ranks are lost through no fault of the program.
    fn lose_ranks(&mut self, now_us: u64, cause: String, effects: &mut Vec<Effect>) {
        let reason = format!("{cause}, so the job was ended: see `pcmctl nodes` and the daemon's log on that node");
        self.crash(now_us, cause, (JobEnd { code: 1, reason }, Fault::Node), effects);
    }

    /// A node has processes of the job from now on. Where it is back after it was lost, those that it had are over: of
    /// the ones that were about to leave, or never got a rank, no other node says so.
    pub(super) fn engage(&mut self, node: &NodeName) {
        if self.nodes.insert(node.clone(), NodeStage::Active) != Some(NodeStage::Gone) {
            return;
        }
        let is_extra = |process: &Process| {
            process.node == *node && !process.is_over() && matches!(process.role, Role::Leaver | Role::Newcomer)
        };
        for (id, process) in self.processes.iter_mut().filter(|(_, process)| is_extra(process)) {
            process.state = ProcessState::Ended(ProcessEnd {
                process: *id,
                status: ExitStatus::Signal(9),
                stage: MpiStage::Inside,
                by: EndedBy::Itself,
            });
        }
    }

    pub(super) fn on_node_stage(&mut self, node: &NodeName, reached: NodeStage, effects: &mut Vec<Effect>) {
        if reached == NodeStage::Cleared && matches!(self.nodes.get(node), None | Some(NodeStage::Gone)) {
            // It was taken for lost, and waits for the word that its part is not wanted any more.
            let (node, message) = (node.clone(), CoordinatorToNode::Release);
            return effects.push(Effect::Send { node, message });
        }
        // Of a job that is not being ended it can only be said again of what was ended before it came back.
        if !matches!(self.phase, Phase::Ending(_) | Phase::Recovering(_)) {
            return;
        }
        let Some(stage) = self.nodes.get_mut(node) else { return };
        match (*stage, reached) {
            (NodeStage::Active, NodeStage::Emptied | NodeStage::Cleared) | (NodeStage::Emptied, NodeStage::Cleared) => {
                *stage = reached;
            }
            _ => {}
        }
        self.end_when_nothing_is_left(effects);
    }

    /// Starts to end the job, unless that was done before; the first reason stands.
    pub(super) fn begin_ending(&mut self, now_us: u64, end: JobEnd, grace_ms: u32, effects: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Ending(_) | Phase::Ended(_)) {
            return;
        }
        self.phase = Phase::Ending(Ending {
            end,
            since_us: now_us,
            sent_us: now_us,
        });
        self.orders.clear();
        self.enlisting.clear();
        self.recovery.hearsay = None;
        self.send_end(grace_ms, effects);
        self.end_when_nothing_is_left(effects);
    }

    /// How a job that is being ended, or has, ends.
    pub fn decided_end(&self) -> Option<JobEnd> {
        match &self.phase {
            Phase::Ending(ending) => Some(ending.end.clone()),
            Phase::Ended(end) => Some(end.clone()),
            _ => None,
        }
    }

    pub(super) fn send_end(&self, grace_ms: u32, effects: &mut Vec<Effect>) {
        for node in self.active_nodes() {
            let message = CoordinatorToNode::End { grace_ms };
            effects.push(Effect::Send {
                node: node.clone(),
                message,
            });
        }
    }

    fn end_when_nothing_is_left(&mut self, effects: &mut Vec<Effect>) {
        let Phase::Ending(ending) = &self.phase else { return };
        if self
            .nodes
            .values()
            .any(|stage| matches!(stage, NodeStage::Active | NodeStage::Emptied))
        {
            return;
        }
        self.phase = Phase::Ended(ending.end.clone());
        effects.extend(self.say_ended());
    }

    /// What follows from an end, also from one that an earlier daemon decided and did not live to carry out.
    pub fn say_ended(&self) -> Vec<Effect> {
        let Phase::Ended(end) = &self.phase else {
            return Vec::new();
        };
        let note = EventKind::JobEnded {
            code: end.code,
            reason: end.reason.clone(),
        };
        let nodes = self.nodes.iter().filter(|(_, stage)| **stage != NodeStage::Gone);
        let ended = Effect::Ended {
            end: end.clone(),
            nodes: nodes.map(|(node, _)| node.clone()).collect(),
        };
        vec![Effect::Note(note), ended]
    }

    /// What the passing of time decides; called after every input.
    pub(super) fn on_time(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        self.resend_orders(now_us, effects);
        self.resend_enlistments(now_us, effects);
        self.spawning_expired(now_us, effects);
        match &mut self.phase {
            Phase::Starting | Phase::Running => {
                self.hearsay_on_time(now_us, effects);
                if matches!(self.phase, Phase::Starting | Phase::Running) {
                    self.end_if_due(now_us, effects);
                }
            }
            Phase::Ending(ending) => {
                if now_us >= ending.since_us + ENDING_US_MAX {
                    self.give_up_on_silent_nodes(effects);
                } else if now_us >= ending.sent_us + RESEND_US {
                    ending.sent_us = now_us;
                    self.send_end(0, effects);
                }
            }
            Phase::Recovering(_) => self.recovering_on_time(now_us, effects),
            Phase::Ended(_) => {}
        }
        self.renew_spares(now_us, effects);
    }

    fn end_if_due(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        // What a lost node had of processes that leave, or never got a rank, is not waited for.
        let is_lost = |process: &Process| {
            let is_gone = self.nodes.get(&process.node) == Some(&NodeStage::Gone);
            is_gone && matches!(process.role, Role::Leaver | Role::Newcomer)
        };
        let mut processes = self.processes.values();
        let all_over = !processes.any(|process| process.counts() && !is_lost(process));
        if let Some(failure) = &self.failure
            && (all_over || now_us >= failure.since_us + SETTLE_US)
        {
            let end = failure.end.clone();
            self.begin_ending(now_us, end, GRACE_MS, effects);
        } else if all_over && !self.is_between_layouts() {
            self.begin_ending(
                now_us,
                JobEnd {
                    code: 0,
                    reason: String::new(),
                },
                0,
                effects,
            );
        }
    }

    /// Whether ranks have left and no other layout has begun: what becomes of the job is for the change to decide.
    fn is_between_layouts(&self) -> bool {
        let ranks = self.layout.iter().filter_map(|id| self.processes.get(id));
        let mut ends = ranks.filter_map(|process| match process.state {
            ProcessState::Ended(end) => Some(end),
            _ => None,
        });
        ends.any(|end| end.by == EndedBy::Order)
    }

    fn give_up_on_silent_nodes(&mut self, effects: &mut Vec<Effect>) {
        let silent: Vec<NodeName> = self.active_nodes().cloned().collect();
        let Phase::Ending(ending) = &mut self.phase else { return };
        if !silent.is_empty() {
            let names: Vec<&str> = silent.iter().map(NodeName::as_str).collect();
            let silence = format!(
                "nodes {} did not confirm within {} s that they ended their ranks",
                names.join(", "),
                ENDING_US_MAX / 1_000_000
            );
            let separator = if ending.end.reason.is_empty() { "" } else { "; " };
            ending.end.reason.push_str(separator);
            ending.end.reason.push_str(&silence);
            ending.end.code = ending.end.code.max(1);
        }
        for node in silent {
            self.nodes.insert(node, NodeStage::Gone);
        }
        self.end_when_nothing_is_left(effects);
    }

    fn resend_orders(&mut self, now_us: u64, effects: &mut Vec<Effect>) {
        let due = |open: &OpenOrder| now_us >= open.sent_us + RESEND_US;
        let late: Vec<u32> = self
            .orders
            .iter()
            .filter(|(_, open)| due(open))
            .map(|(number, _)| *number)
            .collect();
        for number in late {
            let Some(open) = self.orders.get(&number) else { return };
            let waiting: Vec<NodeName> = open
                .order
                .tree
                .iter()
                .filter(|node| self.is_waiting_for(&open.order, node))
                .cloned()
                .collect();
            if now_us >= open.since_us + START_US_MAX {
                if open.order.worlds.iter().all(|world| world.spare) {
                    // Those who wait for them in vain give them up by their own deadline.
                    self.orders.remove(&number);
                    continue;
                }
                let names: Vec<&str> = waiting.iter().map(NodeName::as_str).collect();
                let reason = format!(
                    "nodes {} did not start their ranks within {} s: see `pcmctl logs NODE`",
                    names.join(", "),
                    START_US_MAX / 1_000_000
                );
                let end = JobEnd {
                    code: 1,
                    reason: reason.clone(),
                };
                self.crash(now_us, reason, (end, Fault::Node), effects);
                return;
            }
            for node in waiting {
                let message = self.direct(&self.orders[&number].order, &node);
                effects.push(Effect::Send { node, message });
            }
            if let Some(open) = self.orders.get_mut(&number) {
                open.sent_us = now_us;
            }
        }
    }

    pub(super) fn ending_deadline(&self) -> Option<u64> {
        match &self.phase {
            Phase::Ending(ending) => {
                let waits = self.active_nodes().next().is_some();
                waits.then(|| (ending.since_us + ENDING_US_MAX).min(ending.sent_us + RESEND_US))
            }
            Phase::Starting | Phase::Running => self.failure.as_ref().map(|failure| failure.since_us + SETTLE_US),
            Phase::Recovering(_) | Phase::Ended(_) => None,
        }
    }
}

/// Whether somebody ended the process who wants an end, not a restart: SIGHUP, SIGINT, SIGQUIT, SIGTERM.
fn is_wish(status: ExitStatus) -> bool {
    matches!(status, ExitStatus::Signal(1 | 2 | 3 | 15))
}

/// What a shell reports for a program it cannot start: 127 when it is not there, 126 when it cannot be executed.
fn refusal_exit_code(code: &str) -> i32 {
    use pcm_proto::refusal;
    match code {
        refusal::UNKNOWN_PROGRAM => 127,
        refusal::NOT_EXECUTABLE => 126,
        _ => 1,
    }
}

/// A shell sees eight bits; an abort is never a success.
fn abort_code(code: i32) -> i32 {
    if code & 0xff == 0 { 1 } else { code & 0xff }
}

fn said(message: &str) -> String {
    if message.is_empty() {
        return String::new();
    }
    format!(", saying {message:?}")
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        _ => "see `kill -l`",
    }
}

fn signal_advice(signal: i32) -> &'static str {
    match signal {
        9 => "somebody killed it, or the system ran out of memory (see `dmesg`)",
        7 => "often a full /dev/shm (see `df /dev/shm`) or a truncated mapped file",
        11 => {
            "a fault in the program, such as an address from before its ranks changed (see pcm_data); look at the last \
             lines of its output and at its core file"
        }
        4 | 6 | 8 => "a fault in the program; look at the last lines of its output and at its core file",
        _ => "look at who sent it and at the last lines of its output",
    }
}
