//! Which MPI a program was built for, by its file: libraries it needs, and those that these need; a script by its
//! interpreter. It chooses the libpcm for the ranks. What no libpcm can work with is refused before a rank starts. A
//! program that loads MPI later (Python does) is judged by libpcm, in `MPI_Init`.

mod abi;
mod elf;
pub(crate) mod open_mpi;

pub(crate) use abi::Abi;

use crate::failure::Failure;
use elf::Elf;
use mpi_abi::{Family, OTHERS};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Scripts whose interpreters are scripts end somewhere.
const INTERPRETERS_MAX: usize = 4;

/// Where the loader looks last.
const FOLDERS: [&str; 7] = [
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/local/lib",
    "/lib",
    "/usr/lib",
];

/// The family of an MPI by the name of its library; None if that is no MPI.
fn family_of(library: &str) -> Option<Family> {
    let (name, version) = library.split_once(".so")?;
    let version: u32 = version.trim_start_matches('.').split('.').next()?.parse().unwrap_or(0);
    match name {
        "libmpi_abi" if version == 0 => Some(Family::Draft),
        "libmpi_abi" => Some(Family::Standard),
        "libmpi" if version >= 20 => Some(Family::OpenMpi),
        "libmpi" | "libmpich" => Some(Family::Mpich),
        // Cray's: one for each compiler.
        _ if version == 12 && name.starts_with("libmpi_") => Some(Family::Mpich),
        _ => None,
    }
}

/// How a program calls MPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Linked {
    pub(crate) abi: Abi,
    /// The library of MPI that its file names.
    pub(crate) library: String,
    /// Where the loader would find that, as far as the program and its environment say.
    pub(crate) found: Option<PathBuf>,
}

/// How a program calls MPI, as far as its file says; an error for one that libpcm cannot work with. A file that is not
/// found here is the nodes' affair.
pub(crate) fn linked(program: &OsStr) -> Result<Option<Linked>, Failure> {
    let Some(path) = found(program, env::var_os("PATH")) else {
        return Ok(None);
    };
    let path = interpreted(path);
    judged(&path, env::var_os("LD_LIBRARY_PATH")).map_err(|reason| {
        Failure::usage(format!(
            "{} {reason}; it runs with --no-preload, and cannot change then",
            path.display()
        ))
    })
}

/// Whether a program names a library itself, as far as its file says.
pub(crate) fn names(program: &OsStr, library: &str) -> bool {
    let path = found(program, env::var_os("PATH")).map(interpreted);
    let elf = path.and_then(|path| Elf::read(&path).ok().flatten());
    elf.is_some_and(|elf| elf.needed.iter().any(|needed| needed == library))
}

/// The name that a library's file gives itself; None if it is no library.
pub(crate) fn own_name(library: &Path) -> Option<String> {
    Elf::read(library).ok().flatten()?.own_name
}

/// An error is the predicate of a sentence. A file that cannot be read says nothing.
fn judged(path: &Path, search: Option<OsString>) -> Result<Option<Linked>, String> {
    let Some(elf) = Elf::read(path).ok().flatten() else {
        return Ok(None);
    };
    let folders = folders(&elf, search);
    let families = families(&elf, &folders);
    let mut all = families.iter();
    match (all.next(), all.next()) {
        (Some((one, first)), Some((other, second))) => Err(format!(
            "has two MPIs, {} ({first}) and {} ({second}): link all its parts with one of them",
            one.name(),
            other.name()
        )),
        (Some((family, library)), None) => match Abi::of_family(*family) {
            Some(abi) => Ok(Some(Linked {
                abi,
                library: library.clone(),
                found: in_one_of(&folders, library),
            })),
            None => Err(format!("was compiled for {} ({library}), {OTHERS}", family.name())),
        },
        (None, _) if has_mpi_inside(&elf).unwrap_or(false) => {
            Err("has MPI inside, linked statically, where libpcm cannot come between: link it with libmpi.so".into())
        }
        _ => Ok(None),
    }
}

/// Not so if it has libpcm inside, whose own name of that function it is: some code of a part of libpcm is there then.
fn has_mpi_inside(elf: &Elf) -> io::Result<bool> {
    let of_libpcm = |name: &[u8]| name.windows(8).any(|part| part == b"pcm_core");
    Ok(elf.defines(|name| name == b"PMPI_Init")? && !elf.defines(of_libpcm)?)
}

/// Where the loader looks for the libraries of a program.
fn folders(program: &Elf, search: Option<OsString>) -> Vec<PathBuf> {
    let mut first = program.run_paths.clone();
    let mut second: Vec<PathBuf> = search.iter().flat_map(env::split_paths).collect();
    if program.are_run_paths_late {
        std::mem::swap(&mut first, &mut second);
    }
    let usual = FOLDERS.map(PathBuf::from);
    first.into_iter().chain(second).chain(usual).collect()
}

fn in_one_of(folders: &[PathBuf], library: &str) -> Option<PathBuf> {
    folders
        .iter()
        .map(|folder| folder.join(library))
        .find(|file| file.is_file())
}

/// The families of all MPIs that a program names, or a library that it names, each with one of its libraries.
fn families(program: &Elf, folders: &[PathBuf]) -> BTreeMap<Family, String> {
    let mut found = BTreeMap::new();
    let mut add = |library: &str| {
        let family = family_of(library);
        if let Some(family) = family {
            found.entry(family).or_insert_with(|| library.to_owned());
        }
        family.is_some()
    };
    for library in &program.needed {
        // What an MPI itself needs is its own affair.
        if add(library) {
            continue;
        }
        let deeper = in_one_of(folders, library).and_then(|file| Elf::read(&file).ok().flatten());
        for next in deeper.iter().flat_map(|elf| &elf.needed) {
            add(next);
        }
    }
    found
}

/// The file that a node would start.
fn found(program: &OsStr, path: Option<OsString>) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = path?;
    env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// A script's interpreter, else the file itself.
fn interpreted(mut path: PathBuf) -> PathBuf {
    for _ in 0..INTERPRETERS_MAX {
        match interpreter(&path) {
            Some(next) => path = next,
            None => break,
        }
    }
    path
}

fn interpreter(path: &Path) -> Option<PathBuf> {
    use std::io::Read;
    let mut line = Vec::new();
    fs::File::open(path).ok()?.take(256).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let program = Path::new(OsStr::from_bytes(words.next()?));
    if program.file_name() != Some(OsStr::new("env")) {
        return Some(program.to_owned());
    }
    let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
    found(OsStr::from_bytes(named), env::var_os("PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A program or library that the compiler of this machine makes.
    fn made(folder: &Path, output: &str, source: &str, options: &[&str]) -> PathBuf {
        let (from, to) = (folder.join(format!("{output}.c")), folder.join(output));
        fs::write(&from, source).expect("a source file");
        let mut command = Command::new("cc");
        command
            .arg("-o")
            .arg(&to)
            .arg(&from)
            .args(options)
            .arg(format!("-L{}", folder.display()));
        assert!(command.status().expect("a C compiler").success(), "{command:?}");
        to
    }

    fn library(folder: &Path, name: &str, source: &str, more: &[&str]) {
        let mut options = vec!["-shared", "-fPIC", "-nostdlib", "-Wl,-soname"];
        let soname = format!("-Wl,{name}");
        options.extend([soname.as_str()].iter().chain(more));
        made(folder, name, source, &options);
    }

    const CALLS: &str = "int PMPI_Init(void); int main(void) { return PMPI_Init(); }";
    const MPI: &str = "int PMPI_Init(void) { return 0; }";

    #[test]
    fn a_program_is_judged_by_the_mpi_it_was_linked_with() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = &folder.path().canonicalize().expect("a folder");
        let run_path = "-Wl,-rpath,$ORIGIN";
        for (number, (name, expected)) in [
            ("libmpi.so.12", Ok(Abi::Mpich)),
            ("libmpich.so.12", Ok(Abi::Mpich)),
            ("libmpi_cray.so.12", Ok(Abi::Mpich)),
            ("libmpi_abi.so.1", Ok(Abi::Standard)),
            ("libmpi.so.40", Ok(Abi::OpenMpi)),
            (
                "libmpi_abi.so.0",
                Err("for a draft of the standard ABI (libmpi_abi.so.0)"),
            ),
        ]
        .into_iter()
        .enumerate()
        {
            library(folder, name, MPI, &[]);
            let named = format!("-l:{name}");
            let program = made(folder, &format!("p{number}"), CALLS, &[&named, run_path]);
            let said = judged(&program, None);
            match (&said, expected) {
                (Ok(linked), expected) => {
                    let linked = linked.as_ref().expect("an MPI");
                    assert_eq!(Ok(linked.abi), expected, "{name}");
                    assert_eq!((&*linked.library, &linked.found), (name, &Some(folder.join(name))));
                }
                (Err(said), Err(words)) => assert!(said.contains(words), "{name}: {said}"),
                (Err(said), Ok(_)) => panic!("{name}: {said}"),
            }
        }
        // A library of the program brings another one along; found by its run path, or by the user's.
        let uses = "int PMPI_Init(void); int solve(void) { return PMPI_Init(); }";
        library(folder, "libsolver.so", uses, &["-l:libmpi.so.40"]);
        let source = "int solve(void); int PMPI_Init(void); int main(void) { return solve() + PMPI_Init(); }";
        let options = ["-lsolver", "-l:libmpi.so.12", "-Wl,--allow-shlib-undefined"];
        let here = made(folder, "here", source, &[&options[..], &[run_path]].concat());
        let there = made(folder, "there", source, &options);
        for (program, search) in [(&here, None), (&there, Some(folder.as_os_str().to_owned()))] {
            let said = judged(program, search).expect_err("two MPIs");
            assert!(
                said.contains("two MPIs, the ABI of MPICH (libmpi.so.12) and Open MPI (libmpi.so.40)"),
                "{said}"
            );
        }
        let linked = judged(&there, None).expect("nothing was looked for");
        assert_eq!(linked.map(|linked| linked.abi), Some(Abi::Mpich));
    }

    /// A program's MPI is looked for as the loader does.
    #[test]
    fn a_run_path_of_the_newer_kind_comes_after_the_environment() {
        let (own, other) = (
            tempfile::tempdir().expect("a folder"),
            tempfile::tempdir().expect("a folder"),
        );
        let [own, other] = [&own, &other].map(|folder| folder.path().canonicalize().expect("a folder"));
        for folder in [&own, &other] {
            library(folder, "libmpi.so.40", MPI, &[]);
        }
        for (kind, expected) in [("-Wl,--enable-new-dtags", &other), ("-Wl,--disable-new-dtags", &own)] {
            let program = made(&own, "program", CALLS, &["-l:libmpi.so.40", "-Wl,-rpath,$ORIGIN", kind]);
            let linked = judged(&program, Some(other.as_os_str().to_owned()));
            let found = linked.expect("one MPI").and_then(|linked| linked.found);
            assert_eq!(found, Some(expected.join("libmpi.so.40")), "{kind}");
        }
    }

    #[test]
    fn a_program_with_mpi_inside_is_refused_and_others_without_mpi_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = "int PMPI_Init(void) { return 0; } int main(void) { return PMPI_Init(); }";
        let program = made(folder.path(), "inside", inside, &[]);
        assert!(judged(&program, None).is_err_and(|said| said.contains("linked statically")));
        let with_libpcm = format!("int _ZN8pcm_core4step; {inside}");
        assert_eq!(
            judged(&made(folder.path(), "libpcm", &with_libpcm, &[]), None),
            Ok(None)
        );
        let plain = made(folder.path(), "plain", "int main(void) { return 0; }", &[]);
        assert_eq!(judged(&plain, None), Ok(None));
        for text in ["", "#!", "#!/nowhere\n", "\x7fELF\x02\x01"] {
            let file = folder.path().join("text");
            fs::write(&file, text).expect("a file");
            assert_eq!(judged(&interpreted(file), None), Ok(None), "{text:?}");
        }
        // A program whose tables lie anywhere.
        let mut broken = fs::read(&program).expect("the program");
        for place in [32, 40, 56, 60] {
            broken[place..place + 2].fill(0xff);
            let file = folder.path().join("broken");
            fs::write(&file, &broken).expect("a file");
            _ = judged(&file, None);
        }
    }

    #[test]
    fn a_script_is_judged_by_its_interpreter() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("script");
        for (line, expected) in [("#!/bin/sh -e\n", "/bin/sh"), ("#! /bin/sh", "/bin/sh")] {
            fs::write(&script, line).expect("a script");
            assert_eq!(interpreter(&script), Some(PathBuf::from(expected)));
        }
        fs::write(&script, "#!/usr/bin/env -S A=b sh\n").expect("a script");
        let shell = found(OsStr::new("sh"), env::var_os("PATH"));
        assert!(shell.is_some());
        assert_eq!(interpreter(&script), shell);
    }
}
