//! The mappings of a process: which file lies where.

use std::fs;
use std::io;

/// A piece of a process's memory and what of a file lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) is_executable: bool,
    /// Where it begins in its file.
    pub(crate) offset: u64,
    /// The file's inode; 0 of memory without a file.
    pub(crate) inode: u64,
    /// Path of the file, as the process sees it, or the kernel's name in brackets.
    pub(crate) path: String,
}

/// The mappings of a process, by address.
pub(crate) fn read(pid: u32) -> io::Result<Vec<Mapping>> {
    let text = fs::read(format!("/proc/{pid}/maps"))?;
    Ok(parse(&String::from_utf8_lossy(&text)))
}

/// The mapping that holds an address.
pub(crate) fn at(maps: &[Mapping], address: u64) -> Option<&Mapping> {
    maps.iter().find(|map| (map.start..map.end).contains(&address))
}

fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let offset = words.next()?;
    let _device = words.next()?;
    let inode = words.next()?;
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        is_executable: rights.contains('x'),
        offset: hex(offset)?,
        inode: inode.parse().ok()?,
        path: words.next().unwrap_or_default().trim_start().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(at(&maps, 0x7ff8).map(|map| map.path.as_str()), Some("[stack]"));
        assert_eq!(at(&maps, 0x10), None);
    }
}
