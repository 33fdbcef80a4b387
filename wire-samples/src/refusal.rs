//! Why a type refused a sample. What serde says by it, the next sample does better.

use serde::de::{self, Expected, Unexpected};
use std::fmt;

/// Why a type refused a sample.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The type's own check, in its words.
    Custom(String),
    /// It wants another type, or another number of elements; in serde's words.
    Expected(String),
    Length(String),
    MissingField(&'static str),
    UnknownVariant(&'static [&'static str]),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Custom(text) => f.write_str(text),
            Self::Expected(what) => write!(f, "expected {what}"),
            Self::Length(what) => write!(f, "expected another length: {what}"),
            Self::MissingField(name) => write!(f, "field {name} is missing"),
            Self::UnknownVariant(variants) => write!(f, "expected one of {variants:?}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl de::Error for Refusal {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::Custom(text.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Expected(expected.to_string())
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Expected(expected.to_string())
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::Length(expected.to_string())
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::UnknownVariant(expected)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::MissingField(field)
    }
}
