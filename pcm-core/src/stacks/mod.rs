//! Stacks of a job's ranks made readable: a tree of ranks that share frames, and sentences that name the lines at which
//! ranks wait for each other. Pure.

mod place;
mod tree;
mod verdict;

pub use place::frame_words;
pub use tree::{Branch, tree};
pub use verdict::verdict;
