//! The memory of a process as it is mapped, and the files in it.

use std::{fs, io, path::PathBuf};

/// A piece of a process's memory and what of a file lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub is_executable: bool,
    /// Where it begins in its file.
    pub offset: u64,
    /// As the kernel writes it, `MAJOR:MINOR` in hexadecimal.
    pub device: String,
    /// The file's inode; 0 of memory without a file.
    pub inode: u64,
    /// Path of the file, as the process sees it, or the kernel's name in brackets.
    pub path: String,
}

/// The mappings of a process, by address.
pub fn mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    let maps = fs::read(format!("/proc/{pid}/maps"))?;
    Ok(parse(&String::from_utf8_lossy(&maps)))
}

/// The mapping that holds an address.
pub fn mapping_at(maps: &[Mapping], address: u64) -> Option<&Mapping> {
    maps.iter().find(|map| (map.start..map.end).contains(&address))
}

fn parse(maps: &str) -> Vec<Mapping> {
    maps.lines().filter_map(mapping).collect()
}

/// A line of `/proc/PID/maps`: addresses, rights, offset, device, inode, path.
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?;
    let hex = |field: &str| u64::from_str_radix(field, 16).ok();
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        is_executable: rights.contains('x'),
        offset: hex(fields.next()?)?,
        device: fields.next()?.to_owned(),
        inode: fields.next()?.parse().ok()?,
        path: fields.next().unwrap_or_default().trim_start().to_owned(),
    })
}

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
    let maps = mappings(pid).unwrap_or_default();
    maps.into_iter().filter_map(file_of).collect()
}

fn file_of(mapping: Mapping) -> Option<MappedFile> {
    let Mapping {
        device, inode, path, ..
    } = mapping;
    let has_name = path.starts_with('/') && !path.ends_with(" (deleted)");
    has_name.then(|| MappedFile {
        path: PathBuf::from(path),
        device,
        inode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped_file(line: &str) -> Option<MappedFile> {
        mapping(line).and_then(file_of)
    }

    #[test]
    fn paths_with_spaces_and_memory_without_a_file_are_read() {
        let text = "55d0-55e0 r-xp 00001000 08:01 1234                       /home/a user/heat2d\n\
                    7ff0-7fff rw-p 00000000 00:00 0                          [stack]\n\
                    8000-9000 rw-p 00000000 00:00 0 \nnonsense\n";
        let maps = parse(text);
        assert_eq!(maps.len(), 3);
        assert_eq!(maps[0].path, "/home/a user/heat2d");
        assert_eq!((maps[0].start, maps[0].offset, maps[0].inode), (0x55d0, 0x1000, 1234));
        assert!(maps[0].is_executable && !maps[1].is_executable);
        assert_eq!(maps[2].path, "");
        assert_eq!(mapping_at(&maps, 0x7ff8).map(|map| map.path.as_str()), Some("[stack]"));
        assert_eq!(mapping_at(&maps, 0x10), None);
    }

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
