//! A cluster of one node for a bench, booted by the pcmctl that was built. Must never outlive the bench.

use super::{registry::Context, trial};
use crate::failure::{Failure, OnPath};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
    time::Duration,
};

/// Boot and end take well under a second.
const LIMIT: Duration = Duration::from_secs(60);

/// See the file head.
pub(super) struct LocalCluster<'a> {
    context: &'a Context,
    bench: &'static str,
    folder: PathBuf,
    is_up: bool,
}

impl<'a> LocalCluster<'a> {
    /// Boots it.
    pub(super) fn up(context: &'a Context, bench: &'static str) -> Result<Self, Failure> {
        let folder = env::temp_dir().join(format!("pcm-bench-{}", process::id()));
        fs::create_dir(&folder).on("create", &folder)?;
        let mut cluster = Self {
            context,
            bench,
            folder,
            is_up: false,
        };
        let mut command = cluster.pcmctl();
        command.args(["up", "--local", "1"]);
        trial::run(bench, command, LIMIT)?;
        cluster.is_up = true;
        Ok(cluster)
    }

    /// `pcmctl run` of a program, to which its arguments may be added.
    pub(super) fn run(&self, ranks: u32, program: &Path) -> Command {
        let mut command = self.pcmctl();
        command.args(["run", "-n", &ranks.to_string(), "--"]).arg(program);
        command
    }

    /// Ends it.
    pub(super) fn down(mut self) -> Result<(), Failure> {
        self.is_up = false;
        let mut command = self.pcmctl();
        command.arg("down");
        trial::run(self.bench, command, LIMIT).map(drop)
    }

    fn pcmctl(&self) -> Command {
        let mut command = self.context.environment.command(self.context.program("pcmctl"));
        command.env("PCM_CLUSTER", self.directory());
        command
    }

    fn directory(&self) -> PathBuf {
        self.folder.join("cluster")
    }
}

impl Drop for LocalCluster<'_> {
    fn drop(&mut self) {
        if self.is_up {
            let mut command = self.pcmctl();
            command.arg("down");
            // A bench that failed has its own failure to tell.
            _ = trial::run(self.bench, command, LIMIT);
        }
        _ = fs::remove_dir_all(&self.folder);
    }
}
