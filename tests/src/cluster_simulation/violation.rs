//! A rule that was broken, and what was seen of that.

use std::fmt;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    /// What it saw.
    pub text: String,
}

impl Violation {
    pub(super) fn new(rule: &'static str, text: String) -> Self {
        Self { rule, text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}
