//! The files that a process has mapped.

use std::{fs, path::PathBuf};

/// A file that a process has mapped and that has its name still.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MappedFile {
    /// Its path, as the process sees it.
    pub path: PathBuf,
    /// As the kernel writes it, `MAJOR:MINOR` in hexadecimal.
    pub device: String,
    pub inode: u64,
}

/// One for each mapping; a file with several mappings comes several times.
pub fn mapped_files(pid: u32) -> Vec<MappedFile> {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    String::from_utf8_lossy(&maps).lines().filter_map(mapped_file).collect()
}

/// A line of `/proc/PID/maps`: address, rights, offset, device, inode, path.
fn mapped_file(line: &str) -> Option<MappedFile> {
    let mut fields = line.splitn(6, ' ').skip(3);
    let (device, inode) = (fields.next()?, fields.next()?.parse().ok()?);
    let path = fields.next()?.trim_start();
    (path.starts_with('/') && !path.ends_with(" (deleted)")).then(|| MappedFile {
        path: PathBuf::from(path),
        device: device.to_owned(),
        inode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read_with_spaces_and_without_deleted_files() {
        let line = "7f7a-7f7b rw-s 00000000 00:1b 11                         /dev/shm/mpich_shar_tmp a";
        let expected = MappedFile {
            path: PathBuf::from("/dev/shm/mpich_shar_tmp a"),
            device: "00:1b".to_owned(),
            inode: 11,
        };
        assert_eq!(mapped_file(line), Some(expected));
        let deleted = "7f7a-7f7b rw-s 00000000 00:1b 9    /dev/shm/ucx_shm_posix_1 (deleted)";
        assert_eq!(mapped_file(deleted), None);
        assert_eq!(mapped_file("7f7a-7f7b rw-p 00000000 00:00 0    [heap]"), None);
        assert_eq!(mapped_file("7f7a-7f7b rw-p 00000000 00:00 0"), None);
    }

    #[test]
    fn this_process_has_its_own_program_mapped() {
        let program = std::env::current_exe().unwrap();
        assert!(mapped_files(std::process::id()).iter().any(|file| file.path == program));
        assert!(mapped_files(u32::MAX).is_empty());
    }
}
