//! The list of files between `pcmctl migrate` and the new process is true.

use super::complaint::Complaint;
use crate::{house::migrate_path, source_tree::Tree};

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    migrate_path::broken(tree)
        .into_iter()
        .map(|broken| Complaint {
            path: migrate_path::LIST.into(),
            line: broken.line,
            rule: "migrate-path",
            advice: broken.advice,
        })
        .collect()
}
