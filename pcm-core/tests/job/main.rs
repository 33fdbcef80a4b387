//! The job protocol between a coordinator and its nodes, played through without sockets or processes: messages may be
//! lost with a link or a daemon, and everything must come to its end all the same.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod cluster;
mod crashes;
mod inheriting;
mod rules;
mod spares;
