//! Restoring a checkpoint on the ranks there are, whatever their number was. Collective; every rank reads for itself
//! what it needs. After a failure the registered data is not to be used.
#![allow(unsafe_code, reason = "writes the application's arrays")]

use super::{CheckpointError, agree, outline::dtype};
use crate::{
    mpi::Communicator,
    park::custom_parcels,
    region::{ArrayRegion, CustomRegion, Delivered, HookFailed, Kind, PerRankRegion, Registry},
};
use pcm_checkpoint::{Checkpoint, Contents, RegionRecord, array_fill};
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
            Kind::Custom(custom) => custom_restore(&name, custom, (manifest.ranks, size, rank), raw)?,
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

/// A custom region was packed for as many ranks as there were. On another number, this process takes the place of each
/// old rank that has something for it, one after the other, and packs what it is to get.
fn custom_restore(
    name: &str,
    region: &mut CustomRegion,
    (old, new, rank): (u32, u32, u32),
    raw: impl Fn(u32) -> Result<Vec<u8>, String>,
) -> Result<(), String> {
    let hooks = region.hooks.as_mut();
    let failed = |hook: &str, error: HookFailed| format!("the {hook} hook of {name:?} failed: {error}");
    let mut packs: Vec<(u32, Vec<u8>)> = Vec::new();
    if old == new {
        packs.push((rank, raw(rank)?));
    } else {
        let all = custom_parcels(hooks, old, new).map_err(|error| format!("{name:?}: {error}"))?;
        for from in all
            .iter()
            .filter(|parcel| parcel.id.to.0 == rank)
            .map(|parcel| parcel.id.from.0)
        {
            let bytes = raw(from)?;
            let as_kept = [Delivered { from, bytes: &bytes }];
            hooks.unpack(&as_kept).map_err(|error| failed("unpack", error))?;
            let mut packed = Vec::new();
            let outcome = hooks.pack(rank, new, &mut packed);
            outcome.map_err(|error| failed("pack", error))?;
            packs.push((from, packed));
        }
    }
    packs.sort_by_key(|pack| pack.0);
    let parts: Vec<Delivered<'_>> = packs
        .iter()
        .map(|(from, bytes)| Delivered { from: *from, bytes })
        .collect();
    hooks.unpack(&parts).map_err(|error| failed("unpack", error))
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

    /// The numbers below 40 that are congruent to a rank; the hooks know no rank, as in a program the data says whose
    /// it is.
    struct Items(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

    impl crate::region::CustomHooks for Items {
        fn targets(&mut self, _: u32, _: u32, after: u32) -> Option<Vec<u32>> {
            Some((0..after).collect())
        }

        fn pack(&mut self, to: u32, after: u32, out: &mut Vec<u8>) -> Result<(), HookFailed> {
            out.extend(self.0.borrow().iter().filter(|item| u32::from(**item) % after == to));
            Ok(())
        }

        fn unpack(&mut self, parts: &[Delivered<'_>]) -> Result<(), HookFailed> {
            *self.0.borrow_mut() = parts.iter().flat_map(|part| part.bytes.iter().copied()).collect();
            Ok(())
        }
    }

    #[test]
    fn custom_data_goes_to_whom_it_belongs_on_any_number_of_ranks() {
        let of = |rank: u32, ranks: u32| (0..40_u8).filter(move |item| u32::from(*item) % ranks == rank);
        for (old, new) in (1..8).flat_map(|old| (1..8).map(move |new| (old, new))) {
            for rank in 0..new {
                let items = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
                let hooks = Box::new(Items(std::rc::Rc::clone(&items)));
                let raw = |from| Ok(of(from, old).collect());
                custom_restore("items", &mut CustomRegion { hooks }, (old, new, rank), raw).unwrap();
                let mut got = items.borrow().clone();
                got.sort_unstable();
                assert_eq!(got, of(rank, new).collect::<Vec<_>>(), "{old} to {new}, rank {rank}");
            }
        }
    }
}
