//! How a live reconfiguration manages processes and moves data: the methods that studies of malleability compare, by
//! the names they have there. Values only; what each does is told in `pcm-lib/src/redistribute/README.md`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What changes have cost by method, in the cluster's directory and, as far as it was kept, among the user's settings.
pub const COSTS_FILE: &str = "methods.csv";

/// Which processes the next layout consists of, and over what its data comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Management {
    /// Ranks that stay keep their process; only newcomers are started. Data moves over a merged communicator.
    #[default]
    Merge,
    /// Every rank of the next layout is a newcomer and every old process leaves; a merged communicator.
    BaselineIntra,
    /// As [`Management::BaselineIntra`], over the inter-communicator.
    Baseline,
}

/// How data moves at the meeting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Nonblocking messages between pairs, received in any order.
    #[default]
    PointToPoint,
    /// One all-to-all exchange after the other.
    Collective,
}

/// When constant data moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Completion {
    /// Before the meeting, while the application iterates.
    #[default]
    Async,
    /// At the meeting, with everything else.
    Sync,
}

/// One choice of each. In messages and events it is its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Method {
    pub management: Management,
    pub operation: Operation,
    pub completion: Completion,
}

/// A name that no method has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchMethod(String);

/// In the order of [`Method::all`].
const NAMES: [&str; 12] = [
    "merge-p2p-async",
    "merge-p2p-sync",
    "merge-collective-async",
    "merge-collective-sync",
    "baseline-intra-p2p-async",
    "baseline-intra-p2p-sync",
    "baseline-intra-collective-async",
    "baseline-intra-collective-sync",
    "baseline-p2p-async",
    "baseline-p2p-sync",
    "baseline-collective-async",
    "baseline-collective-sync",
];

const MANAGEMENTS: [Management; 3] = [Management::Merge, Management::BaselineIntra, Management::Baseline];
const OPERATIONS: [Operation; 2] = [Operation::PointToPoint, Operation::Collective];
const COMPLETIONS: [Completion; 2] = [Completion::Async, Completion::Sync];

impl Method {
    /// Every method; the default is the first.
    pub fn all() -> impl Iterator<Item = Self> {
        MANAGEMENTS.into_iter().flat_map(|management| {
            OPERATIONS.into_iter().flat_map(move |operation| {
                COMPLETIONS.into_iter().map(move |completion| Self {
                    management,
                    operation,
                    completion,
                })
            })
        })
    }

    /// Its name: processes, operation, completion.
    pub fn as_str(self) -> &'static str {
        NAMES[(self.management as usize * 2 + self.operation as usize) * 2 + self.completion as usize]
    }

    /// Whether every rank of the next layout is a newcomer.
    pub fn starts_all(self) -> bool {
        self.management != Management::Merge
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Method {
    type Err = NoSuchMethod;

    fn from_str(name: &str) -> Result<Self, NoSuchMethod> {
        let found = Self::all().find(|method| method.as_str() == name);
        found.ok_or_else(|| NoSuchMethod(name.to_owned()))
    }
}

impl From<Method> for String {
    fn from(method: Method) -> Self {
        method.as_str().to_owned()
    }
}

impl TryFrom<String> for Method {
    type Error = NoSuchMethod;

    fn try_from(name: String) -> Result<Self, NoSuchMethod> {
        name.parse()
    }
}

impl fmt::Display for NoSuchMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no method {:?}: choose one of {}", self.0, NAMES.join(", "))
    }
}

impl std::error::Error for NoSuchMethod {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twelve_methods_have_names_of_their_own_that_are_read_again() {
        assert_eq!(Method::all().map(Method::as_str).collect::<Vec<_>>(), NAMES);
        for (method, name) in Method::all().zip(NAMES) {
            assert_eq!(name.parse(), Ok(method));
            assert_eq!(name.starts_with("merge-"), !method.starts_all());
            assert_eq!(name.contains("-p2p-"), method.operation == Operation::PointToPoint);
            assert_eq!(name.ends_with("-async"), method.completion == Completion::Async);
            assert_eq!(name.contains("-intra-"), method.management == Management::BaselineIntra);
            let bytes = rmp_serde::to_vec(&method).unwrap();
            assert_eq!(rmp_serde::from_slice::<Method>(&bytes).unwrap(), method);
        }
        assert_eq!(Method::all().next(), Some(Method::default()));
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_those_that_are() {
        let refused = "merge-p2p".parse::<Method>().unwrap_err().to_string();
        assert!(refused.contains("merge-p2p-sync"), "{refused}");
    }
}
