//! The C code of docs/guide.md compiles, warnings denied; its two programs, and its Rust function, do what they say.
#![allow(clippy::unwrap_used, unsafe_code, reason = "a test that calls MPI")]

mod harness;

use harness::With;
use pcm::mpi::Communicator;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

include!("guide/run.rs");

/// The pieces of code of one language.
fn pieces(text: &str, language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let rest = text.split(&begin).skip(1);
    rest.map(|piece| piece.split("```").next().unwrap().to_owned())
        .collect()
}

fn mpi_headers() -> PathBuf {
    let mpicc = env::var_os("MPICC").map_or_else(|| PathBuf::from("mpicc"), PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|directory| directory.join("mpicc"));
    let mpicc = std::iter::once(mpicc).chain(found).find(|path| path.is_file());
    mpicc.unwrap().ancestors().nth(2).unwrap().join("include")
}

#[test]
fn every_piece_of_c_in_the_guide_compiles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("../docs/guide.md")).unwrap();
    let pieces = pieces(&guide, "c");
    assert!(
        pieces.len() >= 5,
        "the guide was not understood: {} pieces",
        pieces.len()
    );
    let directory = tempfile::tempdir().unwrap();
    for (number, piece) in pieces.iter().enumerate() {
        let source = directory.path().join(format!("piece{number}.c"));
        fs::write(&source, piece).unwrap();
        let output = Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
            .arg("-I")
            .arg(root.join("include"))
            .arg("-isystem")
            .arg(mpi_headers())
            .arg(&source)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{piece}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// Runs a program of the guide, made small, on two ranks.
fn program_output(piece: &str, with: With) -> String {
    let small = piece.replace(
        "CELLS = 1 << 20, ITERATIONS = 100000",
        "CELLS = 1 << 10, ITERATIONS = 300",
    );
    assert_ne!(small, piece, "the size of the guide's program was not found");
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("rod.c");
    fs::write(&source, small).unwrap();
    let program = harness::compile(directory.path(), source.to_str().unwrap(), with);
    harness::start_plain(2, &program, &[], with).output()
}

#[test]
fn the_plain_and_the_malleable_program_of_the_guide_print_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("../docs/guide.md")).unwrap();
    let pieces = pieces(&guide, "c");
    let plain = program_output(&pieces[0], With::Nothing);
    assert!(plain.contains("mean 0."), "{plain}");
    assert_eq!(program_output(&pieces[1], With::Shared), plain);
}

#[test]
fn the_rust_code_of_the_guide_is_the_code_that_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("../docs/guide.md")).unwrap();
    let run = fs::read_to_string(root.join("tests/guide/run.rs")).unwrap();
    assert_eq!(pieces(&guide, "rust,no_run"), [run]);
}

#[test]
fn the_rust_function_of_the_guide_computes() {
    if env::var_os("PMI_RANK").is_none() {
        let program = env::current_exe().unwrap();
        let arguments = ["--exact", "the_rust_function_of_the_guide_computes", "--nocapture"];
        let output = harness::start(3, &program, &arguments, With::Nothing).output();
        assert_eq!(output.matches("1 passed").count(), 3, "{output}");
        return;
    }
    // SAFETY: the first call of MPI in this process.
    let code = unsafe { mpi_abi::MPI_Init(std::ptr::null_mut(), std::ptr::null_mut()) };
    assert_eq!(code, 0);
    let rank = Communicator::world().rank().unwrap();
    let own = [334, 333, 333][rank as usize];
    assert_eq!(run(1000, 5).unwrap(), f64::from(own) / 32.0);
    // SAFETY: the last call of MPI in this process.
    assert_eq!(unsafe { mpi_abi::MPI_Finalize() }, 0);
}

#[test]
fn the_guide_names_no_call_that_the_header_lacks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("../docs/guide.md")).unwrap();
    let header = fs::read_to_string(root.join("include/pcm.h")).unwrap();
    let words = guide.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let calls = words.filter(|word| word.starts_with("pcm_") || word.starts_with("PCM_"));
    let missing: Vec<&str> = calls.filter(|word| !header.contains(word)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
