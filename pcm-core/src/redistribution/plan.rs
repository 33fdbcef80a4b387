//! One process's own part of the redistribution of one array. Its cost follows the number of parts that really meet
//! its own, not the number of ranks squared. Never moves a byte.

use super::change::RankChange;
use super::chunk::{Chunks, TransferKind};
use super::intersection::Intersection;
use super::meeting;
use super::region::{End, Piece};
use super::storage::{StorageReuse, extra_bytes_max, storage_reuse};
use super::transfer::Transfer;
use crate::partition::Partition;
use pcm_proto::ids::{ProcessId, RegionId};

/// Most pieces in one process's part, and most steps to find them: above that (cyclic blocks of long, nearly equal
/// lengths) the plan would cost more memory (about 0.4 GiB) than it helps.
pub const PIECES_MAX: usize = 1 << 20;

/// Whether the plan brings the halo cells up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HaloFill {
    /// Each part gets its halo from the owners of those cells, in the same round as its own cells.
    #[default]
    Filled,
    /// Halo cells are undefined afterwards; for programs that exchange halos before they use them.
    Stale,
}

/// One process's own part of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayPlan {
    element_size: u64,
    sends: Vec<Transfer>,
    receives: Vec<Transfer>,
    kept: Vec<Piece>,
    halo_local: Vec<Piece>,
    reuse: StorageReuse,
    totals: Totals,
}

/// Bytes of one process's part of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub send: u64,
    pub receive: u64,
    pub keep: u64,
    /// Copies sent for the halos of others.
    pub halo_send: u64,
    /// Copies received for the own halo.
    pub halo_receive: u64,
    /// Copies for the own halo of cells the process had itself.
    pub halo_local: u64,
    /// Local storage before.
    pub storage_before: u64,
    /// Local storage afterwards.
    pub storage_after: u64,
    /// Most memory needed beside the old storage, the executor's chunks in flight not counted.
    pub extra_max: u64,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A partition is for another number of ranks than the rank change has.
    #[error(
        "partitions for {} and {} ranks, rank change from {} to {}; make the partitions for the same numbers",
        .before.0,
        .after.0,
        .before.1,
        .after.1
    )]
    RanksDiffer {
        /// Positions and ranks before.
        before: (u32, usize),
        /// Positions and ranks afterwards.
        after: (u32, usize),
    },
    /// The partitions are of arrays with different extents, halos or element sizes.
    #[error("extents, halos, edges or element sizes differ before and after; only the division may")]
    ArraysDiffer,
    /// The process has a rank neither before nor after.
    #[error("process {process} has a rank neither before nor after")]
    NotTakingPart { process: ProcessId },
    /// The part has more than [`PIECES_MAX`] pieces.
    #[error("more than {PIECES_MAX} separate pieces; choose cyclic block lengths with a common divisor")]
    TooIrregular,
}

impl From<meeting::TooIrregular> for PlanError {
    fn from(meeting::TooIrregular: meeting::TooIrregular) -> Self {
        Self::TooIrregular
    }
}

impl ArrayPlan {
    /// What one process sends, receives and keeps when `before` becomes `after`.
    pub fn for_process(
        before: &Partition,
        after: &Partition,
        change: &RankChange,
        process: ProcessId,
        halo: HaloFill,
    ) -> Result<Self, PlanError> {
        check(before, after, change)?;
        let (old, new) = (change.rank_before(process), change.rank_after(process));
        if old.is_none() && new.is_none() {
            return Err(PlanError::NotTakingPart { process });
        }
        let mut intersection = Intersection::new(before, after, halo);
        let mut kept = Vec::new();
        let mut halo_local = Vec::new();
        let mut sends = Vec::new();
        if let Some(old) = old {
            for (id, pieces) in intersection.of_source(old)? {
                match (change.after()[id.to.0 as usize], id.kind) {
                    (peer, TransferKind::Halo) if peer == process => halo_local = pieces,
                    (peer, _) if peer == process => kept = pieces,
                    (peer, _) => sends.push(Transfer::new(id, peer, pieces)),
                }
            }
            in_turn(&mut sends, change.after().len(), |t| t.id().to.0.wrapping_sub(old.0));
        }
        let mut receives = Vec::new();
        if let Some(new) = new {
            for (id, pieces) in intersection.of_target(new)? {
                let peer = change.before()[id.from.0 as usize];
                if peer != process {
                    receives.push(Transfer::new(id, peer, pieces));
                }
            }
            in_turn(&mut receives, change.before().len(), |t| {
                new.0.wrapping_sub(t.id().from.0)
            });
        }
        let element_size = u64::from(before.spec().element_size);
        let reuse = match (old, new) {
            (Some(old), Some(new)) if !kept.is_empty() => {
                storage_reuse(End::new(before, old), End::new(after, new), element_size)
            }
            _ => StorageReuse::Nothing,
        };
        let mut plan = Self {
            element_size,
            sends,
            receives,
            kept,
            halo_local,
            reuse,
            totals: Totals::default(),
        };
        plan.totals = plan.sum(
            old.map(|r| before.local_bytes(r.0)),
            new.map(|r| after.local_bytes(r.0)),
        );
        Ok(plan)
    }

    /// Transfers to other processes, beginning with the ranks after the own so that not all begin with the same.
    pub fn sends(&self) -> &[Transfer] {
        &self.sends
    }

    /// Transfers from other processes, in the order in which the others' sends come to this one.
    pub fn receives(&self) -> &[Transfer] {
        &self.receives
    }

    /// Cells that stay with the process; see [`StorageReuse`] for whether they must be copied.
    pub fn kept(&self) -> &[Piece] {
        &self.kept
    }

    /// Halo cells to copy from the process's own old cells.
    pub fn halo_local(&self) -> &[Piece] {
        &self.halo_local
    }

    /// Whether the kept cells can stay where they are.
    pub fn reuse(&self) -> StorageReuse {
        self.reuse
    }

    /// Sums of bytes.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The chunks of one of this plan's transfers.
    pub fn chunks(&self, region: RegionId, transfer: &Transfer, chunk_max: u64) -> Chunks {
        Chunks::new(region, transfer.id(), transfer.bytes(), chunk_max, self.element_size)
    }

    fn sum(&self, storage_before: Option<u64>, storage_after: Option<u64>) -> Totals {
        let of = |transfers: &[Transfer], kind: TransferKind| {
            transfers
                .iter()
                .filter(|t| t.id().kind == kind)
                .map(Transfer::bytes)
                .sum()
        };
        let keep = self.kept.iter().map(Piece::bytes).sum();
        let storage_after = storage_after.unwrap_or(0);
        Totals {
            send: of(&self.sends, TransferKind::Cells),
            receive: of(&self.receives, TransferKind::Cells),
            keep,
            halo_send: of(&self.sends, TransferKind::Halo),
            halo_receive: of(&self.receives, TransferKind::Halo),
            halo_local: self.halo_local.iter().map(Piece::bytes).sum(),
            storage_before: storage_before.unwrap_or(0),
            storage_after,
            extra_max: extra_bytes_max(self.reuse, storage_after, keep),
        }
    }
}

fn check(before: &Partition, after: &Partition, change: &RankChange) -> Result<(), PlanError> {
    let sides = [(before, change.before()), (after, change.after())];
    if sides
        .iter()
        .any(|(partition, ranks)| partition.positions() as usize != ranks.len())
    {
        let [before, after] = sides.map(|(partition, ranks)| (partition.positions(), ranks.len()));
        return Err(PlanError::RanksDiffer { before, after });
    }
    if !before.spec().has_same_cells(after.spec()) {
        return Err(PlanError::ArraysDiffer);
    }
    Ok(())
}

/// Sorts by distance from the own rank, going round.
fn in_turn(transfers: &mut [Transfer], ranks: usize, distance: impl Fn(&Transfer) -> u32) {
    transfers.sort_by_key(|t| (i64::from(distance(t) as i32).rem_euclid(ranks as i64), t.id()));
}

#[cfg(test)]
impl ArrayPlan {
    /// A plan with a planted claim about its storage, for the tests of the checkers.
    pub(super) fn claiming(mut self, reuse: StorageReuse) -> Self {
        self.reuse = reuse;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::{ArraySpec, AxisSpec};

    fn plan(before: &Partition, after: &Partition, ranks: (u32, u32), process: u32) -> Result<ArrayPlan, PlanError> {
        let ids = |n| (0..n).map(ProcessId).collect();
        let change = RankChange::new(ids(ranks.0), ids(ranks.1)).expect("distinct");
        ArrayPlan::for_process(before, after, &change, ProcessId(process), HaloFill::Filled)
    }

    fn partition(axis: AxisSpec, positions: u32) -> Partition {
        Partition::new(&ArraySpec::new(8, [axis]), positions).expect("valid")
    }

    #[test]
    fn what_does_not_belong_together_is_refused_with_both_sides() {
        let [two, three] = [2, 3].map(|n| partition(AxisSpec::block(10), n));
        let differ = PlanError::RanksDiffer {
            before: (2, 3),
            after: (3, 3),
        };
        assert_eq!(plan(&two, &three, (3, 3), 0), Err(differ));
        let longer = partition(AxisSpec::block(11), 3);
        assert_eq!(plan(&two, &longer, (2, 3), 0), Err(PlanError::ArraysDiffer));
        assert_eq!(
            plan(&two, &three, (2, 3), 7),
            Err(PlanError::NotTakingPart { process: ProcessId(7) })
        );
    }

    #[test]
    fn a_plan_of_endless_pieces_is_refused_in_bounded_time() {
        let [before, after] = [1_000_000_000, 1_000_000_007].map(|b| partition(AxisSpec::cyclic(1 << 59, b), 2));
        assert_eq!(plan(&before, &after, (2, 2), 0), Err(PlanError::TooIrregular));
    }

    #[test]
    fn cyclic_blocks_over_another_number_of_ranks_are_a_few_runs_per_peer() {
        let [before, after] = [3, 5].map(|n| partition(AxisSpec::cyclic(1 << 59, 64), n));
        let plan = plan(&before, &after, (3, 5), 1).expect("valid");
        assert_eq!(plan.sends().len(), 4);
        assert!(plan.sends().iter().all(|transfer| transfer.pieces().len() <= 4));
    }
}
