//! A small tree of one crate in folder `a`, for tests of the rules.

use super::{crates::Tree, file::SourceFile};

pub(crate) fn planted(files: &[(&str, &str)]) -> Tree {
    let mut all: Vec<SourceFile> = files.iter().map(|(path, text)| SourceFile::new(*path, *text)).collect();
    all.push(SourceFile::new("a/Cargo.toml", "[package]\n"));
    Tree::of(all)
}
