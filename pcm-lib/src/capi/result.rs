//! The result codes of the C API, and the boundary that turns a panic into one.
#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(unreachable_pub, reason = "what pcm.h is made of is public")]

use crate::start::StartError;
use std::panic::{UnwindSafe, catch_unwind};

/// What a function of libpcm returns. The numbers never change their meaning.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pcm_result {
    /// Done.
    PCM_OK = 0,
    /// A defect of libpcm itself; please report it.
    PCM_ERROR_INTERNAL = 1,
    /// A pointer that must not be NULL is.
    PCM_ERROR_NULL = 2,
    /// The environment that the daemon made was changed or is incomplete.
    PCM_ERROR_ENVIRONMENT = 10,
    /// The memory shared with the daemon cannot be used.
    PCM_ERROR_PAGE = 11,
    /// The channel to the daemon does not work.
    PCM_ERROR_CHANNEL = 12,
    /// libpcm and the daemon are of different versions.
    PCM_ERROR_VERSION = 13,
    /// An MPI function failed.
    PCM_ERROR_MPI = 14,
}

pub use pcm_result::*;

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
}
