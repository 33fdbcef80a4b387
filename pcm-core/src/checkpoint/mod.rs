//! Checkpoints as state machines: which parts exist where, when the next one is due, and what follows a crash. Never
//! copies, sends or writes a byte of data.

mod catalogue;
#[cfg(test)]
mod catalogue_tests;
mod crash;
mod entry;
mod interval;
mod lead;
#[cfg(test)]
mod lead_tests;
#[cfg(test)]
mod properties;
mod schedule;

pub use catalogue::{CHECKPOINTS_MAX, Catalogue, Effect, Keep, PartRefused, Restorable};
pub use crash::{Crash, CrashPolicy, Fault, PolicyLimits, Verdict};
pub use entry::{PartTally, Place, Stamp};
pub use interval::{Measured, best_interval};
pub use lead::{CopyTo, Filed, Known, Lead, LeadEffect, Part, RolledBack};
pub use schedule::{Schedule, When};
