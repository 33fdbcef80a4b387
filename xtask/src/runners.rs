//! What Rust's test runners say: their counts, and the first words of each test that failed. Must never judge a test by
//! anything but its runner.

use std::fmt;

/// Lines of one failed test that are said again at the end.
const LINES_MAX: usize = 12;

/// Of one such line.
const CHARACTERS_MAX: usize = 1200;

/// Failed tests that are told again.
const FAILURES_MAX: usize = 20;

/// How tests ended.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Counts {
    /// A test that says it could not run ends as passed in its runner's count.
    pub(crate) fn move_to_skipped(&mut self, tests: usize) {
        self.passed = self.passed.saturating_sub(tests);
        self.skipped += tests;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)
        } else {
            Ok(())
        }
    }
}

/// A test that failed, with what it said when it did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FailedTest {
    name: String,
    words: Vec<String>,
}

impl fmt::Display for FailedTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed: {}", self.name)?;
        self.words.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// Follows the lines of Rust's test runners. A runner that starts and gives no result died.
#[derive(Default)]
pub(crate) struct Reader {
    is_running: bool,
    failures: Vec<FailedTest>,
    /// Within what the last of them said since it panicked.
    is_in_panic: bool,
    /// Within the part about one test.
    is_in_failure: bool,
}

impl Reader {
    pub(crate) fn take(&mut self, line: &str, counts: &mut Counts) {
        self.follow_failures(line);
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.end(counts);
            self.is_running = true;
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.is_running = false;
            let number = |what: &str| {
                let part = result.split(['.', ';']).find_map(|part| part.trim().strip_suffix(what));
                part.and_then(|number| number.trim().parse::<usize>().ok()).unwrap_or(0)
            };
            counts.passed += number("passed");
            counts.failed += number("failed");
            counts.skipped += number("ignored");
        }
    }

    pub(crate) fn end(&mut self, counts: &mut Counts) {
        counts.failed += usize::from(self.is_running);
        (self.is_running, self.is_in_failure) = (false, false);
    }

    /// What failed, in the order of its being told.
    pub(crate) fn failures(&self) -> &[FailedTest] {
        &self.failures
    }

    /// A test prints what it likes before it panics; the reason is what follows, up to the stack.
    fn follow_failures(&mut self, line: &str) {
        let heading = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = heading {
            self.is_in_panic = false;
            self.is_in_failure = self.failures.len() < FAILURES_MAX;
            if self.is_in_failure {
                self.failures.push(FailedTest {
                    name: name.to_owned(),
                    words: Vec::new(),
                });
            }
            return;
        }
        if line == "failures:" || line.starts_with("test result: ") {
            self.is_in_failure = false;
        }
        if !self.is_in_failure {
            return;
        }
        if line.starts_with("thread '") && line.contains("panicked at") {
            self.is_in_panic = true;
        } else if line == "stack backtrace:" || line.starts_with("note: run with") {
            self.is_in_panic = false;
        }
        if let Some(failure) = self.failures.last_mut()
            && self.is_in_panic
            && failure.words.len() < LINES_MAX
        {
            failure.words.push(shortened(line));
        }
    }
}

/// Its begin and its end, where the reason of an outcome mostly is.
fn shortened(line: &str) -> String {
    let length = line.chars().count();
    if length <= CHARACTERS_MAX {
        return line.to_owned();
    }
    let begin: String = line.chars().take(CHARACTERS_MAX / 2).collect();
    let end: String = line.chars().skip(length - CHARACTERS_MAX / 2).collect();
    format!("{begin} … {end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (Counts, Reader) {
        let (mut reader, mut counts) = (Reader::default(), Counts::default());
        for line in lines {
            reader.take(line, &mut counts);
        }
        reader.end(&mut counts);
        (counts, reader)
    }

    #[test]
    fn counts_are_summed_over_runners() {
        let ok = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        let bad = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s";
        let (counts, _) = read(&["running 13 tests", ok, "", "running 3 tests", bad]);
        assert_eq!(
            counts,
            Counts {
                passed: 13,
                failed: 2,
                skipped: 1
            }
        );
        assert_eq!(counts.to_string(), "13 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn a_runner_that_dies_counts_as_failed() {
        let ok = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(read(&["running 2 tests", "running 1 test", ok]).0.failed, 1);
        assert_eq!(read(&["running 2 tests"]).0.failed, 1);
    }

    #[test]
    fn a_test_that_could_not_run_is_not_counted_as_passed() {
        let mut counts = Counts {
            passed: 3,
            failed: 0,
            skipped: 0,
        };
        counts.move_to_skipped(1);
        assert_eq!(counts.to_string(), "2 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn what_a_failed_test_said_when_it_failed_is_told_again_without_its_chatter_and_stack() {
        let long = "x".repeat(5000);
        let (_, reader) = read(&[
            "failures:",
            "",
            "---- death::of_one stdout ----",
            "seed 7",
            "thread 'death::of_one' (12) panicked at tests/death.rs:3:1:",
            &long,
            "stack backtrace:",
            "   0: begin_unwind",
            "---- another stdout ----",
            "thread 'another' (13) panicked at tests/another.rs:4:1:",
            "left",
            "",
            "failures:",
            "    death::of_one",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s",
        ]);
        let told: Vec<String> = reader.failures().iter().map(FailedTest::to_string).collect();
        assert_eq!(told.len(), 2);
        assert!(told[0].starts_with("failed: death::of_one\n    thread"), "{told:?}");
        assert!(told[0].chars().count() < 1500 && !told[0].contains("seed 7") && !told[0].contains("unwind"));
        assert!(told[1].contains("another.rs:4:1:\n    left"), "{told:?}");
    }
}
