//! `pcmcc`, `pcmcxx` and `pcmfort`: compile and link a program with libpcm in one step, by handing everything on to the
//! MPI compiler of their language. One program under three names.

use crate::build_flags::{BuildFlags, Language};
use crate::failure::Failure;
use crate::output;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const HELP: &str = "\
Compiles and links a LANGUAGE program with libpcm: passes every argument to the
MPI compiler and adds the flags of libpcm.

Usage: NAME [compiler arguments]
       NAME -show …      prints the command instead of running it

Example:
  NAME -O2 -o app SOURCES && pcmctl run -n 4 -- ./app";

/// The names of this program; under any other it is the first.
const NAMES: [(&str, Language, &str, &str); 3] = [
    ("pcmcc", Language::C, "C", "app.c"),
    ("pcmcxx", Language::Cpp, "C++", "app.cpp"),
    ("pcmfort", Language::Fortran, "Fortran", "pcm.f90 app.f90"),
];

/// Steps of the compiler that do not link.
const NO_LINKING: [&str; 4] = ["-c", "-S", "-E", "-M"];

/// Replaces this process by the compiler; returns an exit code only where that did not work.
pub fn main() -> i32 {
    let mut args = std::env::args_os();
    let called = args.next().unwrap_or_default();
    let args: Vec<OsString> = args.collect();
    let is_called = |name: &str| Path::new(&called).file_name().is_some_and(|called| called == name);
    let (name, language, word, sources) = *NAMES.iter().find(|(name, ..)| is_called(name)).unwrap_or(&NAMES[0]);
    if args.is_empty() || args.iter().any(|arg| arg == "--help" || arg == "-h") {
        let help = HELP.replace("LANGUAGE", word).replace("NAME", name);
        let help = help.replace("SOURCES", sources);
        return match output::print(&format!("{help}\n")) {
            Ok(()) if args.is_empty() => 2,
            Ok(()) => 0,
            Err(failure) => failure.exit as i32,
        };
    }
    let failure = match BuildFlags::find(language) {
        Ok(flags) => compile(&flags, args),
        Err(failure) => failure,
    };
    eprintln!("{name}: {failure}");
    failure.exit as i32
}

fn compile(flags: &BuildFlags, args: Vec<OsString>) -> Failure {
    let show = args.iter().any(|arg| arg == "-show");
    let command_line = arguments(flags, args);
    if show {
        let variables = flags
            .variables
            .iter()
            .map(|(name, value)| format!("{name}={} ", value.display()));
        let words = command_line.iter().map(|word| format!(" {}", word.display()));
        println!(
            "{}{}{}",
            variables.collect::<String>(),
            flags.compiler.display(),
            words.collect::<String>()
        );
        std::process::exit(0);
    }
    let mut compiler = Command::new(&flags.compiler);
    compiler.args(command_line).envs(flags.variables.iter().cloned());
    let error = compiler.exec();
    Failure::system(format!(
        "cannot start {}: {error}; name the MPI compiler in MPICC, MPICXX or MPIFC, or its prefix in PCM_MPI",
        flags.compiler.display()
    ))
}

fn arguments(flags: &BuildFlags, args: Vec<OsString>) -> Vec<OsString> {
    let links = !args.iter().any(|arg| NO_LINKING.iter().any(|step| arg == step));
    let mut all: Vec<OsString> = flags.compile().into_iter().map(OsString::from).collect();
    all.extend(args.into_iter().filter(|arg| arg != "-show"));
    if links {
        let abi = flags.abi(&all);
        all.extend(flags.link(abi).into_iter().map(OsString::from));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_library_comes_after_the_objects_and_only_where_something_is_linked() {
        let flags = BuildFlags {
            include: "/i".into(),
            library: "/l".into(),
            compiler: "/none/mpicc".into(),
            variables: Vec::new(),
        };
        let words = |args: &[&str]| arguments(&flags, args.iter().map(OsString::from).collect());
        assert_eq!(
            words(&["a.c", "-o", "a"]),
            [
                "-I/i",
                "a.c",
                "-o",
                "a",
                "-L/l",
                "-Wl,-rpath,/l",
                "-lpcm",
                "-Wl,--no-as-needed"
            ]
        );
        assert_eq!(words(&["-c", "a.c"]), ["-I/i", "-c", "a.c"]);
    }

    #[test]
    fn a_program_of_the_standard_abi_gets_the_library_for_it() {
        let library = |compiler: &str, args: &[&str]| {
            let flags = BuildFlags {
                include: "/i".into(),
                library: "/l".into(),
                compiler: compiler.into(),
                variables: Vec::new(),
            };
            let all = arguments(&flags, args.iter().map(OsString::from).collect());
            all.into_iter().find(|word| word.as_bytes().starts_with(b"-lpcm"))
        };
        assert_eq!(library("/b/mpicc_abi", &["a.c"]), Some("-lpcm_abi".into()));
        assert_eq!(library("/b/mpicc", &["-mpi-abi", "a.c"]), Some("-lpcm_abi".into()));
        assert_eq!(library("/b_abi/mpicc", &["a.c"]), Some("-lpcm".into()));
    }

    #[test]
    fn a_compiler_of_open_mpi_says_that_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let mpicc = folder.path().join("mpicc");
        let library = |text: &str| {
            fs::write(&mpicc, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&mpicc, Permissions::from_mode(0o700)).unwrap();
            let flags = BuildFlags {
                include: "/i".into(),
                library: "/l".into(),
                compiler: mpicc.clone(),
                variables: Vec::new(),
            };
            let all = arguments(&flags, vec!["a.c".into()]);
            all.into_iter().find(|word| word.as_bytes().starts_with(b"-lpcm"))
        };
        let open = r#"[ "$*" = --showme:version ] && echo "mpicc: Open MPI 5.0.11 (Language: C)""#;
        assert_eq!(library(open), Some("-lpcm_openmpi".into()));
        assert_eq!(
            library("echo 'gcc: unknown option, Open MPI'; exit 1"),
            Some("-lpcm".into())
        );
        assert_eq!(library("echo mpicc for MPICH"), Some("-lpcm".into()));
    }
}
