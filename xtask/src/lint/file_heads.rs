//! Each file begins with `//!`: what it owns, what it must never do.

use super::complaint::Complaint;
use crate::source_tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let headless = tree.rust().filter(|file| !file.text.starts_with("//! "));
    headless
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
