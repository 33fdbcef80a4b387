//! A program's results do not depend on libpcm: not without a daemon, not with one, linked or preloaded.
#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use harness::{With, compile, start, start_plain};
use std::{path::Path, process::Command};

const RANKS: [usize; 3] = [1, 2, 5];

struct Programs {
    folder: tempfile::TempDir,
}

impl Programs {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn data(&self) -> String {
        self.path().join("results.bin").to_string_lossy().into_owned()
    }
}

#[test]
fn results_without_a_daemon_are_those_of_plain_mpi() {
    let programs = Programs::new();
    let plain = compile(programs.path(), "results.c", With::Nothing);
    for ranks in RANKS {
        let expected = start_plain(ranks, &plain, &[&programs.data()], With::Nothing).output();
        assert!(expected.lines().count() > 30, "{expected}");
        for with in [With::Preload, With::Shared, With::Static] {
            let program = compile(programs.path(), "results.c", with);
            let found = start_plain(ranks, &program, &[&programs.data()], with).output();
            assert_eq!(found, expected, "{ranks} ranks, {with:?}");
        }
    }
}

#[test]
fn results_under_a_daemon_are_those_of_plain_mpi() {
    let programs = Programs::new();
    let plain = compile(programs.path(), "results.c", With::Nothing);
    for ranks in RANKS {
        let expected = start_plain(ranks, &plain, &[&programs.data()], With::Nothing).output();
        for with in [With::Preload, With::Shared, With::Static] {
            let program = compile(programs.path(), "results.c", with);
            let found = start(ranks, &program, &[&programs.data()], with).output();
            assert_eq!(found, expected, "{ranks} ranks, {with:?}");
        }
    }
}

#[test]
fn results_with_many_threads_are_those_of_plain_mpi() {
    let programs = Programs::new();
    let plain = compile(programs.path(), "results.c", With::Nothing);
    let arguments = [programs.data(), "multiple".to_owned()];
    let arguments = [arguments[0].as_str(), arguments[1].as_str()];
    let expected = start_plain(2, &plain, &arguments, With::Nothing).output();
    assert_eq!(start(2, &plain, &arguments, With::Preload).output(), expected);
}

#[test]
fn programs_without_mpi_do_not_notice_the_preloaded_library() {
    for (program, arguments) in [
        ("bash", ["-c", "echo yes; (exit 3)"]),
        ("python3", ["-c", "print('yes'); exit(3)"]),
    ] {
        let output = Command::new(program)
            .args(arguments)
            .envs(harness::preload())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "yes\n", "{program}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{program}");
        assert_eq!(output.status.code(), Some(3), "{program}");
    }
}
