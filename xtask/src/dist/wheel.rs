//! The package for pip. A wheel puts files into the prefix of its environment, beside the MPI of the wheel `mpich`: so
//! an environment is an installation like any other, without links, which a zip file of pip has not.

use super::{layout, ready::Ready, stage};
use crate::{
    environment::must,
    failure::{Failure, OnPath},
    repository::Repository,
};
use std::{
    env::consts::ARCH,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const PACK: &str = include_str!("pack_wheel.py");
const METADATA: &str = include_str!("templates/METADATA");

/// Parts of a prefix that a Python environment has elsewhere, or has no use for.
const LEFT_OUT: [&str; 3] = [layout::PYTHON, "share/doc", "share/pcm"];

/// The finished package.
pub(super) fn write(repository: &Repository, ready: &Ready<'_>) -> Result<PathBuf, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let tree = ready.out.join("wheel");
    stage::python_package(repository, &tree)?;
    let data = tree.join(format!("pcm-{version}.data/data"));
    for name in stage::files(&ready.stage)? {
        if !LEFT_OUT.iter().any(|part| name.starts_with(part)) {
            without_link(&ready.stage, &name, &data)?;
        }
    }
    let information = tree.join(format!("pcm-{version}.dist-info"));
    for name in ["LICENSE-MIT", "LICENSE-APACHE", "LICENSES-of-dependencies"] {
        let text = ready.stage.join("share/doc/pcm").join(name);
        stage::copy(&text, &information.join("licenses").join(name), 0o644)?;
    }
    let (major, minor) = ready.audit.glibc;
    let tag = format!("py3-none-manylinux_{major}_{minor}_{ARCH}");
    let wheel = format!("Wheel-Version: 1.0\nGenerator: xtask\nRoot-Is-Purelib: false\nTag: {tag}\n");
    stage::write(&information.join("WHEEL"), wheel, 0o644)?;
    stage::write(&information.join("METADATA"), layout::versioned(METADATA), 0o644)?;
    let file = ready.out.join(format!("pcm-{version}-{tag}.whl"));
    let mut pack = Command::new("python3");
    pack.arg("-c")
        .arg(PACK)
        .arg(&tree)
        .arg(&file)
        .arg(ready.time.to_string());
    must(pack, "install python3, which writes the zip file")?;
    Ok(file)
}

/// Copies a file; in the place of a link comes a text that does the same, or what the link points to.
fn without_link(stage: &Path, name: &Path, data: &Path) -> Result<(), Failure> {
    let (from, to) = (stage.join(name), data.join(name));
    let text = layout::FILES.iter().find_map(|(place, content)| match content {
        layout::Content::Link { without_links, .. } if Path::new(place) == name => *without_links,
        _ => None,
    });
    let is_program = name.starts_with("bin") || name.starts_with("libexec") && name.extension().is_none();
    let mode = if is_program { 0o755 } else { 0o644 };
    match text {
        Some(text) => stage::write(&to, text, mode),
        None => {
            let content = fs::canonicalize(&from).on("find", &from)?;
            stage::copy(&content, &to, mode)
        }
    }
}
