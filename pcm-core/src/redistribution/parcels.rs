//! Who hands opaque data to whom: replicated data, a rank's own values, what pack hooks make. Their sizes are known
//! only when they are packed, so a plan here is a list of (from, to), the same on every process. Never packs anything.

use super::change::RankChange;
use super::chunk::{TransferId, TransferKind};
use super::rank_order::Price;
use pcm_proto::ids::{ProcessId, Rank};
use std::collections::BTreeSet;

/// One hand-over; where `from` and `to` are the same process, nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// Its name, the same at both ends.
    pub id: TransferId,
    /// The process that packs it.
    pub from: ProcessId,
    /// The process that unpacks it.
    pub to: ProcessId,
    /// What the receiver does with it.
    pub role: ParcelRole,
}

/// What a parcel is to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParcelRole {
    /// Becomes the receiver's data.
    Becomes,
    /// Is merged into the receiver's data, because the rank it belonged to is no more.
    Merges,
    /// Is the share that an older rank splits off for a rank that is new.
    Splits,
}

/// Why a custom region cannot be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParcelError {
    /// The mapping names a rank that the new communicator does not have.
    #[error("the mapping sends data of rank {from} to rank {to}, but there will be {ranks} ranks")]
    NoSuchRank {
        /// The old rank.
        from: Rank,
        /// The rank it was mapped to.
        to: Rank,
        ranks: u32,
    },
    /// The mapping gives an old rank's data to nobody.
    #[error("the mapping sends data of rank {from} to no rank; it would be lost")]
    NoTarget {
        /// The old rank.
        from: Rank,
    },
}

/// Replicated data: each newcomer gets it from the cheapest process that has it; among equally cheap ones those with
/// fewer newcomers to serve come first, then lower ranks.
pub fn replicated(change: &RankChange, price: Price<'_>) -> Vec<Parcel> {
    let mut served: Vec<u32> = vec![0; change.before().len()];
    let newcomers = (0..)
        .map(Rank)
        .zip(change.after())
        .filter(|(_, process)| change.rank_before(**process).is_none());
    newcomers
        .map(|(to, &newcomer)| {
            let cost = |holder: usize| match price {
                Price::Uniform => 1,
                Price::PerPair(price) => price(change.before()[holder], newcomer),
            };
            let holders = 0..change.before().len();
            let from = holders
                .min_by_key(|&holder| (cost(holder), served[holder], holder))
                .unwrap_or(0);
            served[from] += 1;
            parcel(change, Rank(from as u32), to, ParcelRole::Becomes)
        })
        .collect()
}

/// A rank's values: they stay with the rank, whatever process has it. Values of ranks that are no more are merged into
/// the rank that takes over that part of a block partition; ranks that are new get a share split off by the rank that
/// had theirs.
pub fn per_rank(change: &RankChange) -> Vec<Parcel> {
    let (old, new) = (change.before().len() as u64, change.after().len() as u64);
    let rank = |rank: u64| Rank(rank as u32);
    let stay = (0..old.min(new)).map(|r| parcel(change, rank(r), rank(r), ParcelRole::Becomes));
    let merge = (new..old).map(|r| parcel(change, rank(r), rank(r * new / old), ParcelRole::Merges));
    let split = (old..new).map(|r| parcel(change, rank(r * old / new), rank(r), ParcelRole::Splits));
    stay.chain(merge).chain(split).collect()
}

/// A custom region: `targets` says which new ranks get a part of an old rank's data. The pack hook is called once per
/// pair, on the old rank; repeated targets count once.
pub fn custom<T>(change: &RankChange, targets: impl Fn(Rank) -> T) -> Result<Vec<Parcel>, ParcelError>
where
    T: IntoIterator<Item = Rank>,
{
    let ranks = change.after().len() as u32;
    let mut parcels = Vec::new();
    for from in (0..change.before().len() as u32).map(Rank) {
        let mut wanted: Vec<Rank> = targets(from).into_iter().collect();
        wanted.sort_unstable();
        wanted.dedup();
        match wanted.last() {
            None => return Err(ParcelError::NoTarget { from }),
            Some(&to) if to.0 >= ranks => return Err(ParcelError::NoSuchRank { from, to, ranks }),
            Some(_) => parcels.extend(
                wanted
                    .into_iter()
                    .map(|to| parcel(change, from, to, ParcelRole::Becomes)),
            ),
        }
    }
    Ok(parcels)
}

/// The new ranks whose blocks overlap an old rank's, if both divide the same range evenly: the mapping for custom
/// regions that are ordered and have no better one.
pub fn block_targets(from: Rank, ranks_before: u32, ranks_after: u32) -> impl Iterator<Item = Rank> {
    let (rank, old, new) = (u64::from(from.0), u64::from(ranks_before), u64::from(ranks_after));
    let (first, last) = (rank * new / old, ((rank + 1) * new).div_ceil(old));
    (first as u32..last as u32).map(Rank)
}

/// Parcels that one process packs, and those it unpacks; one it hands to itself is in both.
pub fn own_parcels(parcels: &[Parcel], process: ProcessId) -> (Vec<Parcel>, Vec<Parcel>) {
    let of = |side: fn(&Parcel) -> ProcessId| parcels.iter().filter(|p| side(p) == process).copied().collect();
    (of(|p| p.from), of(|p| p.to))
}

/// No parcel is named twice; a second one would be taken for a duplicate of the first.
pub fn invariant_parcels_are_distinct(parcels: &[Parcel]) -> Result<(), TransferId> {
    let mut seen = BTreeSet::new();
    match parcels.iter().find(|parcel| !seen.insert(parcel.id)) {
        Some(parcel) => Err(parcel.id),
        None => Ok(()),
    }
}

fn parcel(change: &RankChange, from: Rank, to: Rank, role: ParcelRole) -> Parcel {
    Parcel {
        id: TransferId {
            kind: TransferKind::Parcel,
            from,
            to,
        },
        from: change.before()[from.0 as usize],
        to: change.after()[to.0 as usize],
        role,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: &[u32], after: &[u32]) -> RankChange {
        let ids = |ids: &[u32]| ids.iter().copied().map(ProcessId).collect();
        RankChange::new(ids(before), ids(after)).expect("distinct")
    }

    fn routes(parcels: &[Parcel]) -> Vec<(u32, u32, ParcelRole)> {
        parcels.iter().map(|p| (p.id.from.0, p.id.to.0, p.role)).collect()
    }

    #[test]
    fn newcomers_get_replicated_data_from_the_nearest_holders_in_turn() {
        let change = change(&[0, 1, 10], &[0, 2, 3, 11, 10]);
        let by_host = |from: ProcessId, to: ProcessId| if from.0 / 10 == to.0 / 10 { 1 } else { 5 };
        let parcels = replicated(&change, Price::PerPair(&by_host));
        let becomes = ParcelRole::Becomes;
        assert_eq!(routes(&parcels), [(0, 1, becomes), (1, 2, becomes), (2, 3, becomes)]);
        assert_eq!(parcels[2].from, ProcessId(10));
        assert_eq!(
            routes(&replicated(&change, Price::Uniform)),
            [(0, 1, becomes), (1, 2, becomes), (2, 3, becomes)]
        );
    }

    #[test]
    fn values_stay_with_their_rank_and_are_merged_or_split_when_the_size_changes() {
        let shrunk = per_rank(&change(&[0, 1, 2, 3], &[0, 2]));
        let (becomes, merges, splits) = (ParcelRole::Becomes, ParcelRole::Merges, ParcelRole::Splits);
        assert_eq!(
            routes(&shrunk),
            [(0, 0, becomes), (1, 1, becomes), (2, 1, merges), (3, 1, merges)]
        );
        assert_eq!((shrunk[1].from, shrunk[1].to), (ProcessId(1), ProcessId(2)));
        let grown = per_rank(&change(&[0, 1], &[0, 1, 5, 6]));
        assert_eq!(
            routes(&grown),
            [(0, 0, becomes), (1, 1, becomes), (1, 2, splits), (1, 3, splits)]
        );
        let (packed, unpacked) = own_parcels(&shrunk, ProcessId(2));
        assert_eq!((packed.len(), unpacked.len()), (1, 3));
    }

    #[test]
    fn a_mapping_that_loses_data_or_names_no_rank_is_refused() {
        let change = change(&[0, 1], &[0, 1, 2]);
        assert_eq!(custom(&change, |_| []), Err(ParcelError::NoTarget { from: Rank(0) }));
        let refused = Err(ParcelError::NoSuchRank {
            from: Rank(0),
            to: Rank(3),
            ranks: 3,
        });
        assert_eq!(custom(&change, |_| [Rank(3)]), refused);
        let parcels = custom(&change, |from| block_targets(from, 2, 3)).expect("blocks have targets");
        let becomes = ParcelRole::Becomes;
        assert_eq!(
            routes(&parcels),
            [(0, 0, becomes), (0, 1, becomes), (1, 1, becomes), (1, 2, becomes)]
        );
        assert_eq!(invariant_parcels_are_distinct(&parcels), Ok(()));
    }

    #[test]
    fn a_planted_double_parcel_is_caught() {
        let mut parcels = per_rank(&change(&[0, 1], &[1, 0]));
        parcels.push(parcels[0]);
        assert_eq!(invariant_parcels_are_distinct(&parcels), Err(parcels[0].id));
    }

    #[test]
    fn block_targets_reach_every_new_rank() {
        for (old, new) in [(1, 5), (5, 1), (3, 7), (7, 3), (4, 4)] {
            let mut reached: Vec<Rank> = (0..old).flat_map(|rank| block_targets(Rank(rank), old, new)).collect();
            reached.dedup();
            assert_eq!(reached, (0..new).map(Rank).collect::<Vec<_>>());
        }
    }
}
