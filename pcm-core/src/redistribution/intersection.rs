//! Lays one partition over another: which parts meet, axis by axis, and the pieces they share. Knows ranks but no
//! processes.

use super::chunk::{TransferId, TransferKind};
use super::meeting::{AxisRun, Steps, TooIrregular, meet};
use super::plan::{HaloFill, PIECES_MAX, PlanError};
use super::region::{End, Piece};
use crate::partition::{AXES_MAX, AxisParts, Partition};
use pcm_proto::ids::Rank;

/// What one part along an axis shares with one part of the other partition.
struct AxisPeer {
    part: u32,
    cells: Vec<AxisRun>,
    halo: Vec<AxisRun>,
}

/// The two ends of a transfer.
struct Route<'a> {
    from: Rank,
    to: Rank,
    source: End<'a>,
    target: End<'a>,
}

/// Two partitions of one array, laid over each other.
pub(super) struct Intersection<'a> {
    before: &'a Partition,
    after: &'a Partition,
    with_halo: bool,
    pieces_left: usize,
    steps_left: Steps,
}

/// Transfers by name; none is empty.
pub(super) type Found = Vec<(TransferId, Vec<Piece>)>;

impl<'a> Intersection<'a> {
    pub(super) fn new(before: &'a Partition, after: &'a Partition, halo: HaloFill) -> Self {
        Self {
            before,
            after,
            with_halo: halo == HaloFill::Filled,
            pieces_left: PIECES_MAX,
            steps_left: Steps(PIECES_MAX as u64),
        }
    }

    /// All that goes from an old rank, to whatever new rank.
    pub(super) fn of_source(&mut self, rank: Rank) -> Result<Found, PlanError> {
        let source = End::new(self.before, rank);
        let mut peers: [Vec<AxisPeer>; AXES_MAX] = Default::default();
        for (axis, peers) in peers.iter_mut().enumerate() {
            let (from, to, part) = (&self.before.axes()[axis], &self.after.axes()[axis], source.place[axis]);
            let candidates = merged(from.cells(part).iter().flatten().map(|stripe| {
                let (start, end) = (stripe.start, stripe.end());
                if self.with_halo {
                    to.parts_reaching(start, end)
                } else {
                    to.parts_touching(start, end)
                }
            }));
            *peers = self.meet_all(candidates, |other| (from, part, to, other))?;
        }
        self.products(peers, |this, place| {
            let to = Rank(this.after.position(place));
            Route {
                from: rank,
                to,
                source,
                target: End::new(this.after, to),
            }
        })
    }

    /// All that goes to a new rank, from whatever old rank.
    pub(super) fn of_target(&mut self, rank: Rank) -> Result<Found, PlanError> {
        let target = End::new(self.after, rank);
        let mut peers: [Vec<AxisPeer>; AXES_MAX] = Default::default();
        for (axis, peers) in peers.iter_mut().enumerate() {
            let (from, to, part) = (&self.before.axes()[axis], &self.after.axes()[axis], target.place[axis]);
            let halo = if self.with_halo { to.halo_cells(part) } else { [None; 4] };
            let wanted = to.cells(part).into_iter().chain(halo).flatten();
            let candidates = merged(wanted.map(|stripe| from.parts_touching(stripe.start, stripe.end())));
            *peers = self.meet_all(candidates, |other| (from, other, to, part))?;
        }
        self.products(peers, |this, place| {
            let from = Rank(this.before.position(place));
            Route {
                from,
                to: rank,
                source: End::new(this.before, from),
                target,
            }
        })
    }

    fn meet_all<'b>(
        &mut self,
        candidates: Vec<u32>,
        pair: impl Fn(u32) -> (&'b AxisParts, u32, &'b AxisParts, u32),
    ) -> Result<Vec<AxisPeer>, PlanError> {
        let mut peers = Vec::new();
        for part in candidates {
            let (from, source_part, to, target_part) = pair(part);
            let (mut cells, mut halo) = (Vec::new(), Vec::new());
            let halo_cells = if self.with_halo {
                to.halo_cells(target_part)
            } else {
                [None; 4]
            };
            for source in from.cells(source_part).iter().flatten() {
                for target in to.cells(target_part).iter().flatten() {
                    meet(source, target, &mut self.steps_left, &mut cells)?;
                }
                for target in halo_cells.iter().flatten() {
                    meet(source, target, &mut self.steps_left, &mut halo)?;
                }
            }
            if !cells.is_empty() || !halo.is_empty() {
                peers.push(AxisPeer { part, cells, halo });
            }
        }
        Ok(peers)
    }

    /// Combines the axes: cells where all axes meet in cells, halo where at least one meets in halo.
    fn products<'b>(
        &mut self,
        peers: [Vec<AxisPeer>; AXES_MAX],
        route: impl Fn(&Self, [u32; AXES_MAX]) -> Route<'b>,
    ) -> Result<Found, PlanError> {
        let mut found = Vec::new();
        for a in &peers[0] {
            for b in &peers[1] {
                for c in &peers[2] {
                    let Route {
                        from,
                        to,
                        source,
                        target,
                    } = route(self, [a.part, b.part, c.part]);
                    let cells = self.pieces([&a.cells, &b.cells, &c.cells], source, target)?;
                    let mut halo = Vec::new();
                    for choice in 1..1u32 << AXES_MAX {
                        let lists = [(a, 0), (b, 1), (c, 2)].map(|(peer, axis)| {
                            if choice >> axis & 1 == 1 {
                                &peer.halo
                            } else {
                                &peer.cells
                            }
                        });
                        halo.extend(self.pieces(lists, source, target)?);
                    }
                    let id = |kind| TransferId { kind, from, to };
                    found.extend([(id(TransferKind::Cells), cells), (id(TransferKind::Halo), halo)]);
                }
            }
        }
        found.retain(|(_, pieces)| !pieces.is_empty());
        Ok(found)
    }

    fn pieces(
        &mut self,
        lists: [&Vec<AxisRun>; AXES_MAX],
        source: End<'_>,
        target: End<'_>,
    ) -> Result<Vec<Piece>, PlanError> {
        let wanted = lists.iter().try_fold(1usize, |n, list| n.checked_mul(list.len()));
        self.pieces_left = wanted
            .and_then(|wanted| self.pieces_left.checked_sub(wanted))
            .ok_or(PlanError::TooIrregular)?;
        let element_size = u64::from(self.before.spec().element_size);
        let mut pieces = Vec::with_capacity(wanted.unwrap_or(0));
        for a in lists[0] {
            for b in lists[1] {
                for c in lists[2] {
                    pieces.push(Piece::new(&[*a, *b, *c], source, target, element_size));
                }
            }
        }
        Ok(pieces)
    }
}

fn merged(lists: impl Iterator<Item = Vec<u32>>) -> Vec<u32> {
    let mut all: Vec<u32> = lists.flatten().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// By part of `to`: the parts of `from` that hold some of its cells, rising, and how many of them.
pub(super) fn axis_overlap(
    from: &AxisParts,
    to: &AxisParts,
    steps: &mut Steps,
) -> Result<Vec<Vec<(u32, u64)>>, TooIrregular> {
    let mut rows = Vec::new();
    for part in 0..to.parts() {
        let wanted = to.cells(part);
        let touched = wanted
            .iter()
            .flatten()
            .map(|stripe| from.parts_touching(stripe.start, stripe.end()));
        let mut row = Vec::new();
        for other in merged(touched) {
            let mut runs = Vec::new();
            for source in from.cells(other).iter().flatten() {
                wanted
                    .iter()
                    .flatten()
                    .try_for_each(|target| meet(source, target, steps, &mut runs))?;
            }
            let cells: u64 = runs.iter().map(|run| run.length * run.count).sum();
            if cells > 0 {
                row.push((other, cells));
            }
        }
        rows.push(row);
    }
    Ok(rows)
}
