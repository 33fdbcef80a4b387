//! Lines of programs fit on the screen: strings and comments count too, which rustfmt leaves as they are.

use super::complaint::Complaint;
use crate::source_tree::Tree;

const COLUMNS_MAX: usize = 120;

const ENDINGS: [&str; 6] = [".rs", ".c", ".h", ".py", ".js", ".sh"];

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in &tree.files {
        if !ENDINGS.iter().any(|ending| file.path.ends_with(ending)) {
            continue;
        }
        for (line, number) in file.text.lines().zip(1..) {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                complaints.push(Complaint {
                    path: file.path.clone(),
                    line: number,
                    rule: "line-width",
                    advice: format!("{columns} columns; break the line at {COLUMNS_MAX}"),
                });
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source_tree::planted::planted;

    #[test]
    fn the_line_after_column_120_is_found_in_strings_and_comments() {
        let fits = format!("// {}", "ä".repeat(117));
        let text = format!("{fits}\n{fits}a\nconst A: &str = \"{}\";\n", "b".repeat(103));
        let found = check(&planted(&[("a/src/lib.rs", &text), ("docs/a.md", &text)]));
        let lines: Vec<_> = found.iter().map(|one| one.line).collect();
        assert_eq!(lines, [2, 3]);
        assert_eq!(
            found[0].to_string(),
            "a/src/lib.rs:2: line-width: 121 columns; break the line at 120"
        );
    }
}
