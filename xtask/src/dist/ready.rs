//! What every format starts from. Owns no rule of any of them.

use super::elf;
use std::path::{Path, PathBuf};

/// A finished tree, and how files of packages are made.
pub(super) struct Ready<'a> {
    /// The tree of files, as it lies in a prefix.
    pub(super) stage: PathBuf,
    pub(super) audit: elf::Audit,
    /// Where packages go, and what they need on the way.
    pub(super) out: &'a Path,
    /// Seconds since 1970 of every file.
    pub(super) time: u64,
}
