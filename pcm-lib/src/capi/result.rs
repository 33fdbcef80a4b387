//! The result codes of the C API, and the boundary that turns a panic into one.
#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(unreachable_pub, reason = "what pcm.h is made of is public")]

use crate::start_error::StartError;
use std::{
    ffi::c_int,
    panic::{UnwindSafe, catch_unwind},
};

/// Result of a function of libpcm. The numbers never change their meaning.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pcm_result {
    PCM_OK = 0,
    /// A defect in libpcm; please report it.
    PCM_ERROR_INTERNAL = 1,
    /// A required pointer is NULL.
    PCM_ERROR_NULL = 2,
    /// The environment set by the daemon was changed or is incomplete.
    PCM_ERROR_ENVIRONMENT = 10,
    /// The memory shared with the daemon cannot be used.
    PCM_ERROR_PAGE = 11,
    /// The channel to the daemon does not work.
    PCM_ERROR_CHANNEL = 12,
    /// libpcm and the daemon are of different versions.
    PCM_ERROR_VERSION = 13,
    /// An MPI function failed.
    PCM_ERROR_MPI = 14,
    /// MPI is not initialised yet, or finalised already.
    PCM_ERROR_NO_MPI = 20,
    /// The calling thread is not the one that called MPI_Init.
    PCM_ERROR_THREAD = 21,
    /// A hook called a function of libpcm that hooks must not call.
    PCM_ERROR_IN_HOOK = 22,
    /// The call must come before pcm_start.
    PCM_ERROR_STARTED = 23,
    /// The call must come after pcm_start.
    PCM_ERROR_NOT_STARTED = 24,
    /// An argument has an invalid value.
    PCM_ERROR_ARGUMENT = 30,
    /// The name of a region is empty, too long or not printable.
    PCM_ERROR_NAME = 31,
    /// A region of this name is registered already.
    PCM_ERROR_TWICE = 32,
    /// There is no region of this name.
    PCM_ERROR_UNKNOWN = 33,
    /// The call needs a region of another kind or type.
    PCM_ERROR_KIND = 34,
    /// Too many regions are registered.
    PCM_ERROR_TOO_MANY = 35,
    /// There is not enough memory for the array.
    PCM_ERROR_MEMORY = 36,
    /// A hook of the program failed after the ranks had changed.
    PCM_ERROR_HOOK = 40,
    /// The data of this rank was lost or damaged when the ranks changed; end the program.
    PCM_ERROR_MOVE = 41,
    /// From pcm_checkpoint: no checkpoint was written, everything else is unchanged. From pcm_start: the checkpoint
    /// was not restored, or a variable PCM_CHECKPOINT_* is invalid; end the program.
    PCM_ERROR_CHECKPOINT = 42,
}

pub use pcm_result::*;

/// From pcm_iterate: ranks joined, left or moved. Not an error, and so not a pcm_result.
pub const PCM_CHANGED: c_int = -1;

impl From<&StartError> for pcm_result {
    fn from(error: &StartError) -> Self {
        use pcm_proto::page::PageError;
        match error {
            StartError::Variable { .. } | StartError::Descriptor { .. } => PCM_ERROR_ENVIRONMENT,
            StartError::Taken { .. } | StartError::Map { .. } => PCM_ERROR_PAGE,
            StartError::Page(PageError::Version { .. }) | StartError::Refused { .. } => PCM_ERROR_VERSION,
            StartError::Page(_) => PCM_ERROR_PAGE,
            StartError::Channel(_) => PCM_ERROR_CHANNEL,
            StartError::Mpi(_) => PCM_ERROR_MPI,
        }
    }
}

/// Runs the body of a C function.
pub(super) fn boundary(body: impl FnOnce() -> pcm_result + UnwindSafe) -> pcm_result {
    catch_unwind(body).unwrap_or(PCM_ERROR_INTERNAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_result_at_the_boundary() {
        assert_eq!(boundary(|| panic!("planted")), PCM_ERROR_INTERNAL);
        assert_eq!(boundary(|| PCM_OK), PCM_OK);
    }

    #[test]
    fn every_error_stands_on_the_page_of_errors_with_its_number() {
        let page = include_str!("../../../docs/errors.md");
        let own = include_str!("result.rs").lines();
        let codes: Vec<(&str, &str)> = own
            .filter_map(|line| {
                line.strip_prefix("    PCM_ERROR_")?
                    .strip_suffix(',')?
                    .split_once(" = ")
            })
            .collect();
        assert!(codes.len() > 10, "{codes:?}");
        for (name, number) in codes {
            assert!(
                page.contains(&format!("\n| `PCM_ERROR_{name}` | {number} |")),
                "PCM_ERROR_{name}"
            );
        }
    }
}
