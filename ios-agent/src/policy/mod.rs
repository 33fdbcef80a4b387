//! The policies, one file each, and their names. Pure.

pub mod ats;
pub mod choice;
pub mod cost;
pub mod greedy;
pub mod interface;
pub mod none;
pub mod nts;
pub mod random;
pub mod resize;
pub mod rsm;
