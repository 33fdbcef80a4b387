//! The C code of docs/guide.md compiles, warnings denied. Its Rust code is compiled by the documentation's tests.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

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
