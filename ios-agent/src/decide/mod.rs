//! The decision component: from a view of one job to at most one change of it. Pure.

pub mod budget;
pub mod judge;
pub mod learning;
pub mod links;
pub mod predict;
pub mod proposal;
pub mod tuning;
pub mod view;
