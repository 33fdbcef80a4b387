//! Holds the source to the style of the house. Each rule is a function from the tree to complaints.

use super::{
    banned_names, complaint::Complaint, decision_titles, file_heads, file_length, function_length, import_cycles,
    line_width, migrate_path, pure_crates, short_docs, unnamed_members,
};
use crate::{failure::Failure, repository::Repository, source_tree::Tree};

const RULES: [fn(&Tree) -> Vec<Complaint>; 11] = [
    line_width::check,
    function_length::check,
    file_length::check,
    file_heads::check,
    short_docs::check,
    unnamed_members::check,
    banned_names::check,
    decision_titles::check,
    import_cycles::check,
    migrate_path::check,
    pure_crates::check,
];

/// Prints each complaint as `file:line: rule: what to do`.
pub(super) fn check(repository: &Repository) -> Result<(), Failure> {
    let tree = Tree::read(&repository.root)?;
    let mut complaints: Vec<Complaint> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    complaints.sort();
    for complaint in &complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        count => Err(Failure::Style { count }),
    }
}
