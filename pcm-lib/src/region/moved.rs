//! What opaque data moves: from which ranks to which, and what comes of each.

use pcm_core::partition::Partition;

/// What one old rank packed for this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered<'a> {
    /// The rank it comes from, as numbered before.
    pub from: u32,
    /// What it packed.
    pub bytes: &'a [u8],
}

/// From which ranks to which data moves.
#[derive(Clone, Copy, Debug)]
pub struct Move<'a> {
    /// Numbers of ranks.
    pub before: u32,
    pub after: u32,
    /// The rank of this process afterwards.
    pub rank: u32,
    /// Divisions, before and after, of the array that rows are divided as.
    pub division: Option<[&'a Partition; 2]>,
    /// Whether what a rank packs is all that it has, for ranks that take what is theirs of it.
    pub is_whole: bool,
}

impl<'a> Move<'a> {
    /// Without any array to be divided as, each rank's share packed for it.
    pub fn among((before, after): (u32, u32), rank: u32) -> Self {
        Self {
            before,
            after,
            rank,
            division: None,
            is_whole: false,
        }
    }

    #[must_use]
    pub fn divided(mut self, division: Option<&'a [Partition; 2]>) -> Self {
        self.division = division.map(<[Partition; 2]>::each_ref);
        self
    }

    #[must_use]
    pub fn whole(mut self, is_whole: bool) -> Self {
        self.is_whole = is_whole;
        self
    }
}
