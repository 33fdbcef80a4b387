//! How much one struct owns: the struct of the node's logic with the most lines of `impl`.

use super::row::Row;
use crate::source_tree::{Struct, Tree, structs};
use serde_json::{Value, json};

/// Where a centre can be: the daemon, and the pure machine that it is to become.
const FOLDERS: [&str; 2] = ["pcm-daemon/", "pcm-core/src/node/"];

const FIELDS_MAX: usize = 10;
const IMPL_LINES_BELOW: usize = 900;
const FILES_MAX: usize = 6;
const SHOWN: usize = 5;

pub(super) fn row(tree: &Tree) -> Row {
    let mut all: Vec<Struct> = FOLDERS.iter().flat_map(|folder| structs(tree, folder)).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.impl_lines));
    let is_met = all.first().is_some_and(|one| {
        one.fields <= FIELDS_MAX && one.impl_lines < IMPL_LINES_BELOW && one.impl_files.len() <= FILES_MAX
    });
    let now = all.first().map_or_else(
        || "no struct".into(),
        |one| {
            format!(
                "{} / {} / {} ({})",
                one.fields,
                one.impl_lines,
                one.impl_files.len(),
                one.name
            )
        },
    );
    Row {
        measure: "centre: fields / impl lines / files",
        before: "35 / 6795 / 44 (Daemon)",
        now,
        target: "<= 10 / < 900 / <= 6",
        is_met,
        details: all.iter().take(SHOWN).map(details).collect(),
    }
}

fn details(one: &Struct) -> Value {
    json!({
        "struct": one.name,
        "file": one.path,
        "fields": one.fields,
        "impl_lines": one.impl_lines,
        "impl_files": one.impl_files,
    })
}
