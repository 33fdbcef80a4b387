//! What the conformance program says, as values, and the list of outcomes that are known to differ. Must never decide
//! which difference is right.

use std::{collections::BTreeMap, fmt, fs, path::Path};

/// By check: `ok`, `FAIL` or `REFUSED`, and the reason.
pub type Outcomes = BTreeMap<String, Outcome>;

/// How one check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub word: String,
    pub reason: String,
}

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// Where the program runs.
    pub place: String,
    pub check: String,
    pub word: String,
    pub why: String,
}

/// The outcomes in the output of a program, one map for each time it ran all its checks.
pub fn read(output: &str) -> Vec<Outcomes> {
    let mut rounds = Vec::new();
    for line in output.lines() {
        if line.starts_with("== ") {
            rounds.push(Outcomes::new());
            continue;
        }
        let mut words = line.splitn(3, ' ');
        let (Some(check), Some(word)) = (words.next(), words.next()) else {
            continue;
        };
        if let (true, Some(round)) = (matches!(word, "ok" | "FAIL" | "REFUSED"), rounds.last_mut()) {
            let (word, reason) = (word.to_owned(), words.next().unwrap_or_default().to_owned());
            round.insert(check.to_owned(), Outcome { word, reason });
        }
    }
    rounds
}

/// The list of differences that are known.
///
/// # Panics
/// When the file is not as its head says.
pub fn known(path: &Path) -> Vec<Difference> {
    let text = fs::read_to_string(path).expect("the list of differences");
    let lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let read = |line: &str| {
        let (place, rest) = line.split_once(" | ").unwrap_or_default();
        let words: Vec<&str> = rest.splitn(3, ' ').collect();
        let [check, word, why] = words[..] else {
            panic!("not a place and a bar, check, outcome, reason: {line}");
        };
        let [place, check, word, why] = [place, check, word, why].map(str::to_owned);
        Difference {
            place,
            check,
            word,
            why,
        }
    };
    lines.map(read).collect()
}

/// The list as a table for people.
pub fn table(differences: &[Difference]) -> String {
    let mut text = "| where | check | outcome | why |\n| --- | --- | --- | --- |\n".to_owned();
    for Difference {
        place,
        check,
        word,
        why,
    } in differences
    {
        text += &format!("| {place} | `{check}` | {word} | {why} |\n");
    }
    text
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.word, self.reason)
    }
}
