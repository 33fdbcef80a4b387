//! Where the daemon meets the node's store: what the store reads of other parts, who its inputs come from, and those of
//! its effects that need ranks, the keeper or other nodes. Decides nothing.

use super::daemon::Daemon;
use super::memory::block_checksum;
use super::nodes::Nodes;
use super::parts::Part;
use super::standing::standing;
use crate::keeper_link::{HandedBuffer, HandedImage};
use pcm_core::node::outbox::Inward;
use pcm_core::node::record::Holding;
use pcm_core::node::store::ahead::{Ahead, ahead};
use pcm_core::node::store::effect::StoreEffect;
use pcm_core::node::store::image_key::ImageKey;
use pcm_core::node::store::input::{BlockCame, StoreInput};
use pcm_core::node::store::step::{JobFacts, RdmaReach, Surroundings};
use pcm_core::node::timer::Timer;
use pcm_fabric::peers::{self, Peers};
use pcm_proto::app::{AppToDaemon, DaemonToApp};
use pcm_proto::checkpoint::{BufferKey, CheckpointMessage, RankCheckpoint};
use pcm_proto::ids::{Bytes, JobId, NodeName, ProcessId};
use pcm_proto::image::ImageMessage;
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use pcm_proto::parked::{ParkKey, RestoreAnswer};
use pcm_proto::peer::{DaemonToDaemon, JobMessage};
use pcm_proto::reconfiguration::Attempt;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
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

    /// Whether a process has something to do ahead of its meeting.
    pub(super) fn begins_ahead(&mut self, job: JobId, process: ProcessId, attempt: Attempt) -> bool {
        let Some(part) = self.parts.get(&job) else { return false };
        let (Some(engaged), Some(local)) = (&part.reforming.record().engaged, part.locals.get(&process)) else {
            return false;
        };
        let progress = &local.handle.page().page().head.progress;
        let [constant, registered] =
            [&progress.constant_bytes, &progress.registered_bytes].map(|bytes| Bytes(bytes.load(Relaxed)));
        match ahead(&engaged.plan, process, constant, registered) {
            Ahead::Nothing => false,
            Ahead::Data => true,
            Ahead::Memory { within } => {
                let key = ParkKey { job, attempt, process };
                self.out.arm(within, Timer::Ahead(key));
                true
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
            StoreEffect::Salvage { key } => self.salvage(key),
            StoreEffect::Tell { key, message, memory } => {
                let file = memory.map(|memory| self.memory.file(memory)).transpose();
                match (file, *message) {
                    (Ok(file), message) => {
                        let file: Vec<_> = file.iter().map(|(file, _)| file.as_fd()).collect();
                        self.tell_app_with(key.job, key.process, &message, &file);
                    }
                    (Err(error), DaemonToApp::Restore(RestoreAnswer::Image { attempt, asked, .. })) => {
                        let reason = error.to_string();
                        let lost = RestoreAnswer::Lost { attempt, asked, reason };
                        self.tell_app(key.job, key.process, &DaemonToApp::Restore(lost));
                    }
                    (Err(error), _) => tracing::error!(job = %key.job, %error, "a rank is not told"),
                }
            }
            StoreEffect::TellRanks { job, message } => {
                let processes = self
                    .parts
                    .get(&job)
                    .map(|part| part.locals.keys().copied().collect::<Vec<_>>());
                for process in processes.unwrap_or_default() {
                    self.tell_app(job, process, &message);
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

    /// Has the data of a process that hangs copied out of it.
    fn salvage(&mut self, key: ParkKey) {
        let local = self.parts.get(&key.job).and_then(|part| part.locals.get(&key.process));
        let (table, stretches) = local.map_or((0, 0), |local| {
            let progress = &local.handle.page().page().head.progress;
            (progress.table.load(Acquire), progress.stretches.load(Acquire))
        });
        let stands = local.map(|local| standing(local.handle.pid()));
        tracing::warn!(
            job = %key.job,
            process = %key.process,
            stands,
            "a process does not come back from MPI: its data is salvaged"
        );
        let stretches = u32::try_from(stretches).unwrap_or(u32::MAX);
        self.keeper.order(DaemonToKeeper::Salvage { key, table, stretches });
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
