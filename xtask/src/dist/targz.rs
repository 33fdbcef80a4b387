//! The package that is unpacked into any folder: a tar file of the tree, the same for the same build.

use super::ready::Ready;
use crate::{environment::must, failure::Failure};
use std::{
    env::consts::ARCH,
    path::{Path, PathBuf},
    process::Command,
};

/// One folder, named as the file.
pub(super) fn write(ready: &Ready<'_>) -> Result<PathBuf, Failure> {
    let name = format!("pcm-{}-{ARCH}-linux", env!("CARGO_PKG_VERSION"));
    let file = ready.out.join(format!("{name}.tar.gz"));
    pack(&ready.stage, &file, &name, ready.time)?;
    Ok(file)
}

/// Packs a tree in an order, with owners and times, that depend on nothing but its content.
pub(super) fn pack(tree: &Path, file: &Path, top: &str, time: u64) -> Result<(), Failure> {
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--format=gnu",
    ]);
    tar.arg(format!("--mtime=@{time}"));
    // Names of members alone, not what links point to.
    tar.arg(format!("--transform=flags=r;s,^[.],{top},"));
    tar.args([
        "--use-compress-program=gzip -n",
        "--mode=go-w,a+rX",
        "--create",
        "--file",
    ])
    .arg(file);
    tar.arg("--directory").arg(tree).arg(".");
    must(tar, "free some disk space and try again")
}
