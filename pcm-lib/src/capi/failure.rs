//! The last failure of each thread, as text and as a code.

use super::result::*;
use crate::{
    redistribute::MoveError,
    region::RegionError,
    session::{NotUsable, SessionError},
};
use std::{cell::RefCell, fmt};

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Stores an error's text for `pcm_last_error` and returns its code.
pub(super) fn failed<E: fmt::Display>(error: &E) -> pcm_result
where
    for<'e> pcm_result: From<&'e E>,
{
    keep(error);
    pcm_result::from(error)
}

/// Stores a text for `pcm_last_error`.
pub(super) fn keep(text: impl fmt::Display) {
    // In use only while a text is stored or read, neither of which calls anything.
    LAST.with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = text.to_string();
        }
    });
}

/// The text of the last failure; "" without one.
pub(super) fn last() -> String {
    LAST.with(|last| last.try_borrow().map(|text| text.clone()).unwrap_or_default())
}

impl From<&RegionError> for pcm_result {
    fn from(error: &RegionError) -> Self {
        match error {
            RegionError::Name { .. } => PCM_ERROR_NAME,
            RegionError::Twice { .. } => PCM_ERROR_TWICE,
            RegionError::TooMany { .. } => PCM_ERROR_TOO_MANY,
            RegionError::Unknown { .. } => PCM_ERROR_UNKNOWN,
            RegionError::Kind { .. } | RegionError::SwapDiffers { .. } => PCM_ERROR_KIND,
            RegionError::AfterStart { .. } | RegionError::StartTwice => PCM_ERROR_STARTED,
            RegionError::BeforeStart { .. } => PCM_ERROR_NOT_STARTED,
            RegionError::Memory { .. } => PCM_ERROR_MEMORY,
            RegionError::Empty { .. }
            | RegionError::Overlaps { .. }
            | RegionError::Axis { .. }
            | RegionError::Options { .. }
            | RegionError::Owners { .. }
            | RegionError::Partition { .. }
            | RegionError::RankCounts { .. }
            | RegionError::Ranks { .. } => PCM_ERROR_ARGUMENT,
        }
    }
}

impl From<&NotUsable> for pcm_result {
    fn from(error: &NotUsable) -> Self {
        match error {
            NotUsable::BeforeMpi | NotUsable::AfterMpi => PCM_ERROR_NO_MPI,
            NotUsable::OtherThread => PCM_ERROR_THREAD,
            NotUsable::InHook => PCM_ERROR_IN_HOOK,
            NotUsable::Mpi(_) => PCM_ERROR_MPI,
        }
    }
}

impl From<&SessionError> for pcm_result {
    fn from(error: &SessionError) -> Self {
        match error {
            SessionError::NotUsable(error) => Self::from(error),
            SessionError::Region(error) => Self::from(error),
            SessionError::Mpi(_) => PCM_ERROR_MPI,
            SessionError::Move(MoveError::Hook { .. }) | SessionError::ChangeHook(_) => PCM_ERROR_HOOK,
            SessionError::Move(_) | SessionError::NotRestored(_) => PCM_ERROR_MOVE,
            SessionError::NoRanks => PCM_ERROR_ARGUMENT,
            SessionError::Channel(_) => PCM_ERROR_CHANNEL,
            SessionError::Checkpoint(_) => PCM_ERROR_CHECKPOINT,
            SessionError::SecondSession => PCM_ERROR_STARTED,
            SessionError::Defect(_) => PCM_ERROR_INTERNAL,
        }
    }
}
