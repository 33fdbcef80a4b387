//! `pcmcc`: compiles and links a C program with libpcm in one step, by handing everything on to the MPI compiler.

use crate::build_flags::BuildFlags;
use crate::failure::Failure;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

const HELP: &str = "\
Compiles and links a C program with libpcm: passes every argument to the MPI compiler and adds the flags of libpcm.

Usage: pcmcc [compiler arguments]
       pcmcc -show …     prints the command instead of running it

Example:
  pcmcc -O2 -o app app.c && pcmctl run -n 4 -- ./app";

/// Steps of the compiler that do not link.
const NO_LINKING: [&str; 4] = ["-c", "-S", "-E", "-M"];

/// Replaces this process by the compiler; returns an exit code only where that did not work.
pub fn main() -> i32 {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.is_empty() || args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{HELP}");
        return if args.is_empty() { 2 } else { 0 };
    }
    let failure = match BuildFlags::find() {
        Ok(flags) => compile(&flags, args),
        Err(failure) => failure,
    };
    eprintln!("pcmcc: {failure}");
    failure.exit as i32
}

fn compile(flags: &BuildFlags, args: Vec<OsString>) -> Failure {
    let show = args.iter().any(|arg| arg == "-show");
    let command_line = arguments(flags, args);
    if show {
        let words = command_line
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect::<Vec<_>>();
        println!("{} {}", flags.mpicc.display(), words.join(" "));
        std::process::exit(0);
    }
    let error = Command::new(&flags.mpicc).args(command_line).exec();
    Failure::system(format!(
        "cannot start {}: {error}; name the MPI compiler in MPICC, or its prefix in PCM_MPI",
        flags.mpicc.display()
    ))
}

fn arguments(flags: &BuildFlags, args: Vec<OsString>) -> Vec<OsString> {
    let links = !args.iter().any(|arg| NO_LINKING.iter().any(|step| arg == step));
    let mut all: Vec<OsString> = flags.compile().into_iter().map(OsString::from).collect();
    all.extend(args.into_iter().filter(|arg| arg != "-show"));
    if links {
        all.extend(flags.link().into_iter().map(OsString::from));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_after_the_objects_and_only_where_something_is_linked() {
        let flags = BuildFlags {
            include: "/i".into(),
            library: "/l".into(),
            mpicc: "mpicc".into(),
        };
        let words = |args: &[&str]| arguments(&flags, args.iter().map(OsString::from).collect());
        assert_eq!(
            words(&["a.c", "-o", "a"]),
            ["-I/i", "a.c", "-o", "a", "-L/l", "-Wl,-rpath,/l", "-lpcm"]
        );
        assert_eq!(words(&["-c", "a.c"]), ["-I/i", "-c", "a.c"]);
    }
}
