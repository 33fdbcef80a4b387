//! A file is one part of the whole. What only tests compile is not counted.

use super::complaint::Complaint;
use crate::source_tree::Tree;

const LINES_MAX: usize = 600;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let too_long = tree.rust().filter(|file| file.lines_without_tests() > LINES_MAX);
    too_long
        .map(|file| Complaint {
            path: file.path.clone(),
            line: LINES_MAX + 1,
            rule: "file-length",
            advice: format!(
                "{} lines without tests; give a part that owns something a file of its own until {LINES_MAX} are left",
                file.lines_without_tests()
            ),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source_tree::planted::planted;

    #[test]
    fn a_file_of_601_lines_is_found_and_its_tests_are_not_counted() {
        let tests = "#[cfg(test)]\nmod tests {\n}\n";
        let long = "\n".repeat(601) + tests;
        let fits = "\n".repeat(600) + tests;
        let found = check(&planted(&[("a/src/lib.rs", &long), ("a/src/main.rs", &fits)]));
        let paths: Vec<_> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["a/src/lib.rs"]);
    }
}
