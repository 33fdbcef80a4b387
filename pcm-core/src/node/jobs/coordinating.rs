//! The jobs that this node leads: accepts them, answers `pcmctl` about them, and lets go of them when they have ended.

use super::attachment::Attachment;
use super::leading::say_checkpoint;
use super::led::Led;
use super::machine::Jobs;
use super::numbering::Waiting;
use super::placing::place_new;
use crate::job::coordinator::Coordinator;
use crate::job::placement::Placed;
use crate::job::worlds::WORLDS_MAX;
use crate::moment::Moment;
use crate::node::agent::samples::is_known_policy;
use crate::node::context::Context;
use crate::node::cost_file::FileCosts;
use crate::node::layout_request::LayoutAsked;
use crate::node::requester::Requester;
use crate::node::store::input::StoreInput;
use crate::node::streams::job_output::JobOutput;
use crate::wide::link::Link;
use pcm_proto::agent::POLICY_NAMES;
use pcm_proto::app::environment;
use pcm_proto::checkpoint::CheckpointMessage;
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::{JobSpec, RANKS_MAX, SPARES_MAX, WorldShape};
use pcm_proto::peer::{CoordinatorToNode, RanksBegun};
use pcm_proto::refusal;
use std::collections::BTreeMap;

/// Most jobs at a time on one coordinator; each costs kilobytes, and the limit only stops a runaway script.
const JOBS_MAX: usize = 1000;

/// Says in a job's environment whether ranks may be far from each other, and how far, for all its ranks alike and for
/// all its life. What the user says stays.
fn note_sites(spec: &mut JobSpec, slowest: Option<Link>) {
    let mut take = |name: &str| {
        let is_this = |(known, _): &(Vec<u8>, Vec<u8>)| known == name.as_bytes();
        let value = spec
            .env
            .iter()
            .rfind(|pair| is_this(pair))
            .map(|(_, value)| value.clone());
        spec.env.retain(|pair| !is_this(pair));
        value
    };
    let (wide, link) = (take(environment::WIDE), take(environment::LINK));
    let wide = wide.unwrap_or_else(|| b"yes".to_vec());
    if let Some(slowest) = slowest
        && wide != environment::NEVER_WIDE.as_bytes()
    {
        let link = link.unwrap_or_else(|| slowest.to_string().into_bytes());
        spec.env
            .extend([(environment::WIDE.into(), wide), (environment::LINK.into(), link)]);
    }
}

impl Jobs {
    /// A new job is asked for.
    pub(in crate::node) fn on_run(&mut self, from: Requester, spec: JobSpec, cx: &mut Context<'_>) {
        if cx.is_going_down || cx.cluster.is_leaving() {
            let message = "the cluster is going down: start it again with `pcmctl up`";
            return cx.refuse(from, refusal::GOING_DOWN, message);
        }
        if let Err(refusal) = check(&spec, self.table.coordinators().count()) {
            return cx.answer(from, DaemonToControl::Refused(refusal));
        }
        self.number(Waiting::new(from, spec), cx);
    }

    pub(in crate::node) fn on_number_timer(&mut self, cx: &mut Context<'_>) {
        for waiting in self.numbering.take_waiting() {
            self.number(waiting, cx);
        }
    }

    /// A job is accepted as soon as it has a number.
    fn number(&mut self, new: Waiting, cx: &mut Context<'_>) {
        if let Some((job, Waiting { from, spec, .. })) = self.numbering.number(new, cx) {
            self.accept(from, spec, job, cx);
        }
    }

    /// Another node gave a job its number, or none.
    pub(in crate::node) fn on_numbered(
        &mut self,
        (from, spec, until): (Requester, JobSpec, Moment),
        job: Option<JobId>,
        cx: &mut Context<'_>,
    ) {
        let Some(job) = job else {
            return self.numbering.wait(from, spec, until, cx);
        };
        self.numbering.heard_of(job, cx);
        self.accept(from, spec, job, cx);
    }

    /// Accepts a job under a number that no other job has.
    fn accept(&mut self, from: Requester, mut spec: JobSpec, job: JobId, cx: &mut Context<'_>) {
        note_sites(&mut spec, cx.cluster.slowest_between_sites(cx.now()));
        let placed = place_new(&self.table, &spec, cx).and_then(|placed| check_worlds(&spec, placed));
        let placed = match placed {
            Ok(placed) => placed,
            Err(refusal) => return cx.answer(from, DaemonToControl::Refused(refusal)),
        };
        let link = match from {
            Requester::Control(link) => Some(link),
            _ => None,
        };
        let attachment = Attachment::new(link, spec.detached);
        let output = match attachment.reader() {
            Some(_) => JobOutput::to_control(job),
            None => JobOutput::to_files(job, BTreeMap::new(), cx.out),
        };
        let (state, effects) = Coordinator::accept(job, cx.own(), spec, &placed, cx.now().0);
        let led = Led::new(&state, attachment, output, cx.now());
        let step = self.table.lead_from_now_on(job, state, led, effects, cx);
        cx.answer(from, DaemonToControl::JobAccepted { job });
        self.table.finish(job, step, cx);
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
            None if is_over => {
                say_checkpoint(cx, node, job, CheckpointMessage::Forget { but: None });
                return cx.send_job(node, job, CoordinatorToNode::Close);
            }
            None => Err(message),
        };
        let is_end = matches!(inputs, Err(CheckpointMessage::Forget { but: None }));
        let is_ordered = inputs.is_err();
        let may_order = !is_ordered || self.succession.may_order(&self.table, job, node, cx);
        if !may_order || is_end && !self.succession.may_end(job, node) {
            return;
        }
        match inputs {
            Ok(inputs) => self.table.coordinate(job, inputs, cx),
            Err(message) => {
                let node = node.clone();
                cx.store(StoreInput::Checkpoint { job, node, message });
            }
        }
        if is_filed {
            self.table.leave_will(job, cx);
        }
    }

    // Requests.

    /// Another layout is wanted.
    pub(in crate::node) fn on_reconfigure(&mut self, from: Requester, asked: LayoutAsked, cx: &mut Context<'_>) {
        self.changes.ask(from, asked, &self.table, cx);
    }

    /// More nodes are known, or all that there are.
    pub(in crate::node) fn on_nodes_heard(&mut self, cx: &mut Context<'_>) {
        self.changes.on_nodes_heard(&self.table, cx);
    }

    /// The file of costs was looked at.
    pub(in crate::node) fn on_costs_read(&mut self, found: Option<FileCosts>, cx: &mut Context<'_>) {
        self.changes.on_costs_read(found, &self.table, cx);
    }

    /// It is known which ranks of a job iterate for which a layout is wanted. This node answers when the layout is
    /// there or was given up.
    pub(in crate::node) fn on_begun_known(
        &mut self,
        from: Requester,
        asked: &LayoutAsked,
        begun: &RanksBegun,
        cx: &mut Context<'_>,
    ) {
        let job = asked.job;
        let input = match self.changes.plan(asked, begun, &mut self.table, cx) {
            None => return self.table.past.refuse_unknown(from, job, cx),
            Some(Err(refusal)) => return cx.answer(from, DaemonToControl::Refused(refusal)),
            Some(Ok(input)) => input,
        };
        let Some(known) = self.table.get_mut(job).filter(|known| known.local.is_some()) else {
            return self.table.past.refuse_unknown(from, job, cx);
        };
        let step = known.ask_change(from, input, cx);
        self.table.finish(job, step, cx);
    }

    // Streams.
}

/// Whether the ranks of a new job come to so many worlds as can begin a job.
fn check_worlds(spec: &JobSpec, placed: Placed) -> Result<Placed, Refusal> {
    let worlds = match spec.world {
        WorldShape::Job => 1,
        WorldShape::Node => placed.shares.len(),
        WorldShape::Rank => spec.size as usize,
    };
    if worlds > WORLDS_MAX {
        let message = format!(
            "{worlds} worlds are asked for, a job begins with at most {WORLDS_MAX}: run with fewer ranks or nodes, or \
             with '--world job'"
        );
        return Err(Refusal::new(refusal::BAD_SIZE, message));
    }
    Ok(placed)
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
    let ranks = spec
        .commands
        .iter()
        .fold(0, |sum: u32, command| sum.saturating_add(command.count));
    if !spec.commands.is_empty() && [ranks, spec.min, spec.max] != [spec.size; 3] {
        let message = format!(
            "the programs of the job are for {ranks} ranks, and {} to {} are asked for: a job of several programs \
             keeps its number of ranks",
            spec.min, spec.max
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
