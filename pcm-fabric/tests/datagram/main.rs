//! Datagrams: on a seeded network in virtual time, against forgers and hoarders, and over real sockets.

#![allow(clippy::unwrap_used, reason = "the lint exempts only functions marked as tests")]

mod history;
mod hostile;
mod lossy;
mod network;
mod udp;
