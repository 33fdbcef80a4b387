//! `cargo xtask lint`: the rules that every change keeps. One rule, one file; must never change a file.

mod banned_names;
mod complaint;
mod debt;
mod decision_titles;
mod file_heads;
mod file_length;
mod function_length;
mod import_cycles;
mod licences;
mod line_width;
mod migrate_path;
mod pure_crates;
mod run;
mod short_docs;
mod style;
mod unnamed_members;
mod unsafe_list;

pub(crate) use licences::packages;
pub(crate) use run::{Extent, run};
