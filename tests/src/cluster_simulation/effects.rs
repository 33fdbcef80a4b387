//! How the effects of a node are carried out, but for records and timers.

use super::agent::SAMPLES_EVERY;
use super::happening::{Happening, RankHappening};
use super::machine::{machine_at, machine_named};
use super::scenario::Plant;
use super::seen::Seen;
use super::simulation::Simulation;
use super::story::short;
use pcm_core::node::agent::AgentEffect;
use pcm_core::node::cost_file::{FileCosts, MethodsEffect};
use pcm_core::node::event::{AgentNews, BootFact, Event, LogsAnswer};
use pcm_core::node::outbox::{BootEffect, Effect, LogsEffect, PeersEffect, StacksWanted};
use pcm_core::node::ranks::effect::{RankEffect, RankFact};
use pcm_core::node::requester::LinkId;
use pcm_core::node::streams::effect::{FileEffect, Filed};
use pcm_proto::agent::AgentToDaemon;
use pcm_proto::app::DaemonToApp;
use pcm_proto::boot::BootReport;
use pcm_proto::control::DaemonToControl;
use pcm_proto::ids::Iteration;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::page::CEILING_NONE;
use pcm_proto::parked::RestoreAnswer;

impl Simulation {
    /// Carries out an effect; what there is to report of it.
    pub(super) fn carry_out_one(&mut self, machine: usize, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Send { node, message } => {
                if let Some(to) = machine_named(&node) {
                    self.send(machine, to, message);
                }
            }
            Effect::ForgetLinks { node } => {
                if let Some(other) = machine_named(&node) {
                    self.forget_wires(machine, other);
                }
            }
            Effect::Peers(effect) => self.carry_out_peers(machine, effect),
            Effect::Keeper(order) => self.keeper_order(machine, order),
            Effect::Note { job, epoch, kind } => {
                self.tell(|| format!("n{machine} notes {job:?} {}", short(&kind)));
                self.tally.note(&kind);
                let kind = Box::new(kind);
                self.ledger.see(Seen::Noted {
                    machine,
                    job,
                    epoch,
                    kind,
                });
            }
            Effect::Control { link, message } => self.on_answer(machine, link, *message),
            Effect::Rank(effect) => return self.carry_out_rank(machine, effect).map(Event::RankFact),
            Effect::Store(effect) => return self.carry_out_store(machine, effect).map(Event::Store),
            Effect::Files(effect) => return self.carry_out_files(machine, effect),
            Effect::Agent(effect) => return self.carry_out_agent(machine, effect),
            Effect::Methods(MethodsEffect::Read) => return Some(Event::CostsRead(Some(FileCosts::default()))),
            Effect::Methods(MethodsEffect::Learn(_)) => {}
            Effect::Logs(LogsEffect::Tail { from, .. } | LogsEffect::Levels { from, .. }) => {
                return Some(Event::Logs(Box::new(LogsAnswer {
                    from,
                    answer: DaemonToControl::Logs(String::new()),
                    levels: None,
                })));
            }
            Effect::ReadEvents { node, ask, .. } => {
                let events = Vec::new();
                return Some(Event::EventsRead { node, ask, events });
            }
            Effect::ReadStacks(StacksWanted { node, ask, .. }) => {
                let stacks = Vec::new();
                return Some(Event::StacksRead { node, ask, stacks });
            }
            Effect::Boot(BootEffect::Ready | BootEffect::Report(_) | BootEffect::EndReports) => {}
            Effect::Boot(BootEffect::Boot { nodes, .. }) => {
                // All machines that there are were there from the beginning.
                let node = nodes.first()?.name.clone();
                let reason = "there is no such machine".to_owned();
                return Some(Event::Boot(BootFact::Report(BootReport::Failed { node, reason })));
            }
            // No simulated job is of Open MPI.
            Effect::Sweep { .. } | Effect::Pmix(_) => {}
            Effect::Record(_) | Effect::Arm { .. } => {}
        }
        None
    }

    fn carry_out_peers(&mut self, machine: usize, effect: PeersEffect) {
        match effect {
            PeersEffect::SetAddress { node, address } => {
                let Some(daemon) = &mut self.machines[machine].daemon else {
                    return;
                };
                if let (Some(other), false) = (machine_named(&node), address.is_empty()) {
                    daemon.peers.set_address(other);
                }
            }
            PeersEffect::Dial { node } => {
                if let Some(other) = machine_named(&node) {
                    self.dial(machine, other);
                }
            }
            PeersEffect::SendToAddress { address, message } => {
                if let Some(to) = machine_at(&address) {
                    self.send_apart(machine, to, message);
                }
            }
            PeersEffect::SetRdmaAddress { .. } | PeersEffect::Tick | PeersEffect::NoteRoute { .. } => {}
        }
    }

    fn carry_out_rank(&mut self, machine: usize, effect: RankEffect) -> Option<RankFact> {
        let is_attached = |this: &Self, key: ProcessKey| {
            let daemon = this.machines[machine].daemon.as_ref();
            daemon.is_some_and(|daemon| daemon.attached.contains_key(&key))
        };
        match effect {
            RankEffect::Launch(launch) => {
                let order = pcm_proto::keeper::DaemonToKeeper::Start(launch.spec);
                self.keeper_order(machine, order);
            }
            RankEffect::Tell { key, message, memory } if is_attached(self, key) => {
                let daemon = self.machines[machine].daemon.as_ref()?;
                let file = memory.and_then(|id| daemon.memory.file(id));
                let mut message = *message;
                if let (Some(_), None, DaemonToApp::Restore(RestoreAnswer::Image { attempt, asked, .. })) =
                    (memory, &file, &message)
                {
                    message = DaemonToApp::Restore(RestoreAnswer::Lost {
                        attempt: *attempt,
                        asked: *asked,
                        reason: "memory cannot be had".to_owned(),
                    });
                }
                self.tell_rank(key, message, file);
            }
            RankEffect::AnswerPmi { key, line } if is_attached(self, key) => {
                return self.answer_pmi(key, line);
            }
            RankEffect::SetCeiling { key, ceiling } if is_attached(self, key) => {
                return self.set_ceiling(key, ceiling);
            }
            RankEffect::LiftCeiling { key } if is_attached(self, key) => {
                _ = self.set_ceiling(key, Iteration(CEILING_NONE));
            }
            RankEffect::WeighData { key } => return Some(self.weigh_data(key)),
            RankEffect::FindData { key } => return Some(self.find_data(key)),
            RankEffect::ReadOutput { key } => {
                let daemon = self.machines[machine].daemon.as_mut()?;
                if let Some(attachment) = daemon.attached.get_mut(&key) {
                    attachment.is_read = true;
                    self.queue.after(30, Happening::Rank(RankHappening::Pipe(key)));
                }
            }
            RankEffect::Read { number, question } => {
                let pages = self.read_pages(machine, &question);
                return Some(RankFact::PagesRead { number, pages });
            }
            RankEffect::Forget { key } => {
                let daemon = self.machines[machine].daemon.as_mut()?;
                daemon.attached.remove(&key);
            }
            RankEffect::ForgetJob { job } => {
                let daemon = self.machines[machine].daemon.as_mut()?;
                daemon.attached.retain(|key, _| key.job != job);
            }
            _ => {}
        }
        None
    }

    /// The daemon says something on the channel of a process, which keeps its order.
    pub(super) fn tell_rank(&mut self, key: ProcessKey, message: DaemonToApp, file: Option<super::image::File>) {
        let (delay, now) = (self.random.between(10, 200), self.queue.now());
        let message = self.plant_in_order(message);
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        rank.channel.told_at = (now + delay).max(rank.channel.told_at + 1);
        let at = rank.channel.told_at;
        let message = Box::new(message);
        self.queue
            .at(at, Happening::Rank(RankHappening::Told { key, message, file }));
    }

    /// Planted: a rank hears of a commit where there was none.
    fn plant_in_order(&mut self, message: DaemonToApp) -> DaemonToApp {
        use pcm_proto::layout::Mode;
        use pcm_proto::reconfiguration::ReconfigurationOrder;
        match message {
            DaemonToApp::Reconfiguration(ReconfigurationOrder::Decided {
                attempt,
                committed: false,
                mode: Mode::Live,
            }) if self.has_plant(Plant::DaemonIgnoresAbort) => {
                DaemonToApp::Reconfiguration(ReconfigurationOrder::Decided {
                    attempt,
                    committed: true,
                    mode: Mode::Live,
                })
            }
            message => message,
        }
    }

    fn answer_pmi(&mut self, key: ProcessKey, line: String) -> Option<RankFact> {
        let delay = self.random.between(10, 60);
        let rank = self.ranks.get_mut(&key)?;
        if !rank.is_alive {
            return None;
        }
        let Some(request) = rank.pmi.asks.take() else {
            let text = format!("{key:?} has no open request and is answered {line:?}");
            self.violate(super::violation::Violation::new(
                "every_request_has_its_own_answer",
                text,
            ));
            return None;
        };
        if self.plants_now(Plant::PmiAnswersTwice) {
            let again = Happening::Rank(RankHappening::Answered {
                key,
                request: Box::new(request.clone()),
                line: "cmd=barrier_out rc=0".to_owned(),
            });
            self.queue.after(delay, again);
        }
        let request = Box::new(request);
        self.queue
            .after(delay, Happening::Rank(RankHappening::Answered { key, request, line }));
        Some(RankFact::PmiAnswered { key })
    }

    fn carry_out_files(&mut self, machine: usize, effect: FileEffect) -> Option<Event> {
        self.tell(|| format!("n{machine} files: {}", short(&effect)));
        let daemon = self.machines[machine].daemon.as_mut()?;
        match effect {
            FileEffect::Open { job } => daemon.written.open(job),
            FileEffect::Close { job } => daemon.written.close(job),
            FileEffect::Write { job, pieces } if daemon.written.is_open(job) => {
                let filed = pieces.iter().map(|piece| Filed {
                    process: piece.process,
                    stream: piece.stream,
                    end: piece.offset + piece.bytes.len() as u64,
                });
                let (of, pieces) = (daemon.life(), filed.collect());
                let event = Box::new(Event::Filed { job, pieces });
                let delay = self.random.between(200, 5_000);
                self.queue.after(delay, Happening::Event { of, event });
            }
            FileEffect::Write { .. } => {}
        }
        None
    }

    fn carry_out_agent(&mut self, machine: usize, effect: AgentEffect) -> Option<Event> {
        match effect {
            AgentEffect::Start { life } => {
                self.links += 1;
                let link = LinkId(self.links);
                let daemon = self.machines[machine].daemon.as_mut()?;
                daemon.agent.start(life, link);
                let of = daemon.life();
                let news = [
                    AgentNews::Linked { link },
                    AgentNews::Said {
                        link,
                        message: AgentToDaemon::Ready { pid: 1 },
                    },
                ];
                for (place, news) in news.into_iter().enumerate() {
                    let event = Box::new(Event::Agent(news));
                    self.queue.after(3_000 + place as u64, Happening::Event { of, event });
                }
                self.queue.after(SAMPLES_EVERY, Happening::AgentAsks { of, link });
                None
            }
            AgentEffect::Stop => {
                let daemon = self.machines[machine].daemon.as_mut()?;
                let (life, link) = daemon.agent.stop()?;
                let of = daemon.life();
                let reason = "it was ended".to_owned();
                let lost = AgentNews::Lost { link, nonsense: None };
                for (place, news) in [lost, AgentNews::Ended { life, reason }].into_iter().enumerate() {
                    let event = Box::new(Event::Agent(news));
                    self.queue.after(1_000 + place as u64, Happening::Event { of, event });
                }
                None
            }
            AgentEffect::Send(_) => None,
        }
    }

    pub(super) fn on_agent_asks(&mut self, of: super::happening::Life, link: LinkId) {
        let daemon = self.machines[of.machine].daemon.as_ref();
        if !daemon.is_some_and(|daemon| daemon.life() == of && daemon.agent.is_running(link)) {
            return;
        }
        let message = AgentToDaemon::Sample { about: Vec::new() };
        self.event_of(of, Event::Agent(AgentNews::Said { link, message }));
        self.queue.after(SAMPLES_EVERY, Happening::AgentAsks { of, link });
    }
}
