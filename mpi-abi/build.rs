//! Links the MPI that `$MPICC` (or `mpicc`) compiles for. Has that compiler hold `src/lib.rs` against its `mpi.h`
//! first: a library of another ABI would take one handle for another.

use std::{
    env, fs,
    io::Write as _,
    path::Path,
    process::{Command, ExitCode, Stdio},
};

const ADVICE: &str = "set MPICC to the compiler wrapper of an MPICH 4.2 or newer (cargo xtask setup does)";

/// What the lines of `src/lib.rs` do not say by themselves.
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
";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/lib.rs");
    println!("cargo::rerun-if-env-changed=MPICC");
    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    match agree(&compiler).and_then(|()| link(&compiler)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("cargo::error={reason}; {ADVICE}");
            ExitCode::FAILURE
        }
    }
}

fn link(compiler: &str) -> Result<(), String> {
    let output = Command::new(compiler).arg("-show").output();
    let output = output.map_err(|error| format!("cannot run {compiler}: {error}"))?;
    for word in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        if let Some(folder) = word.strip_prefix("-I") {
            let header = Path::new(folder).join("mpi.h");
            // Cargo takes a file that is not there for one that has changed.
            if header.is_file() {
                println!("cargo::rerun-if-changed={}", header.display());
            }
        } else if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo::rustc-link-search=native={folder}");
        } else if let Some(library) = word.strip_prefix("-l") {
            println!("cargo::rustc-link-lib={library}");
        }
    }
    Ok(())
}

/// Compiles the declarations beside those of `mpi.h`: one that differs is an error.
fn agree(compiler: &str) -> Result<(), String> {
    let own = fs::read_to_string("src/lib.rs").map_err(|error| format!("src/lib.rs: {error}"))?;
    let text = format!("{LAYOUT}{}{}", constants(&own), functions(&own)?);
    let mut child = Command::new(compiler)
        .args(["-fsyntax-only", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run {compiler}: {error}"))?;
    let mut input = child.stdin.take().ok_or("the compiler has no input")?;
    // A compiler that ends early says why below.
    _ = input.write_all(text.as_bytes());
    drop(input);
    let output = child
        .wait_with_output()
        .map_err(|error| format!("{compiler}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said
        .lines()
        .find(|line| line.contains("error"))
        .unwrap_or("it says nothing");
    Err(format!(
        "the mpi.h of {compiler} is of another ABI than that of MPICH in mpi-abi/src/lib.rs: {first}"
    ))
}

/// From lines as `pub const MPI_MAX: MPI_Op = MPI_Op(0x5800_0001);`.
fn constants(own: &str) -> String {
    let declared = own.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("pub const ")?.split_once(':')?;
        let value = rest.trim_end_matches([';', ')']).rsplit(['=', '(']).next()?.trim();
        Some(format!("SAME({name}, {});\n", value.replace('_', "")))
    });
    declared.collect()
}

/// The functions once more, in C.
fn functions(own: &str) -> Result<String, String> {
    let (_, block) = own
        .split_once("unsafe extern \"C\" {")
        .ok_or("src/lib.rs has no functions")?;
    let mut text = String::new();
    for declaration in block.split(';').filter(|part| part.contains("pub fn ")) {
        let words: Vec<&str> = declaration.split_whitespace().collect();
        let words = words.join(" ");
        let front = words.trim_start_matches("pub fn ");
        let (name, rest) = front.split_once('(').ok_or(front)?;
        let (arguments, returned) = rest.rsplit_once(") -> ").ok_or(front)?;
        let arguments = arguments.split(',').filter_map(|argument| argument.split_once(':'));
        let mut types: Vec<String> = arguments.map(|(_, kind)| in_c(kind.trim())).collect();
        if types.is_empty() {
            types.push("void".to_owned());
        }
        text += &format!("{} {name}({});\n", in_c(returned), types.join(", "));
    }
    Ok(text)
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
