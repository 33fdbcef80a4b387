//! The declarations of a crate as lines of C that compile where `mpi.h` says the same; the compiler is that of the MPI
//! in use.

use std::{
    env, fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// The crate's own file, else the one that it shares.
fn source(name: &str) -> String {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name);
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi-abi/src").join(name);
    fs::read_to_string(if own.is_file() { own } else { shared }).unwrap()
}

/// All of them, after what the lines of the source do not say by themselves.
pub(crate) fn all(layout: &str) -> String {
    let as_called = source("as_called.rs");
    let (_, as_called) = as_called.split_once("unsafe extern \"C\" {").unwrap();
    let found = ["functions.rs", "collectives.rs"].map(|name| {
        let text = source(name);
        let (_, found) = text.split_once("of_mpi! {\n").unwrap();
        functions(found)
    });
    let numbers = constants(&source("constants.rs")) + &constants(&source("datatypes.rs"));
    layout.to_owned() + &numbers + &functions(as_called) + &found.concat()
}

/// From lines as `pub const MPI_ERR_COMM: c_int = 5;`, and those of `predefined!` as `MPI_MAX: MPI_Op = 0x5800_0001;`,
/// where the name of an object may stand for the number.
fn constants(own: &str) -> String {
    let declared = own.lines().filter_map(|line| {
        let indented = line.strip_prefix("    MPI_").map(|_| line.trim_start());
        let (name, rest) = line.strip_prefix("pub const ").or(indented)?.split_once(": ")?;
        let (kind, value) = rest.split_once(" = ")?;
        let value = value.trim_end_matches([';', ')']).rsplit('(').next()?;
        let is_number = value.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        if is_number {
            Some(format!("SAME({name}, {});\n", value.replace('_', "")))
        } else {
            indented.map(|_| format!("NAMES({name}, {kind}, {value});\n"))
        }
    });
    declared.collect()
}

/// The functions once more, in C.
fn functions(block: &str) -> String {
    let mut text = String::new();
    for declaration in block.split(';').filter(|part| part.contains("pub fn ")) {
        let words: Vec<&str> = declaration.split_whitespace().collect();
        let words = words.join(" ");
        let front = words.trim_start_matches("pub fn ");
        let (name, rest) = front.split_once('(').unwrap();
        let (arguments, returned) = rest.rsplit_once(") -> ").unwrap();
        let arguments = arguments.split(',').filter_map(|argument| argument.split_once(':'));
        let mut types: Vec<String> = arguments.map(|(_, kind)| in_c(kind.trim())).collect();
        if types.is_empty() {
            types.push("void".to_owned());
        }
        text += &format!("{} {name}({});\n", in_c(returned), types.join(", "));
    }
    text
}

/// A type of Rust as C has it.
fn in_c(kind: &str) -> String {
    if let Some(target) = kind.strip_prefix("*mut ") {
        return format!("{} *", in_c(target));
    }
    if let Some(target) = kind.strip_prefix("*const ") {
        return format!("const {} *", in_c(target));
    }
    kind.strip_prefix("c_").unwrap_or(kind).to_owned()
}

/// Whether a compiler of MPI takes a C file, and what it says; that of the MPI in use where none is named, and nothing
/// where there is no such compiler.
pub(crate) fn said_to(compiler: Option<&str>, options: &[&str], text: &str) -> Option<(bool, String)> {
    let in_use = || env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let mut compile = Command::new(compiler.map_or_else(in_use, str::to_owned));
    compile.args(options).args(["-fsyntax-only", "-x", "c", "-"]);
    let Ok(mut child) = compile.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
        assert!(
            compiler.is_none() && env::var_os("MPICC").is_none(),
            "{compile:?} does not run"
        );
        eprintln!("not compared: there is no mpicc");
        return None;
    };
    // A compiler that ends early says why below.
    _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some((output.status.success(), said))
}

/// Holds every line against the header, and sees that one which differs is found.
pub(crate) fn compare(compiler: Option<&str>, options: &[&str], text: &str, planted: &[(&str, &str)]) {
    assert!(text.lines().count() > 180, "{text}");
    if let Some((agrees, said)) = said_to(compiler, options, text) {
        assert!(agrees, "{said}");
    }
    for (line, other) in planted {
        assert!(text.contains(line), "{line}");
        if let Some((agrees, _)) = said_to(compiler, options, &text.replace(line, other)) {
            assert!(!agrees, "{other}");
        }
    }
}
