//! A `/dev/shm` of a test's own, so that what is left in it is known to be the test's. It is a folder of the machine's
//! `/dev/shm` that stands in its place in a mount namespace; processes started there and all they start see only that.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// Options of `unshare` for root, and for an ordinary user who keeps its own id.
const NAMESPACES: [&[&str]; 2] = [
    &["--mount", "--propagation", "private"],
    &[
        "--mount",
        "--propagation",
        "private",
        "--map-current-user",
        "--keep-caps",
    ],
];

/// Names a folder that becomes a disk of [`SMALL_DISK_BYTES`] for what is started there.
pub const SMALL_DISK_VARIABLE: &str = "PCM_TEST_SMALL_DISK";

/// Room for a few small files.
pub const SMALL_DISK_BYTES: u32 = 64 << 10;

const SCRIPT: &str = "mount --bind \"$0\" /dev/shm && \
    { [ -z \"$PCM_TEST_SMALL_DISK\" ] || mount -t tmpfs -o size=65536 none \"$PCM_TEST_SMALL_DISK\"; } && exec \"$@\"";

/// The folder; removed when dropped.
#[derive(Debug)]
pub struct OwnSharedMemory {
    folder: PathBuf,
    options: &'static [&'static str],
}

impl OwnSharedMemory {
    /// `None` where this machine gives no mount namespace.
    pub fn new(mark: &str) -> Option<Self> {
        static USABLE: OnceLock<Option<&'static [&'static str]>> = OnceLock::new();
        let folder = PathBuf::from(format!("/dev/shm/pcm-test-{mark}"));
        fs::create_dir(&folder).ok()?;
        let works = |options: &&&[&str]| {
            let mut probe = Command::new("unshare");
            probe
                .args(**options)
                .args(["sh", "-c", SCRIPT])
                .arg(&folder)
                .arg("true");
            probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            probe.status().is_ok_and(|status| status.success())
        };
        let options = USABLE.get_or_init(|| NAMESPACES.iter().find(works).copied());
        let Some(options) = *options else {
            let _ = fs::remove_dir(&folder);
            return None;
        };
        Some(Self { folder, options })
    }

    /// The folder, as the test sees it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A program that sees the folder as `/dev/shm`.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(self.options)
            .args(["sh", "-c", SCRIPT])
            .arg(&self.folder)
            .arg(program);
        command
    }
}

impl Drop for OwnSharedMemory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_leaves_there_is_seen_and_nothing_else() {
        let Some(own) = OwnSharedMemory::new(&format!("self-{}", std::process::id())) else {
            return crate::skip::cannot_run("no mount namespace of one's own");
        };
        let mut command = own.command(Path::new("sh"));
        let outcome = command
            .args(["-c", "ls /dev/shm; echo x > /dev/shm/left; id -u"])
            .output()
            .unwrap();
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(String::from_utf8_lossy(&outcome.stdout), format!("{user}\n"));
        assert!(own.folder().join("left").is_file());
    }
}
