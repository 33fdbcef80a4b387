//! Misuse of the registry, as errors: each says which region, what was done with it and what to do instead.

use super::{
    limits::{NAME_LENGTH_MAX, REGIONS_MAX},
    memory::MemoryError,
};
use pcm_core::partition::PartitionError;
use pcm_proto::rank_counts::{BadRankCounts, RankCounts};
use std::fmt;

/// A hook of the application that did not do what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFailed {
    /// What it returned; 0 where it returned nothing but broke a rule.
    pub code: i32,
    /// What that means, if more is known than the code.
    pub text: String,
}

impl HookFailed {
    /// It returned something other than 0.
    pub fn with_code(code: i32) -> Self {
        Self {
            code,
            text: format!("it returned {code}"),
        }
    }

    /// It broke a rule.
    pub fn because(text: impl Into<String>) -> Self {
        Self {
            code: 0,
            text: text.into(),
        }
    }
}

impl fmt::Display for HookFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for HookFailed {}

/// What was wrong. Nothing has changed.
#[derive(Debug)]
pub enum RegionError {
    /// A name without characters, or too long, or with control characters.
    Name {
        /// The name, shortened.
        name: String,
    },
    /// Two regions of one name.
    Twice {
        name: String,
        /// What the first one is.
        first: &'static str,
    },
    /// More regions than a process can register.
    TooMany {
        /// The name of the one too many.
        name: String,
    },
    /// No such region.
    Unknown {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// The region is of another kind, or its elements of another type, than the call needs.
    Kind {
        name: String,
        /// What it is.
        is: String,
        /// What it would have to be.
        wanted: String,
    },
    /// A registration after the start: processes that join could not know of it.
    AfterStart { name: String },
    /// A call that makes sense only after the start.
    BeforeStart { call: &'static str },
    /// The start was called a second time.
    StartTwice,
    /// A region of no bytes.
    Empty { name: String },
    /// Memory that another region already stands for.
    Overlaps {
        name: String,
        /// The one that has the memory.
        other: String,
    },
    /// An option names an axis the array does not have.
    Axis {
        name: String,
        axis: i64,
        /// How many there are.
        axes: usize,
    },
    /// Two options contradict each other.
    Options { name: String, problem: &'static str },
    /// The array cannot be divided like that.
    Partition { name: String, error: PartitionError },
    /// The list of owners is wrong.
    Owners { name: String, error: HookFailed },
    /// There is no memory for it.
    Memory { name: String, error: MemoryError },
    /// Two arrays that are to change places differ.
    SwapDiffers { one: String, other: String },
    /// The possible numbers of ranks cannot be kept.
    RankCounts { error: BadRankCounts },
    /// The program runs on a number of ranks that it says is not possible.
    Ranks { size: u32, counts: RankCounts },
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name } => write!(
                f,
                "{name:?} cannot be the name of a region: use 1 to {} printable characters",
                NAME_LENGTH_MAX
            ),
            Self::Twice { name, first } => write!(
                f,
                "region \"{name}\" is registered already, as {first}; give each region a separate name"
            ),
            Self::TooMany { name } => write!(
                f,
                "region \"{name}\" is one more than the {} a process can register; put small values into one structure",
                REGIONS_MAX
            ),
            Self::Unknown { name, known } if known.is_empty() => {
                write!(f, "there is no region \"{name}\": nothing is registered yet")
            }
            Self::Unknown { name, known } => {
                write!(
                    f,
                    "there is no region \"{name}\"; there are \"{}\"",
                    known.join("\", \"")
                )
            }
            Self::Owners { name, error } => write!(f, "region \"{name}\": {error}"),
            Self::Kind { name, is, wanted } => write!(f, "region \"{name}\" is {is}; this call needs {wanted}"),
            Self::AfterStart { name } => write!(
                f,
                "region \"{name}\" is registered after pcm_start; register everything before it, on every rank"
            ),
            Self::BeforeStart { call } => write!(f, "{call} before pcm_start; call pcm_start after all registrations"),
            Self::RankCounts { error } => write!(f, "{error}; pcm_possible_ranks was told so"),
            Self::Ranks { size, counts } => {
                let near = counts.near_words(*size);
                write!(
                    f,
                    "this program cannot run on {size} ranks: start it on {near}; it runs on {counts}"
                )
            }
            Self::StartTwice => write!(f, "pcm_start was called before; call it once, after the registrations"),
            Self::Empty { name } => write!(f, "region \"{name}\" would have 0 bytes; give the size of the value"),
            Self::Overlaps { name, other } => write!(
                f,
                "region \"{name}\" overlaps the memory of region \"{other}\"; register each value once"
            ),
            Self::Axis { name, axis, axes } => write!(
                f,
                "region \"{name}\" has axes 0 to {}, an option names axis {axis}",
                axes.saturating_sub(1)
            ),
            Self::Options { name, problem } => write!(f, "region \"{name}\": {problem}"),
            Self::Partition { name, error } => write!(f, "region \"{name}\": {error}"),
            Self::Memory { name, error } => write!(f, "region \"{name}\": {error}"),
            Self::SwapDiffers { one, other } => write!(
                f,
                "regions \"{one}\" and \"{other}\" cannot be swapped: give both the same type, extents and options \
                 (scratch may differ)"
            ),
        }
    }
}

impl std::error::Error for RegionError {}
