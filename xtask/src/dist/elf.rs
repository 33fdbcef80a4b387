//! Programs and libraries of a package: what they are linked with, and a run path that knows no folder of the build.
//! Reads and strips them with binutils, which come with every C compiler.

use super::stage;
use crate::{
    environment::must,
    failure::{Failure, OnPath},
};
use std::{collections::BTreeSet, fs, path::Path, process::Command};

/// Libraries that every system with the GNU C library has.
const OF_THE_SYSTEM: [&str; 4] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"];

/// What a package needs of a system.
pub(super) struct Audit {
    /// The oldest GNU C library it runs with.
    pub(super) glibc: (u32, u32),
}

/// Copies without what only debuggers read.
pub(super) fn strip(from: &Path, to: &Path) -> Result<(), Failure> {
    let mut strip = Command::new("strip");
    strip.args(["--strip-unneeded", "-o"]).arg(to).arg(from);
    must(strip, "install binutils")
}

/// Takes the folders of the build out of a run path. What is left is shorter, so it goes to the same place.
pub(super) fn keep_relative_run_path(file: &Path) -> Result<(), Failure> {
    let told = read(file, "-d")?;
    let Some(path) = told.lines().find_map(|line| line.split_once("path: [")) else {
        return Ok(());
    };
    let path = path.1.trim_end_matches(']');
    let mut bytes = fs::read(file).on("read", file)?;
    if !replace(&mut bytes, path, &relative(path)) {
        return Err(Failure::Answer {
            program: "readelf".into(),
            problem: format!("{} does not have the run path {path} in one place", file.display()),
        });
    }
    fs::write(file, bytes).on("write", file)
}

fn relative(path: &str) -> String {
    let kept: Vec<&str> = path.split(':').filter(|folder| folder.starts_with("$ORIGIN")).collect();
    kept.join(":")
}

/// Puts a shorter text in the place of the one text that has zeros around it.
fn replace(bytes: &mut [u8], old: &str, new: &str) -> bool {
    let wanted = [b"\0", old.as_bytes(), b"\0"].concat();
    let mut found = bytes
        .windows(wanted.len())
        .enumerate()
        .filter(|(_, window)| *window == wanted);
    let (Some((at, _)), None) = (found.next(), found.next()) else {
        return false;
    };
    let mut text = new.as_bytes().to_vec();
    text.resize(old.len(), 0);
    bytes[at + 1..at + 1 + old.len()].copy_from_slice(&text);
    true
}

/// Refuses a tree with a program that is linked with more than the system and MPI, or that looks into a folder of the
/// build.
pub(super) fn audit(tree: &Path, mpi: &[String]) -> Result<Audit, Failure> {
    let mut glibc = (0, 0);
    for name in stage::files(tree)? {
        let file = tree.join(&name);
        if file.is_symlink() || !fs::read(&file).on("read", &file)?.starts_with(b"\x7fELF") {
            continue;
        }
        let told = read(&file, "-d")?;
        let of_mpi = |library: &str| mpi.iter().any(|name| library.starts_with(&format!("lib{name}.so.")));
        let foreign = in_brackets(&told, "(NEEDED)")
            .into_iter()
            .find(|library| !OF_THE_SYSTEM.contains(library) && !of_mpi(library));
        let absolute = in_brackets(&told, "PATH)")
            .into_iter()
            .find(|path| relative(path) != *path);
        if let Some(problem) = foreign.or(absolute) {
            return Err(Failure::Answer {
                program: name.display().to_string(),
                problem: format!("it needs {problem}, which not every system has"),
            });
        }
        let versions = read(&file, "-V")?;
        glibc = glibc.max(newest_glibc(&versions));
    }
    Ok(Audit { glibc })
}

fn in_brackets<'a>(told: &'a str, kind: &str) -> BTreeSet<&'a str> {
    let lines = told.lines().filter(|line| line.contains(kind));
    lines
        .filter_map(|line| Some(line.split_once('[')?.1.trim_end_matches(']')))
        .collect()
}

fn newest_glibc(told: &str) -> (u32, u32) {
    let versions = told.split("GLIBC_").skip(1).filter_map(|rest| {
        let mut numbers = rest.split(|letter: char| !letter.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    versions.max().unwrap_or_default()
}

fn read(file: &Path, what: &str) -> Result<String, Failure> {
    let output = Command::new("readelf")
        .env("LC_ALL", "C")
        .args(["-W", what])
        .arg(file)
        .output();
    let output = output.map_err(Failure::start("readelf"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_of_a_run_path_that_moves_along_is_kept() {
        let path = "/a b/.mpi/lib:$ORIGIN:$ORIGIN/../../lib";
        let mut bytes = format!("x\0{path}\0y").into_bytes();
        assert!(replace(&mut bytes, path, &relative(path)));
        assert!(bytes.starts_with(b"x\0$ORIGIN:$ORIGIN/../../lib\0\0") && bytes.ends_with(b"\0y"));
        assert!(!replace(&mut bytes, path, ""), "it is not there any more");
    }

    #[test]
    fn the_newest_version_is_found_by_number() {
        let told = "0x0010: Name: GLIBC_2.9 Flags\n Name: GLIBC_2.34\n Name: GLIBC_2.2.5 Name: GLIBC_PRIVATE";
        assert_eq!(newest_glibc(told), (2, 34));
        assert_eq!(newest_glibc(""), (0, 0));
    }
}
