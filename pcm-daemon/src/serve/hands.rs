//! The hands of the daemon: sockets, processes, memory files and disk. Carries out the effects of the node and turns
//! what comes in from tasks into events of the node. Decides nothing.

use super::agent_process::AgentProcess;
use super::boot;
use super::control_senders::ControlSenders;
use super::event::Event;
use super::files::{EventLog, Files, LogLevels, Work};
use super::keeper_orders::KeeperOrders;
use super::memory::{Bulk, MemoryCarrier};
use super::peer_links::PeerLinks;
use super::pmix::PmixHelpers;
use super::stacks;
use crate::keeper;
use crate::keeper_link::{FromKeeper, Handed, HandedBuffer, HandedImage};
use crate::output_files::{OutputFiles, Written};
use crate::rank::{Output, RankEvent};
use crate::ranks::{self, Outcome, RankTable};
use pcm_core::moment::Moment;
use pcm_core::node::cost_file::MethodsEffect;
use pcm_core::node::event::{AgentNews, ControlFact, Event as NodeEvent, Held, KeeperFact, LogsAnswer, RankNews};
use pcm_core::node::memory::MemoryFile;
use pcm_core::node::outbox::{BootEffect, Effect, LogsEffect, StacksWanted};
use pcm_core::node::ranks::effect::RankEffect;
use pcm_core::node::store::checkpoint_store::HeldBuffer;
use pcm_core::node::store::effect::StoreEffect;
use pcm_core::node::store::image_key::ImageKey;
use pcm_core::node::store::input::StoreInput;
use pcm_fabric::Sender;
use pcm_fabric::peers::{PeerEvent, Peers};
use pcm_proto::app::{AppToDaemon, DaemonToApp};
use pcm_proto::boot::BootSpec;
use pcm_proto::checkpoint::RankCheckpoint;
use pcm_proto::image::ImageMessage;
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use pcm_proto::parked::{ParkKey, RestoreAnswer};
use pcm_proto::peer::{DaemonToDaemon, JobMessage};
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::sync::mpsc;

/// Time for last words to reach their readers.
const FAREWELL: Duration = Duration::from_millis(500);

/// A process that serves PMIx ends in some milliseconds, or is killed after two seconds.
const PMIX_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// After this time a change takes what was known of costs before.
const COSTS_WITHIN: Duration = Duration::from_millis(300);

/// The keeper kills what is left, looks again and waits for processes that hang in the kernel.
const KEEPER_CLEARS_WITHIN: Duration = Duration::from_secs(10);

/// See the file head.
pub(super) struct Hands {
    spec: BootSpec,
    /// Where this daemon listens.
    pub(super) address: String,
    events: mpsc::Sender<Event>,
    log: EventLog,
    keeper: KeeperOrders,
    pub(super) peers: PeerLinks,
    pub(super) disk: Disk,
    links: Links,
    memory: MemoryCarrier,
    ranks: RankTable<Event>,
}

/// What goes to files.
pub(super) struct Disk {
    pub(super) levels: LogLevels,
    files: Files,
    output: OutputFiles<Event>,
}

/// The ways to `pcmctl`, to the agent, and to what serves PMIx.
#[derive(Debug, Default)]
pub(super) struct Links {
    controls: ControlSenders,
    agent: AgentProcess,
    pmix: PmixHelpers,
}

impl Disk {
    fn carry_out_methods(&self, effect: MethodsEffect, events: &mpsc::Sender<Event>) {
        match effect {
            MethodsEffect::Learn(cost) => _ = self.files.order(Work::Learn(cost)),
            MethodsEffect::Read => {
                self.files.order(Work::ReadCosts);
                let events = events.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(COSTS_WITHIN).await;
                    let as_before = Event::Files(NodeEvent::CostsRead(None));
                    // A daemon that has ended asks no more.
                    _ = events.send(as_before).await;
                });
            }
        }
    }

    fn carry_out_logs(&mut self, effect: LogsEffect) -> Option<LogsAnswer> {
        match effect {
            LogsEffect::Levels { from, of, levels } => Some(self.levels.change(from, of, &levels)),
            LogsEffect::Tail { from, of, lines } => {
                self.files.order(Work::Tail { from, of, lines });
                None
            }
        }
    }
}

impl Hands {
    /// Must be called inside a tokio runtime.
    pub(super) fn new(
        spec: BootSpec,
        address: String,
        (log, keeper): (EventLog, KeeperOrders),
        peers: Peers,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let (own, cluster_dir) = (spec.node.name.clone(), spec.cluster_dir.clone());
        let files = log.files();
        Self {
            log,
            keeper,
            peers: PeerLinks::new(peers),
            disk: Disk {
                levels: LogLevels::default(),
                files,
                output: OutputFiles::new(cluster_dir, events.clone()),
            },
            links: Links::default(),
            memory: MemoryCarrier::new(spec.cluster_id.clone(), events.clone()),
            ranks: RankTable::new(own, events.clone()),
            address,
            events,
            spec,
        }
    }

    /// The next thing that happens between this daemon and another one.
    pub(super) async fn next_peer_event(&mut self) -> PeerEvent {
        self.peers.next_event().await
    }

    pub(super) fn use_bulk(&mut self, bulk: Bulk) {
        self.memory.use_bulk(bulk);
    }

    /// What an event is for the node.
    pub(super) fn take_in(&mut self, event: Event) -> Vec<NodeEvent> {
        let one = match event {
            Event::Keeper(fact) => NodeEvent::Keeper(self.keeper_fact(fact)),
            Event::KeeperLost { reason } => NodeEvent::KeeperLost { reason },
            Event::Peer(event) => return self.peers.handle(event),
            Event::ControlLinked { link, sender } => {
                self.links.controls.insert(link, sender);
                NodeEvent::Control(ControlFact::Linked { link })
            }
            Event::ControlSaid { link, message } => NodeEvent::Control(ControlFact::Said { link, message }),
            Event::ControlLost { link, in_order } => {
                self.links.controls.remove(link);
                NodeEvent::Control(ControlFact::Lost { link, in_order })
            }
            Event::AgentLinked { link, sender } => {
                self.links.agent.on_linked(link, sender);
                NodeEvent::Agent(AgentNews::Linked { link })
            }
            Event::AgentSaid { link, message } => NodeEvent::Agent(AgentNews::Said { link, message }),
            Event::AgentLost { link, nonsense } => {
                self.links.agent.on_lost(link);
                NodeEvent::Agent(AgentNews::Lost { link, nonsense })
            }
            Event::AgentEnded { life, reason } => NodeEvent::Agent(AgentNews::Ended { life, reason }),
            Event::Pmix { helper, news } => NodeEvent::Rank(RankNews::Pmix { helper, news }),
            Event::Memory(event) => NodeEvent::Store(self.memory.on_event(event)),
            Event::Rank(news) => return self.rank_news(news).map(NodeEvent::Rank).into_iter().collect(),
            Event::Notice => NodeEvent::Notice,
            Event::Boot(fact) => NodeEvent::Boot(fact),
            Event::Files(fact) => fact,
            Event::Earlier(earlier) => {
                self.log.take_earlier(earlier);
                return Vec::new();
            }
            Event::Stacks { node, ask, stacks } => NodeEvent::StacksRead { node, ask, stacks },
            Event::Tuning(tuning) => {
                self.peers.use_tuning(tuning);
                return Vec::new();
            }
            Event::Written(Written { job, pieces }) => NodeEvent::Filed { job, pieces },
        };
        vec![one]
    }

    /// Serves a process that the keeper holds.
    pub(super) fn hold(&mut self, handed: Handed) -> Held {
        let (key, pid, ended) = (handed.key, handed.pid, handed.ended);
        let attached = self.ranks.attach(handed).map_err(|error| error.to_string());
        Held {
            key,
            pid,
            ended,
            attached,
        }
    }

    pub(super) fn hold_image(&mut self, handed: HandedImage) -> (ParkKey, Option<MemoryFile>) {
        let HandedImage { key, bytes, file } = handed;
        (key, self.memory.receive(Some(file), bytes))
    }

    pub(super) fn hold_buffer(&mut self, handed: HandedBuffer) -> HeldBuffer {
        self.memory.receive_buffer(handed)
    }

    fn keeper_fact(&mut self, fact: FromKeeper) -> KeeperFact {
        match fact {
            FromKeeper::Started(handed) => KeeperFact::Started(self.hold(handed)),
            FromKeeper::StartRefused { key, code, reason } => KeeperFact::StartRefused { key, code, reason },
            FromKeeper::Exited { key, status } => KeeperFact::Exited { key, status },
            FromKeeper::StandbysHeld { job, standbys } => KeeperFact::StandbysHeld { job, standbys },
            FromKeeper::Parked(image) => {
                let (key, memory) = self.hold_image(image);
                KeeperFact::Parked { key, memory }
            }
            FromKeeper::NotParked { key, reason } => KeeperFact::NotParked { key, reason },
            FromKeeper::Kept { key, outcome } => KeeperFact::Kept { key, outcome },
            FromKeeper::JobCleared {
                job,
                killed,
                segments,
                left,
            } => KeeperFact::JobCleared {
                job,
                killed,
                segments,
                left,
            },
        }
    }

    fn rank_news(&mut self, news: ranks::RankNews) -> Option<RankNews> {
        Some(match news {
            ranks::RankNews::Said(RankEvent::Pmi { key, request }) => RankNews::Pmi { key, request },
            ranks::RankNews::Said(RankEvent::App {
                key,
                message,
                descriptors,
            }) => {
                let file = descriptors.into_iter().next();
                let memory = match &message {
                    AppToDaemon::Parked { bytes, .. } => self.memory.receive_sealed(file, *bytes),
                    AppToDaemon::Checkpoint(RankCheckpoint::Kept { bytes, .. }) => self.memory.receive(file, *bytes),
                    _ => None,
                };
                RankNews::Said { key, message, memory }
            }
            ranks::RankNews::Said(RankEvent::PmiBroken { key, reason }) => {
                tracing::warn!(job = %key.job, process = %key.process, reason, "a process does not speak PMI");
                return None;
            }
            ranks::RankNews::Said(RankEvent::PmiClosed { .. }) => return None,
            ranks::RankNews::Said(RankEvent::AppBroken { key, reason }) => RankNews::Silent {
                key,
                nonsense: Some(reason),
            },
            ranks::RankNews::Said(RankEvent::AppClosed { key }) => RankNews::Silent { key, nonsense: None },
            ranks::RankNews::Printed(Output::Lines { key, stream, bytes }) => RankNews::Printed { key, stream, bytes },
            ranks::RankNews::Printed(Output::End { key, stream }) => RankNews::OutputEnded { key, stream },
            ranks::RankNews::StdinTaken { job, bytes } => RankNews::StdinTaken { job, bytes },
        })
    }

    /// Carries out an effect; what there is to report of it.
    pub(super) fn carry_out(&mut self, effect: Effect, now: Moment) -> Vec<NodeEvent> {
        let report = match effect {
            Effect::Send { node, message } => {
                self.peers.send(&node, message);
                None
            }
            Effect::ForgetLinks { node } => return self.peers.forget(&node),
            Effect::Peers(effect) => return self.peers.carry_out(effect, now, &mut self.log),
            Effect::Keeper(order) => {
                self.keeper.order(order);
                None
            }
            Effect::Note { job, epoch, kind } => {
                self.log.note(now.0, job, epoch, kind);
                None
            }
            Effect::ReadEvents {
                node,
                ask,
                job,
                since_us,
            } => {
                let events = self.log.after(since_us, job);
                Some(NodeEvent::EventsRead { node, ask, events })
            }
            Effect::ReadStacks(wanted) => return self.read_stacks(wanted),
            Effect::Pmix(effect) => {
                self.links.pmix.carry_out(effect, &self.spec, &self.events);
                None
            }
            Effect::Files(effect) => {
                self.disk.output.carry_out(effect);
                None
            }
            Effect::Control { link, message } => {
                self.links.controls.send(link, &message);
                None
            }
            Effect::Rank(effect) => self.carry_out_rank(effect),
            Effect::Store(effect) => {
                self.carry_out_store(effect);
                self.memory.take_report().map(NodeEvent::Store)
            }
            Effect::Agent(effect) => {
                let files = &self.disk.files;
                self.links.agent.carry_out(effect, &self.spec, files, &self.events);
                None
            }
            Effect::Methods(effect) => {
                self.disk.carry_out_methods(effect, &self.events);
                None
            }
            Effect::Logs(effect) => {
                let answer = self.disk.carry_out_logs(effect);
                answer.map(|answer| NodeEvent::Logs(Box::new(answer)))
            }
            Effect::Boot(effect) => self.carry_out_boot(effect),
            Effect::Sweep { prefixes } => {
                let swept = keeper::sweep(&self.spec.cluster_id, &self.spec.node.name, &prefixes);
                let (killed, segments) = (swept.killed, swept.segments);
                tracing::info!(killed, segments, "what the ranks left was cleared");
                None
            }
            Effect::Record(_) | Effect::Arm { .. } => {
                tracing::error!(?effect, "an effect is not for here");
                None
            }
        };
        report.into_iter().collect()
    }

    /// What they show is reported later.
    fn read_stacks(&self, wanted: StacksWanted) -> Vec<NodeEvent> {
        let StacksWanted {
            node,
            ask,
            job,
            process,
        } = wanted;
        let mut processes = self.ranks.pids(job);
        processes.retain(|(one, _)| process.is_none_or(|process| process == *one));
        stacks::read(&self.spec.node.name, processes, (node, ask), self.events.clone());
        Vec::new()
    }

    fn carry_out_boot(&mut self, effect: BootEffect) -> Option<NodeEvent> {
        match effect {
            BootEffect::Ready => boot::report_ready(&self.spec.node.name, &self.address).map(NodeEvent::Boot),
            BootEffect::Report(report) => {
                boot::pass_on(&report);
                None
            }
            BootEffect::EndReports => {
                boot::end_reports();
                None
            }
            BootEffect::Boot {
                template,
                nodes,
                is_part,
            } => {
                boot::boot_nodes(*template, nodes, is_part, self.events.clone());
                None
            }
        }
    }

    fn carry_out_rank(&mut self, mut effect: RankEffect) -> Option<NodeEvent> {
        let file = self.file_for_rank(&mut effect);
        match self.ranks.carry_out(effect, file) {
            Outcome::Done => None,
            Outcome::Fact(fact) => Some(NodeEvent::RankFact(fact)),
            Outcome::Start(spec, page) => {
                self.keeper.start_process(*spec, page);
                None
            }
        }
    }

    /// The memory file that goes to a rank with a message; a rank that cannot have it hears why.
    fn file_for_rank(&mut self, effect: &mut RankEffect) -> Option<OwnedFd> {
        let RankEffect::Tell {
            key: ProcessKey { job, process },
            message,
            memory: Some(memory),
        } = effect
        else {
            return None;
        };
        match self.memory.file(*memory) {
            Ok((file, _)) => Some(file.into()),
            Err(error) => {
                tracing::error!(%job, %process, %error, "memory for a rank cannot be had");
                if let DaemonToApp::Restore(RestoreAnswer::Image { attempt, asked, .. }) = **message {
                    let reason = error.to_string();
                    **message = DaemonToApp::Restore(RestoreAnswer::Lost { attempt, asked, reason });
                }
                None
            }
        }
    }

    /// Carries out what the store wants done.
    fn carry_out_store(&mut self, effect: StoreEffect) {
        match effect {
            StoreEffect::Keep { key, memory } => match self.memory.file(memory) {
                Ok((file, bytes)) => self.keeper.keep(key, bytes, file.into()),
                Err(error) => self.memory.report(StoreInput::Kept {
                    key,
                    outcome: Err(error.to_string()),
                }),
            },
            StoreEffect::Park { key, memory } => match self.memory.give_away(memory) {
                Ok((file, bytes)) => self.keeper.park(key, bytes, file.into()),
                Err(error) => self.memory.report(StoreInput::NotParked {
                    key,
                    reason: error.to_string(),
                }),
            },
            StoreEffect::TellRanks { job, message } => self.ranks.tell_all(job, &message),
            StoreEffect::GiveBlock {
                node,
                key: ImageKey { job, name },
                block,
                memory,
            } => {
                let message = self
                    .memory
                    .block(memory, block)
                    .unwrap_or_else(|error| ImageMessage::Gone {
                        reason: format!("node {} cannot read it: {error}", self.spec.node.name),
                    });
                let message = Box::new(JobMessage::Image { name, message });
                let message = DaemonToDaemon::Job { job, message };
                self.peers.send(&node, message);
            }
            StoreEffect::Put {
                number,
                node,
                region,
                at,
                memory,
            } => {
                let host = self.peers.host(&node);
                let host = host.ok_or_else(|| format!("node {node} has no address"));
                let to = host.map(|host| (host.to_owned(), at));
                self.memory.put(number, to, region, memory);
            }
            effect => self.memory.carry_out(effect),
        }
    }

    /// After the loop: last words, then the keeper is told to end. It clears up, closes its socket when it has, and
    /// is the last to go.
    pub(super) async fn farewell(&mut self, mut events: mpsc::Receiver<Event>, is_taken_away: bool) {
        self.links.agent.stop();
        if tokio::time::timeout(PMIX_ENDS_WITHIN, self.links.pmix.stop_all())
            .await
            .is_err()
        {
            tracing::warn!("what serves PMIx did not end");
        }
        let senders: Vec<Sender> = self
            .peers
            .take_senders()
            .into_iter()
            .chain(self.links.controls.take())
            .collect();
        let closing = senders.into_iter().map(|sender| tokio::spawn(sender.close()));
        let closing: Vec<_> = closing.collect();
        let all = async {
            for one in closing {
                let _ = one.await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, all).await;
        if tokio::time::timeout(FAREWELL, self.disk.files.done()).await.is_err() {
            tracing::warn!("the disk is away: the last events are not written");
        }
        self.keeper.order(DaemonToKeeper::Quit { is_taken_away });
        let closed = async {
            while let Some(event) = events.recv().await {
                if matches!(event, Event::KeeperLost { .. }) {
                    return;
                }
            }
        };
        if tokio::time::timeout(KEEPER_CLEARS_WITHIN, closed).await.is_err() {
            tracing::warn!("the keeper did not say that it has cleared up");
        }
    }
}
