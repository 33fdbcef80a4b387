//! Opens and reads files that no other user may have written.

use crate::foreign::check_file;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file of ours that others may not write, to read it.
pub fn open(path: &Path) -> io::Result<File> {
    // A FIFO in its place would hold us until a process writes it.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    check_file(path, &file).map_err(|foreign| io::Error::new(ErrorKind::PermissionDenied, foreign))?;
    Ok(file)
}

/// The bytes of such a file; one that is longer than `bytes_max` is refused.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let told = format!("it is longer than {bytes_max} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, told));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_a_short_file_that_others_cannot_write_is_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("f");
        fs::write(&path, "12345").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(read(&path, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        assert_eq!(read(&path, 5).unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(read(home.path(), 5).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
