//! Where the daemon meets the node's store: what the store reads of other parts, who its inputs come from, and those of
//! its effects that need ranks, the keeper or other nodes. Decides nothing.

use super::daemon::Daemon;
use super::memory::block_checksum;
use super::parts::Part;
use crate::keeper_link::{HandedBuffer, HandedImage};
use pcm_core::node::cluster::nodes::Nodes;
use pcm_core::node::outbox::Inward;
use pcm_core::node::ranks::effect::RankEffect;
use pcm_core::node::record::Holding;
use pcm_core::node::store::ahead::{Ahead, ahead};
use pcm_core::node::store::effect::StoreEffect;
use pcm_core::node::store::image_key::ImageKey;
use pcm_core::node::store::input::{BlockCame, StoreInput};
use pcm_core::node::store::step::{JobFacts, RdmaReach, Surroundings};
use pcm_core::node::timer::Timer;
use pcm_core::reconfiguration::effects::Input;
use pcm_fabric::peers::{self, Peers};
use pcm_proto::app::{AppToDaemon, DaemonToApp};
use pcm_proto::checkpoint::{BufferKey, CheckpointMessage, RankCheckpoint};
use pcm_proto::ids::{Bytes, JobId, NodeName};
use pcm_proto::image::ImageMessage;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::{ParkKey, RestoreAnswer};
use pcm_proto::peer::{DaemonToDaemon, JobMessage};
use pcm_proto::reconfiguration::ReconfigurationReport;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// What the store reads of the daemon's other parts.
struct Around<'a> {
    parts: &'a BTreeMap<JobId, Part>,
    nodes: &'a Nodes,
    peers: &'a Peers,
}

impl Surroundings for Around<'_> {
    fn job(&self, job: JobId) -> Option<JobFacts<'_>> {
        let Part { state, reforming, .. } = self.parts.get(&job)?;
        let engaged = reforming.record().engaged.as_ref();
        Some(JobFacts {
            coordinator: state.coordinator(),
            is_ending: state.is_ending(),
            engaged: engaged.map(|engaged| (engaged.attempt, &engaged.plan)),
            layout: reforming.layout(),
            processes: state.processes(),
            restores: state.restores(),
        })
    }

    fn is_live(&self, node: &NodeName) -> bool {
        self.nodes.is_live(node)
    }

    fn is_same_host(&self, node: &NodeName) -> bool {
        self.nodes.host(node) == self.nodes.own().host
    }

    fn rdma_reach(&self, node: &NodeName) -> RdmaReach {
        match self.peers.rdma_reach(node) {
            peers::RdmaReach::NoDevice => RdmaReach::NoDevice,
            peers::RdmaReach::Silent => RdmaReach::Silent,
            peers::RdmaReach::Reachable => RdmaReach::There,
        }
    }
}

impl Daemon {
    fn around(&self) -> Around<'_> {
        let Self {
            parts, nodes, peers, ..
        } = self;
        Around { parts, nodes, peers }
    }

    /// Hands an input to the store.
    pub(super) fn store_input(&mut self, input: StoreInput) {
        let Self {
            store,
            parts,
            nodes,
            peers,
            out,
            ..
        } = self;
        store.handle(input, &Around { parts, nodes, peers }, out);
    }

    /// The daemon started again: takes over what the keeper holds.
    pub(super) fn take_over_memory(
        &mut self,
        parked: Vec<HandedImage>,
        kept: Vec<HandedBuffer>,
        known: BTreeMap<BufferKey, Holding>,
    ) {
        let receive = |HandedImage { key, bytes, file }| (key, self.memory.receive(Some(file), bytes));
        let parked = parked.into_iter().map(receive).collect();
        let kept = kept.into_iter().map(|buffer| self.memory.receive_buffer(buffer));
        let kept = kept.collect();
        let Self {
            store,
            parts,
            nodes,
            peers,
            out,
            ..
        } = self;
        store.take_over(parked, (kept, known), &Around { parts, nodes, peers }, out);
    }

    /// The keeper holds an image.
    pub(super) fn on_parked_image(&mut self, handed: HandedImage) {
        let HandedImage { key, bytes, file } = handed;
        let memory = self.memory.receive(Some(file), bytes);
        self.store_input(StoreInput::Parked { key, memory });
    }

    /// A rank says something about its data.
    pub(super) fn on_rank_data(&mut self, from: ProcessKey, message: AppToDaemon, descriptors: Vec<OwnedFd>) {
        let ProcessKey { job, process } = from;
        let key = |attempt| ParkKey { job, attempt, process };
        let file = descriptors.into_iter().next();
        let input = match message {
            AppToDaemon::Reconfiguration(report) => StoreInput::Report { process: from, report },
            AppToDaemon::Parked { attempt, bytes } => StoreInput::ParkHanded {
                key: key(attempt),
                memory: self.memory.receive_sealed(file, bytes),
            },
            AppToDaemon::Ahead {
                attempt,
                table,
                stretches,
            } => StoreInput::ConstantData {
                key: key(attempt),
                table,
                stretches,
            },
            AppToDaemon::Restore(ask) => StoreInput::RestoreAsked { asker: from, ask },
            AppToDaemon::RestoreFailed { reason } => StoreInput::RestoreFailed { process: from, reason },
            AppToDaemon::Checkpoint(said) => {
                let memory = match &said {
                    RankCheckpoint::Kept { bytes, .. } => self.memory.receive(file, *bytes),
                    _ => None,
                };
                StoreInput::RankCheckpoint { from, said, memory }
            }
            message => return tracing::error!(?message, "a rank's message is not about its data"),
        };
        self.store_input(input);
    }

    /// Another node says something about an image; a block is checked first.
    pub(super) fn on_image_message(&mut self, key: ImageKey, node: &NodeName, message: ImageMessage) {
        let node = node.clone();
        self.store_input(match message {
            ImageMessage::Block {
                block,
                image_bytes,
                checksum,
                bytes,
            } => StoreInput::Block {
                key,
                node,
                came: BlockCame {
                    block,
                    image_bytes,
                    is_sound: block_checksum(&bytes) == checksum,
                    bytes,
                },
            },
            message => StoreInput::Image { key, node, message },
        });
    }

    pub(super) fn on_inward(&mut self, fact: Inward) {
        match fact {
            Inward::Reconfigure { job, input } => self.reform(job, *input),
            Inward::CopyMeasured {
                node,
                goes,
                since,
                bytes,
            } => self.measure_copy(&node, goes, since, bytes),
            Inward::Queries(outcome) => self.on_outcome(outcome),
            Inward::Agent(fact) => self.on_agent_fact(fact),
        }
    }

    pub(super) fn say_checkpoint(&mut self, node: &NodeName, job: JobId, message: CheckpointMessage) {
        self.out.send_job(node, job, JobMessage::Checkpoint(Box::new(message)));
    }

    /// The routes that images take from the other nodes now.
    pub(super) fn copy_routes_in_use(&self) -> String {
        let nodes = self.nodes.reachable();
        self.store.routes_in_use(self.out.now(), &self.around(), &nodes)
    }

    /// It is known how much data a process has that may do something ahead of its meeting.
    pub(super) fn on_data_weighed(&mut self, key: ParkKey, constant: Bytes, registered: Bytes) {
        let ParkKey { job, attempt, process } = key;
        let part = self.parts.get(&job);
        let engaged = part.and_then(|part| part.reforming.record().engaged.as_ref());
        match engaged.map_or(Ahead::Nothing, |engaged| {
            ahead(&engaged.plan, process, constant, registered)
        }) {
            Ahead::Nothing => {
                let report = ReconfigurationReport::Ahead { attempt };
                return self.reform(job, Input::Report { process, report });
            }
            Ahead::Data => {}
            Ahead::Memory { within } => self.out.arm(within, Timer::Ahead(key)),
        }
        self.store_input(StoreInput::TellPlanAhead { job, process });
    }

    /// The memory file that goes to a rank with a message; a rank that cannot have it hears why.
    pub(super) fn file_for_rank(&mut self, effect: &mut RankEffect) -> Option<OwnedFd> {
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
    pub(super) fn carry_out_store(&mut self, effect: StoreEffect) {
        match effect {
            StoreEffect::Keep { key, memory } => match self.memory.file(memory) {
                Ok((file, bytes)) => self.keeper.keep(key, bytes, file.into()),
                Err(error) => tracing::warn!(job = %key.job, %error, "the keeper does not hold a part of a checkpoint"),
            },
            StoreEffect::Park { key, memory } => match self.memory.give_away(memory) {
                Ok((file, bytes)) => self.keeper.park(key, bytes, file.into()),
                Err(error) => self.memory.report(StoreInput::NotParked {
                    key,
                    reason: error.to_string(),
                }),
            },
            StoreEffect::TellRanks { job, message } => {
                let Some(part) = self.parts.get(&job) else { return };
                for process in part.ranks.processes() {
                    let key = ProcessKey { job, process };
                    self.rank_table.tell(key, &message, None);
                }
            }
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
                        reason: format!("node {} cannot read it: {error}", self.own),
                    });
                let message = Box::new(JobMessage::Image { name, message });
                let message = DaemonToDaemon::Job { job, message };
                self.peers.send(&node, message, Instant::now());
            }
            StoreEffect::Put {
                number,
                node,
                region,
                at,
                memory,
            } => {
                let host = self.peers.address(&node).and_then(host_of);
                let host = host.ok_or_else(|| format!("node {node} has no address"));
                let to = host.map(|host| (host.to_owned(), at));
                self.memory.put(number, to, region, memory);
            }
            effect => self.memory.carry_out(effect),
        }
    }
}

/// The host in a daemon's address.
fn host_of(address: &str) -> Option<&str> {
    let (host, _) = address.rsplit_once(':')?;
    Some(host.trim_matches(['[', ']']))
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn a_daemons_address_names_its_host() {
        assert_eq!(host_of("n1.example:70"), Some("n1.example"));
        assert_eq!(host_of("[::1]:70"), Some("::1"));
        assert_eq!(host_of("n1"), None);
    }
}
