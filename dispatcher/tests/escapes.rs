//! What `pcmctl` says of files that it finds does nothing to the terminal.

#![allow(clippy::unwrap_used, reason = "a test")]

use pcm_checkpoint::{Checkpoint, Draft};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Clears the screen, gives the terminal a title, turns the order of letters around.
const ACTING: &str = "\x1b[2J\x1b]0;title\x07\u{202e}";

/// A checkpoint, and a program, with such names.
fn checkpoint(folder: &Path) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pcm-checkpoint/tests/golden/v1");
    let mut manifest = Checkpoint::open(&golden).unwrap().manifest().clone();
    let application = &mut manifest.application;
    for text in [
        &mut application.name,
        &mut application.program,
        &mut application.arguments[0],
        &mut application.directory,
        &mut manifest.regions[0].name,
    ] {
        text.push_str(ACTING);
    }
    let draft = Draft::begin(&folder.join(format!("heat{ACTING}-12"))).unwrap();
    for (_, part) in manifest.parts() {
        fs::copy(golden.join(&part.file), draft.directory().join(&part.file)).unwrap();
    }
    draft.publish(&manifest).unwrap()
}

#[test]
fn names_of_jobs_manifests_and_paths_say_what_they_say_and_do_nothing_to_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let kept = home.path().join("kept");
    fs::create_dir(&kept).unwrap();
    let sound = checkpoint(&kept);
    let (unfinished, damaged) = (format!(".x{ACTING}.partial-1-77"), format!("damaged{ACTING}"));
    fs::create_dir(kept.join(unfinished)).unwrap();
    fs::create_dir(kept.join(&damaged)).unwrap();
    fs::write(kept.join(damaged).join("SEAL"), "none").unwrap();
    let none = home.path().join(format!("none{ACTING}"));
    let name = format!("a{ACTING}");
    let lines: [(&[&str], &[&Path], &str); 6] = [
        (&["checkpoints"], &[&kept], "is unfinished"),
        (&["checkpoints", "--json"], &[&kept], "is not the seal"),
        (&["checkpoints", "show"], &[&sound], "iteration 42"),
        (&["restart", "--newest"], &[&none], "nothing is run"),
        (&["restart"], &[&sound], "continues from iteration 42"),
        (&["restart", "--name", &name], &[&sound], "--name"),
    ];
    for (words, paths, expected) in lines {
        let ran = Command::new(env!("CARGO_BIN_EXE_pcmctl"))
            .arg("--cluster")
            .arg(home.path().join("no-cluster"))
            .args(words)
            .args(paths)
            .output()
            .unwrap();
        let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
        assert!(said.contains(expected), "{words:?}: {said:?}");
        assert!(!said.contains(['\x1b', '\x07', '\u{202e}']), "{words:?}: {said:?}");
        assert!(said.contains("u001b") || said.contains("u{1b}"), "{words:?}: {said:?}");
    }
}
