//! What the suite `rdma` needs: qemu, a kernel with a RoCE device in software, and the program that its guests run.
//! Must never touch anything outside the checkout but system packages, where it may.

use crate::{
    environment::{Environment, must},
    failure::{Failure, OnPath},
    repository::Repository,
    setup, wheel,
};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Debian's packages, for this suite only.
const PACKAGES: &str = "qemu-system-x86 busybox-static cpio kmod zstd iproute2 ibverbs-providers cmake make";

/// What is used of them.
const PROGRAMS: [&str; 7] = [
    "qemu-system-x86_64",
    "busybox",
    "cpio",
    "modprobe",
    "zstd",
    "rdma",
    "cmake",
];

/// The part of libibverbs that knows the software device.
const DRIVER: &str = "/etc/libibverbs.d/rxe.driver";

/// The programs of the guests: one for the verbs alone, and the daemon as it is built for machines with devices.
const TRIAL: &str = "rdma_trial";
const DAEMON: &str = "pcm-daemon";

/// Brings what is missing; the second time it takes as long as a build without changes.
pub(crate) fn bring(repository: &Repository, environment: &Environment) -> Result<(), Failure> {
    let folder = bring_guests(repository)?;
    let trial = build_trial(repository, environment, &[])?;
    keep(&trial, &folder)?;
    // Emulated, the unoptimised daemon would be too slow for its peers.
    build(
        repository,
        environment,
        &["--bin", DAEMON, "--release", "--exclude", "xtask"],
    )?;
    keep(&repository.target.join("release").join(DAEMON), &folder)
}

/// Brings qemu and the folder with what guests boot from.
pub(crate) fn bring_guests(repository: &Repository) -> Result<PathBuf, Failure> {
    if !missing().is_empty() {
        wheel::install_system_package(PACKAGES);
    }
    let missing = missing();
    if !missing.is_empty() {
        return Err(Failure::Missing {
            what: missing.join(" "),
            advice: format!("run `apt-get install {PACKAGES}` as root"),
        });
    }
    let folder = repository.root.join(".tools/softroce");
    let mut prepare = Command::new(repository.root.join("tests/softroce/prepare"));
    prepare.arg(&folder);
    must(
        prepare,
        "see what it says above; it needs a Debian archive for one kernel package",
    )?;
    Ok(folder)
}

/// Builds the program that tries the verbs; where it is then.
pub(crate) fn build_trial(
    repository: &Repository,
    environment: &Environment,
    options: &[&str],
) -> Result<PathBuf, Failure> {
    build(repository, environment, &[&["--example", TRIAL], options].concat())?;
    let profile = if options.contains(&"--release") {
        "release"
    } else {
        "debug"
    };
    Ok(repository.target.join(profile).join("examples").join(TRIAL))
}

/// Of the whole workspace, so that dependencies have the features of all other builds and are compiled once.
fn build(repository: &Repository, environment: &Environment, what: &[&str]) -> Result<(), Failure> {
    let mut cargo = environment.cargo();
    cargo
        .current_dir(&repository.root)
        .envs(setup::clang(repository)?.variables())
        .args(["build", "--workspace", "--features", "pcm-daemon/rdma"])
        .args(what);
    must(cargo, "mend what the compiler names above")
}

fn keep(built: &Path, folder: &Path) -> Result<(), Failure> {
    let name = built.file_name().unwrap_or_default();
    fs::copy(built, folder.join(name)).on("copy", built).map(drop)
}

fn missing() -> Vec<&'static str> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Some of them are for administrators, whose folders are not in everybody's PATH.
    let folders: Vec<_> = env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .collect();
    let is_there = |name: &&str| folders.iter().any(|folder| folder.join(name).is_file());
    let mut missing: Vec<&str> = PROGRAMS.into_iter().filter(|name| !is_there(name)).collect();
    if !Path::new(DRIVER).is_file() {
        missing.push(DRIVER);
    }
    missing
}
