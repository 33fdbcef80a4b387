//! The repository's source read as text: files, functions, modules and what they import. Must never compile or change
//! anything.

mod crates;
mod cycles;
mod file;
mod functions;
mod imports;
mod mask;
mod modules;
#[cfg(test)]
pub(crate) mod planted;
mod structs;
mod test_parts;
mod tokens;
mod use_trees;

pub(crate) use crates::Tree;
pub(crate) use cycles::{Cycle, import_cycles};
pub(crate) use file::SourceFile;
pub(crate) use functions::functions;
pub(crate) use structs::{Struct, structs};
pub(crate) use tokens::names;
