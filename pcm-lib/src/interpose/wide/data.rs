//! Data of the program in an operation: elements that are combined, and bytes that only travel.
#![allow(unsafe_code, reason = "calls MPI")]

use super::communicator::Wide;
use super::failed::{Failed, data_count};
use mpi_abi::{MPI_Aint, MPI_Comm, MPI_Datatype};
use std::{
    os::raw::{c_int, c_void},
    ptr, slice,
};

/// A type, and where elements of it lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    datatype: MPI_Datatype,
    extent: isize,
    /// Where an element begins, and how far it reaches from there.
    true_lower: isize,
    true_extent: usize,
    /// Bytes of one, if elements lie side by side in the order in which they travel.
    dense: Option<usize>,
}

impl Element {
    pub(super) fn byte() -> Self {
        Self::plain(mpi_abi::MPI_BYTE(), 1)
    }

    /// A number of bytes.
    pub(super) fn length() -> Self {
        Self::plain(mpi_abi::MPI_UINT64_T(), 8)
    }

    fn plain(datatype: MPI_Datatype, bytes: u8) -> Self {
        Self {
            datatype,
            extent: isize::from(bytes),
            true_lower: 0,
            true_extent: usize::from(bytes),
            dense: Some(usize::from(bytes)),
        }
    }

    /// # Safety
    /// The type is one of the program's.
    pub(super) unsafe fn new(datatype: MPI_Datatype) -> Result<Self, Failed> {
        let (mut lower, mut extent, mut true_lower, mut true_extent): (MPI_Aint, MPI_Aint, MPI_Aint, MPI_Aint) =
            (0, 0, 0, 0);
        let mut size: c_int = 0;
        // SAFETY: the caller's type; outputs are locals.
        unsafe {
            Failed::unless(mpi_abi::PMPI_Type_get_extent(datatype, &mut lower, &mut extent))?;
            Failed::unless(mpi_abi::PMPI_Type_get_true_extent(
                datatype,
                &mut true_lower,
                &mut true_extent,
            ))?;
            Failed::unless(mpi_abi::PMPI_Type_size(datatype, &mut size))?;
        }
        // Of a type that the program made the order is not known.
        let is_plain = mpi_abi::predefined().contains(&datatype) && lower == 0 && extent == MPI_Aint::from(size);
        Ok(Self {
            datatype,
            extent: extent as isize,
            true_lower: true_lower as isize,
            true_extent: usize::try_from(true_extent).unwrap_or(0),
            dense: is_plain.then(|| usize::try_from(size).unwrap_or(0)),
        })
    }

    pub(super) fn datatype(self) -> MPI_Datatype {
        self.datatype
    }

    pub(super) fn extent(self) -> isize {
        self.extent
    }

    pub(super) fn dense(self) -> Option<usize> {
        self.dense
    }

    /// The place of an element.
    pub(super) fn at(self, first: *mut c_void, index: usize) -> *mut c_void {
        first.wrapping_byte_offset(self.extent * index as isize)
    }

    /// Copies elements.
    ///
    /// # Safety
    /// Both places have so many of them.
    pub(super) unsafe fn copy(self, (from, into): (*mut c_void, *mut c_void), count: usize) -> Result<(), Failed> {
        if from == into || count == 0 {
            return Ok(());
        }
        let (number, of, alone) = (data_count(count)?, self.datatype, mpi_abi::MPI_COMM_SELF());
        let (mut length, mut at): (c_int, c_int) = (0, 0);
        // SAFETY: the caller's contract.
        unsafe {
            if let Some(bytes) = self.dense() {
                from.cast::<u8>().copy_to(into.cast(), count * bytes);
                return Ok(());
            }
            // A message of this rank to itself would make MPI work for others, which it must not inside itself.
            Failed::unless(mpi_abi::PMPI_Pack_size(number, of, alone, &mut length))?;
            let mut bytes = vec![0_u8; usize::try_from(length).unwrap_or(0)];
            let packed = bytes.as_mut_ptr().cast();
            Failed::unless(mpi_abi::PMPI_Pack(from, number, of, packed, length, &mut at, alone))?;
            let (length, packed) = (at, bytes.as_ptr().cast());
            at = 0;
            Failed::unless(mpi_abi::PMPI_Unpack(packed, length, &mut at, into, number, of, alone))
        }
    }

    /// Memory for so many elements.
    pub(super) fn room(self, count: usize) -> Result<Room, Failed> {
        let spread = self.extent.unsigned_abs().checked_mul(count.saturating_sub(1));
        let bytes = spread.and_then(|spread| spread.checked_add(self.true_extent));
        let bytes = bytes.filter(|_| count > 0).unwrap_or(0);
        let words = bytes.div_ceil(size_of::<u128>());
        let mut memory: Vec<u128> = Vec::new();
        memory
            .try_reserve_exact(words)
            .map_err(|_| Failed(mpi_abi::MPI_ERR_OTHER))?;
        memory.resize(words, 0);
        // With a negative extent the first element lies highest.
        let down = self.extent.min(0) * count.saturating_sub(1) as isize;
        let first = memory.as_mut_ptr().cast::<c_void>();
        Ok(Room {
            first: first.wrapping_byte_offset(-(self.true_lower + down)),
            _memory: memory,
        })
    }
}

/// Memory for elements.
#[derive(Debug)]
pub(super) struct Room {
    first: *mut c_void,
    _memory: Vec<u128>,
}

impl Room {
    /// What the program would call the buffer.
    pub(super) fn first(&self) -> *mut c_void {
        self.first
    }
}

/// What a rank gives to be combined.
pub(super) struct Given {
    first: *mut c_void,
    _copy: Option<Room>,
}

impl Given {
    /// What is in the place of the result is copied, as that is written to.
    ///
    /// # Safety
    /// The caller's arguments of the MPI function.
    pub(super) unsafe fn new(
        sendbuf: *mut c_void,
        recvbuf: *mut c_void,
        element: Element,
        count: usize,
    ) -> Result<Self, Failed> {
        if sendbuf != mpi_abi::MPI_IN_PLACE {
            return Ok(Self {
                first: sendbuf,
                _copy: None,
            });
        }
        let copy = element.room(count)?;
        // SAFETY: the caller's contract.
        unsafe { element.copy((recvbuf, copy.first()), count)? };
        Ok(Self {
            first: copy.first(),
            _copy: Some(copy),
        })
    }

    pub(super) fn first(&self) -> *mut c_void {
        self.first
    }
}

/// Elements of the program that lie side by side.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Elements before it, as the program counts them.
    first: c_int,
    count: c_int,
}

/// Data that only travels, as bytes, a block of each rank after the other: in its own place where it lies side by side,
/// else packed.
pub(super) struct Opaque {
    buffer: *mut c_void,
    element: Element,
    pieces: Vec<Piece>,
    /// Bytes of each block.
    lengths: Vec<usize>,
    packed: Option<Vec<u8>>,
    communicator: MPI_Comm,
}

impl Opaque {
    /// One block.
    ///
    /// # Safety
    /// The caller's arguments of the MPI function.
    pub(super) unsafe fn new(
        buffer: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        wide: &Wide,
    ) -> Result<Self, Failed> {
        // SAFETY: the caller's contract.
        unsafe { Self::of(buffer, vec![Piece { first: 0, count }], datatype, wide) }
    }

    /// A block of so many elements for each rank.
    ///
    /// # Safety
    /// The caller's arguments of the MPI function.
    pub(super) unsafe fn blocks(
        buffer: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        wide: &Wide,
    ) -> Result<Self, Failed> {
        let piece = |rank: u32| {
            let first = rank.cast_signed().checked_mul(count);
            first.map(|first| Piece { first, count })
        };
        let pieces: Option<Vec<Piece>> = (0..wide.sites.size()).map(piece).collect();
        let pieces = pieces.ok_or(Failed(mpi_abi::MPI_ERR_COUNT))?;
        // SAFETY: the caller's contract.
        unsafe { Self::of(buffer, pieces, datatype, wide) }
    }

    /// A block for each rank, of any number of elements and anywhere in the buffer.
    ///
    /// # Safety
    /// The caller's arguments of the MPI function; both arrays have an entry for each rank.
    pub(super) unsafe fn varied(
        buffer: *mut c_void,
        (counts, firsts): (*const c_int, *const c_int),
        datatype: MPI_Datatype,
        wide: &Wide,
    ) -> Result<Self, Failed> {
        let size = wide.sites.size() as usize;
        // SAFETY: the caller's contract.
        unsafe {
            let (counts, firsts) = (slice::from_raw_parts(counts, size), slice::from_raw_parts(firsts, size));
            let pieces = firsts.iter().zip(counts);
            let pieces = pieces.map(|(first, count)| Piece {
                first: *first,
                count: *count,
            });
            Self::of(buffer, pieces.collect(), datatype, wide)
        }
    }

    unsafe fn of(
        buffer: *mut c_void,
        mut pieces: Vec<Piece>,
        datatype: MPI_Datatype,
        wide: &Wide,
    ) -> Result<Self, Failed> {
        // SAFETY: the caller's contract.
        let element = unsafe { Element::new(datatype)? };
        let mut size: c_int = 0;
        // SAFETY: as above.
        unsafe { Failed::unless(mpi_abi::PMPI_Type_size(datatype, &mut size))? };
        let bytes = |piece: &Piece| {
            let (count, size) = (usize::try_from(piece.count).ok()?, usize::try_from(size).ok()?);
            count.checked_mul(size)
        };
        let lengths: Option<Vec<usize>> = pieces.iter().map(bytes).collect();
        let lengths = lengths.ok_or(Failed(mpi_abi::MPI_ERR_COUNT))?;
        let whole = lengths
            .iter()
            .try_fold(0_usize, |sum, length| sum.checked_add(*length))
            .ok_or(Failed(mpi_abi::MPI_ERR_COUNT))?;
        data_count(whole)?;
        pieces.dedup_by(|next, last| {
            let is_beside = last.first.checked_add(last.count) == Some(next.first);
            if is_beside {
                last.count += next.count;
            }
            is_beside
        });
        let is_in_place = element.dense().is_some() && pieces.len() == 1;
        Ok(Self {
            buffer,
            element,
            pieces,
            lengths,
            packed: (!is_in_place).then(|| vec![0; whole]),
            communicator: wide.apart,
        })
    }

    /// Bytes of each block.
    pub(super) fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Bytes of the only block.
    pub(super) fn length(&self) -> usize {
        self.lengths.iter().sum()
    }

    pub(super) fn first(&mut self) -> *mut c_void {
        match &mut self.packed {
            Some(bytes) => bytes.as_mut_ptr().cast(),
            None => self.of_piece(self.pieces[0]),
        }
    }

    /// The block of a rank.
    pub(super) fn block(&mut self, rank: u32) -> *mut c_void {
        let before: usize = self.lengths[..rank as usize].iter().sum();
        self.first().wrapping_byte_add(before)
    }

    fn of_piece(&self, piece: Piece) -> *mut c_void {
        self.buffer
            .wrapping_byte_offset(self.element.extent() * piece.first as isize)
    }

    /// The program's data becomes bytes.
    pub(super) fn pack(&mut self) -> Result<(), Failed> {
        let Some(mut bytes) = self.packed.take() else {
            return Ok(());
        };
        let (length, mut at) = (data_count(bytes.len())?, 0);
        for piece in &self.pieces {
            let (from, of) = (self.of_piece(*piece), self.element.datatype());
            let into = bytes.as_mut_ptr().cast();
            // SAFETY: the program's buffer has so many elements; the bytes are as many as they take.
            Failed::unless(unsafe {
                mpi_abi::PMPI_Pack(from, piece.count, of, into, length, &mut at, self.communicator)
            })?;
        }
        self.packed = Some(bytes);
        Ok(())
    }

    /// Bytes become the program's data.
    pub(super) fn unpack(&mut self) -> Result<(), Failed> {
        let Some(bytes) = &self.packed else { return Ok(()) };
        let (length, mut at) = (data_count(bytes.len())?, 0);
        for piece in &self.pieces {
            let (into, of) = (self.of_piece(*piece), self.element.datatype());
            let from = bytes.as_ptr().cast();
            // SAFETY: as in `pack`.
            Failed::unless(unsafe {
                mpi_abi::PMPI_Unpack(from, length, &mut at, into, piece.count, of, self.communicator)
            })?;
        }
        Ok(())
    }

    /// The bytes, apart.
    pub(super) fn copied(&mut self) -> Vec<u8> {
        let (first, length) = (self.first().cast::<u8>(), self.length());
        let mut bytes = vec![0; length];
        if length > 0 {
            // SAFETY: so many bytes are there.
            unsafe { ptr::copy_nonoverlapping(first, bytes.as_mut_ptr(), length) };
        }
        bytes
    }
}
