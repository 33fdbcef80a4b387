//! C arguments as Rust values, and calls on the registry as results.
#![allow(unsafe_code, reason = "reads what C programs pass")]

use super::{
    failure::{failed, keep},
    result::*,
};
use crate::{
    region::{RegionError, Registry, being_made},
    session::{SessionError, present},
};
use pcm_core::partition::Partition;
use std::{
    ffi::{CStr, c_char, c_int},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs `act` on the registry inside the panic boundary: a panic, a misuse and a failure each become a code and a
/// text.
pub(super) fn on_registry<R>(act: impl FnOnce(&mut Registry) -> Result<R, Misuse>) -> Result<R, pcm_result> {
    guarded(|| present::with(|session| act(session.regions_mut())))
}

fn guarded<R>(act: impl FnOnce() -> Result<Result<R, Misuse>, SessionError>) -> Result<R, pcm_result> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(Misuse::Region(error)))) => Err(failed(&error)),
        Ok(Ok(Err(Misuse::Null(name)))) => {
            keep(format_args!("{name} is NULL; give an address"));
            Err(PCM_ERROR_NULL)
        }
        Ok(Ok(Err(Misuse::Argument(text)))) => {
            keep(text);
            Err(PCM_ERROR_ARGUMENT)
        }
        Ok(Err(error)) => Err(failed(&error)),
        Err(_) => {
            keep("a defect in libpcm; please report it with the call that was made");
            Err(PCM_ERROR_INTERNAL)
        }
    }
}

/// As [`on_registry`], for functions that return only the code.
pub(super) fn code_of(act: impl FnOnce(&mut Registry) -> Result<(), Misuse>) -> pcm_result {
    match on_registry(act) {
        Ok(()) => PCM_OK,
        Err(code) => code,
    }
}

/// As [`code_of`], on this rank's part of an array; in a hook that makes memory for a part, on that one.
pub(super) fn code_of_part(
    name: *const c_char,
    act: impl FnOnce(&str, &Partition, u32) -> Result<(), Misuse>,
) -> pcm_result {
    // SAFETY: the caller's pointer is NULL or good.
    let name = || unsafe { text(name) };
    let Some((partition, rank)) = being_made() else {
        return code_of(|registry| {
            let array = registry.array_named(name()?)?;
            act(name()?, array.partition(), array.rank())
        });
    };
    guarded(|| Ok(name().and_then(|name| act(name, &partition, rank)))).map_or_else(|code| code, |()| PCM_OK)
}

/// A mistake of the caller.
#[derive(Debug)]
pub(super) enum Misuse {
    /// With a region.
    Region(RegionError),
    /// An address that must be one is NULL.
    Null(&'static str),
    Argument(String),
}

impl From<RegionError> for Misuse {
    fn from(error: RegionError) -> Self {
        Self::Region(error)
    }
}

/// A name passed by C.
pub(super) unsafe fn text<'a>(name: *const c_char) -> Result<&'a str, Misuse> {
    if name.is_null() {
        return Err(Misuse::Null("the name of the region"));
    }
    // SAFETY: by the contract.
    let text = unsafe { CStr::from_ptr(name) };
    text.to_str().map_err(|_| {
        Misuse::Region(RegionError::Name {
            name: text
                .to_string_lossy()
                .chars()
                .take(crate::region::NAME_LENGTH_MAX)
                .collect(),
        })
    })
}

/// A list passed by C.
pub(super) unsafe fn list<'a, T>(first: *const T, length: usize, what: &'static str) -> Result<&'a [T], Misuse> {
    if first.is_null() {
        return Err(Misuse::Null(what));
    }
    // SAFETY: by the contract.
    Ok(unsafe { std::slice::from_raw_parts(first, length) })
}

/// Room for results, passed by C.
pub(super) unsafe fn room<'a, T>(first: *mut T, length: usize, what: &'static str) -> Result<&'a mut [T], Misuse> {
    if first.is_null() {
        return Err(Misuse::Null(what));
    }
    // SAFETY: by the contract.
    Ok(unsafe { std::slice::from_raw_parts_mut(first, length) })
}

/// A number of an axis.
pub(super) fn axis(name: &str, axis: c_int, axes: usize) -> Result<usize, Misuse> {
    usize::try_from(axis).ok().filter(|axis| *axis < axes).ok_or_else(|| {
        Misuse::Region(RegionError::Axis {
            name: name.to_owned(),
            axis: i64::from(axis),
            axes,
        })
    })
}
