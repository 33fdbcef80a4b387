//! Finds files of a crate that import each other.

use super::{
    crates::Tree,
    file::SourceFile,
    imports::{Edge, edges},
    tokens::names,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Files that all need each other.
pub(crate) struct Cycle {
    pub(crate) files: Vec<String>,
    /// The shortest way from the first file through others and back: file, line, name, file that declares it.
    pub(crate) way: Vec<Step>,
}

/// One import on the way.
pub(crate) struct Step {
    pub(crate) from: String,
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) to: String,
}

/// The cycles below one folder with a `Cargo.toml`, the largest first.
pub(crate) fn import_cycles(tree: &Tree, crate_folder: &str) -> Vec<Cycle> {
    let mut cycles: Vec<Cycle> = tree
        .targets
        .iter()
        .filter(|target| target.crate_folder == crate_folder)
        .flat_map(|target| {
            let edges = edges(&target.modules, |file, name| is_used(&tree.files[file], name));
            groups(&edges)
                .into_iter()
                .map(|group| cycle(&tree.files, &edges, &group))
                .collect::<Vec<_>>()
        })
        .collect();
    cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.files.len()));
    cycles
}

/// Whether a file names this more often than in its import.
fn is_used(file: &SourceFile, name: &str) -> bool {
    names(&file.masked).filter(|one| *one == name).count() > 1
}

/// Sets of two and more files of which each reaches each.
fn groups(edges: &[Edge]) -> Vec<BTreeSet<usize>> {
    let mut next: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for edge in edges {
        next.entry(edge.from).or_default().insert(edge.target.file);
    }
    let reached: BTreeMap<usize, BTreeSet<usize>> = next.keys().map(|file| (*file, reach(&next, *file))).collect();
    let mut found: Vec<BTreeSet<usize>> = Vec::new();
    for (file, others) in &reached {
        if !others.contains(file) || found.iter().any(|group| group.contains(file)) {
            continue;
        }
        let back = |other: &&usize| reached.get(other).is_some_and(|back| back.contains(file));
        found.push(others.iter().filter(back).copied().collect());
    }
    found
}

fn reach(next: &BTreeMap<usize, BTreeSet<usize>>, from: usize) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for other in next.get(&file).into_iter().flatten() {
            if seen.insert(*other) {
                open.push(*other);
            }
        }
    }
    seen
}

fn cycle(files: &[SourceFile], edges: &[Edge], group: &BTreeSet<usize>) -> Cycle {
    let way = group
        .iter()
        .filter_map(|start| shortest(edges, group, *start))
        .min_by_key(Vec::len)
        .unwrap_or_default();
    let step = |edge: &&Edge| Step {
        from: files[edge.from].path.clone(),
        line: files[edge.from].line_of(edge.offset),
        name: edge.target.name.clone(),
        to: files[edge.target.file].path.clone(),
    };
    Cycle {
        files: group.iter().map(|file| files[*file].path.clone()).collect(),
        way: way.iter().map(step).collect(),
    }
}

fn shortest<'a>(edges: &'a [Edge], group: &BTreeSet<usize>, start: usize) -> Option<Vec<&'a Edge>> {
    let mut came: BTreeMap<usize, &Edge> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(file) = open.pop_front() {
        for edge in edges.iter().filter(|edge| edge.from == file) {
            let to = edge.target.file;
            if !group.contains(&to) || came.contains_key(&to) {
                continue;
            }
            came.insert(to, edge);
            if to == start {
                let mut way = vec![edge];
                while way.last().is_some_and(|last| last.from != start) {
                    way.push(came.get(&way.last()?.from)?);
                }
                way.reverse();
                return Some(way);
            }
            open.push_back(to);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::import_cycles;
    use crate::source_tree::planted::planted;

    fn largest(files: &[(&str, &str)]) -> usize {
        import_cycles(&planted(files), "a")
            .first()
            .map_or(0, |cycle| cycle.files.len())
    }

    #[test]
    fn a_cycle_is_seen_through_imports_paths_and_names_that_a_module_passes_on() {
        let files = [
            ("a/src/lib.rs", "mod x;\nmod y;\nmod z;\npub use x::X;\n"),
            ("a/src/x.rs", "use super::y::Y;\npub struct X;\n"),
            ("a/src/y.rs", "pub struct Y;\nfn f() { crate::z::deep::g(); }\n"),
            ("a/src/z.rs", "pub mod deep { pub fn g(x: crate::X) {} }\n"),
        ];
        let cycles = import_cycles(&planted(&files), "a");
        assert_eq!(cycles[0].files, ["a/src/x.rs", "a/src/y.rs", "a/src/z.rs"]);
        let names: Vec<_> = cycles[0]
            .way
            .iter()
            .map(|step| (step.line, step.name.as_str()))
            .collect();
        assert_eq!(names, [(1, "Y"), (2, "g"), (1, "X")]);
    }

    #[test]
    fn tests_and_what_a_module_only_passes_on_make_no_cycle() {
        let files = [
            ("a/src/lib.rs", "mod x;\nmod y;\npub use x::X;\n"),
            ("a/src/x.rs", "use super::y::Y;\npub struct X;\n"),
            (
                "a/src/y.rs",
                "pub struct Y;\n#[cfg(test)]\nmod tests { use crate::X; }\n",
            ),
        ];
        assert_eq!(largest(&files), 0);
    }

    #[test]
    fn a_module_that_is_imported_by_name_leads_to_what_is_used_of_it() {
        let files = [
            ("a/src/lib.rs", "mod x;\nmod y;\n"),
            ("a/src/x/mod.rs", "mod inner;\npub use inner::f;\n"),
            ("a/src/x/inner.rs", "pub fn f() { crate::y::h() }\n"),
            ("a/src/y.rs", "use super::x;\npub fn h() { x::f() }\n"),
        ];
        assert_eq!(largest(&files), 2);
    }
}
