//! One collective operation of a move: what each process gives to each other of one array, of all opaque data, or as
//! notes. Bytes that lie in one piece for a pair of processes travel from and to their place; others are gathered
//! before and put to their places afterwards, a chunk at a time. Never decides.
#![allow(unsafe_code, reason = "hands memory to MPI, reads and writes the storage of arrays")]

use super::{MoveError, checksum::checksum, leg::Leg, notes::Entry};
use crate::mpi::{AllToAll, Stretch, Transport};
use pcm_core::redistribution::ChunkHeader;
use pcm_proto::ids::RegionId;

/// What a round is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The lengths of opaque data.
    Lengths,
    Array(RegionId),
    /// All opaque data.
    Parcels,
    /// Headers and checksums.
    Notes,
}

/// Everything that goes to, or comes from, one process.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) process: u32,
    pub(super) legs: Vec<Leg>,
    /// Of each chunk that left or came.
    pub(super) entries: Vec<Entry>,
}

#[derive(Debug)]
pub(super) struct Round {
    subject: Subject,
    out: Vec<Part>,
    into: Vec<Part>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// What does not lie in one piece is gathered; all is summed.
    Gathering,
    UnderWay(AllToAll),
    /// What came is summed and put to its places.
    Scattering,
    Over,
}

/// The bytes for, or from, one process.
#[derive(Debug)]
struct Part {
    place: Place,
    length: usize,
    /// Chunks that are to be gathered, summed or scattered, last to first, with their place in the part.
    chunks: Vec<(usize, ChunkHeader)>,
}

#[derive(Debug)]
enum Place {
    /// All of it lies where it belongs.
    There(*mut u8),
    Here(Vec<u8>),
}

impl From<(u32, Vec<Leg>)> for Side {
    fn from((process, legs): (u32, Vec<Leg>)) -> Self {
        let entries = Vec::new();
        Self { process, legs, entries }
    }
}

impl Side {
    /// Number of transfers whose length only the sender knows.
    pub(super) fn parcels(&self) -> usize {
        self.legs.iter().filter(|leg| leg.is_parcel()).count()
    }

    /// Takes the lengths of opaque data and makes room for it.
    pub(super) fn make_room(&mut self, lengths: &[u64]) -> Result<(), MoveError> {
        let parcels = self.legs.iter_mut().filter(|leg| leg.is_parcel());
        for (leg, &length) in parcels.zip(lengths) {
            leg.make_room(length).ok_or(MoveError::NoRoom { bytes: length })?;
        }
        Ok(())
    }

    /// Headers of the opaque data that has no bytes, of which no chunk comes.
    pub(super) fn empty_parcels(&self) -> Vec<ChunkHeader> {
        let empty = self.legs.iter().filter(|leg| leg.is_parcel() && leg.total() == Some(0));
        empty.filter_map(|leg| leg.chunks(1)?.next()).collect()
    }

    fn leg_of(&mut self, header: &ChunkHeader) -> &mut Leg {
        let found = self
            .legs
            .iter_mut()
            .find(|leg| leg.region == header.region && leg.id == header.transfer);
        found.expect("chunks are made from the legs")
    }
}

impl Round {
    /// Of what the legs say.
    pub(super) fn of_legs(
        subject: Subject,
        outgoing: &mut [Side],
        incoming: &mut [Side],
        chunk_max: u64,
    ) -> Result<Self, MoveError> {
        let parts = |sides: &mut [Side]| -> Result<Vec<Part>, MoveError> {
            sides
                .iter_mut()
                .map(|side| Part::of(side, subject, chunk_max))
                .collect()
        };
        Ok(Self {
            subject,
            out: parts(outgoing)?,
            into: parts(incoming)?,
            stage: Stage::Gathering,
        })
    }

    /// Of bytes that were made for it, and room for so many.
    pub(super) fn of_notes(subject: Subject, out: Vec<Vec<u8>>, into: Vec<usize>) -> Result<Self, MoveError> {
        let into = into.into_iter().map(|length| room(length).map(Part::from));
        Ok(Self {
            subject,
            out: out.into_iter().map(Part::from).collect(),
            into: into.collect::<Result<_, _>>()?,
            stage: Stage::Gathering,
        })
    }

    pub(super) fn subject(&self) -> Subject {
        self.subject
    }

    /// Whether all that came is in its place.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// What came, by sender, of a round of notes.
    pub(super) fn notes(&self) -> impl Iterator<Item = &[u8]> {
        self.into.iter().map(|part| match &part.place {
            Place::Here(bytes) => bytes.as_slice(),
            Place::There(_) => &[],
        })
    }

    /// Goes on by at most one chunk, without waiting; says whether anything happened.
    pub(super) fn step(
        &mut self,
        outgoing: &mut [Side],
        incoming: &mut [Side],
        processes: usize,
        transfer: &dyn Transport,
    ) -> Result<bool, MoveError> {
        match &mut self.stage {
            Stage::Gathering => {
                let mut parts = outgoing.iter_mut().zip(&mut self.out);
                let is_here = |part: &Part| matches!(part.place, Place::Here(_));
                if let Some((side, part)) = parts.find(|(_, part)| is_here(part) && !part.chunks.is_empty()) {
                    part.gather(side);
                    return Ok(true);
                }
                let out = stretches(outgoing, &mut self.out, processes);
                let into = stretches(incoming, &mut self.into, processes);
                // SAFETY: old cells and opaque data do not change before the commit, what arrives lands where nothing
                // is live before it; both, and the buffers, stay where they are until the exchange is complete.
                let exchange = unsafe { transfer.ialltoallv(&out, &into)? };
                self.stage = Stage::UnderWay(exchange);
                Ok(true)
            }
            Stage::UnderWay(exchange) => {
                if exchange.test()? {
                    self.stage = Stage::Scattering;
                    return Ok(true);
                }
                Ok(self.sum_one(outgoing))
            }
            Stage::Scattering => {
                if self.sum_one(outgoing) {
                    return Ok(true);
                }
                let mut parts = incoming.iter_mut().zip(&mut self.into);
                match parts.find(|(_, part)| !part.chunks.is_empty()) {
                    Some((side, part)) => part.scatter(side),
                    None => self.stage = Stage::Over,
                }
                Ok(true)
            }
            Stage::Over => Ok(false),
        }
    }

    /// Sums one chunk that leaves from its place; says whether there was one.
    fn sum_one(&mut self, outgoing: &mut [Side]) -> bool {
        let mut parts = outgoing.iter_mut().zip(&mut self.out);
        match parts.find(|(_, part)| !part.chunks.is_empty()) {
            Some((side, part)) => {
                part.sum(side);
                true
            }
            None => false,
        }
    }
}

impl From<Vec<u8>> for Part {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            length: bytes.len(),
            place: Place::Here(bytes),
            chunks: Vec::new(),
        }
    }
}

impl Part {
    fn of(side: &mut Side, subject: Subject, chunk_max: u64) -> Result<Self, MoveError> {
        let is_meant = |leg: &Leg| match subject {
            Subject::Array(region) => !leg.is_parcel() && leg.region == region,
            _ => leg.is_parcel(),
        };
        let (mut chunks, mut length, mut only) = (Vec::new(), 0_usize, None);
        let mut pieces = 0;
        for leg in side.legs.iter_mut().filter(|leg| is_meant(leg)) {
            let total = leg.total().expect("lengths were exchanged before");
            if total == 0 {
                continue;
            }
            let cut = leg.chunks(chunk_max).into_iter().flatten();
            chunks.extend(cut.map(|header| (length + header.offset as usize, header)));
            let whole = leg.chunks(total).and_then(|mut chunks| chunks.next());
            only = whole
                .filter(|whole| whole.length == total)
                .and_then(|whole| leg.direct(&whole));
            length += total as usize;
            pieces += 1;
        }
        chunks.reverse();
        let place = match only.filter(|_| pieces == 1) {
            Some(first) => Place::There(first.as_ptr()),
            None => Place::Here(room(length)?),
        };
        Ok(Self { place, length, chunks })
    }

    /// Puts the next chunk to its place among the bytes that leave.
    fn gather(&mut self, side: &mut Side) {
        let (Some((at, header)), Place::Here(bytes)) = (self.chunks.pop(), &mut self.place) else {
            return;
        };
        let into = &mut bytes[at..at + header.length as usize];
        let leg = side.leg_of(&header);
        match leg.direct(&header) {
            // SAFETY: a chunk in one piece; old data does not change before the commit.
            Some(first) => unsafe { into.copy_from_slice(std::slice::from_raw_parts(first.as_ptr(), into.len())) },
            // SAFETY: as above.
            None => unsafe { leg.gather(&header, into) },
        }
        let checksum = checksum(into);
        side.entries.push(Entry { header, checksum });
    }

    /// Sums the next chunk.
    fn sum(&mut self, side: &mut Side) {
        let Some((at, header)) = self.chunks.pop() else {
            return;
        };
        let length = header.length as usize;
        let bytes = match &self.place {
            Place::Here(bytes) => &bytes[at..at + length],
            // SAFETY: the part lies there in one piece; what leaves does not change before the commit, what came is
            // there.
            Place::There(first) => unsafe { std::slice::from_raw_parts(first.add(at), length) },
        };
        let checksum = checksum(bytes);
        side.entries.push(Entry { header, checksum });
    }

    /// Sums the next chunk that came, and puts it to its place.
    fn scatter(&mut self, side: &mut Side) {
        let Some((at, header)) = self.chunks.last().copied() else {
            return;
        };
        self.sum(side);
        let Place::Here(bytes) = &self.place else {
            return;
        };
        let from = &bytes[at..at + header.length as usize];
        let leg = side.leg_of(&header);
        match leg.direct(&header) {
            // SAFETY: a chunk in one piece, which is not live before the commit; a buffer is none of it.
            Some(first) => unsafe { first.as_ptr().copy_from_nonoverlapping(from.as_ptr(), from.len()) },
            // SAFETY: as above.
            None => unsafe { leg.scatter(&header, from) },
        }
    }

    fn stretch(&mut self) -> Stretch {
        let length = self.length;
        let first = match &mut self.place {
            Place::There(first) => *first,
            Place::Here(bytes) => bytes.as_mut_ptr(),
        };
        Stretch { first, length }
    }
}

/// One stretch for each process.
fn stretches(sides: &[Side], parts: &mut [Part], processes: usize) -> Vec<Stretch> {
    let mut all = vec![Stretch::NONE; processes];
    for (side, part) in sides.iter().zip(parts) {
        all[side.process as usize] = part.stretch();
    }
    all
}

/// So many bytes, if there are.
fn room(length: usize) -> Result<Vec<u8>, MoveError> {
    let mut bytes = Vec::new();
    let reserved = bytes.try_reserve_exact(length);
    reserved.map_err(|_| MoveError::NoRoom { bytes: length as u64 })?;
    bytes.resize(length, 0);
    Ok(bytes)
}
