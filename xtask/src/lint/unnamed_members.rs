//! What a function takes has names: a tuple of three says nothing about its members.

use super::complaint::Complaint;
use crate::source_tree::{Tree, functions};

const MEMBERS_MAX: usize = 2;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.rust() {
        for function in functions(file) {
            let members = function.longest_tuple();
            if function.is_public && members > MEMBERS_MAX {
                complaints.push(Complaint {
                    path: file.path.clone(),
                    line: file.line_of(function.start),
                    rule: "unnamed-members",
                    advice: format!(
                        "`{}` takes a tuple of {members}; make it a struct with named fields",
                        function.name
                    ),
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
    fn a_tuple_of_three_is_found_in_public_functions_only() {
        let text = "fn a(x: (u8, u8, u8)) {}\npub(super) fn b(x: &[(u8, u8, u8)]) {}\npub fn c(x: (u8, u8)) {}\n";
        let found = check(&planted(&[("a/src/lib.rs", text)]));
        let lines: Vec<_> = found.iter().map(|one| one.line).collect();
        assert_eq!(lines, [2]);
    }
}
