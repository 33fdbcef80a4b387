//! The jobs this daemon coordinates: feeds their state machines, carries out what they decide, and keeps what a
//! restart would need.

use super::layout_changes::{hosts_open_to, memory_host};
use super::leading::say_checkpoint;
use super::led::{Audience, Led};
use super::machine::Jobs;
use crate::between_worlds::{self, is_shared_memory};
use crate::job::at_node::{JobAtNode, Step};
use crate::job::coordinator::{Coordinator, Effect, Input, SpawnWant};
use crate::job::placement::{Placed, Share};
use crate::job::recovery::Restarted;
use crate::job::worlds::WORLDS_MAX;
use crate::node::agent::samples::is_known_policy;
use crate::node::context::Context;
use crate::node::outbox::Inward;
use crate::node::record::Record;
use crate::node::requester::{LinkId, Requester};
use crate::node::store::input::StoreInput;
use crate::node::streams::effect::Filed;
use crate::node::streams::job_output::JobOutput;
use pcm_proto::agent::POLICY_NAMES;
use pcm_proto::checkpoint::{CheckpointMessage, IntoFiles};
use pcm_proto::control::{DaemonToControl, Refusal, Stream};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::job::{JobEnd, JobSpec, RANKS_MAX, SPARES_MAX, WorldShape};
use pcm_proto::peer::{CoordinatorToNode, NodeReport, OutputPiece, StreamToNode};
use pcm_proto::refusal;
use std::collections::BTreeMap;

/// Most jobs at a time on one coordinator; each costs kilobytes, and the limit only stops a runaway script.
const JOBS_MAX: usize = 1000;

impl Jobs {
    /// A new job is asked for.
    pub(in crate::node) fn on_run(&mut self, from: Requester, spec: JobSpec, cx: &mut Context<'_>) {
        if let Err(refusal) = check(&spec, self.table.coordinators().count()) {
            return cx.answer(from, DaemonToControl::Refused(refusal));
        }
        self.number(from, spec, None, cx);
    }

    /// Accepts a job under a number that nobody else has.
    pub(in crate::node) fn accept(&mut self, from: Requester, spec: JobSpec, job: JobId, cx: &mut Context<'_>) {
        let placed = check_memory(&spec, cx).and_then(|()| self.place(&spec.nodes, spec.size, None, cx));
        let placed = match placed {
            Ok(placed) => placed_for(&spec, placed, cx),
            Err(refusal) => return cx.answer(from, DaemonToControl::Refused(refusal)),
        };
        let worlds = match spec.world {
            WorldShape::Job => 1,
            WorldShape::Node => placed.shares.len(),
            WorldShape::Rank => spec.size as usize,
        };
        if worlds > WORLDS_MAX {
            let message = format!(
                "{worlds} worlds are asked for, a job begins with at most {WORLDS_MAX}: run with fewer ranks or nodes, \
                 or with '--world job'"
            );
            return cx.answer(from, DaemonToControl::Refused(Refusal::new(refusal::BAD_SIZE, message)));
        }
        let audience = match from {
            Requester::Control(link) if !spec.detached => Audience::Attached(link),
            _ => Audience::Detached,
        };
        let output = match audience {
            Audience::Detached => JobOutput::to_files(job, BTreeMap::new(), cx.out),
            _ => JobOutput::to_control(job),
        };
        let now_us = cx.now().0;
        let (state, effects) = Coordinator::accept(job, cx.own(), spec, &placed, now_us);
        let mut led = Led::new(&state, audience, output, cx.now());
        if let Requester::Control(link) = from {
            led.link = Some(link);
        }
        let step = self.lead_from_now_on(job, state, led, effects, cx);
        cx.answer(from, DaemonToControl::JobAccepted { job });
        self.finish(job, step, cx);
    }

    /// This node leads a job from now on.
    pub(in crate::node) fn lead_from_now_on(
        &mut self,
        job: JobId,
        state: Coordinator,
        led: Led,
        effects: Vec<Effect>,
        cx: &mut Context<'_>,
    ) -> Step {
        let machine = JobAtNode::new(job, cx.own(), cx.settings.limits.clone());
        let known = self.table.insert(job, machine);
        known.led = Some(led);
        let mut step = known.machine.lead(state, effects);
        if let Some(entry) = step.entry.take() {
            let entry = Box::new(entry);
            cx.record(Record::Job { job, entry });
        }
        step
    }

    /// Carries out what a job's coordinator wants.
    pub(in crate::node) fn carry_out_lead(&mut self, job: JobId, effect: Effect, cx: &mut Context<'_>) {
        match effect {
            Effect::Send { node, message } => {
                if let Some(led) = self.table.led_mut(job) {
                    led.note_group(job, &node, &message, cx);
                }
                cx.send_job(&node, job, message);
            }
            Effect::Note(kind) => {
                if let Some((coordinator, led)) = self.table.led_with(job) {
                    led.on_note(kind, coordinator, cx);
                }
            }
            Effect::Place { process, number, wants } => {
                let shares = self.place_spawn(job, &wants, cx);
                self.coordinate(
                    job,
                    Input::SpawnPlaced {
                        process,
                        number,
                        shares,
                    },
                    cx,
                );
            }
            Effect::Restart { count } => self.restart_from_checkpoint(job, count, cx),
            Effect::Ended { end, nodes } => self.on_job_ended(job, &end, &nodes, cx),
        }
    }

    fn place_spawn(&self, job: JobId, wants: &[SpawnWant], cx: &mut Context<'_>) -> Result<Vec<Share>, String> {
        let coordinator = self.table.coordinator(job);
        let host = coordinator.and_then(|coordinator| memory_host(coordinator, cx));
        let of_job = coordinator.map(|coordinator| &coordinator.spec().nodes);
        let of_job = of_job.map_or(&[][..], Vec::as_slice);
        let mut shares = Vec::new();
        for SpawnWant { count, hosts } in wants {
            let named = hosts.iter().map(|host| nodes_of_host(host, cx));
            let named = named.collect::<Result<Vec<_>, String>>()?.concat();
            let allowed = if named.is_empty() { of_job } else { &named };
            let (placed, _) = self
                .place(allowed, *count, host, cx)
                .map_err(|refusal| refusal.message)?;
            shares.extend(placed);
        }
        Ok(shares)
    }

    fn on_job_ended(&mut self, job: JobId, end: &JobEnd, nodes: &[NodeName], cx: &mut Context<'_>) {
        if let Some((coordinator, led)) = self.table.led_with(job) {
            led.output(coordinator, |output, view| output.finish(view, cx.out));
            led.leading.on_ended(coordinator, cx);
            led.willed.void(job, cx);
        }
        let Some((coordinator, led)) = self.table.stop_leading(job) else {
            return;
        };
        let status = coordinator.status();
        let now_us = cx.now().0;
        cx.record(Record::Ended {
            now_us,
            status: Box::new(status.clone()),
        });
        self.ended.remember(now_us, status);
        if let Some(link) = led.link {
            cx.answer(Requester::Control(link), DaemonToControl::JobEnded(end.clone()));
        }
        for node in nodes {
            cx.send_job(node, job, CoordinatorToNode::Close);
        }
        cx.out.inward(Inward::JobEnded);
    }

    /// A job that crashed is to be started again: where, and from what.
    fn restart_from_checkpoint(&mut self, job: JobId, count: u32, cx: &mut Context<'_>) {
        cx.note_rejoined();
        let restarted = self.restarted(job, count, cx);
        if let (Ok(restarted), Some((coordinator, led))) = (&restarted, self.table.led_with(job)) {
            led.leading.on_restart(restarted, coordinator, cx);
        }
        self.coordinate(job, Input::Restarted(restarted), cx);
    }

    fn restarted(&self, job: JobId, count: u32, cx: &Context<'_>) -> Result<Restarted, String> {
        let led = self.table.led(job).ok_or("the job is over")?;
        let coordinator = self.table.coordinator(job).ok_or("the job is over")?;
        if cx.is_cut_off() {
            return Err("most nodes of the cluster cannot be reached from its coordinator's".to_owned());
        }
        if led.leading.is_learning() {
            return Err("its nodes have not all said which checkpoints they hold".to_owned());
        }
        let spec = coordinator.spec();
        // Of all else a rank takes its share on any number of ranks.
        let of_checkpoint = led.leading.ranks_of_checkpoint().filter(|_| spec.registered.has_custom);
        let count = of_checkpoint.unwrap_or(count);
        let placed = self.place(&spec.nodes, count, memory_host(coordinator, cx), cx);
        let placed = placed.map_err(|refusal| refusal.message + &led.leading.hint())?;
        led.leading.restarted(placed_for(spec, placed, cx))
    }

    /// A node says something about a checkpoint to the job's leader; or to a node that holds some.
    pub(super) fn on_checkpoint_message(
        &mut self,
        job: JobId,
        node: &NodeName,
        message: CheckpointMessage,
        cx: &mut Context<'_>,
    ) {
        let is_filed = matches!(message, CheckpointMessage::Filed { .. });
        let is_over = matches!(message, CheckpointMessage::Stored { .. });
        let inputs = match self.table.led_with(job) {
            Some((coordinator, led)) => led.leading.on_message(node, message, coordinator, cx),
            // Its heir leads the job, and may need what is held.
            None if is_over && cx.cluster.is_leaving() => return,
            // The job is over.
            None if is_over => return say_checkpoint(cx, node, job, CheckpointMessage::Forget { but: None }),
            None => Err(message),
        };
        let is_end = matches!(inputs, Err(CheckpointMessage::Forget { but: None }));
        let is_ordered = inputs.is_err();
        if is_ordered && !self.may_order(job, node, cx) || is_end && !self.testators.counts(job, node) {
            return;
        }
        match inputs {
            Ok(inputs) => self.coordinate_all(job, inputs, cx),
            Err(message) => {
                let node = node.clone();
                cx.store(StoreInput::Checkpoint { job, node, message });
            }
        }
        if is_filed {
            self.leave_will(job, cx);
        }
    }

    /// An event about a job that hangs, if it does.
    pub(in crate::node) fn note_hang(&mut self, job: JobId, hang: Option<EventKind>, cx: &mut Context<'_>) {
        if let Some(kind) = hang
            && let Some((coordinator, led)) = self.table.led_with(job)
        {
            led.on_note(kind, coordinator, cx);
        }
    }

    pub(in crate::node) fn on_checkpoint_timer(&mut self, job: JobId, cx: &mut Context<'_>) {
        if let Some((coordinator, led)) = self.table.led_with(job) {
            let inputs = led.leading.on_timer(coordinator, cx);
            self.coordinate_all(job, inputs, cx);
        }
    }

    /// A checkpoint is wanted now.
    pub(in crate::node) fn on_checkpoint_request(
        &mut self,
        from: Requester,
        job: JobId,
        into: Option<IntoFiles>,
        cx: &mut Context<'_>,
    ) {
        match self.table.led_with(job) {
            Some((coordinator, led)) => led.leading.on_request(from, into, coordinator, cx),
            None => self.refuse_unknown(from, job, cx),
        }
    }

    pub(in crate::node) fn on_checkpoint_asked_timer(&mut self, job: JobId, number: u64, cx: &mut Context<'_>) {
        if let Some(led) = self.table.led_mut(job) {
            led.leading.on_asked_timer(job, number, cx);
        }
    }

    /// A `pcmctl` comes back to its job.
    pub(in crate::node) fn on_attach(
        &mut self,
        from: Requester,
        job: JobId,
        received: Vec<(ProcessId, Stream, u64)>,
        cx: &mut Context<'_>,
    ) {
        let Requester::Control(link) = from else { return };
        match self.table.led_with(job) {
            Some((coordinator, led)) => led.on_attach(link, received, coordinator, cx),
            None => self.refuse_unknown(from, job, cx),
        }
    }

    /// A link of `pcmctl` ended.
    pub(in crate::node) fn on_link_lost(&mut self, link: LinkId, in_order: bool, cx: &mut Context<'_>) {
        let Some(job) = self.attached(link) else { return };
        let led = self.table.led_with(job);
        let end = led.and_then(|(coordinator, led)| led.on_link_lost(link, in_order, coordinator, cx));
        self.coordinate_all(job, end, cx);
    }

    pub(in crate::node) fn on_unattended_timer(&mut self, job: JobId, cx: &mut Context<'_>) {
        let led = self.table.led_with(job);
        let end = led.and_then(|(coordinator, led)| led.on_unattended(coordinator, cx));
        self.coordinate_all(job, end, cx);
    }

    /// A job is to be ended at once.
    pub(in crate::node) fn on_kill(&mut self, from: Requester, job: JobId, cx: &mut Context<'_>) {
        let Some((coordinator, led)) = self.table.led_with(job) else {
            return self.refuse_unknown(from, job, cx);
        };
        let is_own = matches!(from, Requester::Control(link) if led.link == Some(link));
        if is_own {
            // A requester that ends its own job does not wait for the output that it has stopped to take.
            led.output(coordinator, |output, view| output.discard(view, cx.out));
        }
        let by = if is_own { "its `pcmctl run`" } else { "`pcmctl kill`" };
        let reason = format!("it was ended by {by}");
        self.coordinate(job, Input::End { code: 137, reason }, cx);
        cx.answer(from, DaemonToControl::Done);
    }

    /// All processes of a job are to have a signal.
    pub(in crate::node) fn on_signal(&mut self, from: Requester, job: JobId, signal: i32, cx: &mut Context<'_>) {
        let Some(coordinator) = self.table.coordinator(job) else {
            return self.refuse_unknown(from, job, cx);
        };
        for node in coordinator.active_nodes() {
            cx.send_job(node, job, CoordinatorToNode::Signal { signal });
        }
        cx.answer(from, DaemonToControl::Done);
    }

    /// A node sends output; that of a job that is over has no reader.
    pub(super) fn on_output_piece(&mut self, job: JobId, node: &NodeName, piece: OutputPiece, cx: &mut Context<'_>) {
        if let Some((coordinator, led)) = self.table.led_with(job) {
            return led.output(coordinator, |output, view| output.on_piece(node, piece, view, cx.out));
        }
        let taken = StreamToNode::OutputTaken {
            process: piece.process,
            stream: piece.stream,
            bytes: piece.offset + piece.bytes.len() as u64,
        };
        cx.send_job(node, job, taken);
    }

    /// The reader took output.
    pub(in crate::node) fn on_output_taken(
        &mut self,
        link: LinkId,
        (process, stream, bytes): (ProcessId, Stream, u64),
        cx: &mut Context<'_>,
    ) {
        let job = self.attached(link);
        if let Some((coordinator, led)) = job.and_then(|job| self.table.led_with(job)) {
            led.output(coordinator, |output, view| {
                output.on_taken(process, stream, bytes, view, cx.out);
            });
        }
    }

    /// Output was written to files.
    pub(in crate::node) fn on_filed(&mut self, job: JobId, pieces: &[Filed], cx: &mut Context<'_>) {
        if let Some((coordinator, led)) = self.table.led_with(job) {
            led.output(coordinator, |output, view| output.on_filed(pieces, view, cx.out));
        }
    }

    /// An attached `pcmctl` sends standard input.
    pub(in crate::node) fn on_stdin(&mut self, link: LinkId, bytes: Vec<u8>, cx: &mut Context<'_>) {
        let job = self.attached(link);
        if let Some((coordinator, led)) = job.and_then(|job| self.table.led_with(job)) {
            led.stdin(coordinator, |stdin, view| stdin.on_piece(bytes, view, cx.out));
        }
    }
}

/// Whether a job can be accepted beside so many others.
fn check(spec: &JobSpec, led: usize) -> Result<(), Refusal> {
    if spec.size == 0 || spec.size.max(spec.max) > RANKS_MAX || spec.size > spec.max || spec.size < spec.min {
        let message = format!(
            "{} ranks are asked for, the job allows {} to {} and the system 1 to {RANKS_MAX}",
            spec.size, spec.min, spec.max
        );
        return Err(Refusal::new(refusal::BAD_SIZE, message));
    }
    if spec.spares > SPARES_MAX {
        let message = format!(
            "{} spares are asked for, at most {SPARES_MAX} are kept of a program",
            spec.spares
        );
        return Err(Refusal::new(refusal::BAD_SIZE, message));
    }
    spec.check_length()?;
    if let Some(policy) = spec.policy.as_deref().filter(|policy| !is_known_policy(policy)) {
        let message = format!(
            "there is no policy {policy:?}: choose one of {}",
            POLICY_NAMES.join(", ")
        );
        return Err(Refusal::new(refusal::UNKNOWN_POLICY, message));
    }
    if led >= JOBS_MAX {
        let message = format!("{JOBS_MAX} jobs run already: wait for some to end, see `pcmctl jobs`");
        return Err(Refusal::new(refusal::LIMIT_REACHED, message));
    }
    Ok(())
}

/// Whether ranks that are to share memory can.
fn check_memory(spec: &JobSpec, cx: &Context<'_>) -> Result<(), Refusal> {
    if !is_shared_memory(spec) {
        return Ok(());
    }
    between_worlds::check_start(spec, &hosts_open_to(spec, cx).into_iter().collect())
}

fn placed_for(spec: &JobSpec, (shares, why): (Vec<Share>, String), cx: &Context<'_>) -> Placed {
    let is_crowded = is_crowded(spec, &shares, cx);
    Placed {
        shares,
        is_crowded,
        why,
    }
}

/// Whether ranks of a job outnumber the CPUs of a host, or are going to.
fn is_crowded(spec: &JobSpec, shares: &[Share], cx: &Context<'_>) -> bool {
    let mut ranks: BTreeMap<u64, usize> = BTreeMap::new();
    for share in shares {
        *ranks.entry(share.host).or_default() += share.count as usize;
    }
    // Nobody who leaves the maximum as it is says that the job will grow that far.
    let is_going_to_grow = spec.max > spec.size && spec.max < RANKS_MAX;
    ranks.iter().any(|(host, ranks)| {
        let cpus = cx.cluster.nodes().cpus_of_host(*host);
        *ranks > cpus || (is_going_to_grow && spec.max as usize > cpus)
    })
}

/// The nodes that an application means by a host: a node's name, the name of its machine, or its address.
fn nodes_of_host(host: &str, cx: &Context<'_>) -> Result<Vec<NodeName>, String> {
    let nodes = cx.cluster.nodes();
    if let Some(node) = NodeName::new(host).ok().filter(|node| nodes.state(node).is_some()) {
        return Ok(vec![node]);
    }
    let reports: Vec<NodeReport> = [nodes.own().clone()].into_iter().chain(nodes.others()).collect();
    let is_meant = |report: &&NodeReport| {
        let address = report.address.rsplit_once(':').map(|(address, _)| address);
        report.host_name == host || address == Some(host)
    };
    let meant = reports.iter().filter(is_meant).map(|report| report.node.clone());
    let meant: Vec<NodeName> = meant.collect();
    if meant.is_empty() {
        let known: Vec<&str> = reports.iter().map(|report| report.node.as_str()).collect();
        let known = known.join(", ");
        return Err(format!(
            "host {host:?} is neither a node nor a machine of this cluster, which has {known}"
        ));
    }
    Ok(meant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::layout_request::tests::spec;
    use pcm_proto::job::SPEC_BYTES_MAX;

    #[test]
    fn a_job_that_is_too_long_for_orders_and_wills_is_refused_before_it_is_accepted() {
        assert_eq!(check(&spec(), 0), Ok(()));
        let long = JobSpec {
            args: vec![vec![b'x'; SPEC_BYTES_MAX]],
            ..spec()
        };
        let max = RANKS_MAX + 1;
        let refused = check(&JobSpec { max, ..spec() }, 0).unwrap_err();
        assert_eq!(refused.code, refusal::BAD_SIZE, "a page has room for that many peers");
        let refused = check(&long, 0).unwrap_err();
        assert_eq!(refused.code, refusal::ENVIRONMENT_TOO_LARGE);
        assert!(refused.message.contains("1536 KiB"), "{}", refused.message);
    }
}
