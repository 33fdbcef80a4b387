//! Packages that `cargo xtask dist` left in target/dist, tried by a user of this machine who has no compiler, no Rust
//! and nothing of this checkout in the environment.

use crate::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    heat2d::{Closing, Plate},
    limited::{self, Outcome},
    skip::cannot_run,
    users::{self, User},
};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The package whose file name ends so.
///
/// # Panics
/// When it was not made.
pub fn package(ending: &str) -> PathBuf {
    let release = built("pcmctl");
    let folder = release.ancestors().nth(2).expect("a target folder").join("dist");
    let files = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let found = files.into_iter().find(|path| path.to_string_lossy().ends_with(ending));
    found.unwrap_or_else(|| panic!("no *{ending} in {}: run `cargo xtask dist`", folder.display()))
}

/// Runs a command that must succeed.
///
/// # Panics
/// When it does not.
pub fn must(command: &mut Command) -> Outcome {
    let outcome = limited::run(command, 2 * LIMIT);
    assert!(outcome.status.success(), "{command:?}: {outcome:?}");
    outcome
}

/// The tar file, unpacked below a folder, at a path with a blank.
///
/// # Panics
/// When it cannot be unpacked.
pub fn unpacked(folder: &Path) -> PathBuf {
    let prefix = folder.join("a prefix");
    fs::create_dir(&prefix).expect("a folder of the test");
    let mut tar = Command::new("tar");
    tar.arg("-xzf")
        .arg(package("-linux.tar.gz"))
        .arg("--strip-components=1");
    must(tar.arg("-C").arg(&prefix));
    prefix
}

/// A user with a folder, in which a cluster can be booted.
pub struct Stranger {
    place: Cluster,
    user: User,
    folder: PathBuf,
}

impl Stranger {
    /// The user, if this machine lets a test make one.
    ///
    /// # Panics
    /// When it does not, but should.
    pub fn come() -> Option<Self> {
        if let Err(reason) = users::can_be_made() {
            cannot_run(&reason);
            return None;
        }
        let place = Cluster::place();
        fs::set_permissions(place.files(), fs::Permissions::from_mode(0o755)).expect("our own folder");
        let user = User::make();
        let folder = place.files().join("home of a stranger");
        fs::create_dir(&folder).expect("a folder of the test");
        user.give(&folder);
        Some(Self { place, user, folder })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A program that finds nothing but what is in `bin`.
    pub fn command(&self, bin: &Path, program: impl AsRef<OsStr>) -> Command {
        // By its whole name, as the search path is not that of this process.
        let mut command = Command::new("/usr/bin/setpriv");
        for (name, _) in env::vars_os() {
            command.env_remove(name);
        }
        let marked = self.place.command("true");
        let set = marked.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(set);
        let mut command = self.user.command(command, program);
        command
            .env("PATH", bin)
            .env("HOME", &self.folder)
            .env("TMPDIR", &self.folder);
        command
            .env("PCM_CLUSTER", self.folder.join("cluster dir"))
            .current_dir(&self.folder);
        command
    }

    /// `pcmctl` of a prefix, which must succeed.
    ///
    /// # Panics
    /// When it does not.
    pub fn pcmctl(&self, bin: &Path, arguments: &[&str]) -> Outcome {
        must(self.command(bin, bin.join("pcmctl")).args(arguments))
    }

    /// Boots a cluster with a prefix and grows a job of heat2d while it runs; `first_change` is called when it has
    /// grown. The result is right, and nothing is left.
    ///
    /// # Panics
    /// When anything of it goes wrong.
    pub fn grows(self, bin: &Path, program: &[OsString], plate: Plate, first_change: impl FnOnce()) {
        self.pcmctl(bin, &["up", "--local", "4"]);
        let mut run = self.command(bin, bin.join("pcmctl"));
        run.args(["run", "-n", "2", "--name", "heat", "--"])
            .args(program)
            .args(plate.arguments());
        let job = Background::start(&mut run);
        let told = || {
            let outcome = limited::run(
                self.command(bin, bin.join("pcmctl")).args(["ps", "heat", "--json"]),
                LIMIT,
            );
            let report: serde_json::Value = serde_json::from_str(&outcome.stdout).ok()?;
            let ranks = report["ranks"].as_array()?;
            let iterates = |rank: &serde_json::Value| rank["iteration"].as_u64().is_some_and(|count| count > 0);
            (ranks.len() == 2 && ranks.iter().all(iterates)).then_some(())
        };
        if crate::wait::within(LIMIT, told).is_none() {
            panic!("no rank iterates: {}\n{}", job.stdout(), job.stderr());
        }
        self.pcmctl(bin, &["expand", "heat", "--to", "3"]);
        first_change();
        let outcome = job.end(Duration::from_secs(120));
        assert!(outcome.status.success(), "{outcome:?}");
        let closing = Closing::read(&outcome.stdout);
        assert_eq!((closing.ranks, closing.checksum), (3, plate.checksum()));
        self.pcmctl(bin, &["down"]);
        assert!(!self.folder.join("cluster dir").exists());
        self.place.assert_nothing_left();
    }
}
