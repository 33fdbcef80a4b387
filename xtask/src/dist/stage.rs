//! Fills the tree of an installation from a release build. Must never write outside that tree.

use super::{elf, layout};
use crate::{
    c_parts,
    environment::{Environment, must},
    failure::{Failure, OnPath},
    repository::Repository,
};
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

/// Every file of an installation but the licences of dependencies.
pub(super) fn fill(repository: &Repository, environment: &Environment, stage: &Path) -> Result<(), Failure> {
    for (place, content) in layout::FILES {
        let file = stage.join(layout::versioned(place));
        place_file(repository, environment, &file, content)?;
    }
    let man = stage.join(layout::MAN);
    let mut pages = environment.command(environment.release.join("pcmctl"));
    pages.args(["man", "--out"]).arg(&man);
    must(pages, "see what it says above")?;
    for entry in fs::read_dir(&man).on("read", &man)? {
        set_mode(&entry.on("read", &man)?.path(), 0o644)?;
    }
    python_package(repository, &stage.join(layout::PYTHON))
}

/// The modules of the package `pcm`, into a folder of packages.
pub(super) fn python_package(repository: &Repository, packages: &Path) -> Result<(), Failure> {
    let source = repository.root.join("python/pcm");
    for entry in fs::read_dir(&source).on("read", &source)? {
        let file = entry.on("read", &source)?.path();
        if file
            .extension()
            .is_some_and(|ending| ending == "py" || ending == "typed")
        {
            let name = file.file_name().unwrap_or_default();
            copy(&file, &packages.join("pcm").join(name), 0o644)?;
        }
    }
    Ok(())
}

fn place_file(
    repository: &Repository,
    environment: &Environment,
    file: &Path,
    content: layout::Content,
) -> Result<(), Failure> {
    make_folder(file)?;
    match content {
        layout::Content::Built(name) => {
            elf::strip(&environment.release.join(name), file)?;
            elf::keep_relative_run_path(file)?;
            set_mode(file, if name.contains(".so") { 0o644 } else { 0o755 })
        }
        layout::Content::Probe => {
            c_parts::build_probe(repository, environment, file, "$ORIGIN/../../lib")?;
            set_mode(file, 0o755)
        }
        layout::Content::File(source) => copy(&repository.root.join(source), file, 0o644),
        layout::Content::Text(text) => write(file, layout::versioned(text), 0o644),
        layout::Content::Link { goal, .. } => symlink(goal, file).on("make", file),
        layout::Content::Printed(arguments) => {
            let mut pcmctl = environment.command(environment.release.join("pcmctl"));
            let output = pcmctl.args(arguments).output().map_err(Failure::start("pcmctl"))?;
            write(file, output.stdout, 0o644)
        }
    }
}

/// A file with a mode of its own, whatever the umask is, and the folders above it.
pub(super) fn write(file: &Path, content: impl AsRef<[u8]>, mode: u32) -> Result<(), Failure> {
    make_folder(file)?;
    fs::write(file, content).on("write", file)?;
    set_mode(file, mode)
}

/// As [`write()`], with what another file holds.
pub(super) fn copy(from: &Path, file: &Path, mode: u32) -> Result<(), Failure> {
    write(file, fs::read(from).on("read", from)?, mode)
}

fn make_folder(of: &Path) -> Result<(), Failure> {
    let folder = of.parent().unwrap_or(of);
    fs::create_dir_all(folder).on("create", folder)
}

fn set_mode(file: &Path, mode: u32) -> Result<(), Failure> {
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).on("set the mode of", file)
}

/// Every file and link below a folder, named from it, in order.
pub(super) fn files(folder: &Path) -> Result<Vec<std::path::PathBuf>, Failure> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).on("read", &next)? {
            let path = entry.on("read", &next)?.path();
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else if let Ok(name) = path.strip_prefix(folder) {
                found.push(name.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}
