//! Each file begins with `//!`: what it owns, what it must never do. A file that another includes as text cannot.

use super::complaint::Complaint;
use crate::source_tree::{SourceFile, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let includes = |file: &&SourceFile| file.masked.contains("include!");
    let including: Vec<&SourceFile> = tree.rust().filter(includes).collect();
    let is_included = |path: &str| {
        let included = |file: &&SourceFile| {
            let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let below = path.strip_prefix(folder).and_then(|path| path.strip_prefix('/'));
            below.is_some_and(|below| file.text.contains(&format!("include!(\"{below}\")")))
        };
        including.iter().any(included)
    };
    let headless = tree.rust().filter(|file| !file.text.starts_with("//! "));
    headless
        .filter(|file| !is_included(&file.path))
        .map(|file| Complaint {
            path: file.path.clone(),
            line: 1,
            rule: "file-head",
            advice: "begin the file with `//!`: what it owns, and what it must never do".into(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source_tree::planted::planted;

    #[test]
    fn a_file_without_a_head_is_found() {
        let found = check(&planted(&[
            ("a/src/lib.rs", "//! Owns it.\n"),
            ("a/src/main.rs", "// Owns it.\n"),
        ]));
        let paths: Vec<_> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["a/src/main.rs"]);
    }
}
