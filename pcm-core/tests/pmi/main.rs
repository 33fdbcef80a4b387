//! PMI-1: its text, one world on one node, and one world over a tree of nodes.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "all of this is test code")]

mod tree;
mod wire;
mod world;
