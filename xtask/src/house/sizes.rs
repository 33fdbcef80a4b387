//! How many lines of Rust there are, tests included.

use super::row::Row;
use crate::source_tree::Tree;
use serde_json::Value;

/// A part of the repository and the most lines it is to have.
struct Part {
    measure: &'static str,
    before: &'static str,
    target: &'static str,
    /// A target of about so many thousands is met by what rounds to it.
    lines_max: usize,
    holds: fn(&str) -> bool,
}

const PARTS: [Part; 4] = [
    Part {
        measure: "lines of pcm-daemon",
        before: "22.6k",
        target: "~11k",
        lines_max: 11_499,
        holds: |path| path.starts_with("pcm-daemon/"),
    },
    Part {
        measure: "lines of dispatcher",
        before: "14.9k",
        target: "~11k",
        lines_max: 11_499,
        holds: |path| path.starts_with("dispatcher/"),
    },
    Part {
        measure: "lines of xtask and benches",
        before: "13.5k",
        target: "~9k",
        lines_max: 9_499,
        holds: |path| path.starts_with("xtask/") || path.split('/').any(|part| part == "bench" || part == "benches"),
    },
    Part {
        measure: "lines of all",
        before: "143.5k",
        target: "<= 131k",
        lines_max: 131_000,
        holds: |_| true,
    },
];

pub(super) fn rows(tree: &Tree) -> Vec<Row> {
    PARTS
        .iter()
        .map(|part| {
            let files = tree.rust().filter(|file| (part.holds)(&file.path));
            let lines = files.map(|file| file.lines_total()).sum::<usize>();
            Row {
                measure: part.measure,
                before: part.before,
                now: lines.to_string(),
                target: part.target,
                is_met: lines <= part.lines_max,
                details: Value::Null,
            }
        })
        .collect()
}
