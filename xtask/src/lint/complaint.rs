//! One place that breaks one rule.

use std::fmt;

/// What a rule found.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Complaint {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) rule: &'static str,
    /// What to do about it.
    pub(super) advice: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.advice)
    }
}
