//! One checkpoint of the catalogue: its parts and their copies. Knows nothing of other checkpoints.

pub use pcm_proto::checkpoint::{PartTally, Stamp};
use pcm_proto::ids::{Bytes, NodeName, Rank};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Where a copy of a part is. Ordered by how fast it is had.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Place {
    /// Memory of the node that ran the rank.
    Own(NodeName),
    /// Memory of another node.
    Partner(NodeName),
    File,
}

impl Place {
    /// The node whose loss is the loss of the copy.
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Own(node) | Self::Partner(node) => Some(node),
            Self::File => None,
        }
    }

    /// Whether the copy is in memory.
    pub fn is_memory(&self) -> bool {
        self.node().is_some()
    }
}

/// How far a checkpoint has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// At least one part has no sound copy.
    Gathering,
    /// Complete; the record of it is being made to last.
    Persisting,
    /// Complete, on record: it counts.
    Committed,
}

/// One part: its sound copies.
#[derive(Clone, Debug, Default)]
struct Part {
    tally: Option<PartTally>,
    copies: BTreeSet<Place>,
}

/// See the file head.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) stamp: Stamp,
    pub(super) progress: Progress,
    /// Whether files of it are being written.
    pub(super) is_filing: bool,
    parts: Vec<Part>,
}

impl Entry {
    pub(super) fn new(stamp: Stamp) -> Self {
        Self {
            stamp,
            progress: Progress::Gathering,
            is_filing: false,
            parts: vec![Part::default(); stamp.ranks as usize],
        }
    }

    /// Adds a sound copy; `false` if it differs from what is known of the part, and so is none.
    pub(super) fn add(&mut self, rank: Rank, place: Place, tally: PartTally) -> bool {
        let part = &mut self.parts[rank.0 as usize];
        match part.tally {
            Some(known) if known != tally => return false,
            _ => part.tally = Some(tally),
        }
        part.copies.insert(place);
        true
    }

    /// Forgets a copy. What a part is, is known as long as one copy is there.
    pub(super) fn remove(&mut self, rank: Rank, place: &Place) -> bool {
        let Some(part) = self.parts.get_mut(rank.0 as usize) else {
            return false;
        };
        let was_there = part.copies.remove(place);
        if part.copies.is_empty() {
            part.tally = None;
        }
        was_there
    }

    /// The copies for which `is_wanted`.
    pub(super) fn copies(&self, is_wanted: impl Fn(&Place) -> bool) -> Vec<(Rank, Place)> {
        let mut found = Vec::new();
        for (rank, part) in (0..).map(Rank).zip(&self.parts) {
            found.extend(part.copies.iter().filter(|p| is_wanted(p)).map(|p| (rank, p.clone())));
        }
        found
    }

    /// Whether every part has a copy for which `counts`.
    pub(super) fn is_complete(&self, counts: impl Fn(&Place) -> bool) -> bool {
        self.parts.iter().all(|part| part.copies.iter().any(&counts))
    }

    /// Whether it outlives the loss of any one node.
    pub(super) fn is_doubled(&self) -> bool {
        self.parts.iter().all(|part| {
            let mut nodes = part.copies.iter().filter_map(Place::node);
            let first = nodes.next();
            first.is_some() && nodes.any(|node| Some(node) != first)
        })
    }

    /// The ranks whose parts have no copy.
    pub(super) fn missing(&self) -> impl Iterator<Item = Rank> + '_ {
        let parts = (0..).map(Rank).zip(&self.parts);
        parts.filter(|(_, part)| part.copies.is_empty()).map(|(rank, _)| rank)
    }

    /// By rank: where its part can be had, fastest first.
    pub(super) fn sources(&self) -> Vec<Vec<Place>> {
        self.parts
            .iter()
            .map(|part| part.copies.iter().cloned().collect())
            .collect()
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes(
            self.parts
                .iter()
                .filter_map(|part| part.tally)
                .map(|tally| tally.bytes.0)
                .sum(),
        )
    }
}
