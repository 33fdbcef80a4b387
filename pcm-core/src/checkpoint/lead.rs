//! The checkpoints of one job as its coordinator leads them: takes in which part is where, has each part copied to a
//! partner node, says when ranks may overwrite older parts, and what a restart would begin with. Never holds data.
//!
//! ```text
//!  a rank's part stored … all stored        every part has a copy on a partner, or none can have one
//!  Gathering ───────────► Complete, Newest, Copy … ─────────────────────────► Settled
//!      │ not all within MAKE_MAX, or one cannot
//!      └─► GivenUp
//! ```
//!
//! Ranks make the next checkpoint only after the last was settled or given up, in the buffer that does not hold the
//! settled one: so at every moment one whole checkpoint is there that nobody is overwriting.

use super::catalogue::{Catalogue, Effect, Keep, PartRefused, Restorable};
use super::entry::{PartTally, Place, Stamp};
use crate::moment::Moment;
use pcm_proto::ids::{Bytes, CheckpointId, Iteration, NodeName, ProcessId, Rank};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// All parts of a checkpoint are there within this time after the first, or it is given up: ranks copy at gigabytes a
/// second and stand at the same iteration.
const MAKE_MAX: Duration = Duration::from_secs(15);

/// An order to copy that brought nothing is given again after this time: a link broke, a daemon was started again.
const COPY_AGAIN: Duration = Duration::from_secs(5);

/// A checkpoint whose copies do not come about in this time counts as settled without: more safety cannot be had.
const COPY_MAX: Duration = Duration::from_secs(60);

/// Checkpoints in files that are remembered: what a restart tries, newest first.
const FILED_MAX: usize = 3;

/// A part that was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Of which checkpoint.
    pub stamp: Stamp,
    pub rank: Rank,
    pub process: ProcessId,
    /// Whether it was copied from another node.
    pub is_copy: bool,
    /// What it is.
    pub tally: PartTally,
    /// How long the application was held for it, in microseconds.
    pub held_us: u64,
}

/// A checkpoint in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filed {
    /// The iteration it begins with.
    pub iteration: Iteration,
    pub directory: Vec<u8>,
}

/// Where copies of what a node has go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyTo {
    Node(NodeName),
    /// To a node that was not heard of yet, or is silent just now.
    NodeToCome,
    /// There is no other node.
    Nowhere,
}

/// What is known of a job's checkpoints before any node has said what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// What a restart would begin with.
    pub newest: Option<Iteration>,
    /// The last that ever counted. Where it does not any more, parts of it are out of reach, and may come back.
    pub announced: Option<Iteration>,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeadEffect {
    /// A checkpoint is complete for the first time.
    Complete {
        stamp: Stamp,
        /// Bytes of all parts.
        bytes: Bytes,
        /// Longest time a rank was held.
        held_us: u64,
    },
    /// A restart would begin with this iteration now.
    Newest(Option<Iteration>),
    /// Have a node hold a copy.
    Copy {
        to: NodeName,
        /// Of which checkpoint.
        stamp: Stamp,
        rank: Rank,
        process: ProcessId,
        /// Where it is.
        from: NodeName,
    },
    /// Tell the job's nodes that ranks may overwrite the others.
    Settled(CheckpointId),
    /// Tell the job's nodes that it will never count.
    GivenUp(CheckpointId),
    /// Tell a node that nobody will ask for its copy.
    Drop {
        node: NodeName,
        /// Of which checkpoint.
        id: CheckpointId,
        rank: Rank,
    },
}

/// What a restart begins with, and what is needed besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolledBack {
    /// Nothing that is in memory.
    ToFiles,
    /// This checkpoint, of which there are copies: no other is needed.
    ToSettled(CheckpointId),
    /// This one, which a lost node may still cost: older ones are needed until it is settled.
    ToUncopied(CheckpointId),
}

/// The checkpoint that is neither settled nor given up.
#[derive(Clone, Debug)]
struct Making {
    stamp: Stamp,
    since: Moment,
    is_complete: bool,
    held_us: u64,
    parts: BTreeMap<Rank, (ProcessId, NodeName)>,
    /// Those of which the partner cannot hold a copy.
    uncopied: BTreeSet<Rank>,
    /// When copies were last ordered.
    ordered: Moment,
}

/// See the file head. One per job.
#[derive(Clone, Debug)]
pub struct Lead {
    catalogue: Catalogue,
    making: Option<Making>,
    /// Up to this one all was announced.
    announced: CheckpointId,
    newest: Option<Iteration>,
    /// Whether `newest` is only known from before, and the nodes have not said yet where all its parts are.
    is_learning: bool,
    filed: VecDeque<Filed>,
    /// The one of which a process got no answer when it was to take it up.
    unanswered: Option<CheckpointId>,
}

impl Lead {
    /// For a job of which this is known.
    pub fn new(known: Known) -> Self {
        // Two in memory: the older one may lack the copies of the newer.
        let keep = Keep { memory: 2, files: 0 };
        let announced = CheckpointId(known.announced.map_or(0, |iteration| iteration.0 + 1));
        Self {
            catalogue: Catalogue::learning(keep, announced),
            making: None,
            announced,
            newest: known.newest,
            is_learning: known.newest.is_some(),
            filed: VecDeque::new(),
            unanswered: None,
        }
    }

    /// A node has a part. `partner` names the node that is to hold copies of what another one has.
    pub fn on_stored(
        &mut self,
        now: Moment,
        node: &NodeName,
        part: Part,
        partner: impl Fn(&NodeName) -> CopyTo,
    ) -> Result<Vec<LeadEffect>, PartRefused> {
        // A node that says what it has is there, whether it has been seen or not.
        let partner = |of: &NodeName| match partner(of) {
            CopyTo::Nowhere if of != node => CopyTo::NodeToCome,
            to => to,
        };
        let Part {
            stamp, rank, process, ..
        } = part;
        let place = if part.is_copy {
            Place::Partner(node.clone())
        } else {
            Place::Own(node.clone())
        };
        let effects = match self.catalogue.stored(stamp, rank, place, part.tally) {
            // The word that it is given up was lost, or has not arrived yet.
            Err(PartRefused::GivenUp) => return Ok(vec![LeadEffect::GivenUp(stamp.id)]),
            stored => stored?,
        };
        let is_newer = self.making.as_ref().is_none_or(|making| making.stamp.id < stamp.id);
        // The last one announced, too: a coordinator that was started again does not know whether it was settled.
        if is_newer && stamp.id >= self.announced {
            // One that was settled without this node: the others do not say again what they hold.
            self.making = Some(Making {
                stamp,
                since: now,
                is_complete: false,
                held_us: 0,
                parts: holders(&self.catalogue.copies_of(stamp.id)),
                uncopied: BTreeSet::new(),
                ordered: now,
            });
        }
        if let Some(making) = self.making.as_mut().filter(|making| making.stamp.id == stamp.id) {
            let holder = (process, node.clone());
            if part.is_copy {
                // For an heir it may be all that is left.
                making.parts.entry(rank).or_insert(holder);
            } else {
                making.held_us = making.held_us.max(part.held_us);
                making.parts.insert(rank, holder);
            }
        }
        let mut out = Vec::new();
        self.carry(effects, &mut out);
        if let Some(making) = &mut self.making
            && !making.is_complete
            && self.catalogue.restorable().any(|known| known.stamp == making.stamp)
        {
            making.is_complete = true;
            making.since = now;
            self.order_copies(now, &partner, &mut out);
        }
        self.settle_if_copied(&partner, &mut out);
        self.say_newest(&mut out);
        Ok(out)
    }

    /// A part could not be kept.
    pub fn on_not_stored(&mut self, id: CheckpointId) -> Vec<LeadEffect> {
        let mut out = Vec::new();
        let is_this = |making: &Making| making.stamp.id == id && !making.is_complete;
        if self.making.as_ref().is_none_or(is_this) {
            self.give_up(id, &mut out);
        }
        out
    }

    /// A node's link is new: an order for a copy, or its answer, may have been lost with the one before.
    pub fn on_linked(&mut self) {
        if let Some(making) = self.making.as_mut().filter(|making| making.is_complete) {
            making.ordered = Moment(0);
        }
    }

    /// A partner cannot hold a copy of a part: none is waited for.
    pub fn on_not_copied(
        &mut self,
        id: CheckpointId,
        rank: Rank,
        partner: impl Fn(&NodeName) -> CopyTo,
    ) -> Vec<LeadEffect> {
        let mut out = Vec::new();
        if let Some(making) = self.making.as_mut().filter(|making| making.stamp.id == id) {
            making.uncopied.insert(rank);
            self.settle_if_copied(&partner, &mut out);
        }
        out
    }

    /// A part that was there is no more.
    pub fn on_overwritten(&mut self, node: &NodeName, id: CheckpointId, rank: Rank, is_copy: bool) -> Vec<LeadEffect> {
        let place = if is_copy {
            Place::Partner(node.clone())
        } else {
            Place::Own(node.clone())
        };
        let mut out = Vec::new();
        let effects = self.catalogue.damaged(id, rank, &place);
        self.carry(effects, &mut out);
        self.say_newest(&mut out);
        out
    }

    /// A node is gone with all it had.
    pub fn on_node_lost(&mut self, node: &NodeName) -> Vec<LeadEffect> {
        let mut out = Vec::new();
        let effects = self.catalogue.node_lost(node);
        self.carry(effects, &mut out);
        let announced = self.announced;
        let is_lost = |making: &&Making| !making.is_complete && making.stamp.id > announced;
        if let Some(id) = self.making.as_ref().filter(is_lost).map(|making| making.stamp.id) {
            self.give_up(id, &mut out);
        }
        self.say_newest(&mut out);
        out
    }

    /// A checkpoint could not be taken up: it is none, unless a process got no answer for the first time.
    pub fn on_not_restored(&mut self, id: CheckpointId, is_unanswered: bool) -> Vec<LeadEffect> {
        let mut out = Vec::new();
        if is_unanswered && self.unanswered.replace(id) != Some(id) {
            return out;
        }
        self.catalogue.condemned(id);
        self.say_newest(&mut out);
        out
    }

    /// All ranks have written a checkpoint into files.
    pub fn on_filed(&mut self, filed: Filed) -> Vec<LeadEffect> {
        self.filed.retain(|known| known.directory != filed.directory);
        self.filed.push_back(filed);
        if self.filed.len() > FILED_MAX {
            self.filed.pop_front();
        }
        let mut out = Vec::new();
        self.say_newest(&mut out);
        out
    }

    /// The job is started again from this checkpoint, or from files.
    pub fn on_restart(&mut self, now: Moment, from: Option<CheckpointId>) -> RolledBack {
        let id = from.unwrap_or_default();
        self.catalogue.rolled_back_to(id);
        self.announced = id;
        self.making = None;
        let Some(to) = from else {
            self.newest = self.filed.back().map(|filed| filed.iteration);
            return RolledBack::ToFiles;
        };
        let copies = self.catalogue.copies_of(id);
        let base = self.catalogue.restorable().find(|known| known.stamp.id == id);
        match base.filter(|base| !(0..base.stamp.ranks).all(|rank| is_copied(&copies, Rank(rank)))) {
            None => RolledBack::ToSettled(to),
            Some(base) => {
                // The ranks that made it are gone, their parts are not: of those that are on one node copies are due,
                // also where a lost node had the other.
                self.making = Some(Making {
                    stamp: base.stamp,
                    since: now,
                    is_complete: true,
                    held_us: 0,
                    parts: holders(&copies),
                    uncopied: BTreeSet::new(),
                    ordered: Moment(0),
                });
                RolledBack::ToUncopied(to)
            }
        }
    }

    /// What the passing of time decides.
    pub fn on_tick(&mut self, now: Moment, partner: impl Fn(&NodeName) -> CopyTo) -> Vec<LeadEffect> {
        let mut out = Vec::new();
        let Some(making) = &self.making else { return out };
        let (id, age) = (making.stamp.id, now.since(making.since));
        if !making.is_complete {
            match id > self.announced {
                _ if age < MAKE_MAX => {}
                true => self.give_up(id, &mut out),
                // It was complete once: those that have the rest of it may come back.
                false => self.making = None,
            }
        } else if age >= COPY_MAX {
            self.settle(&mut out);
        } else if now.since(making.ordered) >= COPY_AGAIN {
            self.order_copies(now, &partner, &mut out);
            self.settle_if_copied(&partner, &mut out);
        }
        out
    }

    /// When [`Self::on_tick`] is due.
    pub fn deadline(&self) -> Option<Moment> {
        let making = self.making.as_ref()?;
        Some(if making.is_complete {
            making.ordered.plus(COPY_AGAIN).min(making.since.plus(COPY_MAX))
        } else {
            making.since.plus(MAKE_MAX)
        })
    }

    /// Whether nodes may still say that they hold the newest checkpoint that is known.
    pub fn is_learning(&self) -> bool {
        self.is_learning
    }

    /// Nodes have had their time to say what they hold: where they hold an older checkpoint, the newest is lost.
    pub fn on_learned(&mut self) -> Vec<LeadEffect> {
        let mut out = Vec::new();
        self.is_learning &= self.catalogue.newest().is_none();
        self.say_newest(&mut out);
        out
    }

    /// What a restart from memory would begin with.
    pub fn restorable(&self) -> Option<Restorable> {
        self.catalogue.newest()
    }

    /// Checkpoints in files, newest first.
    pub fn filed(&self) -> impl Iterator<Item = &Filed> {
        self.filed.iter().rev()
    }

    /// The iteration that a restart would begin with.
    pub fn newest(&self) -> Option<Iteration> {
        self.newest
    }

    fn carry(&mut self, effects: Vec<Effect>, out: &mut Vec<LeadEffect>) {
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            match effect {
                // The parts are with the keepers, which outlive this daemon: they are the record.
                Effect::Persist(stamp) => queue.extend(self.catalogue.persisted(stamp.id)),
                Effect::Announce(stamp) if stamp.id > self.announced => {
                    self.announced = stamp.id;
                    let restorable = self.catalogue.restorable().find(|known| known.stamp == stamp);
                    out.push(LeadEffect::Complete {
                        stamp,
                        bytes: restorable.map(|known| known.bytes).unwrap_or_default(),
                        held_us: self.making.as_ref().map_or(0, |making| making.held_us),
                    });
                }
                Effect::Drop {
                    id,
                    rank,
                    place: Place::Partner(node),
                } => out.push(LeadEffect::Drop { node, id, rank }),
                // Ranks overwrite their own buffers.
                Effect::Announce(_) | Effect::Lost { .. } | Effect::Drop { .. } => {}
            }
        }
    }

    fn say_newest(&mut self, out: &mut Vec<LeadEffect>) {
        let in_memory = self.catalogue.newest().map(|known| known.stamp.iteration);
        self.is_learning &= in_memory < self.newest;
        if self.is_learning {
            return;
        }
        let newest = in_memory.or_else(|| self.filed.back().map(|filed| filed.iteration));
        if newest != self.newest {
            self.newest = newest;
            out.push(LeadEffect::Newest(newest));
        }
    }

    fn order_copies(&mut self, now: Moment, partner: &impl Fn(&NodeName) -> CopyTo, out: &mut Vec<LeadEffect>) {
        let Some(making) = &mut self.making else { return };
        making.ordered = now;
        let stamp = making.stamp;
        let copies = self.catalogue.copies_of(stamp.id);
        for (rank, (process, from)) in &making.parts {
            if let CopyTo::Node(to) = partner(from)
                && !is_copied(&copies, *rank)
                && !making.uncopied.contains(rank)
            {
                out.push(LeadEffect::Copy {
                    to,
                    stamp,
                    rank: *rank,
                    process: *process,
                    from: from.clone(),
                });
            }
        }
    }

    fn settle_if_copied(&mut self, partner: &impl Fn(&NodeName) -> CopyTo, out: &mut Vec<LeadEffect>) {
        let Some(making) = self.making.as_ref().filter(|making| making.is_complete) else {
            return;
        };
        let copies = self.catalogue.copies_of(making.stamp.id);
        let has_no_partner = |rank| {
            let part = making.parts.get(&rank);
            making.uncopied.contains(&rank) || part.is_none_or(|(_, node)| partner(node) == CopyTo::Nowhere)
        };
        if (0..making.stamp.ranks)
            .map(Rank)
            .all(|rank| is_copied(&copies, rank) || has_no_partner(rank))
        {
            self.settle(out);
        }
    }

    fn settle(&mut self, out: &mut Vec<LeadEffect>) {
        if let Some(making) = self.making.take() {
            let id = making.stamp.id;
            let effects = self.catalogue.settled(id);
            self.carry(effects, out);
            out.push(LeadEffect::Settled(id));
        }
    }

    fn give_up(&mut self, id: CheckpointId, out: &mut Vec<LeadEffect>) {
        let effects = self.catalogue.given_up(id);
        self.carry(effects, out);
        self.making.take_if(|making| making.stamp.id == id);
        out.push(LeadEffect::GivenUp(id));
    }
}

/// Where each part is known to be. The processes are only part of the copies' names.
fn holders(copies: &[(Rank, Place)]) -> BTreeMap<Rank, (ProcessId, NodeName)> {
    let holder = |(rank, place): &(Rank, Place)| Some((*rank, (ProcessId(rank.0), place.node()?.clone())));
    copies.iter().rev().filter_map(holder).collect()
}

/// Whether two nodes hold this rank's part.
fn is_copied(copies: &[(Rank, Place)], rank: Rank) -> bool {
    let mut nodes = copies
        .iter()
        .filter(|(known, _)| *known == rank)
        .map(|(_, place)| place.node());
    let first = nodes.next();
    first.is_some_and(|first| nodes.any(|node| node != first))
}
