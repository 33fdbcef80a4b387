//! Carries out what the machine of a job decides, as far as that concerns this job alone; the rest follows in
//! [`super::steps`].

use super::standbys;
use super::table::Job;
use crate::job::at_node::{Effect, Input};
use crate::job::coordinator::{self, Coordinator, SpawnWant};
use crate::job::participant::{self, Closing};
use crate::node::context::Context;
use crate::node::outbox::Inward;
use crate::node::ranks::effect::RankEffect;
use crate::node::ranks::pages::{PageQuestion, Reader};
use crate::node::timer::{JobTimer, Timer};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{NodeName, ProcessId};
use pcm_proto::job::JobEnd;
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use pcm_proto::peer::{CoordinatorToNode, JobMessage, NodeToCoordinator};

/// What a job wants of this node that goes beyond the job.
#[derive(Debug)]
pub(super) enum Follow {
    /// An input for the job itself.
    Input(Input),
    /// Places for processes that it spawns.
    Place {
        process: ProcessId,
        number: u32,
        wants: Vec<SpawnWant>,
    },
    /// To start again from a checkpoint.
    Restart {
        count: u32,
    },
    /// It has ended, and these nodes need not keep it.
    Ended {
        end: JobEnd,
        nodes: Vec<NodeName>,
    },
    Launch {
        process: ProcessId,
    },
    /// Nothing of it is left here.
    Over(Closing),
}

impl Job {
    pub(super) fn carry_out(&mut self, effect: Effect, cx: &mut Context<'_>) -> Option<Follow> {
        match effect {
            Effect::Lead(effect) => return self.carry_out_lead(effect, cx),
            Effect::Run(effect) => return self.carry_out_run(effect, cx),
            Effect::Change(effect) => self.carry_out_change(effect, cx),
            Effect::SendHosts { to, nodes } => self.send_hosts(&to, nodes, cx),
            Effect::ChangesGivenUp => self.give_up_changes(cx),
        }
        None
    }

    /// Carries out what the job's coordinator wants.
    fn carry_out_lead(&mut self, effect: coordinator::Effect, cx: &mut Context<'_>) -> Option<Follow> {
        use coordinator::Effect;
        Some(match effect {
            Effect::Send { node, message } => {
                if let Some(led) = &mut self.led {
                    led.note_group(self.id, &node, &message, cx);
                }
                cx.send_job(&node, self.id, message);
                return None;
            }
            Effect::Note(kind) => {
                if let (Some(coordinator), Some(led)) = (self.machine.coordinator(), &mut self.led) {
                    if matches!(kind, EventKind::Recovered(_)) {
                        standbys::on_changed(led, self.id, coordinator.spec(), cx);
                    }
                    led.on_note(kind, coordinator, cx);
                }
                return None;
            }
            Effect::Place { process, number, wants } => Follow::Place { process, number, wants },
            Effect::Restart { count } => Follow::Restart { count },
            Effect::Ended { end, nodes } => Follow::Ended { end, nodes },
        })
    }

    /// Carries out what this node's part of the job wants.
    fn carry_out_run(&mut self, effect: participant::Effect, cx: &mut Context<'_>) -> Option<Follow> {
        use participant::Effect;
        let job = self.id;
        match effect {
            Effect::Send { node, message } => {
                let has_new_count = has_new_count(&message);
                cx.send_job(&node, job, message);
                if has_new_count && node != cx.settings.own {
                    cx.out.inward(Inward::SayReport { node });
                }
            }
            Effect::Start { process } => return Some(Follow::Launch { process }),
            Effect::Signal { process, signal } => {
                let key = ProcessKey { job, process };
                cx.out.keeper(DaemonToKeeper::Signal { key, signal });
            }
            Effect::EndJob => {
                // How far the ranks had come, for the coordinator.
                if let Some(part) = self.machine.part() {
                    let node = part.coordinator().clone();
                    let reader = Reader::Coordinator { job, node };
                    cx.read_pages(reader, PageQuestion::Reached { job });
                }
                cx.out.keeper(DaemonToKeeper::EndJob { job });
            }
            Effect::Adopted { process } => self.read_output(process, cx),
            Effect::Answer { process, line } => {
                let key = ProcessKey { job, process };
                cx.out.rank(RankEffect::AnswerPmi { key, line });
            }
            Effect::SpawnAnswered {
                process,
                question,
                world,
            } => {
                let next = self.say_spawned((process, question), world, cx);
                return next.map(|input| Follow::Input(input.into()));
            }
            Effect::Emptied => return self.on_emptied(cx).map(|input| Follow::Input(input.into())),
            Effect::Over(closing) => return Some(Follow::Over(closing)),
        }
        None
    }

    /// A node hears on which hosts the nodes of the job are, and what its ranks have registered.
    fn send_hosts(&self, to: &NodeName, nodes: Vec<NodeName>, cx: &mut Context<'_>) {
        let known = cx.cluster.nodes();
        let hosts = nodes.into_iter().map(|node| (node.clone(), known.host(&node)));
        let hosts = CoordinatorToNode::Hosts(hosts.collect());
        cx.send_job(to, self.id, hosts);
        let spec = self.machine.coordinator().map(Coordinator::spec);
        let registered = spec.map(|spec| spec.registered.clone());
        if let Some(registered) = registered.filter(|registered| !registered.is_empty()) {
            cx.send_job(to, self.id, CoordinatorToNode::Registered(registered));
        }
    }

    /// Arms the timer of the machine, where its deadline is another.
    pub(super) fn arm(&mut self, cx: &mut Context<'_>) {
        let deadline = self.machine.deadline();
        if deadline != self.armed {
            self.armed = deadline;
            if let Some(at) = deadline {
                cx.out.arm_at(at, Timer::Job(self.id, JobTimer::Step));
            }
        }
    }
}

/// Whether the coordinator hears with this that the number of ranks here is another. It places the next ones.
fn has_new_count(message: &JobMessage) -> bool {
    use NodeToCoordinator::{Emptied, Started};
    matches!(message, JobMessage::ToCoordinator(Started { .. } | Emptied))
}
