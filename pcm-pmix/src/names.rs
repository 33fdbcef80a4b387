//! The values that processes give each other. Pure.

use crate::bindings::numbers::pmix_data_type_t;
pub(crate) use pcm_proto::pmix::{Process, Status};
use serde::{Deserialize, Serialize};

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
