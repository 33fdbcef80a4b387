//! Takes this process's part of what was parked: which bytes of whose images, and where they go. The registry is a
//! newcomer's: everything is allocated, nothing has contents.
#![allow(unsafe_code, reason = "copies into the storage of arrays")]

use super::{
    RestoreError,
    image::{custom_parcels, relaunch_change},
    opened::{Opened, Source},
};
use crate::region::{Delivered, Kind, Move, PerRankHooks, Registry, Shares};
use pcm_core::{
    parked::{Contents, Place},
    partition::{ArraySpec, Partition},
    redistribution::{
        ArrayPlan, RankChange, Transfer,
        parcels::{self, Parcel, ParcelRole},
    },
};
use pcm_proto::ids::{Iteration, ProcessId, Rank, RegionId};
use pcm_proto::reconfiguration::Attempt;
use std::collections::BTreeMap;

/// What the relaunch changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relaunched {
    /// The relaunch whose decision this process waits for; none of a checkpoint.
    pub(crate) awaited: Option<Attempt>,
    /// Number of old ranks.
    pub(crate) old_size: u32,
    /// Shares of the new ranks; empty means equal.
    pub(crate) weights: Vec<u32>,
}

/// What a region needs of the images.
enum Need {
    Array {
        id: RegionId,
        receives: Vec<Transfer>,
    },
    /// The value of old rank 0.
    Value(RegionId),
    /// Values of these old ranks.
    PerRank {
        id: RegionId,
        all: Vec<Parcel>,
    },
    Custom {
        id: RegionId,
        from: Vec<Rank>,
        /// Whether each of these packed all that it had.
        is_whole: bool,
        /// Old and new division of the array that rows are divided as.
        division: Option<Box<[Partition; 2]>>,
    },
}

struct Restoring<'a> {
    source: &'a mut dyn Source,
    images: BTreeMap<Rank, Opened>,
    change: RankChange,
    old_size: u32,
    rank: Rank,
    size: u32,
}

/// Fills the registered regions; the iteration to go on with.
pub(crate) fn restore(
    registry: &mut Registry,
    relaunched: &Relaunched,
    source: &mut dyn Source,
) -> Result<Iteration, RestoreError> {
    let home = registry.home();
    let mut restoring = Restoring {
        source,
        images: BTreeMap::new(),
        change: relaunch_change(relaunched.old_size.max(1), home.size),
        old_size: relaunched.old_size.max(1),
        rank: Rank(home.rank),
        size: home.size,
    };
    restoring.open(Rank(0))?;
    let first = &restoring.images[&Rank(0)];
    check_registrations(registry, first)?;
    let iteration = first.head.iteration;
    let parked: Vec<Contents> = first
        .head
        .regions
        .iter()
        .map(|region| region.contents.clone())
        .collect();
    let mut needs = Vec::new();
    for place in 0..parked.len() {
        let id = RegionId(place as u32);
        needs.extend(restoring.need(registry, id, &parked, relaunched)?);
    }
    restoring.get(&needs)?;
    for need in &needs {
        restoring.fill(registry, need)?;
    }
    Ok(iteration)
}

pub(crate) fn check_registrations(registry: &Registry, first: &Opened) -> Result<(), RestoreError> {
    let own = registry.descriptions();
    let parked = &first.head.regions;
    let same = |n: usize| match (own.get(n), parked.get(n)) {
        (Some(own), Some(parked)) => own.name == parked.name && own.text == parked.text,
        _ => false,
    };
    let Some(n) = (0..own.len().max(parked.len())).find(|n| !same(*n)) else {
        return Ok(());
    };
    let name = parked.get(n).map(|region| region.name.clone());
    let name = name
        .or_else(|| own.get(n).map(|region| region.name.clone()))
        .unwrap_or_default();
    Err(RestoreError::RegistrationsDiffer {
        here: own
            .iter()
            .find(|region| region.name == name)
            .map(|region| region.text.clone()),
        parked: parked
            .iter()
            .find(|region| region.name == name)
            .map(|region| region.text.clone()),
        region: name,
    })
}

impl Restoring<'_> {
    fn open(&mut self, rank: Rank) -> Result<(), RestoreError> {
        if !self.images.contains_key(&rank) {
            let opened = Opened::new(self.source, rank)?;
            if opened.head.size != self.old_size {
                return Err(opened.damaged("it is of a job of another size"));
            }
            self.images.insert(rank, opened);
        }
        Ok(())
    }

    fn process(&self) -> ProcessId {
        ProcessId(self.old_size + self.rank.0)
    }

    fn need(
        &self,
        registry: &mut Registry,
        id: RegionId,
        parked: &[Contents],
        relaunched: &Relaunched,
    ) -> Result<Option<Need>, RestoreError> {
        let name = registry.region(id).name.clone();
        match (&parked[id.0 as usize], &mut registry.region_mut(id).kind) {
            (
                Contents::Array {
                    registered,
                    in_force,
                    storage,
                },
                Kind::Array(_),
            ) => {
                let (before, after) = self.partitions(&name, registered, in_force, &relaunched.weights)?;
                self.divide(registry, id, &name, registered, &after)?;
                if storage.is_none() {
                    return Ok(None);
                }
                let halo = registry.array_by_id(id).form().halo;
                let plan = ArrayPlan::for_process(&before, &after, &self.change, self.process(), halo);
                let plan = plan.map_err(|error| RestoreError::Plan { region: name, error })?;
                let receives = plan.receives().to_vec();
                Ok(Some(Need::Array { id, receives }))
            }
            (Contents::Value(_), Kind::Value(_)) => Ok(Some(Need::Value(id))),
            (Contents::PerRank(_), Kind::PerRank(region)) => {
                let all = self.per_rank_parcels(&name, &region.hooks)?;
                Ok(Some(Need::PerRank { id, all }))
            }
            (Contents::Custom(_), Kind::Custom(region)) => {
                let is_whole = region.is_divisible();
                let like = region.like().and_then(|like| parked.get(like.0 as usize));
                let division = match like {
                    Some(Contents::Array {
                        registered, in_force, ..
                    }) => {
                        let (before, after) = self.partitions(&name, registered, in_force, &relaunched.weights)?;
                        Some(Box::new([before, after]))
                    }
                    _ => None,
                };
                let all = custom_parcels(region, &self.data_move(division.as_deref()));
                let all = all.map_err(|error| RestoreError::Parcel { region: name, error })?;
                let own = all.into_iter().filter(|parcel| parcel.id.to == self.rank);
                let from = own.map(|parcel| parcel.id.from).collect();
                Ok(Some(Need::Custom {
                    id,
                    from,
                    is_whole,
                    division,
                }))
            }
            _ => Err(self.images[&Rank(0)].damaged("a region is of another kind than its description says")),
        }
    }

    fn data_move<'a>(&self, division: Option<&'a [Partition; 2]>) -> Move<'a> {
        Move::among((self.old_size, self.size), self.rank.0).divided(division)
    }

    fn partitions(
        &self,
        name: &str,
        registered: &ArraySpec,
        in_force: &ArraySpec,
        weights: &[u32],
    ) -> Result<(Partition, Partition), RestoreError> {
        let divided = |spec: &ArraySpec, ranks| {
            Partition::new(spec, ranks).map_err(|error| RestoreError::Partition {
                region: name.to_owned(),
                error,
            })
        };
        let shares = Shares {
            ranks: self.size,
            weights,
        };
        Ok((
            divided(in_force, self.old_size)?,
            divided(&shares.applied_to(registered), self.size)?,
        ))
    }

    /// Makes the storage as long as the plan's division wants it, which may be another than was registered here.
    fn divide(
        &self,
        registry: &mut Registry,
        id: RegionId,
        name: &str,
        registered: &ArraySpec,
        after: &Partition,
    ) -> Result<(), RestoreError> {
        let rank = self.rank.0;
        let (array, capacity) = registry.array_mut(id);
        if array.partition() != after {
            let storage = array.storage_for(after, rank, capacity);
            let storage = storage.map_err(|error| RestoreError::Memory {
                region: name.to_owned(),
                error,
            })?;
            array.storage_replace(storage);
        }
        array.take_up(registered.clone(), after.clone(), rank);
        Ok(())
    }

    /// What becomes of per-rank values, as far as this rank's own value and those it comes from are concerned.
    fn per_rank_parcels(&self, name: &str, hooks: &PerRankHooks) -> Result<Vec<Parcel>, RestoreError> {
        let mut all = parcels::per_rank(&self.change);
        if hooks.merge.is_none() && all.iter().any(|parcel| parcel.role == ParcelRole::Merges) {
            return Err(RestoreError::NoMergeHook {
                region: name.to_owned(),
            });
        }
        if hooks.split.is_none() {
            all.retain(|parcel| parcel.role != ParcelRole::Splits);
        }
        let sources: Vec<Rank> = all
            .iter()
            .filter(|parcel| parcel.id.to == self.rank)
            .map(|parcel| parcel.id.from)
            .collect();
        // A value that was split is what the splits left, so all that went off it counts.
        all.retain(|parcel| sources.contains(&parcel.id.from));
        Ok(all)
    }

    /// Gets all that is needed of each image, with one request for each.
    fn get(&mut self, needs: &[Need]) -> Result<(), RestoreError> {
        let ranks = needs.iter().flat_map(|need| match need {
            Need::Array { receives, .. } => receives.iter().map(|transfer| transfer.id().from).collect(),
            Need::Value(_) => vec![Rank(0)],
            Need::PerRank { all, .. } => all.iter().map(|parcel| parcel.id.from).collect(),
            Need::Custom { from, .. } => from.clone(),
        });
        let mut ranks: Vec<Rank> = ranks.collect();
        ranks.sort_unstable();
        ranks.dedup();
        for rank in ranks {
            self.open(rank)?;
            let mut places = Vec::new();
            for need in needs {
                self.places(need, rank, &mut places)?;
            }
            if let Some(image) = self.images.get_mut(&rank) {
                image.get(self.source, &places)?;
            }
        }
        Ok(())
    }

    /// What a region needs of one image.
    fn places(&self, need: &Need, rank: Rank, places: &mut Vec<Place>) -> Result<(), RestoreError> {
        let image = &self.images[&rank];
        match need {
            Need::Array { id, receives } => {
                let storage = array_storage(image, *id)?;
                let own = receives.iter().filter(|transfer| transfer.id().from == rank);
                let runs = own.flat_map(Transfer::pieces).flat_map(|piece| piece.source.iter());
                places.extend(runs.map(|run| Place {
                    offset: storage.offset.saturating_add(run.offset),
                    length: run.length,
                }));
            }
            Need::Value(id) if rank == Rank(0) => places.push(value_place(image, *id)?),
            Need::Value(_) => {}
            Need::PerRank { id, all } => {
                if all.iter().any(|parcel| parcel.id.from == rank) {
                    places.push(value_place(image, *id)?);
                }
            }
            Need::Custom { id, from, is_whole, .. } => {
                if from.contains(&rank) {
                    places.push(self.packed_place(image, rank, *is_whole, *id)?);
                }
            }
        }
        Ok(())
    }

    /// What an old rank packed for this one, or whole.
    fn packed_place(&self, image: &Opened, from: Rank, is_whole: bool, id: RegionId) -> Result<Place, RestoreError> {
        let wanted = if is_whole { from } else { self.rank };
        match image.contents(id.0 as usize)? {
            Contents::Custom(Some(packed)) => {
                let own = packed.iter().find(|(to, _)| *to == wanted);
                own.map(|(_, place)| *place)
                    .ok_or_else(|| image.damaged("nothing is packed for this rank"))
            }
            Contents::Custom(None) => Err(RestoreError::NotPacked {
                region: image.head.regions[id.0 as usize].name.clone(),
            }),
            _ => Err(image.damaged("a custom region is of another kind there")),
        }
    }

    fn fill(&self, registry: &mut Registry, need: &Need) -> Result<(), RestoreError> {
        match need {
            Need::Array { id, receives } => receives
                .iter()
                .try_for_each(|transfer| self.fill_array(registry, *id, transfer)),
            Need::Value(id) => {
                let image = &self.images[&Rank(0)];
                let bytes = image.bytes(value_place(image, *id)?)?;
                let name = registry.region(*id).name.clone();
                Ok(registry.value_write(&name, bytes)?)
            }
            Need::PerRank { id, all } => self.fill_per_rank(registry, *id, all),
            Need::Custom {
                id,
                from,
                is_whole,
                division,
            } => {
                let mut parts = Vec::new();
                for rank in from {
                    let image = &self.images[rank];
                    let bytes = image.bytes(self.packed_place(image, *rank, *is_whole, *id)?)?;
                    parts.push(Delivered { from: rank.0, bytes });
                }
                let region = registry.region_mut(*id);
                let Kind::Custom(custom) = &mut region.kind else {
                    return Ok(());
                };
                let by = self.data_move(division.as_deref()).whole(*is_whole);
                custom.unpack(&parts, &by).map_err(|error| RestoreError::Hook {
                    region: region.name.clone(),
                    hook: "unpack",
                    error,
                })
            }
        }
    }

    fn fill_array(&self, registry: &mut Registry, id: RegionId, transfer: &Transfer) -> Result<(), RestoreError> {
        let image = &self.images[&transfer.id().from];
        let parked = image.bytes(array_storage(image, id)?)?;
        let storage = registry.array_mut(id).0.storage_mut();
        let (first, length) = (storage.pointer(), storage.length());
        // SAFETY: the array's own open storage; nothing else refers to it while the program is in this call.
        let storage = unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), length) };
        for run in transfer
            .pieces()
            .iter()
            .flat_map(|piece| piece.source.copies_to(&piece.target))
        {
            let part = |at: u64| at as usize..(at + run.length) as usize;
            let from = parked
                .get(part(run.source))
                .ok_or_else(|| image.damaged("an array is shorter than its division"))?;
            storage[part(run.target)].copy_from_slice(from);
        }
        Ok(())
    }

    fn fill_per_rank(&self, registry: &mut Registry, id: RegionId, all: &[Parcel]) -> Result<(), RestoreError> {
        let region = registry.region_mut(id);
        let name = region.name.clone();
        let Kind::PerRank(per_rank) = &mut region.kind else {
            return Ok(());
        };
        let hook = |hook, error| RestoreError::Hook {
            region: name.clone(),
            hook,
            error,
        };
        let mut own = None;
        let mut sources: Vec<Rank> = all.iter().map(|parcel| parcel.id.from).collect();
        sources.sort_unstable();
        sources.dedup();
        for from in sources {
            let image = &self.images[&from];
            let mut value = image.bytes(value_place(image, id)?)?.to_vec();
            if value.len() != per_rank.value.length() {
                return Err(image.damaged("a per-rank value has another length"));
            }
            let of_it = || all.iter().filter(|parcel| parcel.id.from == from);
            let splits: Vec<&Parcel> = of_it().filter(|parcel| parcel.role == ParcelRole::Splits).collect();
            let shares = splits.len() as u32;
            for (n, parcel) in (0..).zip(splits) {
                let mut share = vec![0; value.len()];
                if let Some(split) = &mut per_rank.hooks.split {
                    split(&mut value, &mut share, shares - n).map_err(|error| hook("split", error))?;
                }
                if parcel.id.to == self.rank {
                    own = Some(share);
                }
            }
            for parcel in of_it().filter(|parcel| parcel.id.to == self.rank) {
                match (parcel.role, &mut own, &mut per_rank.hooks.merge) {
                    (ParcelRole::Becomes, own, _) => *own = Some(value.clone()),
                    (ParcelRole::Merges, Some(own), Some(merge)) => {
                        merge(own, &value).map_err(|error| hook("merge", error))?;
                    }
                    _ => {}
                }
            }
        }
        if let Some(own) = own {
            per_rank.value.bytes_mut().copy_from_slice(&own);
        }
        Ok(())
    }
}

fn array_storage(image: &Opened, id: RegionId) -> Result<Place, RestoreError> {
    match image.contents(id.0 as usize)? {
        Contents::Array {
            storage: Some(place), ..
        } => Ok(*place),
        _ => Err(image.damaged("an array is of another kind there")),
    }
}

fn value_place(image: &Opened, id: RegionId) -> Result<Place, RestoreError> {
    match image.contents(id.0 as usize)? {
        Contents::Value(place) | Contents::PerRank(place) => Ok(*place),
        _ => Err(image.damaged("a value is of another kind there")),
    }
}
