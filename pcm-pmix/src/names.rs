//! What PMIx names: processes and states, and the values that processes give each other. Pure.

use crate::bindings::numbers::{PMIX_RANK_WILDCARD, PMIX_SUCCESS, pmix_data_type_t, pmix_status_t};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A process by its namespace, which is a world of a job, and its number in that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    pub namespace: String,
    pub rank: u32,
}

impl Process {
    pub fn new(namespace: impl Into<String>, rank: u32) -> Self {
        Self {
            namespace: namespace.into(),
            rank,
        }
    }

    /// All processes of a namespace.
    pub fn all_of(namespace: impl Into<String>) -> Self {
        Self::new(namespace, PMIX_RANK_WILDCARD)
    }

    /// Whether it is that process, or means all of its namespace.
    pub fn includes(&self, other: &Self) -> bool {
        self.namespace == other.namespace && (self.rank == other.rank || self.rank == PMIX_RANK_WILDCARD)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rank == PMIX_RANK_WILDCARD {
            return write!(f, "{}.*", self.namespace);
        }
        write!(f, "{}.{}", self.namespace, self.rank)
    }
}

/// How something went, as PMIx numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Status(pub pmix_status_t);

impl Status {
    pub const SUCCESS: Self = Self(PMIX_SUCCESS);

    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }
}

/// A value that one process publishes for others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    Text(#[serde(with = "serde_bytes")] Vec<u8>),
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    Process(Process),
    /// All types of at most eight bytes without a pointer: the type, and the bits that the union begins with.
    Number {
        kind: pmix_data_type_t,
        bits: u64,
    },
}

impl Value {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into().into_bytes())
    }
}

/// A value under its key, with its publisher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    pub publisher: Process,
    pub key: String,
    pub value: Value,
}
