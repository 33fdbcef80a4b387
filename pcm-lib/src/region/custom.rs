//! A custom region: data only the application understands. It packs what a new rank is to get, and unpacks what it
//! got; the library carries the bytes.

use super::HookFailed;
use std::fmt;

/// What one old rank packed for this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered<'a> {
    /// The rank it comes from, as numbered before.
    pub from: u32,
    /// What it packed.
    pub bytes: &'a [u8],
}

/// The application's side of a custom region.
pub trait CustomHooks {
    /// The new ranks that get a part of an old rank's data. Every process asks for every old rank, and all must
    /// answer alike. None: the ranks whose equal blocks overlap.
    fn targets(&mut self, from: u32, ranks_before: u32, ranks_after: u32) -> Option<Vec<u32>>;

    /// Writes what the new rank `to` gets, which may be nothing, at the end of `out`. The data stays as it is: the
    /// reconfiguration may still be called off.
    fn pack(&mut self, to: u32, ranks_after: u32, out: &mut Vec<u8>) -> Result<(), HookFailed>;

    /// Replaces the data by what was packed for this rank, in the order of the old ranks, this process's own among
    /// them.
    fn unpack(&mut self, parts: &[Delivered<'_>]) -> Result<(), HookFailed>;
}

/// A registered custom region.
pub struct CustomRegion {
    /// The application's side.
    pub hooks: Box<dyn CustomHooks>,
}

impl fmt::Debug for CustomRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomRegion")
    }
}
