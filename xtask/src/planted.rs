//! `cargo xtask planted`: puts defects of this project's history back into a copy of the source, one at a time, and
//! has the simulation of the cluster find each. Must never change the checkout.

use crate::{
    environment::{Environment, must},
    failure::{Failure, OnPath},
    repository::Repository,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// One patch with one defect each; the text before the diff says which defect.
const PATCHES: &str = "tests/planted";

/// Runs the first `seeds` histories with each defect; fails when one is not found.
pub(crate) fn run(repository: &Repository, environment: &Environment, seeds: u64) -> Result<(), Failure> {
    let tree = repository.target.join("planted").join("tree");
    let (mut found, mut missed) = (0, 0);
    for patch in patches(repository)? {
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        copy(repository, &tree)?;
        apply(&tree, &patch, &[])?;
        match violation(environment, &tree, seeds)? {
            Some(violation) => {
                found += 1;
                println!("{name}: {violation}");
            }
            None => {
                missed += 1;
                println!("{name}: NOT found in {seeds} histories");
            }
        }
    }
    println!("{found} passed, {missed} failed");
    if missed == 0 {
        Ok(())
    } else {
        Err(Failure::Tests { failed: missed })
    }
}

fn patches(repository: &Repository) -> Result<Vec<PathBuf>, Failure> {
    let folder = repository.root.join(PATCHES);
    let entries = fs::read_dir(&folder).on("read", &folder)?;
    let mut patches: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    patches.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    patches.sort();
    Ok(patches)
}

/// The source as it is in the checkout. Times of files stay, so that little is compiled again.
fn copy(repository: &Repository, tree: &Path) -> Result<(), Failure> {
    let mut git = Command::new("git");
    git.current_dir(&repository.root).arg("ls-files");
    let listed = git.output().map_err(Failure::start("git"))?;
    for path in String::from_utf8_lossy(&listed.stdout).lines() {
        let (from, to) = (repository.root.join(path), tree.join(path));
        let folder = to.parent().unwrap_or(tree);
        fs::create_dir_all(folder).on("make", folder)?;
        let text = fs::read(&from).on("read", &from)?;
        if fs::read(&to).ok().as_ref() != Some(&text) {
            fs::write(&to, text).on("write", &to)?;
        }
    }
    Ok(())
}

fn apply(tree: &Path, patch: &Path, options: &[&str]) -> Result<(), Failure> {
    let mut git = Command::new("git");
    // Outside a repository, or git would look for the paths in the checkout that the copy lies in.
    git.current_dir(tree)
        .env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree));
    git.args(["apply", "--whitespace=nowarn"]).args(options).arg(patch);
    must(git, "the source has changed since; make the patch again")
}

/// The first rule that a history breaks, as the simulation words it.
fn violation(environment: &Environment, tree: &Path, seeds: u64) -> Result<Option<String>, Failure> {
    let mut cargo = environment.cargo();
    cargo
        .current_dir(tree)
        .stdin(Stdio::null())
        .env("PCM_SIM_SEEDS", seeds.to_string());
    cargo.env("CARGO_TARGET_DIR", tree.with_file_name("target"));
    cargo.args([
        "test",
        "--quiet",
        "--release",
        "--package",
        "tests",
        "--test",
        "sim_cluster",
        "histories_keep_every_rule",
    ]);
    let output = cargo.output().map_err(Failure::start("cargo"))?;
    if output.status.success() {
        return Ok(None);
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| line.starts_with("seed "));
    line.map(|line| Some(line.to_owned())).ok_or_else(|| Failure::Answer {
        program: "the simulation".into(),
        problem: text.lines().rev().take(12).collect::<Vec<_>>().join("\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_planted_defect_fits_todays_source_and_says_what_it_is() {
        let repository = Repository::locate().unwrap();
        let patches = patches(&repository).unwrap();
        assert!(patches.len() >= 3, "{patches:?}");
        for patch in patches {
            apply(&repository.root, &patch, &["--check"]).unwrap();
            let text = fs::read_to_string(&patch).unwrap();
            assert!(
                !text.starts_with("diff"),
                "{}: no word about the defect",
                patch.display()
            );
        }
    }
}
