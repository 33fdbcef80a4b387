//! Newtypes for everything that is counted or named across processes.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A job of one cluster, numbered from 1 by the daemon that accepted it.
    JobId(u64)
);
number!(
    /// A rank in the job's current communicator.
    Rank(u32)
);
number!(
    /// A process of a job for as long as it lives; never used again within the job, while its rank may change.
    ProcessId(u32)
);
number!(
    /// A set of processes that started together under one PMI world; unique within its job.
    WorldId(u32)
);
number!(
    /// Counts the committed layouts of a job, from 0. A message of an older epoch is counted and dropped.
    Epoch(u64)
);
number!(
    /// Counts the holders of a job's lease, from 0. A message of a lower term comes from a holder that was replaced.
    Term(u32)
);
number!(
    /// Top of an application's iteration loop, counted by the library from 0.
    Iteration(u64)
);
number!(
    /// Data an application registered, numbered in the order of registration, which is the same on every rank.
    RegionId(u32)
);
number!(
    /// A checkpoint of one job, numbered from 1 in the order in which they were begun.
    CheckpointId(u64)
);
number!(
    /// A number of bytes.
    Bytes(u64)
);

/// Longest node, site or job name; short enough for a column of a table and a path component.
pub const NAME_LENGTH_MAX: usize = 64;

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has no character.
    #[error("a name needs at least one character")]
    Empty,
    /// The name is longer than [`NAME_LENGTH_MAX`].
    #[error("a name has at most {NAME_LENGTH_MAX} characters, this one has {length}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A character other than a letter, a digit, `.`, `_` or `-`, or a first character that is none of the first two.
    #[error(
        "character {character:?} is not allowed: use letters, digits, '.', '_' and '-', beginning with a letter \
             or digit"
    )]
    BadCharacter { character: char },
}

/// The name of a node, unique within its cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

impl NodeName {
    /// Checks and wraps a name.
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name = name.into();
        name_check(&name)?;
        Ok(Self(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for NodeName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Refuses what could not stand in a file name, a table column or a command line without quoting.
pub fn name_check(name: &str) -> Result<(), NameError> {
    if name.len() > NAME_LENGTH_MAX {
        return Err(NameError::TooLong { length: name.len() });
    }
    let first = name.chars().next().ok_or(NameError::Empty)?;
    if !first.is_ascii_alphanumeric() {
        return Err(NameError::BadCharacter { character: first });
    }
    match name
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
    {
        Some(character) => Err(NameError::BadCharacter { character }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_escape_its_directory_is_refused() {
        assert_eq!(NodeName::new("../x"), Err(NameError::BadCharacter { character: '.' }));
        assert_eq!(NodeName::new("a/b"), Err(NameError::BadCharacter { character: '/' }));
        assert_eq!(NodeName::new(""), Err(NameError::Empty));
        assert!(NodeName::new("node-1.site_a").is_ok());
    }
}
