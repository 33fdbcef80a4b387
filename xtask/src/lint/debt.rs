//! Places that broke a rule before the rule was there. `debt.txt` counts them by rule and folder; a count may only
//! shrink, and the file follows it down.

use super::complaint::Complaint;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const KNOWN: &str = include_str!("debt.txt");

/// Complaints by rule and top folder.
type Counts = BTreeMap<(String, String), usize>;

/// What the complaints come to against the known debt.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Balance {
    /// Rules and folders with more complaints than are known, and how many more.
    pub(super) new: Vec<String>,
    /// Rules and folders with fewer: the file has to follow.
    pub(super) paid: Vec<String>,
}

impl Balance {
    pub(super) fn is_even(&self) -> bool {
        self.new.is_empty() && self.paid.is_empty()
    }
}

/// Holds complaints against the debt that is known.
pub(super) fn balance(complaints: &[Complaint]) -> Balance {
    compare(&counts(complaints), &parse(KNOWN))
}

/// The lines of `debt.txt` that fit these complaints.
pub(super) fn lines(complaints: &[Complaint]) -> String {
    let mut text = String::new();
    for ((rule, folder), count) in counts(complaints) {
        _ = writeln!(text, "{count}\t{folder}\t{rule}");
    }
    text
}

fn counts(complaints: &[Complaint]) -> Counts {
    let mut counts = Counts::new();
    for complaint in complaints {
        let folder = complaint.path.split('/').next().unwrap_or_default();
        *counts
            .entry((complaint.rule.to_owned(), folder.to_owned()))
            .or_default() += 1;
    }
    counts
}

fn parse(text: &str) -> Counts {
    let line = |line: &str| {
        let mut fields = line.split('\t');
        let (count, folder, rule) = (fields.next()?, fields.next()?, fields.next()?);
        Some(((rule.to_owned(), folder.to_owned()), count.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

fn compare(found: &Counts, known: &Counts) -> Balance {
    let mut balance = Balance::default();
    let keys: std::collections::BTreeSet<_> = found.keys().chain(known.keys()).collect();
    for key in keys {
        let (found, known) = (
            found.get(key).copied().unwrap_or(0),
            known.get(key).copied().unwrap_or(0),
        );
        let (rule, folder) = key;
        let told = format!("{folder}: {rule}: {found}, known {known}");
        match found.cmp(&known) {
            std::cmp::Ordering::Greater => balance.new.push(told),
            std::cmp::Ordering::Less => balance.paid.push(told),
            std::cmp::Ordering::Equal => {}
        }
    }
    balance
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(path: &str) -> Complaint {
        Complaint {
            path: path.to_owned(),
            line: 1,
            rule: "line width",
            advice: String::new(),
        }
    }

    #[test]
    fn one_place_more_than_known_is_new_and_one_less_is_paid() {
        let two = [complaint("a/x.rs"), complaint("a/y.rs")];
        let known = parse("1\ta\tline width\n");
        assert_eq!(compare(&counts(&two), &known).new, ["a: line width: 2, known 1"]);
        assert!(compare(&counts(&two[..1]), &known).is_even());
        assert_eq!(compare(&Counts::new(), &known).paid, ["a: line width: 0, known 1"]);
        assert!(!compare(&counts(&[complaint("b/x.rs")]), &known).is_even());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let two = [complaint("a/x.rs"), complaint("b/y.rs")];
        assert_eq!(parse(&lines(&two)), counts(&two));
        assert!(!KNOWN.is_empty() && parse(KNOWN).len() == KNOWN.lines().count());
    }
}
