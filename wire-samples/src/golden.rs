//! Golden files: the bytes of all samples as text, and the version they belong to. Bytes that change under the same
//! version are an error.

use super::samples::{Sample, Samples};
use serde::de::DeserializeOwned;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Set to `write`, it has golden files written instead of compared.
const VARIABLE: &str = "PCM_GOLDEN";

/// Lines that differ of which a failure shows the beginning.
const SHOWN_MAX: usize = 8;
const SHOWN_CHARACTERS: usize = 160;

/// The version that a golden file belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// The constant that holds it, and the file where that is.
    pub constant: &'static str,
    pub source: &'static str,
    pub number: u16,
    /// Writes all golden files of this version again.
    pub command: &'static str,
}

/// How messages become bytes and bytes messages.
#[derive(Debug)]
pub struct Wire<T> {
    pub encode: fn(&T) -> Vec<u8>,
    pub decode: fn(&[u8]) -> T,
}

/// The content of a golden file.
#[derive(Debug)]
pub struct Golden {
    pub samples: Samples,
    lines: Vec<String>,
}

impl Golden {
    /// With texts to try where a type refuses the name of its field.
    pub fn trying(texts: &[&'static str]) -> Self {
        Self {
            samples: Samples::trying(texts),
            lines: Vec::new(),
        }
    }

    /// Adds the samples of a type under a name. What is read back from a sample's bytes must have the same bytes.
    pub fn add<T: DeserializeOwned>(&mut self, name: &str, wire: &Wire<T>) {
        for Sample { path, shown, value } in self.samples.of::<T>() {
            let more = shown.iter().filter(|choice| !path.contains(choice));
            let mut title = name.to_owned();
            path.iter().for_each(|choice| _ = write!(title, " {choice}"));
            more.for_each(|choice| _ = write!(title, " +{choice}"));
            let bytes = (wire.encode)(&value);
            let again = (wire.encode)(&(wire.decode)(&bytes));
            assert!(bytes == again, "{title}: what was read is not what was written");
            self.lines.push(format!("{title} = {}", bytes.escape_ascii()));
        }
    }

    /// Adds something else that both sides must agree on.
    pub fn add_line(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Compares with the file, or writes it where the variable says so. Fails with what to do.
    pub fn check(&self, file: &Path, version: &Version) {
        assert_eq!(self.samples.missing(), [], "variants without a sample");
        println!(
            "{}: {} variants of {} enums",
            file.display(),
            self.samples.count(),
            self.samples.enums().count()
        );
        let is_to_be_written = std::env::var(VARIABLE).is_ok_and(|value| value == "write");
        let old = fs::read_to_string(file).unwrap_or_default();
        match compare(&old, &self.lines, version, is_to_be_written) {
            Ok(None) => {}
            Ok(Some(text)) => fs::write(file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display())),
            Err(problem) => panic!("{}: {problem}", file.display()),
        }
    }
}

/// The text to write, if any, or what is wrong.
fn compare(old: &str, lines: &[String], version: &Version, is_to_be_written: bool) -> Result<Option<String>, String> {
    let Version {
        constant,
        source,
        number,
        command,
    } = version;
    let mut text = format!("# Written by: {command}\n{constant} {number}\n");
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    let old_lines: Vec<&str> = old.lines().skip(2).collect();
    let is_same_version = old.lines().nth(1) == text.lines().nth(1);
    if is_same_version && old_lines != lines {
        return Err(format!(
            "bytes changed, but {constant} is still {number}. Raise {constant} in {source} by one, then run \
             `{command}`. \
             (While a change is in the works: first take the golden file back to what it was.)\n{}",
            differences(&old_lines, lines)
        ));
    }
    match (is_to_be_written, old == text) {
        (_, true) => Ok(None),
        (true, false) => Ok(Some(text)),
        (false, false) => Err(format!("the file is not of {constant} {number}; run `{command}`")),
    }
}

fn differences(old: &[&str], new: &[String]) -> String {
    let gone = old
        .iter()
        .filter(|line| !new.iter().any(|other| other == *line))
        .map(|line| ("-", *line));
    let come = new
        .iter()
        .filter(|line| !old.contains(&line.as_str()))
        .map(|line| ("+", line.as_str()));
    let shown = gone.take(SHOWN_MAX).chain(come.take(SHOWN_MAX)).map(|(sign, line)| {
        let beginning: String = line.chars().take(SHOWN_CHARACTERS).collect();
        format!("{sign} {beginning}\n")
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: Version = Version {
        constant: "WIRE",
        source: "wire.rs",
        number: 3,
        command: "write it",
    };

    fn lines(bytes: &str) -> Vec<String> {
        vec!["A = x".to_owned(), format!("B = {bytes}")]
    }

    fn written(bytes: &str, number: u16) -> String {
        let version = Version { number, ..VERSION };
        compare("", &lines(bytes), &version, true).unwrap().unwrap()
    }

    #[test]
    fn bytes_that_change_need_another_version_also_to_be_written() {
        let old = written("y", 3);
        for is_to_be_written in [false, true] {
            assert_eq!(compare(&old, &lines("y"), &VERSION, is_to_be_written), Ok(None));
            let problem = compare(&old, &lines("z"), &VERSION, is_to_be_written).unwrap_err();
            assert!(
                problem.contains("Raise WIRE in wire.rs") && problem.ends_with("- B = y\n+ B = z\n"),
                "{problem}"
            );
        }
    }

    #[test]
    fn another_version_needs_the_file_written_again() {
        let old = written("y", 2);
        assert!(
            compare(&old, &lines("y"), &VERSION, false)
                .unwrap_err()
                .contains("run `write it`")
        );
        assert_eq!(compare(&old, &lines("z"), &VERSION, true), Ok(Some(written("z", 3))));
    }
}
