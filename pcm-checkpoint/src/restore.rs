//! Which bytes of which parts an array's new part is made of, whatever the number of ranks before and now: the plan of
//! `pcm-core`, all old ranks giving, all new ones taking. Writes only into the buffer it is given.

use crate::{
    checkpoint::Checkpoint,
    damage::Damage,
    manifest::{ArrayRecord, RegionRecord},
    reader::PartReader,
};
use pcm_core::{
    partition::Partition,
    redistribution::{ArrayPlan, ChangeError, CopyRun, HaloFill, PlanError, RankChange},
};
use pcm_proto::ids::ProcessId;

/// Why an array's part cannot be restored. What was in the buffer may be overwritten.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The array of the checkpoint has other cells, or the division cannot be planned.
    #[error("the array cannot be redistributed: {0}")]
    Plan(#[source] PlanError),
    /// The ranks cannot be numbered: a defect.
    #[error(transparent)]
    Change(ChangeError),
    /// A part of the checkpoint cannot be used.
    #[error(transparent)]
    Damage(Damage),
    /// The buffer has another length than the new part: a defect.
    #[error("a part of {expected} bytes cannot go into {found}")]
    Length {
        /// Bytes of the new part.
        expected: u64,
        /// Bytes of the buffer.
        found: u64,
    },
}

/// Bytes between two words about how far it is: a fraction of a second of any disk.
const STEP_BYTES: usize = 64 << 20;

/// Fills `storage`, the local storage of position `rank` of `after`, from an array of a checkpoint. `read` is told how
/// many bytes came with each step.
pub fn array_fill(
    checkpoint: &Checkpoint,
    region: &RegionRecord,
    array: &ArrayRecord,
    (after, rank): (&Partition, u32),
    halo: HaloFill,
    storage: &mut [u8],
    read: &mut dyn FnMut(u64),
) -> Result<(), RestoreError> {
    let (expected, found) = (after.local_bytes(rank), storage.len() as u64);
    if expected != found {
        return Err(RestoreError::Length { expected, found });
    }
    if *after == array.partition {
        // The same division: the part as it was, halo and all.
        let mut part = checkpoint.part(region, &region.parts[rank as usize])?;
        return Ok(in_steps(&mut part, 0, storage, read)?);
    }
    for_each_run::<RestoreError>(checkpoint, region, array, (after, rank), halo, |part, run| {
        let into = &mut storage[run.target as usize..(run.target + run.length) as usize];
        Ok(in_steps(part, run.source, into, read)?)
    })
}

/// Reads a run and tells how many bytes came with each step.
fn in_steps(part: &mut PartReader, source: u64, into: &mut [u8], read: &mut dyn FnMut(u64)) -> Result<(), Damage> {
    let mut at = source;
    for step in into.chunks_mut(STEP_BYTES) {
        part.read(at, step)?;
        at += step.len() as u64;
        read(step.len() as u64);
    }
    Ok(())
}

/// Calls `each` for every run of bytes that goes from a part to the local storage of position `rank` of `after`.
pub(crate) fn for_each_run<E>(
    checkpoint: &Checkpoint,
    region: &RegionRecord,
    array: &ArrayRecord,
    (after, rank): (&Partition, u32),
    halo: HaloFill,
    mut each: impl FnMut(&mut PartReader, CopyRun) -> Result<(), E>,
) -> Result<(), E>
where
    E: From<RestoreError>,
{
    let (old, new) = (array.partition.positions(), after.positions());
    let processes = |from: u32, count: u32| (from..from + count).map(ProcessId).collect();
    let change = RankChange::new(processes(0, old), processes(old, new)).map_err(RestoreError::Change)?;
    let plan = ArrayPlan::for_process(&array.partition, after, &change, ProcessId(old + rank), halo)
        .map_err(RestoreError::Plan)?;
    for transfer in plan.receives() {
        let from = transfer.id().from.0 as usize;
        let part = checkpoint.part(region, &region.parts[from]);
        let mut part = part.map_err(RestoreError::Damage)?;
        for piece in transfer.pieces() {
            piece
                .source
                .copies_to(&piece.target)
                .try_for_each(|run| each(&mut part, run))?;
        }
    }
    Ok(())
}

impl From<Damage> for RestoreError {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}
