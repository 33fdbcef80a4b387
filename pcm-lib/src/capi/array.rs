//! Distributed arrays in C: registration, data, and which indices are whose.
#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(unsafe_code, reason = "C API")]
#![allow(unreachable_pub, reason = "what pcm.h is made of is public")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the words are those of pcm.h: pointers are NULL or good"
)]

use super::{
    arguments::{Misuse, axis, code_of, code_of_part, list, on_registry, room, text},
    axis::{form_of_axes, pcm_axis},
    option::form_of,
    result::pcm_result,
};
use crate::region::{ArrayRegion, Registry};
use std::{
    ffi::{c_char, c_int, c_void},
    ptr::null_mut,
};

/// The function behind the macro pcm_array. form[0] is the address of the extents (size_t, one per axis, slowest
/// first); then come addresses of pcm_option, the last one NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_array_create(
    name: *const c_char,
    element: c_int,
    ndims: c_int,
    form: *const *const c_void,
) -> *mut c_void {
    let made = on_registry(|registry| {
        // SAFETY: the caller's pointers are NULL or good.
        let (name, form) = unsafe {
            let name = text(name)?;
            (name, form_of(name, element, ndims, form)?)
        };
        registry.array(name, form)?;
        first_of(registry, name)
    });
    made.unwrap_or(null_mut())
}

/// Registers an array as pcm_array does, its axes being values: for example rows divided in blocks with a halo of one
/// row are `(pcm_axis[]){{.extent = rows, .split = PCM_SPLIT_BLOCK, .halo = 1}, {.extent = cols}}`. `flags` combines
/// those of pcm_flag. Returns the address of this rank's part, zeroed; NULL on failure (see pcm_last_error).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_array_axes(
    name: *const c_char,
    element: c_int,
    ndims: c_int,
    axes: *const pcm_axis,
    flags: c_int,
) -> *mut c_void {
    let made = on_registry(|registry| {
        // SAFETY: the caller's pointers are NULL or good.
        let (name, form) = unsafe {
            let name = text(name)?;
            (name, form_of_axes(name, element, ndims, axes, flags)?)
        };
        registry.array(name, form)?;
        first_of(registry, name)
    });
    made.unwrap_or(null_mut())
}

/// Returns the address of this rank's part of an array: its halo and its own elements, row-major. The address is valid
/// until pcm_iterate returns PCM_CHANGED or pcm_swap is called. NULL if there is no such array (see pcm_last_error).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_data(name: *const c_char) -> *mut c_void {
    let found = on_registry(|registry| {
        // SAFETY: the caller's pointer is NULL or good.
        let name = unsafe { text(name)? };
        first_of(registry, name)
    });
    found.unwrap_or(null_mut())
}

/// Exchanges two arrays of the same type, extents and options (PCM_SCRATCH may differ), as at the end of an iteration
/// that computed "next" from "t". Copies nothing; call pcm_data for both afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_swap(one: *const c_char, other: *const c_char) -> pcm_result {
    code_of(|registry| {
        // SAFETY: the caller's pointers are NULL or good.
        let (one, other) = unsafe { (text(one)?, text(other)?) };
        Ok(registry.swap(one, other)?)
    })
}

/// Writes the interval of global indices of an axis that this rank owns: from *start to *end, *end and the halo
/// excluded. Fails if they are not one interval (PCM_CYCLIC: see pcm_box).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_bounds(
    name: *const c_char,
    axis: c_int,
    start: *mut usize,
    end: *mut usize,
) -> pcm_result {
    // SAFETY: the caller's pointers are NULL or good.
    code_of_part(name, |name, partition, rank| unsafe {
        let axis = self::axis(name, axis, partition.spec().axes.len())?;
        let (start, end) = (room(start, 1, "start")?, room(end, 1, "end")?);
        let Some(bounds) = partition.owned_interval(rank, axis) else {
            return Err(Misuse::Argument(format!(
                "region \"{name}\": axis {axis} is cyclic, a rank's indices are not one interval; use pcm_box"
            )));
        };
        (start[0], end[0]) = (bounds.0 as usize, bounds.1 as usize);
        Ok(())
    })
}

/// Writes the number of elements of this rank's part along each axis, halo included, to extents (one number per axis).
/// Index (i, j) of the part is data[i * extents[1] + j].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_local_extents(name: *const c_char, extents: *mut usize) -> pcm_result {
    // SAFETY: the caller's pointers are NULL or good.
    code_of_part(name, |_, partition, rank| unsafe {
        let local = partition.local_extents(rank);
        let extents = room(extents, local.len(), "extents")?;
        extents.iter_mut().zip(local).for_each(|(to, from)| *to = from as usize);
        Ok(())
    })
}

/// Writes the number of boxes of global indices that this rank owns to *count: 1, or 0 for an empty part; more only
/// with PCM_CYCLIC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_box_count(name: *const c_char, count: *mut usize) -> pcm_result {
    // SAFETY: the caller's pointers are NULL or good.
    code_of(|registry| unsafe {
        let array = registry.array_named(text(name)?)?;
        room(count, 1, "count")?[0] = box_count(array);
        Ok(())
    })
}

/// Writes the first global index and the number of indices along each axis of this rank's box n, counted from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_box(name: *const c_char, n: usize, start: *mut usize, length: *mut usize) -> pcm_result {
    // SAFETY: the caller's pointers are NULL or good.
    code_of(|registry| unsafe {
        let name = text(name)?;
        let array = registry.array_named(name)?;
        let axes = array.partition().spec().axes.len();
        let (start, length) = (room(start, axes, "start")?, room(length, axes, "length")?);
        let Some(found) = array.partition().owned_boxes(array.rank()).nth(n) else {
            let count = box_count(array);
            return Err(Misuse::Argument(format!(
                "region \"{name}\" has {count} boxes on this rank, no number {n}"
            )));
        };
        for axis in 0..axes {
            (start[axis], length[axis]) = (found.start[axis] as usize, found.length[axis] as usize);
        }
        Ok(())
    })
}

/// Writes the rank that owns a global index (one number per axis) to *rank. The name may be that of a list of owners,
/// the index a row.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_owner(name: *const c_char, index: *const usize, rank: *mut c_int) -> pcm_result {
    // SAFETY: the caller's pointers are NULL or good.
    code_of(|registry| unsafe {
        let name = text(name)?;
        let (index, owner) = match registry.owners_named(name)? {
            Some(owners) => {
                let index = list(index, 1, "index")?;
                (vec![index[0] as u64], owners.owner(index[0]))
            }
            None => {
                let array = registry.array_named(name)?;
                let index = index_of(array, index)?;
                let owner = array.partition().owner(&index);
                (index, owner)
            }
        };
        let rank = room(rank, 1, "rank")?;
        rank[0] = match owner {
            Some(owner) => owner.cast_signed(),
            None => return Err(Misuse::Argument(format!("region \"{name}\" has no index {index:?}"))),
        };
        Ok(())
    })
}

/// Gives the elements along an axis, which is divided in blocks, new costs: one for each, the same on every rank. The
/// array is divided by them from the next change of the ranks on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_set_costs(name: *const c_char, axis: c_int, costs: *const f64) -> pcm_result {
    // SAFETY: the caller's pointers are NULL or good.
    code_of(|registry| unsafe {
        let name = text(name)?;
        let spec = registry.array_named(name)?.partition().spec();
        let axis = self::axis(name, axis, spec.axes.len())?;
        let costs = list(costs, spec.axes[axis].extent as usize, "the list of costs")?;
        Ok(registry.set_costs(name, axis, costs)?)
    })
}

/// Writes the position at which this rank stores a global index that it owns to *offset, in elements from pcm_data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_local_offset(name: *const c_char, index: *const usize, offset: *mut usize) -> pcm_result {
    // SAFETY: the caller's pointers are NULL or good.
    code_of(|registry| unsafe {
        let name = text(name)?;
        let array = registry.array_named(name)?;
        let index = index_of(array, index)?;
        let offset = room(offset, 1, "offset")?;
        offset[0] = match array.partition().local_offset(array.rank(), &index) {
            Some(found) => found as usize,
            None => {
                return Err(Misuse::Argument(format!(
                    "index {index:?} of region \"{name}\" is not this rank's"
                )));
            }
        };
        Ok(())
    })
}

/// Where this rank's part of an array begins.
fn first_of(registry: &Registry, name: &str) -> Result<*mut c_void, Misuse> {
    Ok(registry.array_named(name)?.storage().pointer().as_ptr().cast())
}

fn box_count(array: &ArrayRegion) -> usize {
    let axes = array.partition().spec().axes.len();
    let intervals = (0..axes).map(|axis| {
        let stripes = array.partition().owned_stripes(array.rank(), axis);
        stripes.iter().map(|stripe| stripe.count as usize).sum::<usize>()
    });
    intervals.product()
}

unsafe fn index_of(array: &ArrayRegion, index: *const usize) -> Result<Vec<u64>, Misuse> {
    let axes = array.partition().spec().axes.len();
    // SAFETY: the caller's pointer is NULL or good for one number per axis.
    let index = unsafe { list(index, axes, "index")? };
    Ok(index.iter().map(|index| *index as u64).collect())
}
