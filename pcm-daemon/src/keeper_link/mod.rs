//! The daemon's side of its keeper's socket: orders out, facts and descriptors in.
//!
//! A daemon calls [`KeeperLink::inherit`], then [`KeeperLink::welcome`] once, which gives the specification and every
//! process that was there before it. From then on [`KeeperLink::send`] and [`KeeperLink::receive`] in any order;
//! `receive` may be dropped at any await (use it in `select!`). `None` from it means that the keeper is dead: the ranks
//! die with it, and the daemon has to sweep what they started and end.

mod link;

pub use link::{Ends, FromKeeper, Handed, HandedBuffer, HandedImage, KeeperLink, LinkError, Welcome};
