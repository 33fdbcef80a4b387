//! The plan of each array, as far as this process is concerned: what it gives and what it needs.

use super::Trip;
use crate::{
    park::RestoreError,
    region::{ArrayForm, Kind, Registry},
};
use pcm_core::{
    partition::{ArraySpec, Partition},
    redistribution::ArrayPlan,
};
use pcm_proto::ids::RegionId;

/// How an array is divided: as registered by the job's first ranks, and now.
#[derive(Clone, Debug)]
pub(super) struct Division {
    pub(super) registered: ArraySpec,
    pub(super) in_force: ArraySpec,
}

/// One array on its way.
#[derive(Debug)]
pub(super) struct ArrayNeed {
    pub(super) id: RegionId,
    pub(super) before: Partition,
    pub(super) after: Partition,
    pub(super) plan: ArrayPlan,
}

/// The arrays of this process that are meant, and their divisions as it knows them itself.
pub(super) fn own_divisions(registry: &Registry, is_meant: fn(&ArrayForm) -> bool) -> Vec<(RegionId, Division)> {
    let meant = registry.regions().filter_map(|(id, region)| match &region.kind {
        Kind::Array(array) if is_meant(array.form()) => {
            let (registered, in_force) = (array.form().spec.clone(), array.partition().spec().clone());
            Some((id, Division { registered, in_force }))
        }
        _ => None,
    });
    meant.collect()
}

/// Those whose contents never change.
pub(super) fn is_constant(form: &ArrayForm) -> bool {
    form.is_constant
}

/// Plans each of them.
pub(super) fn needs(
    registry: &Registry,
    trip: &Trip,
    divisions: &[(RegionId, Division)],
) -> Result<Vec<ArrayNeed>, RestoreError> {
    let change = trip
        .next
        .change(trip.transfer_size)
        .map_err(|_| RestoreError::NoSuchPlan)?;
    let shares = trip.next.shares();
    let mut needs = Vec::with_capacity(divisions.len());
    for (id, division) in divisions {
        let name = || registry.region(*id).name.clone();
        let divided = |spec: &ArraySpec, ranks| {
            Partition::new(spec, ranks).map_err(|error| RestoreError::Partition { region: name(), error })
        };
        let before = divided(&division.in_force, trip.next.old_size)?;
        let after = divided(&shares.applied_to(&division.registered), shares.ranks)?;
        let halo = registry.array_by_id(*id).form().halo;
        let plan = ArrayPlan::for_process(&before, &after, &change, trip.process(), halo)
            .map_err(|error| RestoreError::Plan { region: name(), error })?;
        needs.push(ArrayNeed {
            id: *id,
            before,
            after,
            plan,
        });
    }
    Ok(needs)
}
