//! Samples of every message, generated from the types themselves, and the golden files they are compared with. Only
//! tests use it; no program is linked with it.

mod choice;
mod golden;
mod leaf;
mod refusal;
mod run;
mod samples;
mod source;
mod tagged;

pub use choice::{Choice, EnumKind};
pub use golden::{Golden, Version, Wire};
pub use samples::{Sample, Samples};
pub use source::enums_that_travel;
