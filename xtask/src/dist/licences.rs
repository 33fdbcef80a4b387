//! The licences of everything that is linked into a package: names, and the texts that their authors want to go along.

use super::{layout, stage};
use crate::{environment::Environment, failure::Failure, lint::packages, repository::Repository};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

/// Crates of this repository whose programs and libraries are packed.
const PACKED: [&str; 5] = ["dispatcher", "pcm-daemon", "ios-agent", "pcm-lib", "pcm-pmix"];

const HEAD: &str = "\
The programs and libraries of this package contain parts of the packages below, and of the standard library of Rust
(MIT OR Apache-2.0, the Rust project). Each line names a package, its version and its licence, and the texts that came
with it, by number; the texts follow.

";

/// Writes the file of licences into a tree.
pub(super) fn write(repository: &Repository, environment: &Environment, tree: &Path) -> Result<(), Failure> {
    let document = packages(repository, environment)?;
    let linked = linked(&document);
    let mut texts: BTreeMap<String, usize> = BTreeMap::new();
    let mut list = HEAD.to_owned();
    for package in document["packages"].as_array().into_iter().flatten() {
        let word = |name: &str| package[name].as_str().unwrap_or_default();
        // Packages without a source are of this repository.
        if !linked.contains(word("id")) || package["source"].is_null() {
            continue;
        }
        let folder = Path::new(word("manifest_path")).parent().unwrap_or(Path::new("/"));
        let mut numbers = BTreeSet::new();
        for text in licence_texts(folder) {
            let next = texts.len() + 1;
            numbers.insert(*texts.entry(text).or_insert(next));
        }
        let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
        let _ = writeln!(
            list,
            "{} {}: {} [{}]",
            word("name"),
            word("version"),
            word("license"),
            numbers.join(", ")
        );
    }
    let mut texts: Vec<(usize, String)> = texts.into_iter().map(|(text, number)| (number, text)).collect();
    texts.sort();
    for (number, text) in texts {
        let _ = write!(list, "\n======== [{number}]\n\n{text}\n");
    }
    stage::write(&tree.join(layout::LICENCES), list, 0o644)
}

/// Ids of packages that are reached from the packed ones by dependencies of programs: neither those of tests nor those
/// of builds.
fn linked(document: &Value) -> BTreeSet<&str> {
    let nodes: BTreeMap<&str, &Value> = document["resolve"]["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let packages = document["packages"].as_array().into_iter().flatten();
    let packed = packages.filter(|package| PACKED.iter().any(|name| package["name"] == *name));
    let mut open: Vec<&str> = packed.filter_map(|package| package["id"].as_str()).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !found.insert(id) {
            continue;
        }
        let needed = nodes
            .get(id)
            .and_then(|node| node["deps"].as_array())
            .into_iter()
            .flatten();
        let of_programs = |dependency: &&Value| {
            let kinds = dependency["dep_kinds"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        open.extend(
            needed
                .filter(of_programs)
                .filter_map(|dependency| dependency["pkg"].as_str()),
        );
    }
    found
}

/// Files of a package that say what may be done with it.
fn licence_texts(folder: &Path) -> Vec<String> {
    let is_licence = |name: &str| {
        ["LICEN", "COPY", "NOTICE", "UNLICEN"]
            .iter()
            .any(|begin| name.starts_with(begin))
    };
    let mut files: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| is_licence(&entry.file_name().to_string_lossy().to_uppercase()))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .map(|text| text.trim_end().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_only_tests_and_builds_need_is_not_linked() {
        let dependency = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let document = json!({
            "packages": [{"name": "pcm-lib", "id": "lib"}, {"name": "other", "id": "other"}],
            "resolve": {"nodes": [
                {"id": "lib", "deps": [
                    dependency("a", Value::Null), dependency("b", json!("dev")), dependency("c", json!("build")),
                ]},
                {"id": "a", "deps": [dependency("d", Value::Null)]},
                {"id": "other", "deps": [dependency("e", Value::Null)]},
            ]},
        });
        assert_eq!(linked(&document), BTreeSet::from(["a", "d", "lib"]));
    }
}
