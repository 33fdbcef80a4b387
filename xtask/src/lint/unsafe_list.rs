//! Each use of `unsafe` is counted in `unsafe.txt`, by file: one more shows in the diff of the list, where a reviewer
//! sees it.

use super::complaint::Complaint;
use crate::source_tree::Tree;
use std::collections::BTreeMap;

const KNOWN: &str = include_str!("unsafe.txt");

/// Where the list is.
const LIST: &str = "xtask/src/lint/unsafe.txt";

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    compare(&counts(tree), &parse(KNOWN))
}

fn counts(tree: &Tree) -> BTreeMap<String, usize> {
    let counted = tree.rust().map(|file| (file.path.clone(), uses(&file.masked)));
    counted.filter(|(_, count)| *count > 0).collect()
}

/// How often the word stands in code, strings and comments left out.
fn uses(masked: &str) -> usize {
    let words = masked.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| *word == "unsafe").count()
}

fn parse(text: &str) -> BTreeMap<String, usize> {
    let line = |line: &str| {
        let (count, path) = line.split_once('\t')?;
        Some((path.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

fn compare(found: &BTreeMap<String, usize>, known: &BTreeMap<String, usize>) -> Vec<Complaint> {
    let paths: std::collections::BTreeSet<_> = found.keys().chain(known.keys()).collect();
    let mut complaints = Vec::new();
    for path in paths {
        let count = |counts: &BTreeMap<String, usize>| counts.get(path).copied().unwrap_or(0);
        let (found, known) = (count(found), count(known));
        if found != known {
            complaints.push(Complaint {
                path: path.clone(),
                line: 1,
                rule: "unsafe-list",
                advice: format!(
                    "`unsafe` {found} times, known {known}: do without, or say why it is sound and write \
                     `{found}<tab>{path}` into {LIST}"
                ),
            });
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_tree::planted::planted;

    #[test]
    fn one_use_more_and_one_less_are_found_and_words_about_it_are_not_counted() {
        let files = [
            (
                "a/src/lib.rs",
                "//! unsafe\nfn f() { unsafe { g(\"unsafe\") } }\n#![allow(unsafe_code)]\n",
            ),
            ("a/src/b.rs", "unsafe extern \"C\" {}\nunsafe impl Send for A {}\n"),
        ];
        let found = counts(&planted(&files));
        assert_eq!(found, parse("1\ta/src/lib.rs\n2\ta/src/b.rs\n"));
        let known = parse("1\ta/src/lib.rs\n1\ta/src/b.rs\n1\ta/src/gone.rs\n");
        let complaints = compare(&found, &known);
        let paths: Vec<&str> = complaints.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["a/src/b.rs", "a/src/gone.rs"]);
        assert_eq!(parse(KNOWN).len(), KNOWN.lines().count(), "every line is read");
    }
}
