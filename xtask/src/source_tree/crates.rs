//! Reads the repository's files and finds its crates. Must never follow what builds leave behind.

use super::{
    file::SourceFile,
    modules::{Module, modules},
};
use crate::failure::{Failure, OnPath};
use std::{collections::BTreeSet, fs, path::Path};

/// Files that a person wrote and a rule can be about.
const ENDINGS: [&str; 9] = ["rs", "c", "h", "py", "js", "sh", "md", "toml", "txt"];

/// All files, and the modules of each program and library.
pub(crate) struct Tree {
    pub(crate) files: Vec<SourceFile>,
    pub(super) targets: Vec<CompiledTarget>,
}

/// What one root file makes.
pub(super) struct CompiledTarget {
    pub(super) crate_folder: String,
    pub(super) modules: Vec<Module>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self, Failure> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files)?;
        Ok(Self::of(files))
    }

    pub(super) fn of(mut files: Vec<SourceFile>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut tests = BTreeSet::new();
        let mut targets = Vec::new();
        let by_path = files.iter().map(|file| file.path.as_str()).zip(0..).collect();
        for folder in crate_folders(&files) {
            for root in 0..files.len() {
                if is_root(&files, &folder, root) {
                    targets.push(CompiledTarget {
                        crate_folder: folder.clone(),
                        modules: modules(&files, &by_path, root, &mut tests),
                    });
                }
            }
        }
        for test in tests {
            files[test].is_test = true;
        }
        Self { files, targets }
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    pub(crate) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The folder of each crate.
    pub(crate) fn crates(&self) -> Vec<String> {
        crate_folders(&self.files)
    }
}

fn read_folder(root: &Path, below: &str, files: &mut Vec<SourceFile>) -> Result<(), Failure> {
    let folder = root.join(below);
    for entry in fs::read_dir(&folder).on("list", &folder)? {
        let entry = entry.on("list", &folder)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() {
            name.clone()
        } else {
            format!("{below}/{name}")
        };
        let kind = entry.file_type().on("look at", entry.path())?;
        if kind.is_dir() && name != "target" && !name.starts_with('.') {
            read_folder(root, &path, files)?;
        } else if kind.is_file() && ENDINGS.iter().any(|ending| name.ends_with(&format!(".{ending}"))) {
            let text = fs::read_to_string(entry.path()).on("read", entry.path())?;
            files.push(SourceFile::new(path, text));
        }
    }
    Ok(())
}

fn crate_folders(files: &[SourceFile]) -> Vec<String> {
    files
        .iter()
        .filter(|file| file.text.contains("[package]"))
        .filter_map(|file| Some(file.path.strip_suffix("/Cargo.toml")?.to_string()))
        .collect()
}

/// Whether cargo compiles this file as the root of a library or a program of its own.
fn is_root(files: &[SourceFile], folder: &str, file: usize) -> bool {
    let below = |path: &str| files.iter().any(|file| file.path == path);
    let Some(path) = files[file]
        .path
        .strip_prefix(folder)
        .and_then(|path| path.strip_prefix('/'))
    else {
        return false;
    };
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["build.rs"] | ["src", "lib.rs" | "main.rs"] => true,
        ["src", "bin", name] | ["tests" | "benches" | "examples" | "fuzz_targets", name] => name.ends_with(".rs"),
        ["src", "bin", _, "main.rs"] | ["tests" | "benches" | "examples", _, "main.rs"] => {
            !below(&format!("{folder}/{}.rs", path.trim_end_matches("/main.rs")))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::source_tree::planted::planted;

    #[test]
    fn a_file_that_only_tests_declare_is_a_test_with_all_below_it() {
        let tree = planted(&[
            ("a/src/lib.rs", "mod x;\n#[cfg(test)]\nmod tests;\n"),
            ("a/src/x.rs", "#[cfg(test)]\nmod y_tests;\n"),
            ("a/src/x/y_tests.rs", ""),
            ("a/src/tests.rs", "mod deep;\n"),
            ("a/src/tests/deep.rs", ""),
        ]);
        let tests: Vec<_> = tree
            .files
            .iter()
            .filter(|file| file.is_test)
            .map(|file| file.path.as_str())
            .collect();
        assert_eq!(tests, ["a/src/tests.rs", "a/src/tests/deep.rs", "a/src/x/y_tests.rs"]);
    }
}
