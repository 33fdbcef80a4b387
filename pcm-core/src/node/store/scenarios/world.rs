//! A store, what it reads of other parts, and what it has done.

use crate::moment::Moment;
use crate::node::memory::{MemoryFile, MemoryId};
use crate::node::outbox::{Effect, Inward, Outbox};
use crate::node::ranks::effect::RankEffect;
use crate::node::reach::RdmaReach;
use crate::node::store::Store;
use crate::node::store::effect::StoreEffect;
use crate::node::store::end::EndAddresses;
use crate::node::store::image_key::ImageKey;
use crate::node::store::input::{BlockCame, StoreInput};
use crate::node::store::step::{JobFacts, Surroundings};
use pcm_proto::app::DaemonToApp;
use pcm_proto::checkpoint::{BufferKey, CheckpointMessage, PartTally, RankCheckpoint, Restores, Stamp};
use pcm_proto::ids::{Bytes, CheckpointId, Epoch, Iteration, JobId, NodeName, ProcessId, Rank, Term, WorldId};
use pcm_proto::image::ImageMessage;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::layout::{Layout, Member, Mode, Plan, PlanKind};
use pcm_proto::parked::{Asked, BLOCK_BYTES, BlockRun, RestoreAnswer, RestoreAsk};
use pcm_proto::peer::{DaemonToDaemon, JobMessage};
use pcm_proto::reconfiguration::Attempt;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(super) const JOB: JobId = JobId(1);

/// The first buffer of process 0.
pub(super) const BUFFER: BufferKey = BufferKey {
    job: JOB,
    process: ProcessId(0),
    number: 0,
    is_copy: false,
};

pub(super) const TALLY: PartTally = PartTally {
    bytes: Bytes(100),
    checksum: 7,
};

pub(super) const ATTEMPT: Attempt = Attempt {
    epoch: Epoch(1),
    term: Term(1),
    number: 1,
};

pub(super) const ASKED: Asked = Asked {
    rank: Rank(0),
    number: 1,
};

/// The length of images: two blocks, the second of one byte.
pub(super) const IMAGE: u64 = BLOCK_BYTES + 1;

pub(super) fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub(super) fn rank(process: u32) -> ProcessKey {
    ProcessKey {
        job: JOB,
        process: ProcessId(process),
    }
}

pub(super) fn memory(id: u64) -> MemoryFile {
    MemoryFile {
        id: MemoryId(id),
        bytes: IMAGE,
    }
}

pub(super) fn stamp(id: u64) -> Stamp {
    Stamp {
        id: CheckpointId(id),
        epoch: Epoch(1),
        iteration: Iteration(10 * id),
        ranks: 2,
    }
}

/// The part of rank 1.
pub(super) fn part(id: u64) -> ImageKey {
    (JOB, CheckpointId(id), Rank(1)).into()
}

/// What the store reads; a test changes it as it likes.
pub(super) struct Around {
    pub(super) has_job: bool,
    pub(super) coordinator: NodeName,
    pub(super) engaged: Option<(Attempt, Plan)>,
    pub(super) restores: Option<Restores>,
    pub(super) same_host: BTreeSet<NodeName>,
    pub(super) gone: BTreeSet<NodeName>,
    pub(super) reach: RdmaReach,
}

impl Surroundings for Around {
    fn job(&self, job: JobId) -> Option<JobFacts<'_>> {
        static NONE: BTreeMap<ProcessId, crate::job::participant::Local> = BTreeMap::new();
        (self.has_job && job == JOB).then(|| JobFacts {
            coordinator: &self.coordinator,
            is_ending: false,
            engaged: self.engaged.as_ref().map(|(attempt, plan)| (*attempt, plan)),
            layout: None,
            processes: &NONE,
            restores: self.restores.as_ref(),
        })
    }

    fn is_live(&self, node: &NodeName) -> bool {
        !self.gone.contains(node)
    }

    fn is_same_host(&self, node: &NodeName) -> bool {
        self.same_host.contains(node)
    }

    fn rdma_reach(&self, _: &NodeName) -> RdmaReach {
        self.reach
    }
}

pub(super) struct World {
    pub(super) store: Store,
    pub(super) out: Outbox,
    pub(super) around: Around,
    now: Moment,
}

/// What one input brought, in words that tests compare.
#[derive(Debug, Default)]
pub(super) struct Brought {
    pub(super) store: Vec<StoreEffect>,
    pub(super) ranks: Vec<RankEffect>,
    pub(super) sent: Vec<(NodeName, JobMessage)>,
    pub(super) inward: Vec<Inward>,
    /// The kinds of all effects, in order.
    pub(super) order: Vec<&'static str>,
}

impl Brought {
    pub(super) fn checkpoint_messages(&self) -> Vec<CheckpointMessage> {
        let messages = self.sent.iter().filter_map(|(_, message)| match message {
            JobMessage::Checkpoint(message) => Some((**message).clone()),
            _ => None,
        });
        messages.collect()
    }

    pub(super) fn image_messages(&self) -> Vec<(NodeName, ImageMessage)> {
        let messages = self.sent.iter().filter_map(|(node, message)| match message {
            JobMessage::Image { message, .. } => Some((node.clone(), message.clone())),
            _ => None,
        });
        messages.collect()
    }

    /// The memory that was handed to ranks, and the reasons of what was lost.
    pub(super) fn answers(&self) -> Vec<Result<MemoryId, String>> {
        let answers = self.ranks.iter().filter_map(|effect| match effect {
            RankEffect::Tell {
                memory: Some(memory), ..
            } => Some(Ok(*memory)),
            RankEffect::Tell { message, .. } => match &**message {
                DaemonToApp::Restore(RestoreAnswer::Lost { reason, .. }) => Some(Err(reason.clone())),
                _ => None,
            },
            _ => None,
        });
        answers.collect()
    }

    pub(super) fn released(&self) -> Vec<MemoryId> {
        let released = self.store.iter().filter_map(|effect| match effect {
            StoreEffect::Release { memories } => Some(memories.clone()),
            _ => None,
        });
        released.flatten().collect()
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.order.is_empty() && self.sent.is_empty() && self.inward.is_empty()
    }
}

impl World {
    /// Node n0, with TCP endpoints and no device, on a host of its own; n1 coordinates the job.
    pub(super) fn new() -> Self {
        let now = Moment(1_000_000);
        let mut store = Store::default();
        store.open(EndAddresses {
            port: 70,
            rdma: Err("no device".to_owned()),
        });
        Self {
            store,
            out: Outbox::new(node("n0"), now),
            around: Around {
                has_job: true,
                coordinator: node("n1"),
                engaged: None,
                restores: None,
                same_host: BTreeSet::new(),
                gone: BTreeSet::new(),
                reach: RdmaReach::NoDevice,
            },
            now,
        }
    }

    pub(super) fn pass(&mut self, span: Duration) {
        self.now = self.now.plus(span);
        self.out.begin(self.now);
    }

    pub(super) fn on(&mut self, input: StoreInput) -> Brought {
        self.store.handle(input, &self.around, &mut self.out);
        self.brought()
    }

    pub(super) fn brought(&mut self) -> Brought {
        let mut brought = Brought::default();
        for effect in self.out.take() {
            brought.order.push(match &effect {
                Effect::Record(_) => "record",
                Effect::Send { .. } => "send",
                Effect::Keeper(_) => "keeper",
                Effect::Arm { .. } => "arm",
                Effect::Note { .. } => "note",
                Effect::Control { .. } => "control",
                Effect::Store(_) => "store",
                Effect::Rank(_) => "rank",
                Effect::Pmix(_) => "pmix",
                Effect::Files(_) => "files",
                Effect::ForgetLinks { .. } => "forget links",
                Effect::Agent(_) => "agent",
                Effect::Methods(_) => "methods",
                Effect::Logs(_) => "logs",
                Effect::ReadEvents { .. } => "events",
                Effect::ReadStacks(_) => "stacks",
                Effect::Peers(_) => "peers",
                Effect::Boot(_) => "boot",
                Effect::Sweep { .. } => "sweep",
            });
            match effect {
                Effect::Store(effect) => brought.store.push(effect),
                Effect::Rank(effect) => brought.ranks.push(effect),
                Effect::Send {
                    node,
                    message: DaemonToDaemon::Job { message, .. },
                } => brought.sent.push((node, *message)),
                _ => {}
            }
        }
        while let Some(fact) = self.out.take_inward() {
            brought.inward.push(fact);
        }
        brought
    }

    /// Process 0 keeps a part of rank 1 in its first buffer.
    pub(super) fn keep(&mut self, id: u64, memory: Option<MemoryFile>) -> Brought {
        let kept = self.keep_unanswered(id, memory);
        self.keeper_answers(BUFFER, Ok(()));
        kept
    }

    pub(super) fn keeper_answers(&mut self, key: BufferKey, outcome: Result<(), String>) -> Brought {
        self.on(StoreInput::Kept { key, outcome })
    }

    pub(super) fn keep_unanswered(&mut self, id: u64, memory: Option<MemoryFile>) -> Brought {
        let Stamp { iteration, ranks, .. } = stamp(id);
        self.on(StoreInput::RankCheckpoint {
            from: rank(0),
            said: RankCheckpoint::Kept {
                buffer: 0,
                id: CheckpointId(id),
                iteration,
                rank: Rank(1),
                ranks,
                bytes: IMAGE,
                held_us: 5,
            },
            memory,
        })
    }

    /// The coordinator orders a copy from a node.
    pub(super) fn order_copy(&mut self, id: u64, from: &str) -> Brought {
        self.on(StoreInput::Checkpoint {
            job: JOB,
            node: node("n1"),
            message: CheckpointMessage::Copy {
                stamp: stamp(id),
                rank: Rank(1),
                process: ProcessId(1),
                from: node(from),
            },
        })
    }

    pub(super) fn checkpoint(&mut self, message: CheckpointMessage) -> Brought {
        let (job, node) = (JOB, node("n1"));
        self.on(StoreInput::Checkpoint { job, node, message })
    }

    /// A block comes over the link.
    pub(super) fn block(&mut self, key: ImageKey, from: &str, block: u64) -> Brought {
        let length = IMAGE.saturating_sub(block.saturating_mul(BLOCK_BYTES)).min(BLOCK_BYTES);
        self.on(StoreInput::Block {
            key,
            node: node(from),
            came: BlockCame {
                block,
                image_bytes: IMAGE,
                is_sound: true,
                bytes: vec![1; length as usize],
            },
        })
    }

    /// A restored rank asks for all of what rank 0 or 1 had.
    pub(super) fn ask(&mut self, process: u32, of: u32) -> Brought {
        let asked = Asked {
            rank: Rank(of),
            ..ASKED
        };
        let runs = vec![BlockRun { first: 0, count: 9 }];
        let ask = RestoreAsk::Blocks { asked, runs };
        let asker = rank(process);
        self.on(StoreInput::RestoreAsked { asker, ask })
    }
}

/// The blocks that a node is asked for.
pub(super) fn wants(brought: &Brought) -> Vec<(NodeName, u64)> {
    let messages = brought.image_messages().into_iter();
    let wants = messages.filter_map(|(node, message)| match message {
        ImageMessage::Want { block } => Some((node, block)),
        _ => None,
    });
    wants.collect()
}

/// A plan by which process 0 of n0 and process 1 of n2 go on.
pub(super) fn plan(mode: Mode) -> Plan {
    let member = |process, on| Member {
        process: ProcessId(process),
        node: node(on),
        world: WorldId(0),
    };
    let old = Layout {
        epoch: Epoch(1),
        members: vec![member(0, "n0"), member(1, "n2")],
        weights: Vec::new(),
        witnesses: Vec::new(),
    };
    Plan {
        kind: PlanKind::Relaunch,
        mode,
        cause: "a test".to_owned(),
        new: Layout {
            epoch: Epoch(2),
            ..old.clone()
        },
        old,
        continues: vec![Some(Rank(0)), Some(Rank(1))],
        method: pcm_proto::method::Method::default(),
    }
}
