//! The failure detector in a simulated network: seeded loss, delay, partitions, crashes and late timers. A failure
//! prints the seed; `MEMBERSHIP_SEED=7 cargo test -p pcm-core --test membership NAME` runs one seed only,
//! `MEMBERSHIP_TIMES=20` twenty times as many as usual.

#![allow(clippy::unwrap_used, reason = "the lint exempts only functions marked as tests")]

mod faults;
mod network;
mod packets;
mod quiet;
