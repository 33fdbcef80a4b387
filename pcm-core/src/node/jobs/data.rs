//! Where the daemon meets the node's store: what the store reads of other parts, who its inputs come from, and those of
//! its effects that need ranks, the keeper or other nodes. Decides nothing.

use crate::node::cluster::nodes::Nodes;
use crate::node::cluster::transports::Transports;
use crate::node::jobs::table::Jobs;
use crate::node::machine::Node;
use crate::node::memory::MemoryFile;
use crate::node::outbox::Inward;
use crate::node::record::Holding;
use crate::node::store::ahead::{Ahead, ahead};
use crate::node::store::checkpoint_store::HeldBuffer;
use crate::node::store::image_key::ImageKey;
use crate::node::store::input::{BlockCame, StoreInput};
use crate::node::store::step::{JobFacts, RdmaReach, Surroundings};
use crate::node::timer::Timer;
use crate::parked::block_checksum;
use crate::reconfiguration::effects::Input;
use pcm_proto::app::AppToDaemon;
use pcm_proto::checkpoint::{BufferKey, CheckpointMessage};
use pcm_proto::ids::{Bytes, JobId, NodeName};
use pcm_proto::image::ImageMessage;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::ParkKey;
use pcm_proto::peer::JobMessage;
use pcm_proto::reconfiguration::ReconfigurationReport;
use std::collections::BTreeMap;

/// What the store reads of the daemon's other parts.
struct Around<'a> {
    jobs: &'a Jobs,
    nodes: &'a Nodes,
    transports: &'a Transports,
}

impl Surroundings for Around<'_> {
    fn job(&self, job: JobId) -> Option<JobFacts<'_>> {
        let machine = &self.jobs.get(job)?.machine;
        let state = machine.part()?;
        Some(JobFacts {
            coordinator: state.coordinator(),
            is_ending: state.is_ending(),
            engaged: machine.engaged(),
            layout: machine.layout(),
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
        self.transports.rdma_reach(node)
    }
}

impl Node {
    fn around(&self) -> Around<'_> {
        let Self {
            jobs,
            nodes,
            transports,
            ..
        } = self;
        Around {
            jobs,
            nodes,
            transports,
        }
    }

    /// Hands an input to the store.
    pub(in crate::node) fn store_input(&mut self, input: StoreInput) {
        let Self {
            store,
            jobs,
            nodes,
            transports,
            out,
            ..
        } = self;
        store.handle(
            input,
            &Around {
                jobs,
                nodes,
                transports,
            },
            out,
        );
    }

    /// The daemon started again: takes over what the keeper holds.
    pub(in crate::node) fn take_over_memory(
        &mut self,
        parked: Vec<(ParkKey, Option<MemoryFile>)>,
        kept: Vec<HeldBuffer>,
        known: BTreeMap<BufferKey, Holding>,
    ) {
        let Self {
            store,
            jobs,
            nodes,
            transports,
            out,
            ..
        } = self;
        store.take_over(
            parked,
            (kept, known),
            &Around {
                jobs,
                nodes,
                transports,
            },
            out,
        );
    }

    /// A rank says something about its data.
    pub(in crate::node) fn on_rank_data(&mut self, from: ProcessKey, message: AppToDaemon, memory: Option<MemoryFile>) {
        let ProcessKey { job, process } = from;
        let key = |attempt| ParkKey { job, attempt, process };
        let input = match message {
            AppToDaemon::Reconfiguration(report) => StoreInput::Report { process: from, report },
            AppToDaemon::Parked { attempt, .. } => StoreInput::ParkHanded {
                key: key(attempt),
                memory,
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
            AppToDaemon::Checkpoint(said) => StoreInput::RankCheckpoint { from, said, memory },
            message => return tracing::error!(?message, "a rank's message is not about its data"),
        };
        self.store_input(input);
    }

    /// Another node says something about an image; a block is checked first.
    pub(in crate::node) fn on_image_message(&mut self, key: ImageKey, node: &NodeName, message: ImageMessage) {
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

    pub(in crate::node) fn on_inward(&mut self, fact: Inward) {
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

    pub(in crate::node) fn say_checkpoint(&mut self, node: &NodeName, job: JobId, message: CheckpointMessage) {
        self.out.send_job(node, job, JobMessage::Checkpoint(Box::new(message)));
    }

    /// The routes that images take from the other nodes now.
    pub(in crate::node) fn copy_routes_in_use(&self) -> String {
        let nodes = self.nodes.reachable();
        self.store.routes_in_use(self.out.now(), &self.around(), &nodes)
    }

    /// It is known how much data a process has that may do something ahead of its meeting.
    pub(in crate::node) fn on_data_weighed(&mut self, key: ParkKey, constant: Bytes, registered: Bytes) {
        let ParkKey { job, attempt, process } = key;
        let engaged = self.jobs.get(job).and_then(|known| known.machine.engaged());
        match engaged.map_or(Ahead::Nothing, |(_, plan)| ahead(plan, process, constant, registered)) {
            Ahead::Nothing => {
                let report = ReconfigurationReport::Ahead { attempt };
                return self.reform(job, Input::Report { process, report });
            }
            Ahead::Data => {}
            Ahead::Memory { within } => self.out.arm(within, Timer::Ahead(key)),
        }
        self.store_input(StoreInput::TellPlanAhead { job, process });
    }
}
