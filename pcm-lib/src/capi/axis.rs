//! Axes and properties of an array as values: what the macro `pcm_array` says by its options, for languages and tools
//! that compute it, and for arrays in memory of the program.
#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(unsafe_code, reason = "reads what C programs pass")]
#![allow(unreachable_pub, reason = "what pcm.h is made of is public")]

use super::{
    arguments::{Misuse, list},
    option::{axes_of, element_of, split_by_costs},
};
use crate::region::ArrayForm;
use pcm_core::{
    partition::{ArraySpec, AxisSpec, Edge, Split},
    redistribution::HaloFill,
};
use std::ffi::{c_int, c_void};

/// How an axis is divided; the words of the macros PCM_BLOCK and so on apply.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pcm_split {
    /// Not divided: every rank has all of it.
    PCM_SPLIT_NONE = 0,
    /// Equal blocks, one per rank (PCM_BLOCK).
    PCM_SPLIT_BLOCK = 1,
    /// Blocks in turn (PCM_CYCLIC): `number` is the length of one.
    PCM_SPLIT_CYCLIC = 2,
    /// One block per rank (PCM_WEIGHTED): `list` has `number` weights (double).
    PCM_SPLIT_WEIGHTED = 3,
    /// One block per rank (PCM_COUNTS): `list` has `number` counts (size_t).
    PCM_SPLIT_COUNTS = 4,
    /// One block per rank, of about the same cost (PCM_COSTS): `list` has `number` costs (double), as many as `extent`.
    PCM_SPLIT_COSTS = 5,
}

pub use pcm_split::*;

/// One axis of an array. Fields that are not set are 0: an axis of that extent, not divided, without a halo.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pcm_axis {
    /// Number of elements along this axis, of the whole array.
    pub extent: usize,
    /// One of pcm_split.
    pub split: c_int,
    /// Elements of each neighbour that a part has room for, on both sides (PCM_HALO).
    pub halo: usize,
    /// Not 0: the halo beyond an end is the other end (PCM_PERIODIC).
    pub periodic: c_int,
    /// Length of a block, or of the list.
    pub number: usize,
    /// Weights or costs (double), or counts (size_t).
    pub list: *const c_void,
}

/// Properties of an array, to be combined by `|`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pcm_flag {
    #[allow(dead_code, reason = "for programs that combine nothing")]
    PCM_FLAG_NONE = 0,
    /// Its contents do not move (PCM_SCRATCH).
    PCM_FLAG_SCRATCH = 1,
    /// Its contents do not change after pcm_start (PCM_CONSTANT).
    PCM_FLAG_CONSTANT = 2,
    /// The program updates halos after a change (PCM_STALE_HALO).
    PCM_FLAG_STALE_HALO = 4,
}

pub use pcm_flag::*;

/// What such a description says.
///
/// # Safety
/// `axes` is NULL or good for `ndims` of them, whose lists are as long as they say.
pub(super) unsafe fn form_of_axes(
    name: &str,
    element: c_int,
    ndims: c_int,
    axes: *const pcm_axis,
    flags: c_int,
) -> Result<ArrayForm, Misuse> {
    let element = element_of(name, element)?;
    let count = axes_of(name, ndims)?;
    // SAFETY: by the contract.
    let axes = unsafe { list(axes, count, "the list of axes")? };
    let specs: Result<Vec<AxisSpec>, Misuse> = axes
        .iter()
        // SAFETY: by the contract.
        .map(|axis| unsafe { spec_of(name, axis) })
        .collect();
    let known = [PCM_FLAG_SCRATCH, PCM_FLAG_CONSTANT, PCM_FLAG_STALE_HALO].map(|flag| flag as c_int);
    if flags & !known.iter().sum::<c_int>() != 0 {
        return Err(Misuse::Argument(format!(
            "region \"{name}\": {flags} is not a combination of PCM_FLAG_SCRATCH, PCM_FLAG_CONSTANT and \
             PCM_FLAG_STALE_HALO"
        )));
    }
    let [is_scratch, is_constant, is_stale] = known.map(|flag| flags & flag != 0);
    Ok(ArrayForm {
        element,
        spec: ArraySpec::new(element.size(), specs?),
        halo: if is_stale { HaloFill::Stale } else { HaloFill::Filled },
        is_scratch,
        is_constant,
    })
}

/// # Safety
/// The list of the axis is NULL or as long as it says.
unsafe fn spec_of(name: &str, axis: &pcm_axis) -> Result<AxisSpec, Misuse> {
    let is = |split: pcm_split| split as c_int == axis.split;
    // SAFETY: by the contract.
    let split = unsafe {
        match () {
            () if is(PCM_SPLIT_NONE) => Split::Whole,
            () if is(PCM_SPLIT_BLOCK) => Split::Block,
            () if is(PCM_SPLIT_CYCLIC) => Split::Cyclic {
                block: axis.number as u64,
            },
            () if is(PCM_SPLIT_WEIGHTED) => Split::Weighted {
                weights: list(axis.list.cast::<f64>(), axis.number, "the list of weights")?.to_vec(),
            },
            () if is(PCM_SPLIT_COUNTS) => {
                let counts = list(axis.list.cast::<usize>(), axis.number, "the list of counts")?;
                Split::Counts {
                    counts: counts.iter().map(|count| *count as u64).collect(),
                }
            }
            () if is(PCM_SPLIT_COSTS) => {
                split_by_costs(name, list(axis.list.cast::<f64>(), axis.number, "the list of costs")?)?
            }
            () => {
                let split = axis.split;
                return Err(Misuse::Argument(format!(
                    "region \"{name}\": {split} is not a way to divide an axis; use PCM_SPLIT_BLOCK or another"
                )));
            }
        }
    };
    let mut spec = AxisSpec::new(axis.extent as u64, split);
    spec.halo = axis.halo as u64;
    if axis.periodic != 0 {
        spec.edge = Edge::Periodic;
    }
    Ok(spec)
}
