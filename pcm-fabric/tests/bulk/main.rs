//! Bulk transfers over real sockets on the loopback: whole, through relays that cut and alter, and against strangers.

#![allow(clippy::unwrap_used, reason = "the lint exempts only functions marked as tests")]

mod broken;
mod crowded;
mod ends;
mod transfers;
