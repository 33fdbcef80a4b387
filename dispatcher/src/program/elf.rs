//! What an ELF file of this machine's kind says of itself: the libraries it needs and the symbols it defines. Reads
//! the few parts it wants, each of bounded length, since a program's file may be large or broken.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Longest part that is read at once; a table of names of a large program has some megabytes.
const PART_MAX: u64 = 64 * 1024 * 1024;

const SEGMENT_LOADED: u32 = 1;
const SEGMENT_DYNAMIC: u32 = 2;
const SECTION_SYMBOLS: u32 = 2;
const DYNAMIC_NEEDED: u64 = 1;
const DYNAMIC_NAMES: u64 = 5;
const DYNAMIC_OWN_NAME: u64 = 14;
const DYNAMIC_RPATH: u64 = 15;
const DYNAMIC_RUNPATH: u64 = 29;

/// Bytes of an entry in each table.
const SEGMENT: usize = 56;
const SECTION: usize = 64;
const DYNAMIC: usize = 16;
const SYMBOL: usize = 24;

/// A file of 64 bits in little-endian order.
#[derive(Debug)]
pub(super) struct Elf {
    file: File,
    head: Vec<u8>,
    /// What a library is called by programs that are linked with it.
    pub(super) own_name: Option<String>,
    /// The libraries it names.
    pub(super) needed: Vec<String>,
    /// Where it wants them searched, `$ORIGIN` replaced.
    pub(super) run_paths: Vec<PathBuf>,
    /// Whether these come after the folders of the user's environment: those of the newer kind do.
    pub(super) are_run_paths_late: bool,
}

impl Elf {
    /// None if the file is no ELF file of such a kind.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let mut head = vec![0; 64];
        if file.read_exact_at(&mut head, 0).is_err() || !head.starts_with(b"\x7fELF\x02\x01") {
            return Ok(None);
        }
        let (needed, run_paths) = (Vec::new(), Vec::new());
        let mut elf = Self {
            file,
            head,
            own_name: None,
            needed,
            run_paths,
            are_run_paths_late: false,
        };
        elf.read_dynamic(path)?;
        Ok(Some(elf))
    }

    /// Whether its table of symbols has a definition with such a name; that of a stripped file has none.
    pub(super) fn defines(&self, mut is_such: impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
        let count = u64::from(half(&self.head, 60));
        let sections = self.part(long(&self.head, 40), count * SECTION as u64)?;
        let of_symbols = |section: &&[u8]| word(section, 4) == SECTION_SYMBOLS;
        let Some(symbols) = sections.chunks_exact(SECTION).find(of_symbols) else {
            return Ok(false);
        };
        let Some(names) = sections.chunks_exact(SECTION).nth(word(symbols, 40) as usize) else {
            return Ok(false);
        };
        let names = self.part(long(names, 24), long(names, 32))?;
        let symbols = self.part(long(symbols, 24), long(symbols, 32))?;
        let mut symbols = symbols.chunks_exact(SYMBOL).filter(|symbol| half(symbol, 6) != 0);
        Ok(symbols.any(|symbol| is_such(text(&names, word(symbol, 0).into()))))
    }

    fn read_dynamic(&mut self, path: &Path) -> io::Result<()> {
        let count = u64::from(half(&self.head, 56));
        let segments = self.part(long(&self.head, 32), count * SEGMENT as u64)?;
        let segments: Vec<&[u8]> = segments.chunks_exact(SEGMENT).collect();
        let Some(dynamic) = segments.iter().find(|segment| word(segment, 0) == SEGMENT_DYNAMIC) else {
            return Ok(());
        };
        let entries = self.part(long(dynamic, 8), long(dynamic, 32))?;
        let entries = entries.chunks_exact(DYNAMIC);
        let entries: Vec<(u64, u64)> = entries.map(|entry| (long(entry, 0), long(entry, 8))).collect();
        let Some((_, address)) = entries.iter().find(|(tag, _)| *tag == DYNAMIC_NAMES) else {
            return Ok(());
        };
        // The names stand at an address; the segment that is loaded there says where in the file.
        let holds = |segment: &&&[u8]| {
            let (begin, length) = (long(segment, 16), long(segment, 32));
            word(segment, 0) == SEGMENT_LOADED && *address >= begin && *address - begin < length
        };
        let Some(loaded) = segments.iter().find(holds) else {
            return Ok(());
        };
        let within = address - long(loaded, 16);
        let place = long(loaded, 8).saturating_add(within);
        let names = self.part(place, long(loaded, 32) - within)?;
        let origin = path.canonicalize()?;
        let origin = origin.parent().unwrap_or(Path::new("/"));
        for (tag, value) in entries {
            let name = text(&names, value);
            match tag {
                DYNAMIC_NEEDED => self.needed.push(String::from_utf8_lossy(name).into_owned()),
                DYNAMIC_OWN_NAME => self.own_name = Some(String::from_utf8_lossy(name).into_owned()),
                DYNAMIC_RPATH | DYNAMIC_RUNPATH => {
                    self.run_paths.extend(folders(name, origin));
                    self.are_run_paths_late |= tag == DYNAMIC_RUNPATH;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A part of the file; none where it would be too long or lies behind the end.
    fn part(&self, place: u64, length: u64) -> io::Result<Vec<u8>> {
        let end = self.file.metadata()?.len();
        if length > PART_MAX || place.checked_add(length).is_none_or(|last| last > end) {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, place)?;
        Ok(bytes)
    }
}

fn folders<'a>(list: &'a [u8], origin: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    let parts = list.split(|byte| *byte == b':').filter(|part| !part.is_empty());
    parts.map(move |part| {
        let rest = part
            .strip_prefix(b"$ORIGIN")
            .or_else(|| part.strip_prefix(b"${ORIGIN}"));
        match rest {
            Some(rest) => origin.join(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest))),
            None => PathBuf::from(OsStr::from_bytes(part)),
        }
    })
}

/// The text that begins at a place of a table of names.
fn text(names: &[u8], place: u64) -> &[u8] {
    let from = usize::try_from(place).ok().and_then(|place| names.get(place..));
    let from = from.unwrap_or_default();
    &from[..from.iter().position(|byte| *byte == 0).unwrap_or(from.len())]
}

fn bytes<const N: usize>(from: &[u8], place: usize) -> [u8; N] {
    let found = from.get(place..).and_then(|rest| rest.first_chunk());
    found.copied().unwrap_or([0; N])
}

fn half(from: &[u8], place: usize) -> u16 {
    u16::from_le_bytes(bytes(from, place))
}

fn word(from: &[u8], place: usize) -> u32 {
    u32::from_le_bytes(bytes(from, place))
}

fn long(from: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(bytes(from, place))
}
