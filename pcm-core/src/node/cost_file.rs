//! The file of the costs of methods (docs/methods.md): what the shell does with it, and what it holds.

use crate::reconfiguration::method_costs::{MethodCost, MethodCosts};

/// What the shell does with the file of costs.
#[derive(Clone, Debug, PartialEq)]
pub enum MethodsEffect {
    /// Read it if it has changed, and report in any case that it was looked at.
    Read,
    /// Add the cost of a change.
    Learn(MethodCost),
}

/// What the file of costs holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileCosts {
    pub costs: MethodCosts,
    /// What is wrong with the file, and which file it is.
    pub trouble: Option<String>,
}
