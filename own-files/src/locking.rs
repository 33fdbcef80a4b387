//! Locks that are files: whoever holds one may change what lies beside it, and remove the file at the end.

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A lock that is held; released when dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// What came of a try.
#[derive(Debug)]
pub enum Locking {
    Held(Lock),
    /// Another process holds it.
    Busy,
    /// Its holder removed the file, which locks nothing any more.
    Removed,
}

/// Tries to lock a file that was opened under this path.
pub fn lock(file: File, path: &Path) -> io::Result<Locking> {
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) if is_same_file(&file, path) => Ok(Locking::Held(Lock { _file: file })),
        Ok(()) => Ok(Locking::Removed),
        Err(Errno::WOULDBLOCK) => Ok(Locking::Busy),
        Err(error) => Err(error.into()),
    }
}

fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => held.dev() == named.dev() && held.ino() == named.ino(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_second_try_is_refused_and_a_file_that_was_removed_locks_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        let open = || crate::open_lock(&path).unwrap();
        let held = lock(open(), &path).unwrap();
        assert!(matches!(held, Locking::Held(_)));
        assert!(matches!(lock(open(), &path).unwrap(), Locking::Busy));
        let opened = open();
        fs::remove_file(&path).unwrap();
        drop(held);
        // A process that another test is starting has this lock, too, until its program begins.
        let deadline = Instant::now() + Duration::from_secs(10);
        let after = loop {
            match lock(opened.try_clone().unwrap(), &path).unwrap() {
                Locking::Busy if Instant::now() < deadline => std::thread::yield_now(),
                locking => break locking,
            }
        };
        assert!(matches!(after, Locking::Removed));
    }
}
