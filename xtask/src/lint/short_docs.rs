//! Documentation says more than a name does: a comment of two words cannot.

use super::complaint::Complaint;
use crate::source_tree::Tree;

const WORDS_MIN: usize = 3;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.rust() {
        let mut lines = file.text.lines().map(documentation).zip(1..).peekable();
        let mut before = None;
        while let Some((text, number)) = lines.next() {
            let stands_alone = before.is_none() && lines.peek().is_none_or(|(next, _)| next.is_none());
            if let Some(text) = text
                && stands_alone
                && text.split_whitespace().count() < WORDS_MIN
            {
                complaints.push(Complaint {
                    path: file.path.clone(),
                    line: number,
                    rule: "short-doc",
                    advice: format!("\"{text}\" says no more than the name; delete it, or say what the name cannot"),
                });
            }
            before = text;
        }
    }
    complaints
}

fn documentation(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("///").map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source_tree::planted::planted;

    #[test]
    fn two_words_alone_are_found_and_two_words_of_many_are_not() {
        let text = "/// Which one.\npub a: u8,\n/// Which one\n/// it is.\npub b: u8,\n\
                    \x20   /// Bytes of it.\npub c: u8,\n    /// Bytes.\n";
        let found = check(&planted(&[("a/src/lib.rs", text)]));
        let lines: Vec<_> = found.iter().map(|one| one.line).collect();
        assert_eq!(lines, [1, 8]);
    }
}
