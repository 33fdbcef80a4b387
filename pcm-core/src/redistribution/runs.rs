//! Bytes of local storage as nested strided loops, in the order in which both ends of a transfer count them. Never
//! lists elements; a position in the stream is found in constant time.

use super::meeting::AxisRun;
use crate::partition::AXES_MAX;

/// Two loops per axis (intervals, then indices within one), but the innermost is part of the block.
const LEVELS_MAX: usize = 2 * AXES_MAX;

/// One loop: `count` repetitions, `stride` bytes apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Repetitions; at least 2.
    pub count: u64,
    /// Bytes between two of them.
    pub stride: u64,
}

/// Equal blocks of bytes in one local storage, repeated by nested loops. Read in loop order they are the *stream* of
/// the piece, and equal on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalRuns {
    offset: u64,
    block: u64,
    levels: [Level; LEVELS_MAX],
    depth: usize,
}

/// Consecutive bytes of local storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRun {
    /// Bytes from the start of local storage.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Consecutive bytes of one storage that go to consecutive bytes of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRun {
    /// Bytes from the start of the storage they come from.
    pub source: u64,
    /// Bytes from the start of the storage they go to.
    pub target: u64,
    /// Number of bytes.
    pub length: u64,
}

impl LocalRuns {
    /// The bytes of a product of axis runs: `side` picks the local index and stride of one side, `extents` are its
    /// local extents.
    pub(super) fn new(
        runs: &[AxisRun; AXES_MAX],
        side: impl Fn(&AxisRun) -> (u64, u64),
        extents: [u64; AXES_MAX],
        element_size: u64,
    ) -> Self {
        let mut of = Self {
            offset: 0,
            block: element_size,
            levels: [Level::default(); LEVELS_MAX],
            depth: 0,
        };
        let mut unit = element_size;
        for (run, extent) in runs.iter().zip(extents).rev() {
            let (local, stride) = side(run);
            of.offset += local * unit;
            of.wrap(run.length, unit);
            of.wrap(run.count, stride * unit);
            unit *= extent;
        }
        of.levels[..of.depth].reverse();
        of
    }

    /// Adds a loop around what is there (loops are collected inside out); one that only continues another joins it.
    fn wrap(&mut self, count: u64, stride: u64) {
        if count == 1 {
            return;
        }
        let inner = self.depth.checked_sub(1).map(|at| self.levels[at]);
        match inner {
            None if stride == self.block => self.block *= count,
            Some(inner) if stride == inner.count * inner.stride => self.levels[self.depth - 1].count *= count,
            _ => {
                self.levels[self.depth] = Level { count, stride };
                self.depth += 1;
            }
        }
    }

    /// Offset of the first byte in local storage.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of one block.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// The loops around the block, outermost first; none if all is one block.
    pub fn levels(&self) -> &[Level] {
        &self.levels[..self.depth]
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.levels().iter().map(|level| level.count).product()
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks() * self.block
    }

    /// Whether the bytes are consecutive, so that they can be sent from and received into place.
    pub fn is_contiguous(&self) -> bool {
        self.depth == 0
    }

    /// One past the last byte in local storage.
    pub fn end(&self) -> u64 {
        let last: u64 = self.levels().iter().map(|level| (level.count - 1) * level.stride).sum();
        self.offset + last + self.block
    }

    /// The consecutive runs that make up bytes `from..to` of the stream.
    pub fn slice(&self, from: u64, to: u64) -> ByteRuns {
        ByteRuns {
            cursor: Cursor::new(*self, from),
            left: to.min(self.bytes()).saturating_sub(from),
        }
    }

    /// All consecutive runs.
    pub fn iter(&self) -> ByteRuns {
        self.slice(0, self.bytes())
    }

    /// What to copy to bring these bytes to `target`, the same piece in another storage.
    pub fn copies_to(&self, target: &Self) -> CopyRuns {
        CopyRuns {
            source: Cursor::new(*self, 0),
            target: Cursor::new(*target, 0),
            left: self.bytes().min(target.bytes()),
        }
    }

    /// Whether both have the same shape in storage, at whatever offset.
    pub(super) fn has_shape_of(&self, other: &Self) -> bool {
        self.block == other.block && self.levels() == other.levels()
    }
}

impl IntoIterator for &LocalRuns {
    type Item = ByteRun;
    type IntoIter = ByteRuns;

    fn into_iter(self) -> ByteRuns {
        self.iter()
    }
}

/// A place in a stream: the block it is in and the bytes of it already passed.
#[derive(Clone, Debug)]
struct Cursor {
    runs: LocalRuns,
    turns: [u64; LEVELS_MAX],
    block_offset: u64,
    passed: u64,
}

impl Cursor {
    fn new(runs: LocalRuns, position: u64) -> Self {
        let mut block = position / runs.block;
        let mut turns = [0; LEVELS_MAX];
        let mut block_offset = runs.offset;
        for (turn, level) in turns.iter_mut().zip(runs.levels()).rev() {
            *turn = block % level.count;
            block /= level.count;
            block_offset += *turn * level.stride;
        }
        Self {
            runs,
            turns,
            block_offset,
            passed: position % runs.block,
        }
    }

    fn offset(&self) -> u64 {
        self.block_offset + self.passed
    }

    fn left_in_block(&self) -> u64 {
        self.runs.block - self.passed
    }

    fn advance(&mut self, bytes: u64) {
        self.passed += bytes;
        if self.passed < self.runs.block {
            return;
        }
        self.passed = 0;
        let levels = self.runs.levels[..self.runs.depth].iter();
        for (turn, level) in self.turns.iter_mut().zip(levels).rev() {
            *turn += 1;
            self.block_offset += level.stride;
            if *turn < level.count {
                return;
            }
            *turn = 0;
            self.block_offset -= level.count * level.stride;
        }
    }
}

/// Iterator over consecutive runs of one local storage.
#[derive(Clone, Debug)]
pub struct ByteRuns {
    cursor: Cursor,
    left: u64,
}

impl Iterator for ByteRuns {
    type Item = ByteRun;

    fn next(&mut self) -> Option<ByteRun> {
        if self.left == 0 {
            return None;
        }
        let length = self.cursor.left_in_block().min(self.left);
        let offset = self.cursor.offset();
        self.cursor.advance(length);
        self.left -= length;
        Some(ByteRun { offset, length })
    }
}

/// Iterator over what to copy between two local storages; both offsets rise all the way.
#[derive(Clone, Debug)]
pub struct CopyRuns {
    source: Cursor,
    target: Cursor,
    left: u64,
}

impl Iterator for CopyRuns {
    type Item = CopyRun;

    fn next(&mut self) -> Option<CopyRun> {
        if self.left == 0 {
            return None;
        }
        let length = self
            .source
            .left_in_block()
            .min(self.target.left_in_block())
            .min(self.left);
        let (source, target) = (self.source.offset(), self.target.offset());
        self.source.advance(length);
        self.target.advance(length);
        self.left -= length;
        Some(CopyRun { source, target, length })
    }
}
