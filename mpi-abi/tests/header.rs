//! The declarations of this crate against the `mpi.h` of the MPI in use, by its own compiler: a library of another ABI
//! would take one handle for another. Where there is no MPI, nothing is there to compare with.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    env, fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// What the lines of the source do not say by themselves.
const LAYOUT: &str = "\
#include <mpi.h>
#include <stddef.h>
#define SAME(what, value) _Static_assert((long)(what) == (long)(value), #what)
SAME(sizeof(MPI_Comm), sizeof(int));
SAME(sizeof(MPI_Datatype), sizeof(int));
SAME(sizeof(MPI_Errhandler), sizeof(int));
SAME(sizeof(MPI_Group), sizeof(int));
SAME(sizeof(MPI_Info), sizeof(int));
SAME(sizeof(MPI_Message), sizeof(int));
SAME(sizeof(MPI_Op), sizeof(int));
SAME(sizeof(MPI_Request), sizeof(int));
SAME(sizeof(MPI_Session), sizeof(int));
SAME(sizeof(MPI_Win), sizeof(int));
SAME(sizeof(MPI_File), sizeof(void *));
SAME(sizeof(MPI_Aint), sizeof(long));
SAME(sizeof(MPI_Count), sizeof(long long));
SAME(sizeof(MPI_Offset), sizeof(long long));
SAME(sizeof(MPI_Status), 5 * sizeof(int));
SAME(offsetof(MPI_Status, MPI_SOURCE), 2 * sizeof(int));
SAME(offsetof(MPI_Status, MPI_TAG), 3 * sizeof(int));
SAME(offsetof(MPI_Status, MPI_ERROR), 4 * sizeof(int));
SAME(MPI_IN_PLACE, -1);
";

fn source(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name)).unwrap()
}

/// Lines of C that compile where `mpi.h` says the same.
fn all() -> String {
    let (own, types, calls) = (source("lib.rs"), source("datatypes.rs"), source("functions.rs"));
    let (_, as_called) = own.split_once("unsafe extern \"C\" {").unwrap();
    let (_, found) = calls.split_once("of_mpi! {").unwrap();
    LAYOUT.to_owned() + &constants(&own) + &constants(&types) + &functions(as_called) + &functions(found)
}

/// From lines as `pub const MPI_MAX: MPI_Op = MPI_Op(0x5800_0001);`.
fn constants(own: &str) -> String {
    let declared = own.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("pub const ")?.split_once(':')?;
        let value = rest.trim_end_matches([';', ')']).rsplit(['=', '(']).next()?.trim();
        let is_number = value.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        is_number.then(|| format!("SAME({name}, {});\n", value.replace('_', "")))
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

/// Whether the compiler of the MPI in use takes a C file, and what it says; nothing where there is no such compiler.
fn said_to(text: &str) -> Option<(bool, String)> {
    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let mut compile = Command::new(compiler);
    compile.args(["-fsyntax-only", "-x", "c", "-"]);
    let Ok(mut child) = compile.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
        assert!(env::var_os("MPICC").is_none(), "MPICC does not run");
        eprintln!("not compared: there is no mpicc");
        return None;
    };
    // A compiler that ends early says why below.
    _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some((output.status.success(), said))
}

#[test]
fn every_line_is_that_of_the_header() {
    let text = all();
    assert!(text.lines().count() > 180, "{text}");
    if let Some((agrees, said)) = said_to(&text) {
        assert!(agrees, "{said}");
    }
}

#[test]
fn a_line_that_differs_is_found() {
    let text = all();
    for (line, other) in [
        ("SAME(MPI_ERR_COMM, 5);", "SAME(MPI_ERR_COMM, 6);"),
        ("int PMPI_Barrier(MPI_Comm);", "int PMPI_Barrier(MPI_Comm, int);"),
    ] {
        assert!(text.contains(line), "{line}");
        if let Some((agrees, _)) = said_to(&text.replace(line, other)) {
            assert!(!agrees, "{other}");
        }
    }
}
