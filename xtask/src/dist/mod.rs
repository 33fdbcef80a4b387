//! `cargo xtask dist`: packages of a release build, one file per format, all from one tree of files.

mod deb;
mod elf;
mod layout;
mod licences;
mod man;
mod ready;
mod run;
mod stage;
mod targz;
mod wheel;

pub(crate) use run::{pack, run};
