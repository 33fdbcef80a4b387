//! The files between `pcmctl migrate` and the new process, as a checked list.

use super::row::Row;
use crate::source_tree::{Tree, names};
use serde_json::json;
use std::collections::BTreeSet;

/// Where the list is, for messages.
pub(crate) const LIST: &str = "xtask/src/house/migrate-path.txt";

const TEXT: &str = include_str!("migrate-path.txt");

const FILES_MAX: usize = 18;

struct Hop<'a> {
    path: &'a str,
    name: &'a str,
    caller: Option<&'a str>,
    line: usize,
}

/// A hop that is not in the source any more: its line in the list, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) line: usize,
    pub(crate) advice: String,
}

pub(crate) fn broken(tree: &Tree) -> Vec<Broken> {
    broken_of(tree, TEXT)
}

fn hops(text: &str) -> Vec<Hop<'_>> {
    let mut hops: Vec<Hop<'_>> = Vec::new();
    for (words, line) in text.lines().zip(1..) {
        let words: Vec<&str> = words.split_whitespace().collect();
        let above = hops.last().map(|hop| hop.path);
        let (path, name, caller) = match words.as_slice() {
            [path, name] => (*path, *name, above),
            [path, name, "<", caller] => (*path, *name, Some(*caller)),
            _ => continue,
        };
        if path.starts_with('#') {
            continue;
        }
        hops.push(Hop {
            path,
            name,
            caller,
            line,
        });
    }
    hops
}

fn broken_of(tree: &Tree, text: &str) -> Vec<Broken> {
    let mut found = Vec::new();
    for hop in hops(text) {
        let contains = |path: &str| {
            tree.file(path)
                .map(|file| names(&file.masked).any(|one| one == hop.name))
        };
        let is_module = hop.path.ends_with(&format!("/{}.rs", hop.name));
        let advice = match (contains(hop.path), hop.caller.map(|caller| (caller, contains(caller)))) {
            (None, _) => format!("{} is not there; follow the way again and mend the list", hop.path),
            (Some(false), _) if !is_module => format!("{} does not contain `{}`; mend the hop", hop.path, hop.name),
            (_, Some((caller, None))) => format!("{caller} is not there; mend the hop"),
            (_, Some((caller, Some(false)))) => format!("{caller} does not name `{}`; mend the hop", hop.name),
            _ => continue,
        };
        found.push(Broken { line: hop.line, advice });
    }
    found
}

pub(super) fn row(tree: &Tree) -> Row {
    let hops = hops(TEXT);
    let files: BTreeSet<&str> = hops
        .iter()
        .flat_map(|hop| [Some(hop.path), hop.caller])
        .flatten()
        .collect();
    let is_broken = !broken(tree).is_empty();
    Row {
        measure: "files from `pcmctl migrate` to a process",
        before: "32",
        now: format!("{}{}", files.len(), if is_broken { ", broken" } else { "" }),
        target: "<= 18",
        is_met: !is_broken && files.len() <= FILES_MAX,
        details: json!(files),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_tree::planted::planted;

    #[test]
    fn a_hop_whose_file_or_name_is_gone_is_found() {
        let tree = planted(&[
            ("a/src/a.rs", "fn a() { b::go() }\n"),
            ("a/src/b.rs", "fn go() { /* c */ }\n"),
            ("a/src/c.rs", "fn c() {}\n"),
        ]);
        let list = "# PATH NAME\na/src/a.rs a\na/src/b.rs go\na/src/c.rs c\na/src/d.rs d\na/src/b.rs b < a/src/a.rs\n";
        let found = broken_of(&tree, list);
        assert_eq!(
            found,
            [
                Broken {
                    line: 4,
                    advice: "a/src/b.rs does not name `c`; mend the hop".into()
                },
                Broken {
                    line: 5,
                    advice: "a/src/d.rs is not there; follow the way again and mend the list".into()
                },
            ]
        );
    }
}
