//! An ELF file as the unwinder needs it: sections, and where its segments go.

#![allow(unsafe_code, reason = "maps program files")]

use framehop::ExplicitModuleSectionInfo;
use memmap2::Mmap;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a file, or of a copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bytes {
    owner: Option<Arc<Owner>>,
    range: Range<usize>,
}

#[derive(Debug)]
enum Owner {
    File(Mmap),
    Copy(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let whole: &[u8] = match self.owner.as_deref() {
            Some(Owner::File(map)) => map,
            Some(Owner::Copy(bytes)) => bytes,
            None => &[],
        };
        whole.get(self.range.clone()).unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct Section {
    name: String,
    addresses: Range<u64>,
    file: Range<usize>,
}

/// See the file head.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    whole: Bytes,
    segments: Vec<Segment>,
    sections: Vec<Section>,
}

impl Image {
    /// The file at a path, if it is still the one with this inode.
    pub(crate) fn open(path: &Path, inode: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.ino() != inode {
            return Err(io::Error::other("the file was replaced since the program was started"));
        }
        // SAFETY: this process has no other task than to read such files, and may die of one that is cut meanwhile.
        let map = unsafe { Mmap::map(&file) }?;
        let length = map.len();
        Self::parse(Owner::File(map), length)
    }

    /// A file's bytes, copied out of memory.
    pub(crate) fn of_copy(bytes: Vec<u8>) -> io::Result<Self> {
        let length = bytes.len();
        Self::parse(Owner::Copy(bytes), length)
    }

    fn parse(owner: Owner, length: usize) -> io::Result<Self> {
        let whole = Bytes {
            owner: Some(Arc::new(owner)),
            range: 0..length,
        };
        let file = object::File::parse(&*whole).map_err(io::Error::other)?;
        let segment = |segment: object::Segment<'_, '_>| {
            let (offset, bytes) = segment.file_range();
            Segment {
                address: segment.address(),
                offset,
                bytes,
            }
        };
        let segments = file.segments().map(segment).collect();
        let section = |section: object::Section<'_, '_>| {
            let (begin, bytes) = section.file_range()?;
            Some(Section {
                name: section.name().ok()?.to_owned(),
                addresses: section.address()..section.address().checked_add(section.size())?,
                file: usize::try_from(begin).ok()?..usize::try_from(begin.checked_add(bytes)?).ok()?,
            })
        };
        let sections = file.sections().filter_map(section).collect();
        drop(file);
        Ok(Self {
            whole,
            segments,
            sections,
        })
    }

    /// What has to be added to the file's addresses, where its byte `offset` lies at `start`.
    pub(crate) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        // The kernel rounds a segment's beginning down to a page.
        let page = |offset: u64| offset & !0xfff;
        let holds = |segment: &&Segment| (page(segment.offset)..segment.offset + segment.bytes).contains(&offset);
        // Where two segments share a page of the file, the mapping is of the one that begins there: the later one.
        let segment = self.segments.iter().rev().find(holds)?;
        let address = segment.address.wrapping_add(offset).wrapping_sub(segment.offset);
        Some(start.wrapping_sub(address))
    }

    /// Bytes before an address of the file, as far as they are code.
    pub(crate) fn before(&self, address: u64, count: u64) -> Option<&[u8]> {
        let begin = address.checked_sub(count)?;
        let segment = self.segments.iter();
        let mut segment = segment.filter(|one| (one.address..one.address + one.bytes).contains(&begin));
        let segment = segment.next()?;
        let at = usize::try_from(begin - segment.address + segment.offset).ok()?;
        self.whole.get(at..at.checked_add(usize::try_from(count).ok()?)?)
    }

    /// The address in the file of something that has a name there.
    pub(crate) fn symbol(&self, name: &str) -> Option<u64> {
        let file = object::File::parse(&*self.whole).ok()?;
        let mut all = file.dynamic_symbols().chain(file.symbols());
        let symbol = all.find(|symbol| symbol.is_definition() && symbol.name_bytes() == Ok(name.as_bytes()))?;
        Some(symbol.address())
    }

    fn section(&self, name: &str) -> (Option<Range<u64>>, Option<Bytes>) {
        match self.sections.iter().find(|section| section.name == name) {
            Some(section) => {
                let owner = self.whole.owner.clone();
                let range = section.file.clone();
                (Some(section.addresses.clone()), Some(Bytes { owner, range }))
            }
            None => (None, None),
        }
    }

    /// What the unwinder reads.
    pub(crate) fn unwind_sections(&self) -> ExplicitModuleSectionInfo<Bytes> {
        let (text_svma, text) = self.section(".text");
        let (eh_frame_svma, eh_frame) = self.section(".eh_frame");
        let (eh_frame_hdr_svma, eh_frame_hdr) = self.section(".eh_frame_hdr");
        ExplicitModuleSectionInfo {
            text_svma,
            text,
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            got_svma: self.section(".got").0,
            ..Default::default()
        }
    }
}
