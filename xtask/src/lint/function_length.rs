//! A function fits on a screen.

use super::complaint::Complaint;
use crate::source_tree::{Tree, functions};

const LINES_MAX: usize = 70;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.rust() {
        for function in functions(file).iter().filter(|function| function.lines > LINES_MAX) {
            complaints.push(Complaint {
                path: file.path.clone(),
                line: file.line_of(function.start),
                rule: "function-length",
                advice: format!(
                    "`{}` has {} lines; move a part with a name of its own out until {LINES_MAX} are left",
                    function.name, function.lines
                ),
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
    fn a_function_of_71_lines_is_found() {
        let function = |lines: usize| format!("fn f{lines}() {{\n{}}}\n", "    // {\n".repeat(lines - 2));
        let text = function(70) + &function(71);
        let found = check(&planted(&[("a/src/lib.rs", &text)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 71);
        assert!(found[0].advice.contains("`f71` has 71 lines"));
    }
}
