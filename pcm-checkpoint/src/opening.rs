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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FileType, mknodat};
    use std::{fs, os::unix::fs::symlink, sync::mpsc, thread, time::Duration};

    #[test]
    fn only_a_regular_file_is_opened_and_a_fifo_holds_no_reader() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::write(path("file"), "x").unwrap();
        symlink(path("file"), path("link")).unwrap();
        assert!(open_regular(&path("file")).is_ok() && open_regular(&path("link")).is_ok());
        assert_eq!(open_regular(&path("none")).unwrap_err().kind(), ErrorKind::NotFound);
        mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (tell, told) = mpsc::channel();
        for name in [".", "fifo"].map(path) {
            let tell = tell.clone();
            thread::spawn(move || tell.send(open_regular(&name).map_err(|error| error.kind())));
            let opened = told.recv_timeout(Duration::from_secs(20)).expect("it holds no reader");
            assert_eq!(opened.unwrap_err(), ErrorKind::InvalidInput);
        }
    }
}
