//! Holds the source to the style of the house. Each rule is a function from the tree to complaints.

use super::{
    banned_names, complaint::Complaint, debt, decision_titles, file_heads, file_length, function_length, import_cycles,
    line_width, migrate_path, pure_crates, short_docs, unnamed_members, unsafe_list,
};
use crate::{failure::Failure, repository::Repository, source_tree::Tree};

const RULES: [fn(&Tree) -> Vec<Complaint>; 12] = [
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
    unsafe_list::check,
];

/// Prints each complaint as `file:line: rule: what to do`. Places that are known debt do not fail the check; a new one
/// does, and so does a list of debt that is longer than the debt.
pub(super) fn check(repository: &Repository) -> Result<(), Failure> {
    let tree = Tree::read(&repository.root)?;
    let mut complaints: Vec<Complaint> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    complaints.sort();
    let balance = debt::balance(&complaints);
    if balance.is_even() {
        println!(
            "style: {} places are known debt (xtask/src/lint/debt.txt)",
            complaints.len()
        );
        return Ok(());
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    for more in &balance.new {
        println!("more than the known debt: {more}");
    }
    for less in &balance.paid {
        println!("less than the known debt: {less}");
    }
    println!(
        "debt.txt would be, if it may not be less:\n{}",
        debt::lines(&complaints)
    );
    let count = balance.new.len() + balance.paid.len();
    Err(Failure::Style { count })
}
