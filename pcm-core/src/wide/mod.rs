//! Collective operations over sites that slow links connect: what each rank sends, receives and computes, so that a
//! message crosses a slow link once. Never sends and never waits: the caller carries the steps out.

pub mod all;
pub mod bcast;
pub mod gather;
pub mod link;
#[cfg(test)]
mod machine;
pub mod reduce;
pub mod scan;
pub mod schedule;
pub mod sites;
#[cfg(test)]
mod tests;
