//! Ranks grouped by the frames they share, outermost first.

use super::place::frame_words;
use pcm_proto::stack::{RankStack, ThreadStack};
use serde::Serialize;

/// Ranks that are in one frame, reached the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Branch {
    /// The frame in words.
    pub frame: String,
    pub ranks: Vec<u32>,
    /// The frames that it called.
    pub called: Vec<Branch>,
}

/// The main threads of all ranks as a tree.
pub fn tree(stacks: &[RankStack]) -> Vec<Branch> {
    let mut roots = Vec::new();
    for rank in stacks {
        if let Some(main) = rank.stack.threads.iter().find(|thread| thread.is_main) {
            add(&mut roots, rank.rank.0, main);
        }
    }
    roots
}

fn add(roots: &mut Vec<Branch>, rank: u32, thread: &ThreadStack) {
    let mut branches = roots;
    for frame in thread.frames.iter().rev() {
        let frame = frame_words(frame);
        let position = branches.iter().position(|branch| branch.frame == frame);
        let position = position.unwrap_or_else(|| {
            branches.push(Branch {
                frame,
                ranks: Vec::new(),
                called: Vec::new(),
            });
            branches.len() - 1
        });
        let branch = &mut branches[position];
        if branch.ranks.last() != Some(&rank) {
            branch.ranks.push(rank);
        }
        branches = &mut branch.called;
    }
}
