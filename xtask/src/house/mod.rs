//! `cargo xtask house`: how far the source is from the targets that were set for it. Must never judge style: that is
//! `cargo xtask lint`.

mod centre;
pub(crate) mod migrate_path;
mod row;
mod simulation;
mod sizes;
mod table;

pub(crate) use table::run;
