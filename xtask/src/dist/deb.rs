//! The package for Debian and its relatives: the tree below `/usr`. Written here, as the format is an `ar` file of
//! three members, so that any Linux can make it.

use super::{layout, ready::Ready, stage, targz};
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

const CONTROL: &str = include_str!("templates/control");
const COPYRIGHT: &str = include_str!("templates/copyright");
const CHANGELOG: &str = include_str!("templates/changelog");
const OVERRIDES: &str = include_str!("templates/lintian-overrides");

/// A library in a folder in which the system looks, so that its list of libraries is made again.
const TRIGGERS: &str = "activate-noawait ldconfig\n";

/// Packages of programs that are linked with the library need this one.
const LIBRARIES: &str = "libpcm 0 pcm\nlibpcm_abi 0 pcm\nlibpcm_openmpi 0 pcm\n";

/// The finished package.
pub(super) fn write(repository: &Repository, ready: &Ready<'_>) -> Result<PathBuf, Failure> {
    let work = ready.out.join("deb");
    let (data, control) = (work.join("data"), work.join("control"));
    let usr = data.join("usr");
    fs::create_dir_all(&data).on("create", &data)?;
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(&ready.stage).arg(&usr);
    must(copy, "free some disk space and try again")?;
    for_debian(repository, &usr)?;
    let architecture = match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let (major, minor) = ready.audit.glibc;
    let text = layout::versioned(CONTROL)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@GLIBC@", &format!("{major}.{minor}"))
        .replace("@SIZE@", &size(&usr)?.to_string());
    stage::write(&control.join("control"), text, 0o644)?;
    stage::write(&control.join("triggers"), TRIGGERS, 0o644)?;
    stage::write(&control.join("shlibs"), LIBRARIES, 0o644)?;
    sums(&data, &control.join("md5sums"))?;
    let mut members = vec![("debian-binary", b"2.0\n".to_vec())];
    for (name, tree) in [("control.tar.gz", "control"), ("data.tar.gz", "data")] {
        let member = work.join(name);
        targz::pack(&work.join(tree), &member, ".", ready.time)?;
        members.push((name, fs::read(&member).on("read", &member)?));
    }
    let file = ready
        .out
        .join(format!("pcm_{}_{architecture}.deb", env!("CARGO_PKG_VERSION")));
    fs::write(&file, archive(&members, ready.time)).on("write", &file)?;
    Ok(file)
}

/// What Debian wants of every package: compressed man pages, the copyright under its own name, a changelog.
fn for_debian(repository: &Repository, usr: &Path) -> Result<(), Failure> {
    let man = usr.join(layout::MAN);
    let pages = stage::files(&man)?;
    let documents = usr.join("share/doc/pcm");
    stage::write(&documents.join("changelog"), layout::versioned(CHANGELOG), 0o644)?;
    let mut gzip = Command::new("gzip");
    gzip.args(["-9n"])
        .args(pages.iter().map(|page| man.join(page)))
        .arg(documents.join("changelog"));
    must(gzip, "install gzip")?;
    let licence = fs::read_to_string(repository.root.join("LICENSE-MIT")).on("read", "LICENSE-MIT")?;
    let indented: Vec<String> = licence
        .lines()
        .map(|line| {
            if line.is_empty() {
                " .".into()
            } else {
                format!(" {line}")
            }
        })
        .collect();
    let text = COPYRIGHT.replace("@MIT@", &indented.join("\n"));
    stage::write(&documents.join("copyright"), text, 0o644)?;
    stage::write(&usr.join("share/lintian/overrides/pcm"), OVERRIDES, 0o644)?;
    for_cross_compilers(usr)
}

/// A compiler for another architecture looks for descriptions in the folder of that architecture alone.
fn for_cross_compilers(usr: &Path) -> Result<(), Failure> {
    let from = usr.join("lib/pkgconfig");
    let text = fs::read_to_string(from.join("pcm.pc")).on("read", &from)?;
    let text = text.replace("${pcfiledir}/../..", "/usr");
    stage::write(&usr.join(format!("lib/{ARCH}-linux-gnu/pkgconfig/pcm.pc")), text, 0o644)?;
    fs::remove_dir_all(&from).on("remove", &from)
}

/// Kilobytes that the files take.
fn size(tree: &Path) -> Result<u64, Failure> {
    let mut sum = 0;
    for name in stage::files(tree)? {
        let path = tree.join(name);
        sum += fs::symlink_metadata(&path).on("read", &path)?.len().div_ceil(1024);
    }
    Ok(sum)
}

fn sums(tree: &Path, to: &Path) -> Result<(), Failure> {
    let files: Vec<PathBuf> = stage::files(tree)?
        .into_iter()
        .filter(|name| !tree.join(name).is_symlink())
        .collect();
    let output = Command::new("md5sum").current_dir(tree).args(files).output();
    let output = output.map_err(Failure::start("md5sum"))?;
    stage::write(to, output.stdout, 0o644)
}

/// An `ar` file: a line, then each member behind a head of 60 bytes, filled up to an even length.
fn archive(members: &[(&str, Vec<u8>)], time: u64) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let head = format!(
            "{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            0,
            0,
            100_644,
            content.len()
        );
        bytes.extend(head.as_bytes());
        bytes.extend(content);
        if content.len() % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_a_head_of_60_bytes_before_each_member_at_an_even_place() {
        let bytes = archive(&[("a", b"xyz".to_vec()), ("b", b"12".to_vec())], 7);
        assert_eq!(bytes.len(), 8 + 60 + 4 + 60 + 2);
        assert_eq!(&bytes[66..68], b"`\n");
        assert_eq!(&bytes[68..73], b"xyz\nb");
    }
}
