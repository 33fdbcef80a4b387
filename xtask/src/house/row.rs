//! One line of the table: what was, what is, what is wanted.

use serde_json::{Value, json};

/// A measure and its target.
pub(super) struct Row {
    pub(super) measure: &'static str,
    /// On the commit that the plan was made for, as the plan gives it.
    pub(super) before: &'static str,
    pub(super) now: String,
    pub(super) target: &'static str,
    pub(super) is_met: bool,
    /// What the figure is made of, for those who want to change it.
    pub(super) details: Value,
}

impl Row {
    pub(super) fn json(&self) -> Value {
        json!({
            "measure": self.measure,
            "before": self.before,
            "now": self.now,
            "target": self.target,
            "met": self.is_met,
            "details": self.details,
        })
    }
}
