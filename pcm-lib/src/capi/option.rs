//! The type of the elements and the options of an array, as a C program gives them.
#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(unsafe_code, reason = "reads what C programs pass")]
#![allow(unreachable_pub, reason = "what pcm.h is made of is public")]

use super::arguments::{Misuse, axis, list};
use crate::region::{ArrayForm, ElementType, RegionError};
use pcm_core::{
    partition::{AXES_MAX, ArraySpec, AxisSpec, Edge, PartitionError, Split, whole_costs},
    redistribution::HaloFill,
};
use std::ffi::{c_int, c_void};

/// Types of array elements. For structures without pointers: PCM_BYTES(sizeof(struct ...)).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pcm_element {
    /// Elements are int8_t.
    PCM_INT8 = 1,
    /// Elements are int16_t.
    PCM_INT16 = 2,
    /// Elements are int32_t, or int.
    PCM_INT32 = 3,
    /// Elements are int64_t.
    PCM_INT64 = 4,
    /// Elements are uint8_t.
    PCM_UINT8 = 5,
    /// Elements are uint16_t.
    PCM_UINT16 = 6,
    /// Elements are uint32_t.
    PCM_UINT32 = 7,
    /// Elements are uint64_t.
    PCM_UINT64 = 8,
    /// Elements are float.
    PCM_FLOAT = 9,
    /// Elements are double.
    PCM_DOUBLE = 10,
    /// Elements are float complex.
    PCM_COMPLEX_FLOAT = 11,
    /// Elements are double complex.
    PCM_COMPLEX_DOUBLE = 12,
    /// Added to the size by PCM_BYTES.
    PCM_BYTES_BASE = 4096,
}

pub use pcm_element::*;

/// Kinds of options; the macros PCM_BLOCK and so on use them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pcm_option_kind {
    PCM_OPTION_BLOCK = 0x70636d01,
    PCM_OPTION_CYCLIC = 0x70636d02,
    PCM_OPTION_WEIGHTED = 0x70636d03,
    PCM_OPTION_COUNTS = 0x70636d04,
    PCM_OPTION_HALO = 0x70636d05,
    PCM_OPTION_PERIODIC = 0x70636d06,
    PCM_OPTION_STALE_HALO = 0x70636d07,
    PCM_OPTION_SCRATCH = 0x70636d08,
    PCM_OPTION_CONSTANT = 0x70636d09,
    PCM_OPTION_COSTS = 0x70636d0a,
}

pub use pcm_option_kind::*;

/// An option of an array, made by the macros PCM_BLOCK and so on.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pcm_option {
    /// One of pcm_option_kind.
    pub kind: c_int,
    /// The axis it is for, from 0.
    pub axis: c_int,
    /// A length, a width, or the length of the list.
    pub number: usize,
    /// Weights or costs (double), or counts (size_t).
    pub list: *const c_void,
}

/// Most options of one array: far more than three axes need.
const OPTIONS_MAX: usize = 64;

/// Reads what `pcm_array` collects.
///
/// # Safety
/// As `pcm_array_create` says.
pub(super) unsafe fn form_of(
    name: &str,
    element: c_int,
    ndims: c_int,
    form: *const *const c_void,
) -> Result<ArrayForm, Misuse> {
    let element = element_of(name, element)?;
    let axes = axes_of(name, ndims)?;
    // SAFETY: the form has at least its end.
    let extents = unsafe {
        list(
            list(form, 1, "the form of the array")?[0].cast::<usize>(),
            axes,
            "the list of extents",
        )?
    };
    let mut made = ArrayForm {
        element,
        spec: ArraySpec::new(
            element.size(),
            extents
                .iter()
                .map(|extent| AxisSpec::whole(*extent as u64))
                .collect::<Vec<_>>(),
        ),
        halo: HaloFill::Filled,
        is_scratch: false,
        is_constant: false,
    };
    for place in 1..=OPTIONS_MAX {
        // SAFETY: the options end with NULL, which has not come yet.
        let option = unsafe { (*form.add(place)).cast::<pcm_option>().as_ref() };
        match option {
            Some(option) => unsafe { apply(name, &mut made, option)? },
            None => return Ok(made),
        }
    }
    Err(Misuse::Argument(format!(
        "region \"{name}\" has more than {OPTIONS_MAX} options; is the NULL at their end missing?"
    )))
}

/// The number of axes.
pub(super) fn axes_of(name: &str, ndims: c_int) -> Result<usize, Misuse> {
    let axes = usize::try_from(ndims).ok().filter(|axes| (1..=AXES_MAX).contains(axes));
    axes.ok_or_else(|| {
        Misuse::Region(RegionError::Partition {
            name: name.to_owned(),
            error: PartitionError::AxesOutOfRange {
                axes: usize::try_from(ndims).unwrap_or(0),
            },
        })
    })
}

pub(super) fn element_of(name: &str, element: c_int) -> Result<ElementType, Misuse> {
    let known = [
        (PCM_INT8, ElementType::Int8),
        (PCM_INT16, ElementType::Int16),
        (PCM_INT32, ElementType::Int32),
        (PCM_INT64, ElementType::Int64),
        (PCM_UINT8, ElementType::Uint8),
        (PCM_UINT16, ElementType::Uint16),
        (PCM_UINT32, ElementType::Uint32),
        (PCM_UINT64, ElementType::Uint64),
        (PCM_FLOAT, ElementType::Float),
        (PCM_DOUBLE, ElementType::Double),
        (PCM_COMPLEX_FLOAT, ElementType::ComplexFloat),
        (PCM_COMPLEX_DOUBLE, ElementType::ComplexDouble),
    ];
    if let Some((_, known)) = known.into_iter().find(|(number, _)| *number as c_int == element) {
        return Ok(known);
    }
    match element
        .checked_sub(PCM_BYTES_BASE as c_int)
        .and_then(|size| u32::try_from(size).ok())
    {
        Some(size) if size > 0 => Ok(ElementType::Bytes(size)),
        _ => Err(Misuse::Argument(format!(
            "region \"{name}\": {element} is not an element type; use PCM_DOUBLE or another type, or PCM_BYTES(size)"
        ))),
    }
}

/// The division by costs of the elements.
pub(super) fn split_by_costs(name: &str, costs: &[f64]) -> Result<Split, Misuse> {
    let costs = whole_costs(costs).map_err(|error| RegionError::Partition {
        name: name.to_owned(),
        error,
    })?;
    Ok(Split::Costs { costs })
}

/// Applies one option.
///
/// # Safety
/// A list has as many elements as the option says.
unsafe fn apply(name: &str, form: &mut ArrayForm, option: &pcm_option) -> Result<(), Misuse> {
    let is = |kind: pcm_option_kind| kind as c_int == option.kind;
    let contradicts = |problem| {
        Misuse::Region(RegionError::Options {
            name: name.to_owned(),
            problem,
        })
    };
    for (kind, flag) in [
        (PCM_OPTION_SCRATCH, &mut form.is_scratch),
        (PCM_OPTION_CONSTANT, &mut form.is_constant),
    ] {
        if is(kind) {
            *flag = true;
            return Ok(());
        }
    }
    if is(PCM_OPTION_STALE_HALO) {
        form.halo = HaloFill::Stale;
        return Ok(());
    }
    let number = option.number as u64;
    // SAFETY: by the contract.
    let split = unsafe {
        match () {
            () if is(PCM_OPTION_BLOCK) => Some(Split::Block),
            () if is(PCM_OPTION_CYCLIC) => Some(Split::Cyclic { block: number }),
            () if is(PCM_OPTION_WEIGHTED) => Some(Split::Weighted {
                weights: list(option.list.cast::<f64>(), option.number, "the list of weights")?.to_vec(),
            }),
            () if is(PCM_OPTION_COUNTS) => {
                let counts = list(option.list.cast::<usize>(), option.number, "the list of counts")?;
                let counts = counts.iter().map(|count| *count as u64).collect();
                Some(Split::Counts { counts })
            }
            () if is(PCM_OPTION_COSTS) => {
                let costs = list(option.list.cast::<f64>(), option.number, "the list of costs")?;
                Some(split_by_costs(name, costs)?)
            }
            () if is(PCM_OPTION_HALO) || is(PCM_OPTION_PERIODIC) => None,
            () => {
                return Err(Misuse::Argument(format!(
                    "region \"{name}\": one of the options is invalid; use macros such as PCM_BLOCK(0)"
                )));
            }
        }
    };
    let axes = form.spec.axes.len();
    let axis = &mut form.spec.axes[axis(name, option.axis, axes)?];
    match split {
        Some(_) if axis.split != Split::Whole => {
            return Err(contradicts("an axis is divided by two options; give one of them"));
        }
        Some(split) => axis.split = split,
        None if is(PCM_OPTION_HALO) => axis.halo = number,
        None => axis.edge = Edge::Periodic,
    }
    Ok(())
}
