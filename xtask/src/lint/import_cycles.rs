//! Files that import each other in a circle are one file in the head of whoever reads them: a few at most.

use super::complaint::Complaint;
use crate::source_tree::{Cycle, Tree, import_cycles};

const FILES_MAX: usize = 3;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let crates = tree.crates();
    let cycles = crates.iter().flat_map(|folder| import_cycles(tree, folder));
    cycles
        .filter(|cycle| cycle.files.len() > FILES_MAX)
        .filter_map(|cycle| complaint(&cycle))
        .collect()
}

fn complaint(cycle: &Cycle) -> Option<Complaint> {
    let first = cycle.way.first()?;
    let module = |path: &str| {
        let path = path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
        path.rsplit('/').next().unwrap_or(path).to_string()
    };
    let modules: Vec<String> = cycle.files.iter().map(|path| module(path)).collect();
    let steps: Vec<String> = cycle
        .way
        .iter()
        .map(|step| format!("{} takes {} of {}", module(&step.from), step.name, module(&step.to)))
        .collect();
    Some(Complaint {
        path: first.from.clone(),
        line: first.line,
        rule: "import-cycle",
        advice: format!(
            "{} files import each other ({}), for example {}; move what both sides need into a file that imports \
             neither",
            cycle.files.len(),
            modules.join(", "),
            steps.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source_tree::planted::planted;

    #[test]
    fn a_circle_of_four_files_is_found_with_its_modules_and_names() {
        let files = [
            ("a/src/lib.rs", "mod w;\nmod x;\nmod y;\nmod z;\n"),
            ("a/src/w.rs", "\nuse crate::x::X;\npub struct W;\n"),
            ("a/src/x.rs", "use super::y::Y;\npub struct X;\n"),
            ("a/src/y.rs", "use super::z::Z;\npub struct Y;\n"),
            ("a/src/z.rs", "use super::w::W;\npub struct Z;\n"),
        ];
        let found = check(&planted(&files));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("a/src/w.rs", 2));
        let advice = "4 files import each other (w, x, y, z), for example w takes X of x, x takes Y of y, \
                      y takes Z of z, z takes W of w; ";
        assert!(found[0].advice.starts_with(advice), "{}", found[0].advice);
        let three = [
            files[0],
            files[1],
            files[2],
            ("a/src/y.rs", "use super::w::W;\npub struct Y;\n"),
        ];
        assert!(check(&planted(&three)).is_empty());
    }
}
