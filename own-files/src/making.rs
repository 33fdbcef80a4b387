//! Makes directories and files that only their owner can enter, read or write, whatever the umask, and follows no link
//! that another user may have planted.

use crate::foreign::check_file;
use rustix::fs::OFlags;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;

const DIRECTORY_MODE: u32 = 0o700;

/// Makes a directory and all that lead to it, each for its owner alone; those that are there stay as they are.
pub fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        // A umask may have taken away what its owner needs.
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(DIRECTORY_MODE)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => match path.parent() {
            Some(parent) if parent != path => {
                make_directory(parent)?;
                make_directory(path)
            }
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Opens a log to write at its end; makes it where it is missing.
pub fn append(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().create(true).append(true))
}

/// Opens a file that is only locked; makes it where it is missing.
pub fn open_lock(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().create(true).truncate(false).write(true))
}

/// Writes a file so that a reader sees the old or the new one, never a part; `path` itself may be anything before.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = Path::new(&fresh);
    // Left by a writer that was killed, or planted: it is removed by name, so what it leads to is never written.
    match fs::remove_file(fresh) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = open(fresh, OpenOptions::new().create_new(true).write(true))
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(fresh, path));
    if written.is_err() {
        // The first error is the one to return.
        let _ = fs::remove_file(fresh);
    }
    written
}

fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    // A FIFO in its place would hold us until a process reads it.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = how.mode(FILE_MODE).custom_flags(flags.bits() as i32).open(path)?;
    check_file(path, &file).map_err(|foreign| io::Error::new(ErrorKind::PermissionDenied, foreign))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::process::Command;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    /// The umask belongs to the whole process, so what depends on it runs in one of its own.
    #[test]
    fn what_is_made_is_its_owners_whatever_the_umask() {
        const HERE: &str = "OWN_FILES_TEST_FOLDER";
        if let Some(folder) = std::env::var_os(HERE) {
            let folder = Path::new(&folder);
            make_directory(&folder.join("a/b")).unwrap();
            append(&folder.join("a/b/log")).unwrap();
            replace(&folder.join("a/b/record"), b"1").unwrap();
            return;
        }
        let itself = std::env::current_exe().unwrap();
        for umask in ["000", "022", "077"] {
            let home = tempfile::tempdir().unwrap();
            let line = format!(
                "umask {umask}; exec \"$0\" --exact making::tests::{}",
                "what_is_made_is_its_owners_whatever_the_umask"
            );
            // Its words are not ours: they look like those of a runner.
            let ran = Command::new("sh")
                .args(["-c", &line])
                .arg(&itself)
                .env(HERE, home.path())
                .output()
                .unwrap();
            assert!(ran.status.success(), "{ran:?}");
            for (path, wanted) in [("a", 0o700), ("a/b", 0o700), ("a/b/log", 0o600), ("a/b/record", 0o600)] {
                assert_eq!(mode(&home.path().join(path)), wanted, "{path} under {umask}");
            }
        }
    }

    #[test]
    fn a_planted_link_leads_nowhere_and_a_planted_fifo_holds_nobody() {
        let home = tempfile::tempdir().unwrap();
        let victim = home.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        let link = home.path().join("log");
        symlink(&victim, &link).unwrap();
        assert!(append(&link).is_err());
        assert!(open_lock(&link).is_err());
        let record = home.path().join("record");
        symlink(&victim, home.path().join("record.new")).unwrap();
        symlink(&victim, &record).unwrap();
        replace(&record, b"theirs").unwrap();
        assert_eq!(fs::read(&record).unwrap(), b"theirs");
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        let fifo = home.path().join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        assert!(append(&fifo).is_err());
    }
}
