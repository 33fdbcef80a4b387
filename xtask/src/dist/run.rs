//! `cargo xtask dist`: a release build, its tree of files, and each package of it. Must never install anything.

use super::{deb, elf, licences, man, ready::Ready, stage, targz, wheel};
use crate::{
    compile,
    environment::Environment,
    failure::{Failure, OnPath},
    repository::Repository,
};
use std::{env, fs};

/// Of every file in a package, unless `SOURCE_DATE_EPOCH` says another: the first second a zip file can name.
const SECONDS: u64 = 315_532_800;

/// Builds and packs.
pub(crate) fn run(repository: &Repository, environment: &Environment) -> Result<(), Failure> {
    compile::release(repository, environment)?;
    pack(repository, environment)
}

/// Leaves packages of the last build in `target/dist`.
pub(crate) fn pack(repository: &Repository, environment: &Environment) -> Result<(), Failure> {
    let out = repository.target.join("dist");
    if out.exists() {
        fs::remove_dir_all(&out).on("remove", &out)?;
    }
    let stage = out.join("prefix");
    stage::fill(repository, environment, &stage)?;
    man::fill(environment, &stage)?;
    licences::write(repository, environment, &stage)?;
    let time = env::var("SOURCE_DATE_EPOCH").ok().and_then(|value| value.parse().ok());
    let ready = Ready {
        audit: elf::audit(&stage, &environment.mpi.link)?,
        stage,
        out: &out,
        time: time.unwrap_or(SECONDS),
    };
    for package in [
        targz::write(&ready)?,
        wheel::write(repository, &ready)?,
        deb::write(repository, &ready)?,
    ] {
        println!("{}", package.display());
    }
    Ok(())
}
