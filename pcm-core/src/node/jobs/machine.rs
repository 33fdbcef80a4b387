//! [`Jobs`]: what this node hears about jobs goes to the job that it concerns, if its source may speak for the job. New
//! jobs get numbers, and layouts that are asked for are planned.

use super::changes::Changes;
use super::data;
use super::led::Led;
use super::numbering::Numbering;
use super::standbys::Askers;
use super::succession::Succession;
use super::table::{Job, Table};
use crate::job::at_node::Step;
use crate::job::coordinator;
use crate::node::context::Context;
use crate::node::numbers::Numbers;
use crate::node::ranks::launch::Launcher;
use crate::node::record::Record;
use crate::node::store::image_key::ImageKey;
use crate::node::store::input::StoreInput;
use crate::node::timer::JobTimer;
use crate::reconfiguration::effects as change;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::peer::{CoordinatorToNode, JobMessage, NodeToCoordinator, StreamToCoordinator};

/// See the file head.
pub(in crate::node) struct Jobs {
    pub(in crate::node) table: Table,
    pub(in crate::node) numbering: Numbering,
    pub(in crate::node) succession: Succession,
    pub(super) changes: Changes,
    /// Whether the node was given notice: a signal may end its ranks before they have left.
    pub(in crate::node) is_taken_away: bool,
    pub(super) standby_askers: Askers,
}

impl Jobs {
    pub(in crate::node) fn new(launcher: Launcher, numbers: Numbers) -> Self {
        Self {
            table: Table::new(launcher),
            numbering: Numbering::new(numbers),
            succession: Succession::default(),
            changes: Changes::default(),
            standby_askers: Askers::default(),
            is_taken_away: false,
        }
    }

    /// Everything a successor would have to know of the jobs.
    pub(in crate::node) fn present(&mut self, now_us: u64) -> Vec<Record> {
        let mut records = Vec::from(self.numbering.records());
        records.extend(self.table.records(now_us));
        records
    }

    pub(in crate::node) fn on_timer(&mut self, job: JobId, timer: JobTimer, cx: &mut Context<'_>) {
        match timer {
            JobTimer::Step => self.table.on_deadline(job, cx),
            JobTimer::Reform(timer) => self.table.reform(job, change::Input::Timer(*timer), cx),
            JobTimer::Unattended => _ = self.table.with_led(job, Led::on_unattended, cx),
            JobTimer::Checkpoint => {
                self.table
                    .with_led(job, |led, coordinator, cx| led.leading.on_timer(coordinator, cx), cx);
            }
            JobTimer::CheckpointAsked(number) => {
                let on_timer = |led: &mut Led, _: &_, cx: &mut Context<'_>| {
                    led.leading.on_asked_timer(job, number, cx);
                    None
                };
                self.table.with_led(job, on_timer, cx);
            }
            JobTimer::CoordinatorLost => self.on_coordinator_lost_timer(job, cx),
            JobTimer::Abandoned => self.on_abandoned_timer(job, cx),
            JobTimer::Orphan => self.on_orphan_timer(job, cx),
            JobTimer::Standbys { is_regular } => self.table.ask_for_standbys(job, is_regular, cx),
            JobTimer::OutputEnd => self.table.with_job(job, Job::on_output_end_timer, cx),
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
                self.table.on_output_piece(job, node, piece, cx);
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
            JobMessage::Pmix { life, message } => self.on_pmix_message(job, (node, life), message, cx),
        }
    }

    fn on_report(&mut self, job: JobId, node: &NodeName, message: NodeToCoordinator, cx: &mut Context<'_>) {
        if let NodeToCoordinator::StandbysHeld(standbys) = message {
            self.table.on_standbys_held(job, node, standbys);
        } else if self.table.leads(job) {
            let node = node.clone();
            self.table
                .coordinate(job, [coordinator::Input::Said { node, message }], cx);
        } else if !cx.cluster.is_leaving() {
            // The job is over, or this is not its coordinator; either way the node need not keep it.
            cx.send_job(node, job, CoordinatorToNode::Close);
        }
    }

    /// A node is linked (again): says what it may have missed of the jobs coordinated here and of those it coordinates.
    pub(in crate::node) fn on_linked(&mut self, node: &NodeName, cx: &mut Context<'_>) {
        self.on_heirs_linked(node, cx);
        self.table.past.say_lost(node, cx);
        let known: Vec<JobId> = self.table.all().map(|(job, _)| job).collect();
        for job in known {
            let effects = self.table.get(job).map(|known| known.machine.on_linked(node));
            let effects = effects.unwrap_or_default();
            let step = Step {
                effects,
                ..Step::default()
            };
            self.table.finish(job, step, cx);
            if let Some(known) = self.table.get_mut(job) {
                known.on_linked(node, cx);
            }
        }
    }

    /// A node is gone: the jobs with processes there hear of it.
    pub(in crate::node) fn on_node_gone(&mut self, node: &NodeName, cx: &mut Context<'_>) {
        for job in self.table.led_ids() {
            let on_lost =
                |led: &mut Led, coordinator: &_, cx: &mut Context<'_>| led.leading.on_node_lost(node, coordinator, cx);
            self.table.with_led(job, on_lost, cx);
        }
        cx.store(StoreInput::NodeGone { node: node.clone() });
        let with_node = self.table.coordinators();
        let with_node = with_node.filter(|(_, coordinator)| coordinator.has_node(node));
        for job in with_node.map(|(job, _)| job).collect::<Vec<_>>() {
            self.table
                .coordinate(job, [coordinator::Input::NodeGone { node: node.clone() }], cx);
        }
        self.table
            .reform_all(&change::Input::NodeGone { node: node.clone() }, cx);
    }
}
