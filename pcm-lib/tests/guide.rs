//! The code of the guides in docs/ compiles, warnings denied, and does what they say; what is said to be from an
//! example is literally there.
#![allow(clippy::unwrap_used, unsafe_code, reason = "a test that calls MPI")]

mod harness;
#[path = "../../tests/src/pieces.rs"]
#[allow(unreachable_pub, reason = "the package tests has it, too")]
mod pieces;

use harness::With;
use pcm_lib::mpi::Communicator;
use pieces::{Piece, all_pieces, literal_pieces, pieces, root};
use std::{env, fs, path::PathBuf, process::Command};

include!("guide/run.rs");

const GUIDES: [&str; 3] = ["guide.md", "guide-data.md", "llms.txt"];

fn mpi_headers() -> PathBuf {
    let mpicc = env::var_os("MPICC").map_or_else(|| PathBuf::from("mpicc"), PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|directory| directory.join("mpicc"));
    let mpicc = std::iter::once(mpicc).chain(found).find(|path| path.is_file());
    mpicc.unwrap().ancestors().nth(2).unwrap().join("include")
}

#[test]
fn every_piece_of_c_in_the_guide_compiles() {
    let pieces: Vec<String> = GUIDES.iter().flat_map(|guide| pieces(guide, "c")).collect();
    assert!(
        pieces.len() >= 8,
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
            .arg(root().join("pcm-lib/include"))
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
fn every_piece_is_compiled_or_literally_in_the_example_it_names() {
    for Piece { language, code, from } in GUIDES.iter().flat_map(|guide| all_pieces(guide)) {
        let is_compiled = ["c", "rust,no_run", "sh"].contains(&language.as_str());
        assert!(from.is_some() || is_compiled, "{language}:\n{code}");
    }
    let from_examples: usize = GUIDES.iter().map(|guide| literal_pieces(guide)).sum();
    assert!(from_examples >= 9, "{from_examples}");
}

/// A page that an assistant reads at once.
#[test]
fn the_page_for_assistants_is_short() {
    let lines = fs::read_to_string(root().join("docs/llms.txt"))
        .unwrap()
        .lines()
        .count();
    assert!((100..=200).contains(&lines), "{lines} lines");
}

/// Lines that a malleable version has and its plain one has not.
fn added(plain: &str, malleable: &str) -> usize {
    let output = Command::new("diff")
        .args([plain, malleable].map(|path| root().join("examples").join(path)))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| line.starts_with("> ")).count()
}

#[test]
fn the_guide_counts_the_lines_that_make_the_examples_malleable() {
    let guide = fs::read_to_string(root().join("docs/guide-data.md")).unwrap();
    let counted = [
        (
            "particles",
            added("particles/particles-plain.c", "particles/particles.c"),
        ),
        (
            "sparse_cg",
            added("sparse_cg/sparse_cg-plain.cpp", "sparse_cg/sparse_cg.cpp"),
        ),
        ("python", added("python/gray_scott_plain.py", "python/gray_scott.py")),
    ];
    for (example, lines) in counted {
        let row = guide
            .lines()
            .find(|line| line.starts_with(&format!("| `examples/{example}` |")))
            .unwrap();
        assert!(row.ends_with(&format!("| {lines} |")), "{lines} lines, but: {row}");
    }
}

#[test]
fn the_c_code_on_grids_and_timers_does_what_is_said() {
    let main = fs::read_to_string(root().join("pcm-lib/tests/guide/main.c")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("pieces.c");
    fs::write(&source, pieces("guide-data.md", "c").concat() + &main).unwrap();
    let program = harness::compile(directory.path(), source.to_str().unwrap(), With::Shared);
    for ranks in [6, 3] {
        let output = harness::start_plain(ranks, &program, &[], With::Shared).output();
        assert_eq!(output.matches("is right").count(), ranks, "{output}");
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
    let pieces = pieces("guide.md", "c");
    let plain = program_output(&pieces[0], With::Nothing);
    assert!(plain.contains("mean 0."), "{plain}");
    assert_eq!(program_output(&pieces[1], With::Shared), plain);
}

#[test]
fn the_rust_code_of_the_guide_is_the_code_that_is_run() {
    let run = fs::read_to_string(root().join("pcm-lib/tests/guide/run.rs")).unwrap();
    assert_eq!(pieces("guide.md", "rust,no_run"), [run]);
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
fn the_guide_to_rust_has_the_example_and_pieces_that_are_compiled() {
    let pieces = all_pieces("guide-rust.md");
    let example = fs::read_to_string(root().join("pcm-rust/examples/rod.rs")).unwrap();
    assert_eq!(pieces[0].code, example);
    for Piece { language, code, from } in pieces {
        let is_compiled = ["rust,no_run", "sh", "toml"].contains(&language.as_str());
        assert!(from.is_some() || is_compiled, "{language}:\n{code}");
    }
    assert_eq!(literal_pieces("guide-rust.md"), 2);
}

#[test]
fn the_guide_names_no_call_that_the_header_lacks() {
    let header = fs::read_to_string(root().join("pcm-lib/include/pcm.h")).unwrap();
    for guide in GUIDES {
        let text = fs::read_to_string(root().join("docs").join(guide)).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let calls = words.filter(|word| word.starts_with("pcm_") || word.starts_with("PCM_"));
        let missing: Vec<&str> = calls.filter(|word| !header.contains(word)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
