//! What programs wrote to their logs, for the message of a failed test.

use std::{fs, path::PathBuf};

/// The last lines of each file under its name.
pub fn tails(files: impl Iterator<Item = PathBuf>, lines_each: usize) -> String {
    let tail = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(lines_each)..];
        format!("{}:\n{}\n", path.display(), last.join("\n"))
    };
    files.map(tail).collect()
}
