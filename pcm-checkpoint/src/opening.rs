//! Opens a file of a checkpoint from elsewhere: what stands in its place must not hold the reader or be no file.

use rustix::fs::{CWD, Mode, OFlags, openat};
use std::{
    fs::File,
    io::{self, ErrorKind},
    path::Path,
};

/// Opens a regular file. A FIFO in its place would hold us until a process writes it.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"))
}
