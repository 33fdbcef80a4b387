//! Links over real sockets on the loopback: what members get, what strangers get, and that every wait ends.

#![allow(clippy::unwrap_used, reason = "the lint exempts only functions marked as tests")]

mod hostile;
mod local;
mod network;
mod pair;
