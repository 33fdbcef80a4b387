//! The title of a decision bears the number of its file, by which other pages name it.

use super::complaint::Complaint;
use crate::source_tree::Tree;

const FOLDER: &str = "docs/decisions/";

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix(FOLDER) else {
            continue;
        };
        let of_name = name.split('-').next().and_then(|number| number.parse::<u32>().ok());
        let title = file.text.lines().next().unwrap_or_default();
        let of_title = title
            .strip_prefix("# ")
            .and_then(|title| title.split_once(". "))
            .and_then(|(number, _)| number.parse::<u32>().ok());
        if of_name.is_none() || of_name != of_title {
            let number = of_name.map_or_else(|| "NUMBER".into(), |number| number.to_string());
            complaints.push(Complaint {
                path: file.path.clone(),
                line: 1,
                rule: "decision-title",
                advice: format!("begin the file with `# {number}. ` as its name does, not with `{title}`"),
            });
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source_tree::planted::planted;

    #[test]
    fn another_number_and_none_at_all_are_found() {
        let found = check(&planted(&[
            ("docs/decisions/0007-a.md", "# 7. A\n"),
            ("docs/decisions/0009-b.md", "# 6. B\n"),
            ("docs/decisions/0010-c.md", "# C\n"),
        ]));
        let advice: Vec<_> = found.iter().map(|one| one.advice.as_str()).collect();
        assert_eq!(
            advice,
            [
                "begin the file with `# 9. ` as its name does, not with `# 6. B`",
                "begin the file with `# 10. ` as its name does, not with `# C`"
            ]
        );
    }
}
