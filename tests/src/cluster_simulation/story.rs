//! The replay of a history: one line for each thing that happened. Kept only when it is asked for.

use std::fmt::Debug;

/// Longest line; plans and records are longer than a person reads.
const LINE_MAX: usize = 400;

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct Story {
    lines: Option<Vec<String>>,
}

impl Story {
    pub(super) fn new(is_kept: bool) -> Self {
        Self {
            lines: is_kept.then(Vec::new),
        }
    }

    pub(super) fn tell(&mut self, now: u64, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>11.6} {}", now as f64 / 1e6, line()));
        }
    }

    pub(super) fn take(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}

/// The beginning of what a value looks like.
pub(super) fn short(value: &impl Debug) -> String {
    let mut text = format!("{value:?}");
    if text.len() > LINE_MAX {
        let cut = (0..=LINE_MAX).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(cut.unwrap_or(0));
        text.push('…');
    }
    text
}
