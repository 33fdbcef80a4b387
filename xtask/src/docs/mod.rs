//! `cargo xtask docs`: the pages of docs/ as a site of files that opens without a server and without a network. Must
//! never change a page.

mod build;
mod markdown;
mod places;
mod reference;
mod template;

pub(crate) use build::run;
