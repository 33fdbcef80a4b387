//! A cluster in one thread and virtual time: daemons with their records, processes that iterate over an array, a
//! network that loses, copies, delays and reorders. One seed is one history. It drives the same state machines as the
//! daemon.

mod application;
pub mod cluster;
mod driver;
mod faults;
pub mod invariants;
pub mod liveness;
mod meeting;
mod process;
pub mod random;
pub mod runner;
pub mod scenario;
