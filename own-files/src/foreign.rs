//! Whether a directory or a file is its user's alone to write.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Write permission of group and others.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Why something is not to be trusted.
#[derive(Debug)]
pub enum Foreign {
    /// Another user owns it, or the link that leads to it.
    Owner { path: PathBuf, owner: u32, user: u32 },
    /// Others may write it.
    Writable { path: PathBuf },
    /// It is neither a file nor a directory, whichever it should be.
    Kind { path: PathBuf, wanted: &'static str },
    /// It cannot be looked at.
    Hidden {
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner { path, owner, user } => write!(
                f,
                "{} belongs to user {owner}, not to user {user}: run as its owner, or name another",
                path.display()
            ),
            Self::Writable { path } => write!(
                f,
                "other users may write into {0}: run 'chmod go-w {0}' if no other user can have changed it, or \
                 name another",
                path.display()
            ),
            Self::Kind { path, wanted } => write!(f, "{} is no {wanted}: name another", path.display()),
            Self::Hidden { path, error } => write!(f, "{} cannot be read: {error}", path.display()),
        }
    }
}

impl std::error::Error for Foreign {}

/// Refuses a directory that another user owns or may write into, and a link to one that another user put there. One
/// that is missing is accepted: whoever makes it owns it.
pub fn check_directory(path: &Path) -> Result<(), Foreign> {
    for look in [fs::symlink_metadata(path), fs::metadata(path)] {
        let metadata = match look {
            Ok(metadata) => metadata,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
            Err(error) => return Err(hidden(path, error)),
        };
        check_owner(path, &metadata)?;
        // A link has the permissions of what it leads to, which is looked at next.
        if metadata.is_symlink() {
            continue;
        }
        check_kind(path, metadata.is_dir(), "directory")?;
        check_mode(path, &metadata)?;
    }
    Ok(())
}

/// Refuses an open file that another user owns or may write, and what is no regular file.
pub fn check_file(path: &Path, file: &File) -> Result<(), Foreign> {
    let metadata = file.metadata().map_err(|error| hidden(path, error))?;
    check_kind(path, metadata.is_file(), "regular file")?;
    check_owner(path, &metadata)?;
    check_mode(path, &metadata)
}

fn hidden(path: &Path, error: io::Error) -> Foreign {
    let path = path.to_owned();
    Foreign::Hidden { path, error }
}

fn check_kind(path: &Path, is_wanted: bool, wanted: &'static str) -> Result<(), Foreign> {
    if is_wanted {
        return Ok(());
    }
    let path = path.to_owned();
    Err(Foreign::Kind { path, wanted })
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), Foreign> {
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner == user {
        return Ok(());
    }
    let path = path.to_owned();
    Err(Foreign::Owner { path, owner, user })
}

fn check_mode(path: &Path, metadata: &Metadata) -> Result<(), Foreign> {
    if metadata.mode() & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    let path = path.to_owned();
    Err(Foreign::Writable { path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_directory_that_others_may_write_is_refused_through_a_link_too() {
        let home = tempfile::tempdir().unwrap();
        let (directory, link) = (home.path().join("d"), home.path().join("l"));
        assert!(check_directory(&directory).is_ok());
        fs::create_dir(&directory).unwrap();
        symlink(&directory, &link).unwrap();
        for (mode, is_refused) in [(0o700, false), (0o755, false), (0o775, true), (0o757, true)] {
            fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
            for path in [&directory, &link] {
                let refused = check_directory(path);
                assert_eq!(refused.is_err(), is_refused, "{mode:o} {}", path.display());
                assert!(refused.err().is_none_or(|why| why.to_string().contains("chmod go-w")));
            }
        }
        let file = home.path().join("f");
        fs::write(&file, "").unwrap();
        assert!(matches!(check_directory(&file), Err(Foreign::Kind { .. })));
    }

    #[test]
    fn what_another_user_owns_is_refused_with_both_numbers() {
        // Root may give things away; an ordinary user finds root's everywhere.
        let home = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let path = if user == 0 {
            std::os::unix::fs::chown(home.path(), Some(65_534), None).unwrap();
            home.path()
        } else {
            Path::new("/usr")
        };
        let refused = check_directory(path);
        assert!(
            matches!(refused, Err(Foreign::Owner { user: us, .. }) if us == user),
            "{refused:?}"
        );
    }
}
