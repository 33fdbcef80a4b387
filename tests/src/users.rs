//! Users of this machine that a test makes and removes again. Must never touch one that was there.

use crate::limited::{self, Outcome};
use std::{
    ffi::OsStr,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// Making a user waits for the lock of the table of users.
const LIMIT: Duration = Duration::from_secs(30);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A user without a home or a way to log in; removed when dropped.
#[derive(Debug)]
pub struct User {
    name: String,
    uid: u32,
}

/// Whether users can be made here, or why not.
///
/// # Errors
/// What is missing.
pub fn can_be_made() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("making users needs root".to_owned());
    }
    let missing = ["useradd", "userdel", "setpriv"]
        .into_iter()
        .find(|program| Command::new(program).arg("--help").output().is_err());
    missing.map_or(Ok(()), |program| Err(format!("making users needs {program}")))
}

impl User {
    /// Makes one.
    ///
    /// # Panics
    /// When that fails.
    pub fn make() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pcmtest{}x{number}", std::process::id());
        let nowhere = ["--no-create-home", "--home-dir", "/nonexistent", "--shell", "/bin/sh"];
        let made = limited::run(Command::new("useradd").args(nowhere).arg(&name), LIMIT);
        assert!(made.status.success(), "useradd: {made:?}");
        let told = limited::run(Command::new("id").args(["-u", &name]), LIMIT);
        let uid = told.stdout.trim().parse().expect("a number of a user");
        Self { name, uid }
    }

    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Gives it a file or a folder.
    ///
    /// # Panics
    /// When that fails.
    pub fn give(&self, path: &Path) {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.uid)).expect("root may give it away");
    }

    /// `command` with this program as this user, who has no other group and only the system's own programs in its path.
    pub fn command(&self, mut command: Command, program: impl AsRef<OsStr>) -> Command {
        let uid = self.uid.to_string();
        command
            .args(["--reuid", &uid, "--regid", &uid, "--clear-groups"])
            .arg(program);
        command.env("PATH", "/usr/bin:/bin").env("USER", &self.name);
        command
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let removed: Outcome = limited::run(Command::new("userdel").arg(&self.name), LIMIT);
        if !removed.status.success() {
            eprintln!("userdel {}: {removed:?}", self.name);
        }
    }
}
