//! LAM/MPI's own daemon, which it needs before anything runs and which refuses root. Must never outlive the bench.

use super::attempt::{self, Outcome};
use pcm_bench::{Failure, OnPath};
use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Booting, cleaning up and ending take a second or two.
const DONE_WITHIN: Duration = Duration::from_secs(20);

/// `nobody` and `nogroup` of Debian, for whoever is root.
const OTHER_USER: u32 = 65534;

/// See the file head.
pub(super) struct Lam {
    folder: PathBuf,
    is_root: bool,
    /// Keeps this session apart from others of the same user.
    session: String,
}

impl Lam {
    /// Boots it on this machine alone; its files go to a folder of its own.
    pub(super) fn boot(folder: &Path) -> Result<Self, Failure> {
        let folder = folder.join("lam-session");
        fs::create_dir_all(&folder).on("create", &folder)?;
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            chown(&folder, Some(OTHER_USER), Some(OTHER_USER)).on("give away", &folder)?;
        }
        let hosts = folder.join("hosts");
        fs::write(&hosts, "localhost\n").on("write", &hosts)?;
        let lam = Self {
            session: format!("pcm-bench-{}", std::process::id()),
            folder,
            is_root,
        };
        let mut boot = lam.command("lamboot");
        boot.arg("-H").arg(&hosts);
        match lam.done(boot)? {
            Outcome::Said(_) => Ok(lam),
            other => Err(Failure::bench("dynamic", format!("lamboot: {other:?}"))),
        }
    }

    /// One of its programs, as a user it takes.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = match self.is_root {
            true => {
                let mut command = Command::new("setpriv");
                let user = OTHER_USER.to_string();
                command.args(["--reuid", &user, "--regid", &user, "--clear-groups", program]);
                command
            }
            false => Command::new(program),
        };
        command
            .env("HOME", &self.folder)
            .env("LAM_MPI_SESSION_SUFFIX", &self.session)
            .env("TMPDIR", &self.folder)
            .env_remove("LD_LIBRARY_PATH")
            .current_dir(&self.folder);
        command
    }

    fn done(&self, command: Command) -> Result<Outcome, Failure> {
        let own = self.folder.with_file_name("lam-said");
        fs::create_dir_all(&own).on("create", &own)?;
        attempt::run(command, &own, &self.mark(), DONE_WITHIN)
    }

    /// Its daemon bears another mark than what it runs.
    fn mark(&self) -> String {
        format!("{}-lamd", self.session)
    }

    /// Ends whatever runs under it, so that the next run begins afresh.
    pub(super) fn clean(&self) -> Result<(), Failure> {
        self.done(self.command("lamclean")).map(drop)
    }
}

impl Drop for Lam {
    fn drop(&mut self) {
        // What does not end in order bears the mark.
        let _ = self.done(self.command("lamhalt"));
        attempt::sweep(&self.mark());
    }
}
