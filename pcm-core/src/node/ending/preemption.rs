//! SIGTERM to this daemon, or to its keeper, or the end of the node's time: the node will be taken away. Its jobs make
//! a checkpoint and move elsewhere, as for a drain with a deadline; those that cannot go on elsewhere from that
//! checkpoint. Jobs that are coordinated here make another one, then the node leaves the cluster and their heirs lead
//! them from it.

use super::state::{Ending, Preemption};
use crate::node::context::Context;
use crate::node::jobs::heirs::HEIRS;
use crate::node::jobs::machine::Jobs;
use crate::node::queries::Asker;
use crate::node::requester::Requester;
use crate::node::timer::Timer;
use pcm_proto::checkpoint::IntoFiles;
use pcm_proto::control::ControlToDaemon;
use pcm_proto::peer::Question;
use std::time::Duration;

/// Of that time, what is left for the last checkpoints of jobs coordinated here.
const HAND_OVER_SHARE: u32 = 4;

/// A node that does not answer within this time is not waited for.
const FAREWELL_WITHIN: Duration = Duration::from_secs(1);

/// Whether ranks of a node that ends have a place to go to by now is looked at this often.
const LOOK_FOR_REFUGE: Duration = Duration::from_secs(1);

/// Whether all is said is looked at this often.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Ending {
    pub(in crate::node) fn on_notice(&mut self, jobs: &mut Jobs, cx: &mut Context<'_>) {
        if self.preemption.is_some() || self.is_going_down() || cx.cluster.is_leaving() {
            return;
        }
        let within = cx.settings.notice;
        tracing::warn!(
            seconds = within.as_secs_f64(),
            "SIGTERM: this node brings its work elsewhere and ends"
        );
        let cause = format!("drain of {}", cx.settings.own);
        self.give_up((within, true), cause, jobs, cx);
    }

    /// Looks whether the time of this node is nearly up. One whose ranks have nowhere to go keeps them for as long as
    /// they can be saved: nodes of one allocation end at once.
    pub(in crate::node) fn on_end_timer(&mut self, jobs: &mut Jobs, cx: &mut Context<'_>) {
        let Some(end) = cx.cluster.nodes().end_of(cx.now(), &cx.settings.own) else {
            return;
        };
        if self.preemption.is_some() || self.is_going_down() || cx.cluster.is_leaving() {
            return;
        }
        let (left, leaves) = (end.left(), end.leaves());
        if left > leaves {
            return cx.arm(left - leaves, Timer::End);
        }
        let has_refuge = cx.cluster.nodes().has_refuge(cx.now(), &cx.settings.own);
        let last_call = cx.settings.notice.min(leaves);
        if !has_refuge && left > last_call {
            return cx.arm((left - last_call).min(LOOK_FOR_REFUGE), Timer::End);
        }
        tracing::warn!(
            seconds = left.as_secs_f64(),
            has_refuge,
            "the time of this node is nearly up"
        );
        cx.cluster.note_end_of(&cx.settings.own, cx.out);
        let cause = format!("the time of {} ends in {} s", cx.settings.own, left.as_secs());
        self.give_up((left, has_refuge), cause, jobs, cx);
    }

    /// Whether the node is left because it will be taken away.
    pub(in crate::node) fn is_taken_away(&self) -> bool {
        self.preemption.is_some()
    }

    fn give_up(
        &mut self,
        (within, has_refuge): (Duration, bool),
        cause: String,
        jobs: &mut Jobs,
        cx: &mut Context<'_>,
    ) {
        self.preemption = Some(Preemption {
            until: cx.now().plus(within),
            is_handing_over: false,
        });
        jobs.is_taken_away = true;
        cx.set_draining(true);
        // Somebody who was emptying it already waits for an answer; it is emptied with a deadline now.
        self.drain_cancelled("is taken away: it ends as soon as it is empty", cx);
        let time = within - within / HAND_OVER_SHARE;
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.empty(Requester::Nobody, (Some(ms), has_refuge), cause, jobs, cx);
    }

    /// No rank is left here, or none that can leave: jobs led from here get a checkpoint for their heirs.
    pub(in crate::node) fn hand_over(&mut self, jobs: &mut Jobs, cx: &mut Context<'_>) {
        let Some(notice) = &mut self.preemption else { return };
        if std::mem::replace(&mut notice.is_handing_over, true) {
            return;
        }
        for job in jobs.table.led_ids() {
            // Without an heir only files go on.
            let into = cx.cluster.heirs(1).is_empty().then_some(IntoFiles::Usual);
            jobs.table.on_checkpoint_request(Requester::Nobody, job, into, cx);
        }
        cx.arm(Duration::ZERO, Timer::Leave);
    }

    /// Leaves when those checkpoints are complete and what is held here of others has its copies, or there is no time
    /// left.
    pub(in crate::node) fn leave_when_safe(&mut self, holds_unsettled: bool, jobs: &mut Jobs, cx: &mut Context<'_>) {
        let Some(notice) = &self.preemption else { return };
        let mut led = jobs.table.led_ids().into_iter().filter_map(|job| jobs.table.led(job));
        let is_waiting = holds_unsettled || led.any(|led| led.leading.is_asked());
        if is_waiting && cx.now() < notice.until {
            return cx.arm(LOOK_AGAIN, Timer::Leave);
        }
        self.take_leave(cx);
    }

    /// Leaves when those who heard something of this node lately have heard all of it: an heir that missed the word
    /// that a job is over would open its will.
    pub(in crate::node) fn take_leave(&mut self, cx: &mut Context<'_>) {
        if self.farewells.is_some() || cx.cluster.is_leaving() {
            return;
        }
        cx.cluster.begin_to_leave();
        let mut nodes = cx.cluster.nodes().reachable();
        let heirs = cx.cluster.heirs(HEIRS);
        nodes.retain(|node| heirs.contains(node) || cx.cluster.transports().is_linked(node));
        self.farewells = Some(nodes.len());
        for node in &nodes {
            // Its answer says that everything before it has come.
            let ping = ControlToDaemon::Ping {
                node: Some(node.clone()),
            };
            let question = Question::Control(Box::new(ping));
            cx.ask(node, question, Asker::Farewell, FAREWELL_WITHIN);
        }
        self.leave_if_heard(cx);
    }

    /// A node has heard all, or is not waited for.
    pub(in crate::node) fn on_farewell_heard(&mut self, cx: &mut Context<'_>) {
        if let Some(left) = &mut self.farewells {
            *left = left.saturating_sub(1);
        }
        self.leave_if_heard(cx);
    }

    fn leave_if_heard(&mut self, cx: &mut Context<'_>) {
        if self.farewells == Some(0) {
            cx.cluster.leave(cx.out);
        }
    }
}
