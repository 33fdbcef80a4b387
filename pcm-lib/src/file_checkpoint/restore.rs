//! Restoring a checkpoint on the ranks there are, whatever their number was. Collective; every rank reads for itself
//! what it needs. After a failure the registered data is not to be used.
#![allow(unsafe_code, reason = "writes the application's arrays")]

use super::{CheckpointError, agree, outline::dtype};
use crate::{
    mpi::Communicator,
    park::custom_parcels,
    region::{ArrayRegion, CustomRegion, Delivered, HookFailed, Kind, Move, PerRankRegion, Region, Registry},
};
use pcm_checkpoint::{Checkpoint, Contents, RegionRecord, array_fill};
use pcm_core::partition::Partition;
use std::path::{Path, PathBuf};

/// Restores the first of these checkpoints that is sound and fits. Returns the iteration that begins.
pub(crate) fn restore(
    registry: &mut Registry,
    job: &Communicator,
    directories: &[PathBuf],
    read: &mut dyn FnMut(u64),
) -> Result<u64, CheckpointError> {
    let (rank, size) = (job.rank()?, job.size()?);
    let mut problems = Vec::new();
    for directory in directories {
        let read = fill(registry, directory, (rank, size), read);
        let all = agree::collect(job, read)?;
        let outcome = all.map(|all| {
            let iterations = all?;
            let first = iterations.first().copied().unwrap_or(0);
            // Ranks that see different directories under one name.
            let differs = iterations.iter().position(|iteration| *iteration != first);
            match differs {
                None => Ok(first),
                Some(rank) => Err(format!(
                    "rank {rank} reads another checkpoint than rank 0; use a shared directory"
                )),
            }
        });
        match agree::announce(job, outcome)? {
            Ok(iteration) => return Ok(iteration),
            Err(problem) => problems.push(problem),
        }
    }
    let problem = problems.join("; ");
    Err(CheckpointError::Restore { problem })
}

fn fill(
    registry: &mut Registry,
    directory: &Path,
    (rank, size): (u32, u32),
    read: &mut dyn FnMut(u64),
) -> Result<u64, String> {
    let checkpoint = Checkpoint::open(directory).map_err(|error| error.to_string())?;
    let manifest = checkpoint.manifest();
    check(registry, &checkpoint)?;
    let division = |region: &Region| match &region.kind {
        Kind::Array(array) => Some(array.partition().clone()),
        _ => None,
    };
    let divisions: Vec<Option<Partition>> = registry.regions().map(|(_, region)| division(region)).collect();
    for ((_, region), record) in registry.regions_mut().zip(&manifest.regions) {
        let name = region.name.clone();
        let raw = |old: u32| {
            let part = checkpoint.part(record, &record.parts[old as usize]);
            part.and_then(|mut part| part.read_all())
                .map_err(|damage| damage.to_string())
        };
        match &mut region.kind {
            Kind::Array(array) if array.form().is_scratch => {}
            Kind::Array(array) => array_restore(&checkpoint, record, array, read)?,
            Kind::Value(value) => take(&name, value.bytes_mut(), &raw(0)?)?,
            Kind::PerRank(per_rank) => {
                let bytes = per_rank_after(&name, per_rank, (manifest.ranks, size, rank), raw)?;
                if let Some(bytes) = bytes {
                    take(&name, per_rank.value.bytes_mut(), &bytes)?;
                }
            }
            Kind::Custom(custom) => {
                let like = custom.like().map(|like| like.0 as usize);
                let before = like.and_then(|like| match &manifest.regions.get(like)?.contents {
                    Contents::Array(known) => Some(&known.partition),
                    _ => None,
                });
                let after = like.and_then(|like| divisions.get(like)?.as_ref());
                let by = Move {
                    division: before.zip(after).map(|(before, after)| [before, after]),
                    is_whole: custom.is_divisible(),
                    ..Move::among((manifest.ranks, size), rank)
                };
                custom_restore(&name, custom, &by, raw)?;
            }
        }
    }
    Ok(manifest.iteration)
}

/// The program must have registered what the checkpoint has.
fn check(registry: &Registry, checkpoint: &Checkpoint) -> Result<(), String> {
    let records = &checkpoint.manifest().regions;
    let own = registry.descriptions();
    let differs = own
        .iter()
        .zip(records)
        .find(|(own, record)| own.name != record.name || own.text != record.registration);
    if let Some((own, record)) = differs {
        return Err(format!(
            "the program registers {:?} ({}) where {} has {:?} ({})",
            own.name,
            own.text,
            checkpoint.directory().display(),
            record.name,
            record.registration
        ));
    }
    if own.len() != records.len() {
        let directory = checkpoint.directory().display();
        return Err(format!(
            "the program registers {} regions, {directory} has {}",
            own.len(),
            records.len()
        ));
    }
    Ok(())
}

fn array_restore(
    checkpoint: &Checkpoint,
    record: &RegionRecord,
    array: &mut ArrayRegion,
    read: &mut dyn FnMut(u64),
) -> Result<(), String> {
    let Contents::Array(known) = &record.contents else {
        return Err(format!(
            "{:?} is not an array in {}",
            record.name,
            checkpoint.directory().display()
        ));
    };
    let dtype = dtype(array.form().element);
    if known.dtype != dtype {
        return Err(format!(
            "{:?} has elements {} there, {dtype} here",
            record.name, known.dtype
        ));
    }
    // SAFETY: the storage has this many bytes and is the library's; the application is inside a call of it.
    let storage = unsafe {
        let storage = array.storage();
        std::slice::from_raw_parts_mut(storage.pointer().as_ptr(), storage.length())
    };
    let after = (array.partition(), array.rank());
    array_fill(checkpoint, record, known, after, array.form().halo, storage, read)
        .map_err(|error| format!("{:?}: {error}", record.name))
}

fn take(name: &str, value: &mut [u8], bytes: &[u8]) -> Result<(), String> {
    if value.len() != bytes.len() {
        return Err(format!(
            "{name:?} has {} bytes there, {} here",
            bytes.len(),
            value.len()
        ));
    }
    value.copy_from_slice(bytes);
    Ok(())
}

/// The value of a new rank, by the rules of a live change of size; none if it keeps what the program registered.
fn per_rank_after(
    name: &str,
    region: &mut PerRankRegion,
    (old, new, rank): (u32, u32, u32),
    raw: impl Fn(u32) -> Result<Vec<u8>, String>,
) -> Result<Option<Vec<u8>>, String> {
    let failed = |hook: &str, error: HookFailed| format!("the {hook} hook of {name:?} failed: {error}");
    let (wide_old, wide_new) = (u64::from(old), u64::from(new));
    let heir = |ended: u32| (u64::from(ended) * wide_new / wide_old) as u32;
    let parent = |begun: u32| (u64::from(begun) * wide_old / wide_new) as u32;
    if rank >= old && region.hooks.split.is_none() {
        return Ok(None);
    }
    let from = if rank < old { rank } else { parent(rank) };
    let mut value = raw(from)?;
    if let Some(split) = &mut region.hooks.split {
        // Every rank of a family repeats the same cuts and takes its share.
        let children: Vec<u32> = (old..new).filter(|begun| parent(*begun) == from).collect();
        let count = children.len() as u32;
        for (n, child) in (0..).zip(children) {
            let mut share = vec![0; value.len()];
            split(&mut value, &mut share, count - n).map_err(|error| failed("split", error))?;
            if child == rank {
                return Ok(Some(share));
            }
        }
    }
    for ended in (new..old).filter(|ended| heir(*ended) == rank) {
        let Some(merge) = &mut region.hooks.merge else {
            return Err(format!(
                "{name:?} has no merge hook, so the values of {old} ranks cannot go to {new}; restart on {old} or more"
            ));
        };
        merge(&mut value, &raw(ended)?).map_err(|error| failed("merge", error))?;
    }
    Ok(Some(value))
}

/// A custom region was packed for as many ranks as there were. On another number a new rank gets what old ranks packed,
/// as it is: nothing can be packed again before the program has taken up what it got. Of rows and records it takes its
/// own.
fn custom_restore(
    name: &str,
    region: &mut CustomRegion,
    by: &Move<'_>,
    raw: impl Fn(u32) -> Result<Vec<u8>, String>,
) -> Result<(), String> {
    let (old, new) = (by.before, by.after);
    let mut from = vec![by.rank];
    if old != new || region.is_divisible() {
        let all = custom_parcels(region, by).map_err(|error| format!("{name:?}: {error}"))?;
        let of = |from: u32| all.iter().filter(move |parcel| parcel.id.from.0 == from).count();
        if let Some(divided) = (0..old).find(|from| of(*from) > 1 && !region.is_divisible()) {
            return Err(format!(
                "{name:?} of rank {divided} of {old} would go to several of {new} ranks, and only a running program \
                 can divide it; restart on {old}, or on a number of ranks each of which takes over whole ranks"
            ));
        }
        let mine = all.iter().filter(|parcel| parcel.id.to.0 == by.rank);
        from = mine.map(|parcel| parcel.id.from.0).collect();
        from.sort_unstable();
    }
    let kept: Vec<(u32, Vec<u8>)> = from
        .into_iter()
        .map(|from| Ok((from, raw(from)?)))
        .collect::<Result<_, String>>()?;
    let parts: Vec<Delivered<'_>> = kept
        .iter()
        .map(|(from, bytes)| Delivered { from: *from, bytes })
        .collect();
    let outcome = region.unpack(&parts, by);
    outcome.map_err(|error| format!("the unpack hook of {name:?} failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{PerRankHooks, Value};

    fn counter(hooks: PerRankHooks) -> PerRankRegion {
        PerRankRegion {
            value: Value::owned(vec![0; 8]),
            hooks,
        }
    }

    fn halves() -> PerRankHooks {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        PerRankHooks {
            merge: Some(Box::new(move |own, ended| {
                own.copy_from_slice(&(word(own) + word(ended)).to_le_bytes());
                Ok(())
            })),
            split: Some(Box::new(move |own, share, left| {
                let part = word(own) / u64::from(left + 1);
                share.copy_from_slice(&part.to_le_bytes());
                own.copy_from_slice(&(word(own) - part).to_le_bytes());
                Ok(())
            })),
        }
    }

    fn values(old: u32, new: u32) -> Vec<u64> {
        let raw = |rank: u32| Ok((100 * (u64::from(rank) + 1)).to_le_bytes().to_vec());
        let value = |rank| {
            per_rank_after("v", &mut counter(halves()), (old, new, rank), raw)
                .unwrap()
                .unwrap()
        };
        (0..new)
            .map(|rank| u64::from_le_bytes(value(rank).try_into().unwrap()))
            .collect()
    }

    #[test]
    fn nothing_of_a_per_rank_value_is_lost_or_doubled_on_any_number_of_ranks() {
        for old in 1..9 {
            for new in 1..9 {
                let sum: u64 = (1..=u64::from(old)).map(|n| 100 * n).sum();
                assert_eq!(values(old, new).iter().sum::<u64>(), sum, "{old} to {new}");
            }
        }
        assert_eq!(values(3, 3), [100, 200, 300]);
    }

    #[test]
    fn values_that_cannot_be_merged_are_not_dropped() {
        let raw = |_| Ok(vec![1; 8]);
        let refused = per_rank_after("v", &mut counter(PerRankHooks::default()), (3, 2, 1), raw);
        assert!(refused.unwrap_err().contains("no merge hook"));
        let kept = per_rank_after("v", &mut counter(PerRankHooks::default()), (2, 3, 2), raw);
        assert_eq!(kept, Ok(None));
    }

    /// Items that each rank keeps together; `to_all` wants a part of them for every new rank.
    struct Items {
        held: std::rc::Rc<std::cell::RefCell<Vec<u8>>>,
        to_all: bool,
    }

    impl crate::region::CustomHooks for Items {
        fn targets(&mut self, from: u32, before: u32, after: u32) -> Option<Vec<u32>> {
            Some(if self.to_all {
                (0..after).collect()
            } else {
                vec![from * after / before]
            })
        }

        fn pack(&mut self, _: u32, _: u32, _: &mut Vec<u8>) -> Result<(), HookFailed> {
            panic!("a restart packs nothing");
        }

        fn unpack(&mut self, parts: &[Delivered<'_>]) -> Result<(), HookFailed> {
            *self.held.borrow_mut() = parts.iter().flat_map(|part| part.bytes.iter().copied()).collect();
            Ok(())
        }
    }

    fn items_after((old, new, rank): (u32, u32, u32), to_all: bool) -> Result<Vec<u8>, String> {
        let held = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let hooks = Box::new(Items {
            held: std::rc::Rc::clone(&held),
            to_all,
        });
        let raw = |from: u32| Ok(vec![from as u8, 100 + from as u8]);
        custom_restore(
            "items",
            &mut CustomRegion::new(hooks),
            &Move::among((old, new), rank),
            raw,
        )?;
        Ok(held.take())
    }

    #[test]
    fn custom_data_goes_to_one_rank_each_on_any_number_of_ranks_and_none_is_lost() {
        for (old, new) in (1..8).flat_map(|old| (1..8).map(move |new| (old, new))) {
            let all: Vec<u8> = (0..new)
                .flat_map(|rank| items_after((old, new, rank), false).unwrap())
                .collect();
            let wanted: Vec<u8> = (0..old as u8).flat_map(|from| [from, 100 + from]).collect();
            assert_eq!(all, wanted, "{old} to {new}");
        }
    }

    #[test]
    fn custom_data_that_several_ranks_would_share_is_refused_and_not_packed_again() {
        let refused = items_after((3, 2, 0), true).unwrap_err();
        assert!(
            refused.contains("rank 0 of 3 would go to several of 2 ranks"),
            "{refused}"
        );
        assert_eq!(items_after((3, 1, 0), true).unwrap(), [0, 100, 1, 101, 2, 102]);
        assert_eq!(items_after((3, 3, 1), true).unwrap(), [1, 101]);
    }
}
