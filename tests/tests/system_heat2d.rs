//! heat2d under plain mpiexec: the same bits on any number of ranks, in both languages.

use std::{process::Command, time::Duration};
use tests::{
    binaries::{built, mpiexec},
    heat2d::{Closing, reference_checksum},
    limited::{self, Outcome},
};

const PROGRAMS: [&str; 3] = ["heat2d", "heat2d-c", "heat2d-c-plain"];

/// Seven ranks on two cores start in about a second; this is for a machine that does much else.
const LIMIT: Duration = Duration::from_secs(120);

fn heat2d(program: &str, ranks: u32, arguments: &str) -> Outcome {
    let mut command = Command::new(mpiexec());
    command
        .args(["-n", &ranks.to_string()])
        .arg(built(program))
        .args(arguments.split_whitespace());
    limited::run(&mut command, LIMIT)
}

fn checksum(program: &str, ranks: u32, arguments: &str) -> String {
    let outcome = heat2d(program, ranks, arguments);
    assert!(outcome.status.success(), "{program} on {ranks} ranks: {outcome:?}");
    let closing = Closing::read(&outcome.stdout);
    assert_eq!(closing.ranks, ranks, "{program}");
    closing.checksum
}

#[test]
fn the_checksum_is_the_reference_on_any_number_of_ranks_in_both_languages() {
    let expected = reference_checksum(61, 83, 200);
    for program in PROGRAMS {
        for ranks in [1, 2, 3, 4, 7] {
            assert_eq!(
                checksum(program, ranks, "--rows 61 --cols 83 --iterations 200"),
                expected,
                "{program} on {ranks}"
            );
        }
    }
}

#[test]
fn ranks_beyond_the_rows_stay_empty_and_change_nothing() {
    let expected = reference_checksum(3, 9, 20);
    for program in PROGRAMS {
        assert_eq!(
            checksum(program, 4, "--rows 3 --cols 9 --iterations 20"),
            expected,
            "{program}"
        );
    }
}

#[test]
fn another_result_has_another_checksum() {
    let one = checksum("heat2d-c", 2, "--rows 20 --cols 20 --iterations 10");
    assert_ne!(one, checksum("heat2d-c", 2, "--rows 20 --cols 20 --iterations 11"));
    assert_ne!(one, checksum("heat2d-c", 2, "--rows 20 --cols 21 --iterations 10"));
}

#[test]
fn progress_goes_to_stderr_and_reaches_the_last_iteration() {
    for program in PROGRAMS {
        let outcome = heat2d(
            program,
            2,
            "--rows 10 --cols 10 --iterations 30 --sleep-us 1000 --progress",
        );
        assert_eq!(outcome.stdout.lines().count(), 1, "{program}: {outcome:?}");
        assert!(
            outcome.stderr.contains("heat2d: iteration 30 of 30"),
            "{program}: {outcome:?}"
        );
        assert!(
            Closing::read(&outcome.stdout).seconds >= 0.03,
            "{program} slept in each iteration"
        );
    }
}

#[test]
fn a_wrong_command_line_is_named_once_and_ends_with_code_2() {
    for program in PROGRAMS {
        for arguments in [
            "--rows 2 --cols 9 --iterations 1",
            "--rows 9 --cols 9",
            "--rows 9 --cols 9 --iterations",
            "--what",
        ] {
            let outcome = heat2d(program, 2, arguments);
            assert_eq!(outcome.status.code(), Some(2), "{program} {arguments}: {outcome:?}");
            assert_eq!(
                outcome.stderr.matches("usage: heat2d").count(),
                1,
                "{program} {arguments}: {outcome:?}"
            );
        }
    }
}

#[test]
fn help_is_no_error() {
    for program in PROGRAMS {
        let outcome = heat2d(program, 2, "--help");
        assert!(
            outcome.status.success() && outcome.stdout.contains("Example: mpiexec"),
            "{program}: {outcome:?}"
        );
    }
}
