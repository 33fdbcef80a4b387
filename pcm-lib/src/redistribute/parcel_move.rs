//! One region of opaque data in a move: a replicated value, a per-rank value or a custom region. Hooks that make data
//! run before anything moves, hooks that merge before this process agrees; until the commit nothing of the application
//! changes.

use super::{
    MoveError,
    leg::{Leg, LegBytes, LegsByProcess},
    next_layout::NextLayout,
};
use crate::region::{
    CustomRegion, Delivered, Given, HookFailed, Kind, Landing, Move, NotLanded, PerRankRegion, Pieces, Region, Registry,
};
use pcm_core::partition::Partition;
use pcm_core::redistribution::{
    RankChange, TransferId,
    parcels::{self, Parcel, ParcelRole},
    rank_order::Price,
};
use pcm_proto::ids::{ProcessId, RegionId};
use std::{cell::RefCell, rc::Rc};

/// A region's part of a move.
#[derive(Debug)]
pub(super) struct ParcelMove {
    id: RegionId,
    process: ProcessId,
    rank_after: Option<u32>,
    /// What this process gives to others.
    outgoing: Vec<(Parcel, LegBytes)>,
    /// What it waits for.
    incoming: Vec<Parcel>,
    /// What it has for its new rank: from itself, and later from others.
    here: Vec<(TransferId, ParcelRole, Vec<u8>)>,
    /// Where what it has and gets of rows or records belongs.
    landing: Option<Rc<RefCell<Landing>>>,
    /// Where rows will begin.
    offsets: Vec<usize>,
    /// What its value becomes.
    value_after: Option<Vec<u8>>,
    /// Numbers of ranks before and after.
    sizes: (u32, u32),
    /// The new division of the array that rows are divided as.
    division: Option<[Partition; 2]>,
}

impl ParcelMove {
    /// Plans, and packs what this process gives. `division` is that of the array that rows are divided as.
    pub(super) fn plan(
        (id, region): (RegionId, &mut Region),
        division: Option<[Partition; 2]>,
        next: &NextLayout,
        change: &RankChange,
        process: ProcessId,
    ) -> Result<Self, MoveError> {
        let mut made = Self {
            id,
            process,
            rank_after: change.rank_after(process).map(|rank| rank.0),
            outgoing: Vec::new(),
            incoming: Vec::new(),
            here: Vec::new(),
            landing: None,
            offsets: Vec::new(),
            value_after: None,
            sizes: (next.old_size, next.order.len() as u32),
            division,
        };
        let name = region.name.clone();
        match &mut region.kind {
            Kind::Array(_) => {}
            Kind::Value(value) => {
                let (packed, awaited) = parcels::own_parcels(&parcels::replicated(change, Price::Uniform), process);
                let lent = |parcel| {
                    let given = Given {
                        made: Vec::new(),
                        lent: Pieces::of(value.bytes()),
                    };
                    (parcel, LegBytes::from(given))
                };
                made.outgoing = packed.into_iter().map(lent).collect();
                made.incoming = awaited;
            }
            Kind::PerRank(per_rank) => made.per_rank_plan(&name, per_rank, change, process)?,
            Kind::Custom(custom) => {
                let (before, after) = made.sizes;
                // What is packed is for others: the own rank does not count.
                let by = Move::among(made.sizes, 0).divided(made.division.as_ref());
                let mut targets = Vec::new();
                for from in 0..before {
                    targets.push(custom.targets(from, &by));
                }
                let all = parcels::custom(change, |from| match targets.get(from.0 as usize) {
                    Some(Some(ranks)) => ranks.iter().copied().map(pcm_proto::ids::Rank).collect::<Vec<_>>(),
                    _ => parcels::block_targets(from, before, after).collect(),
                });
                let all = all.map_err(|error| MoveError::Parcel {
                    region: name.clone(),
                    error,
                })?;
                let (packed, awaited) = parcels::own_parcels(&all, process);
                made.incoming = awaited;
                made.incoming.sort_by_key(|parcel| parcel.id);
                if let Some(rank) = change.rank_after(process) {
                    let is_own = |parcel: &Parcel| (parcel.id.from.0, parcel.from == process);
                    let from: Vec<_> = made.incoming.iter().map(is_own).collect();
                    let landing = custom.landing(&from, &made.by(rank.0));
                    let landing = landing.map_err(|error| hook_failed(&name, "pack", error))?;
                    made.landing = landing.map(|landing| Rc::new(RefCell::new(landing)));
                }
                made.custom_give(&name, custom, &packed, process)?;
            }
        }
        Ok(made)
    }

    /// Gives others what is theirs; for this rank only what does not stay where it is.
    fn custom_give(
        &mut self,
        name: &str,
        custom: &mut CustomRegion,
        packed: &[Parcel],
        process: ProcessId,
    ) -> Result<(), MoveError> {
        for parcel in packed {
            let by = Move::among(self.sizes, 0).divided(self.division.as_ref());
            let failed = |error| hook_failed(name, "pack", error);
            if parcel.to != process {
                let given = custom.give(parcel.id.to.0, &by).map_err(failed)?;
                self.outgoing.push((*parcel, LegBytes::from(given)));
            } else if self.landing.is_none() {
                let mut bytes = Vec::new();
                custom.pack(parcel.id.to.0, &by, &mut bytes).map_err(failed)?;
                self.here.push((parcel.id, parcel.role, bytes));
            }
        }
        Ok(())
    }

    fn by(&self, rank: u32) -> Move<'_> {
        Move::among(self.sizes, rank).divided(self.division.as_ref())
    }

    fn per_rank_plan(
        &mut self,
        name: &str,
        per_rank: &mut PerRankRegion,
        change: &RankChange,
        process: ProcessId,
    ) -> Result<(), MoveError> {
        let mut all = parcels::per_rank(change);
        if per_rank.hooks.merge.is_none() && all.iter().any(|parcel| parcel.role == ParcelRole::Merges) {
            return Err(MoveError::NoMergeHook {
                region: name.to_owned(),
            });
        }
        if per_rank.hooks.split.is_none() {
            all.retain(|parcel| parcel.role != ParcelRole::Splits);
        }
        let (packed, awaited) = parcels::own_parcels(&all, process);
        let mut value = per_rank.value.bytes().to_vec();
        let (splits, rest): (Vec<_>, Vec<_>) = packed.into_iter().partition(|parcel| parcel.role == ParcelRole::Splits);
        let shares = splits.len() as u32;
        for (n, parcel) in (0..).zip(splits) {
            let mut share = vec![0; value.len()];
            if let Some(split) = &mut per_rank.hooks.split {
                let outcome = split(&mut value, &mut share, shares - n);
                outcome.map_err(|error| hook_failed(name, "split", error))?;
            }
            self.give(parcel, share, process);
        }
        // What moves on is what the splits have left.
        rest.into_iter()
            .for_each(|parcel| self.give(parcel, value.clone(), process));
        self.incoming = awaited.into_iter().filter(|parcel| parcel.from != process).collect();
        Ok(())
    }

    fn give(&mut self, parcel: Parcel, bytes: Vec<u8>, process: ProcessId) {
        if parcel.to == process {
            self.here.push((parcel.id, parcel.role, bytes));
        } else {
            self.outgoing.push((parcel, LegBytes::Parcel(Some(bytes))));
        }
    }

    pub(super) fn id(&self) -> RegionId {
        self.id
    }

    /// The legs of this region: those that leave, with their receivers, and those that come, with their senders.
    pub(super) fn legs(&mut self) -> (LegsByProcess, LegsByProcess) {
        let region = self.id;
        let leg = |id, bytes| Leg { region, id, bytes };
        let outgoing = std::mem::take(&mut self.outgoing).into_iter();
        let leaving = outgoing.map(|(parcel, bytes)| (parcel.to.0, leg(parcel.id, bytes)));
        let bytes = |part| match &self.landing {
            Some(landing) => LegBytes::Landing {
                landing: Rc::clone(landing),
                part,
            },
            None => LegBytes::Parcel(None),
        };
        let awaited = self.incoming.iter().enumerate();
        let awaited = awaited.filter(|(_, parcel)| parcel.from != self.process);
        let coming = awaited.map(|(part, parcel)| (parcel.from.0, leg(parcel.id, bytes(part))));
        (leaving.collect(), coming.collect())
    }

    /// Finds the places of what comes, once all have said how much that is.
    pub(super) fn land(&mut self, registry: &mut Registry) -> Result<(), MoveError> {
        let landing = self.landing.as_ref().filter(|landing| landing.borrow().is_due());
        let Some((landing, rank)) = landing.zip(self.rank_after) else {
            return Ok(());
        };
        let Region { name, kind } = registry.region_mut(self.id);
        let Kind::Custom(custom) = kind else {
            return Ok(());
        };
        let outcome = custom.land(&mut landing.borrow_mut(), &self.by(rank));
        outcome.map_err(|error| match error {
            NotLanded::Damaged(error) => hook_failed(name, "unpack", error),
            NotLanded::Memory(error) => MoveError::Memory {
                region: name.clone(),
                error,
            },
        })
    }

    /// What comes is of no interest any more.
    pub(super) fn give_up(&self) {
        if let Some(landing) = &self.landing {
            landing.borrow_mut().give_up();
        }
    }

    /// Takes what came; says whether it belongs to this region.
    pub(super) fn take(&mut self, leg: &Leg, bytes: &mut Vec<u8>) -> bool {
        let parcel = self
            .incoming
            .iter()
            .find(|parcel| leg.region == self.id && parcel.id == leg.id);
        if let Some(parcel) = parcel {
            self.here.push((parcel.id, parcel.role, std::mem::take(bytes)));
        }
        parcel.is_some()
    }

    /// Everything is here: works out what the value becomes. May fail, and then nothing has changed.
    pub(super) fn prepare(&mut self, region: &mut Region) -> Result<(), MoveError> {
        self.here.sort_by_key(|(id, _, _)| *id);
        let name = region.name.clone();
        let length = match &mut region.kind {
            Kind::Value(value) => value.length(),
            Kind::PerRank(per_rank) => per_rank.value.length(),
            Kind::Custom(custom) => {
                if let Some((landing, rank)) = self.landing.as_ref().zip(self.rank_after) {
                    let offsets = custom.landed(&mut landing.borrow_mut(), &self.by(rank));
                    self.offsets = offsets.map_err(|error| hook_failed(&name, "unpack", error))?;
                }
                return Ok(());
            }
            Kind::Array(_) => return Ok(()),
        };
        if let Some((id, _, bytes)) = self.here.iter().find(|(_, _, bytes)| bytes.len() != length) {
            return Err(MoveError::Statement {
                problem: format!("\"{name}\": {id} has {} bytes, {length} are registered", bytes.len()),
            });
        }
        let mut after = None;
        for (_, role, bytes) in self.here.drain(..) {
            match (role, &mut after, &mut region.kind) {
                (ParcelRole::Merges, after, Kind::PerRank(per_rank)) => {
                    let own = after.get_or_insert_with(|| per_rank.value.bytes().to_vec());
                    if let Some(merge) = &mut per_rank.hooks.merge {
                        merge(own, &bytes).map_err(|error| hook_failed(&name, "merge", error))?;
                    }
                }
                (_, after, _) => *after = Some(bytes),
            }
        }
        self.value_after = after;
        Ok(())
    }

    /// The new data becomes the application's. Only an unpack hook can fail here.
    pub(super) fn commit(self, registry: &mut Registry) -> Result<(), MoveError> {
        let rank = registry.home().rank;
        let region = registry.region_mut(self.id);
        let name = region.name.clone();
        match (&mut region.kind, self.value_after) {
            (Kind::Value(value), Some(bytes)) => value.bytes_mut().copy_from_slice(&bytes),
            (Kind::PerRank(per_rank), Some(bytes)) => per_rank.value.bytes_mut().copy_from_slice(&bytes),
            (Kind::Custom(custom), _) => {
                let by = Move::among(self.sizes, rank).divided(self.division.as_ref());
                if let Some(landing) = self.landing {
                    let landing = Rc::into_inner(landing).expect("a complete move has no legs any more");
                    custom.take_up(landing.into_inner(), self.offsets, &by);
                    return Ok(());
                }
                let parts: Vec<_> = self
                    .here
                    .iter()
                    .map(|(id, _, bytes)| Delivered { from: id.from.0, bytes })
                    .collect();
                let outcome = custom.unpack(&parts, &by);
                outcome.map_err(|error| hook_failed(&name, "unpack", error))?;
            }
            _ => {}
        }
        Ok(())
    }
}

fn hook_failed(region: &str, hook: &'static str, error: HookFailed) -> MoveError {
    MoveError::Hook {
        region: region.to_owned(),
        hook,
        error,
    }
}
