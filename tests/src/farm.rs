//! The render farm of the tests. Must never judge a film.

use crate::{
    binaries::built,
    cluster::Cluster,
    example::{compile, source},
    skip::cannot_run,
    wait,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Small pictures: POV-Ray sleeps longer for each than it computes, so four ranks do not wait for two CPUs.
pub const PICTURE: [&str; 2] = ["+W120", "+H90"];

/// How long the film may take.
pub const FILM_LIMIT: Duration = Duration::from_secs(300);

const FLAGS: [&str; 7] = [
    "-std=c11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Werror",
];

/// Says what is missing.
pub fn has_programs() -> bool {
    let missing = ["povray", "ffmpeg"]
        .into_iter()
        .find(|program| !Path::new("/usr/bin").join(program).exists());
    if let Some(program) = missing {
        cannot_run(&format!("there is no {program}: install the package of this name"));
    }
    missing.is_none()
}

pub fn build(name: &str, with: &Path, folder: &Path) -> PathBuf {
    let program = folder.join(name);
    let source = source("render").join(name).with_extension("c");
    compile(Command::new(with).args(FLAGS).arg(source).arg("-o").arg(&program));
    program
}

/// A farm of so many frames in a cluster's folder, which POV-Ray may write to.
pub fn farm(cluster: &Cluster, options: &[&str], scene: &Path, frames: usize) -> Command {
    let program = build("render", &built("pcmcc"), cluster.files());
    let mut command = cluster.pcmctl(&["run", "--name", "farm"]);
    command.args(options).arg("--").arg(program);
    command.arg(scene).arg(frames.to_string()).arg("film").args(PICTURE);
    command.current_dir(cluster.files());
    command
}

pub fn scene() -> PathBuf {
    source("render/marbles.pov")
}

pub fn finished(folder: &Path) -> usize {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter(|file| file.file_name().to_string_lossy().starts_with("frame-"))
        .count()
}

pub fn wait_for_frames(folder: &Path, count: usize) {
    wait::until("more frames", FILM_LIMIT, || (finished(folder) >= count).then_some(()));
}
