//! Enums as serde shows them, and one variant of one.

use std::fmt;

/// An enum; two with the same name differ in their variants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnumKind {
    pub name: String,
    pub variants: &'static [&'static str],
}

/// One variant of an enum.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice {
    pub of: EnumKind,
    /// Its place among the variants.
    pub index: usize,
}

impl EnumKind {
    /// Its variants in order.
    pub fn choices(&self) -> impl Iterator<Item = Choice> {
        (0..self.variants.len()).map(|index| Choice {
            of: self.clone(),
            index,
        })
    }
}

impl Choice {
    /// All variants of its enum.
    pub fn all(&self) -> impl Iterator<Item = Self> {
        self.of.choices()
    }

    pub fn variant(&self) -> &'static str {
        self.of.variants[self.index]
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.of.name, self.variant())
    }
}
