//! The account of one stream that arrives: which chunks are awaited, which have come, which its sender has vouched
//! for. Never touches a byte or a message.

use super::{
    leg::Leg,
    notes::{ENTRIES_MAX, Entry},
};
use pcm_core::redistribution::{ChunkHeader, Chunks};
use std::collections::VecDeque;

/// Everything that comes from one process.
#[derive(Debug)]
pub(super) struct InStream {
    pub(super) from: u32,
    legs: Vec<Leg>,
    /// The leg whose chunks are awaited.
    leg: usize,
    chunks: Option<Chunks>,
    lengths: Lengths,
    /// Chunks whose receives were posted, and those of them that are still under way.
    posted: u64,
    under_way: usize,
    /// Chunks that came.
    came: u64,
    /// What came, by number from the first that is not verified.
    arrived: VecDeque<Option<Entry>>,
    /// What was said, from the same number on.
    said: VecDeque<Entry>,
    verified: u64,
    told: u64,
    is_note_posted: bool,
    stop: Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    /// There is no opaque data.
    NotNeeded,
    Wanted,
    Posted,
    Known,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The sender goes on.
    No,
    /// It has just stopped: what was posted beyond is to be cancelled.
    New,
    /// It has stopped.
    Settled,
}

impl InStream {
    pub(super) fn new(from: u32, legs: Vec<Leg>) -> Self {
        let lengths = if legs.iter().any(Leg::is_parcel) {
            Lengths::Wanted
        } else {
            Lengths::NotNeeded
        };
        Self {
            from,
            legs,
            leg: 0,
            chunks: None,
            lengths,
            posted: 0,
            under_way: 0,
            came: 0,
            arrived: VecDeque::new(),
            said: VecDeque::new(),
            verified: 0,
            told: 0,
            is_note_posted: false,
            stop: Stop::No,
        }
    }

    /// Number of transfers whose length only the sender knows.
    pub(super) fn parcels(&self) -> usize {
        self.legs.iter().filter(|leg| leg.is_parcel()).count()
    }

    pub(super) fn wants_lengths(&self) -> bool {
        self.lengths == Lengths::Wanted && self.stop == Stop::No
    }

    pub(super) fn lengths_are_posted(&mut self) {
        self.lengths = Lengths::Posted;
    }

    /// Takes the lengths and makes room for the data.
    pub(super) fn on_lengths(&mut self, lengths: &[u64]) -> Result<(), String> {
        let parcels = self.legs.iter_mut().filter(|leg| leg.is_parcel());
        for (leg, &length) in parcels.zip(lengths) {
            let region = leg.region;
            let made = leg.make_room(length);
            made.ok_or_else(|| format!("no memory for {length} bytes of region {region}"))?;
        }
        self.lengths = Lengths::Known;
        Ok(())
    }

    /// The sender stopped before it began.
    pub(super) fn on_no_lengths(&mut self) {
        self.lengths = Lengths::Known;
        self.on_stop();
    }

    /// Headers of the opaque data that has no bytes, for which no message comes.
    pub(super) fn empty_parcels(&self) -> impl Iterator<Item = ChunkHeader> {
        let empty = self.legs.iter().filter(|leg| leg.is_parcel() && leg.total() == Some(0));
        empty.filter_map(|leg| leg.chunks(1)?.next())
    }

    pub(super) fn wants_chunk(&self, in_flight: usize) -> bool {
        self.stop == Stop::No && self.under_way < in_flight && self.leg < self.legs.len()
    }

    /// The next chunk to wait for; none if there is none, or if its length is not known yet. Empty ones are passed
    /// over.
    pub(super) fn next_chunk(&mut self, chunk_max: u64) -> Option<ChunkHeader> {
        loop {
            let leg = self.legs.get(self.leg)?;
            let chunks = match &mut self.chunks {
                Some(chunks) => chunks,
                None => self.chunks.insert(leg.chunks(chunk_max)?),
            };
            match chunks.clone().next() {
                Some(header) if header.length > 0 => return Some(header),
                _ => (self.leg, self.chunks) = (self.leg + 1, None),
            }
        }
    }

    /// The receive of the chunk that [`InStream::next_chunk`] gave is posted; returns its number.
    pub(super) fn chunk_is_posted(&mut self) -> u64 {
        if let Some(chunks) = &mut self.chunks {
            chunks.next();
            if chunks.clone().next().is_none() {
                (self.leg, self.chunks) = (self.leg + 1, None);
            }
        }
        self.under_way += 1;
        self.posted += 1;
        self.arrived.push_back(None);
        self.posted - 1
    }

    /// The leg a chunk belongs to.
    pub(super) fn leg_of(&mut self, header: &ChunkHeader) -> &mut Leg {
        let found = self
            .legs
            .iter_mut()
            .find(|leg| leg.region == header.region && leg.id == header.transfer);
        found.expect("chunks are made from the legs")
    }

    /// A receive is over, whatever it brought.
    pub(super) fn chunk_is_done(&mut self) {
        self.under_way -= 1;
    }

    /// It brought a chunk.
    pub(super) fn chunk_count(&mut self) {
        self.came += 1;
    }

    pub(super) fn on_arrived(&mut self, number: u64, header: ChunkHeader, checksum: u64) {
        self.arrived[(number - self.verified) as usize] = Some(Entry { header, checksum });
    }

    /// A note is due as long as chunks are awaited that nothing was said of.
    pub(super) fn wants_note(&self) -> bool {
        !self.is_note_posted && self.told < self.posted && (self.stop == Stop::No || self.is_note_due())
    }

    pub(super) fn note_is_posted(&mut self) {
        self.is_note_posted = true;
    }

    pub(super) fn on_note(&mut self, entries: Vec<Entry>) {
        self.is_note_posted = false;
        self.told += entries.len() as u64;
        self.said.extend(entries);
    }

    /// It cannot be read, or was given up; in a drain it counts as a full one, so that no other is waited for.
    pub(super) fn on_bad_note(&mut self) {
        self.is_note_posted = false;
        self.told += ENTRIES_MAX as u64;
    }

    /// The next chunk in order that has come and was spoken of.
    pub(super) fn next_to_verify(&mut self) -> Option<(Entry, Entry)> {
        if self.said.is_empty() || !matches!(self.arrived.front(), Some(Some(_))) {
            return None;
        }
        let arrived = self.arrived.pop_front().flatten()?;
        self.verified += 1;
        Some((arrived, self.said.pop_front()?))
    }

    pub(super) fn on_stop(&mut self) {
        if self.stop == Stop::No {
            self.stop = Stop::New;
        }
    }

    /// Whether the sender has stopped since this was asked last.
    pub(super) fn has_newly_stopped(&mut self) -> bool {
        let is_new = self.stop == Stop::New;
        if is_new {
            self.stop = Stop::Settled;
        }
        is_new
    }

    /// Whether a note about chunks that came is still under way: a sender that stops has told of every full batch
    /// and of no other.
    pub(super) fn is_note_due(&self) -> bool {
        let batch = ENTRIES_MAX as u64;
        self.told < self.came / batch * batch
    }

    /// Whether nothing more will come.
    pub(super) fn is_complete(&self) -> bool {
        if self.under_way > 0 || self.is_note_posted || self.lengths == Lengths::Posted {
            return false;
        }
        match self.stop {
            Stop::No => self.leg == self.legs.len() && self.told >= self.posted,
            Stop::New | Stop::Settled => !self.is_note_due(),
        }
    }

    pub(super) fn into_legs(self) -> Vec<Leg> {
        self.legs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redistribute::leg::LegBytes;
    use pcm_core::redistribution::{TransferId, TransferKind};
    use pcm_proto::ids::{Rank, RegionId};

    /// A stream of one parcel of so many bytes, in chunks of one byte.
    fn stream(bytes: u64) -> InStream {
        let id = TransferId {
            kind: TransferKind::Parcel,
            from: Rank(0),
            to: Rank(1),
        };
        let leg = Leg {
            region: RegionId(0),
            id,
            bytes: LegBytes::Parcel(None),
        };
        let mut stream = InStream::new(0, vec![leg]);
        assert!(stream.wants_lengths() && stream.next_chunk(1).is_none());
        stream.lengths_are_posted();
        assert!(!stream.is_complete());
        stream.on_lengths(&[bytes]).expect("there is room");
        stream
    }

    fn post(stream: &mut InStream) -> (u64, ChunkHeader) {
        let header = stream.next_chunk(1).expect("there is more");
        (stream.chunk_is_posted(), header)
    }

    fn come(stream: &mut InStream, number: u64, header: ChunkHeader) {
        stream.chunk_is_done();
        stream.chunk_count();
        stream.on_arrived(number, header, number);
    }

    #[test]
    fn chunks_are_verified_in_order_whatever_comes_first() {
        let mut stream = stream(3);
        let posted: Vec<_> = (0..3).map(|_| post(&mut stream)).collect();
        assert!(!stream.wants_chunk(4) && stream.wants_note());
        stream.note_is_posted();
        come(&mut stream, posted[2].0, posted[2].1);
        come(&mut stream, posted[0].0, posted[0].1);
        assert_eq!(stream.next_to_verify(), None);
        let entries = posted.iter().map(|(number, header)| Entry {
            header: *header,
            checksum: *number,
        });
        stream.on_note(entries.collect());
        let (arrived, said) = stream.next_to_verify().expect("the first is here");
        assert_eq!(arrived, said);
        assert_eq!(stream.next_to_verify(), None);
        come(&mut stream, posted[1].0, posted[1].1);
        assert!(stream.next_to_verify().is_some() && stream.next_to_verify().is_some());
        assert!(stream.is_complete());
    }

    #[test]
    fn data_of_no_bytes_needs_no_message() {
        let mut stream = stream(0);
        assert_eq!(stream.empty_parcels().count(), 1);
        assert_eq!(stream.next_chunk(1), None);
        assert!(stream.is_complete());
    }

    #[test]
    fn a_sender_that_stops_is_waited_for_up_to_its_last_full_note() {
        let batch = ENTRIES_MAX as u64;
        let mut stream = stream(3 * batch);
        for _ in 0..=batch {
            post(&mut stream);
            stream.chunk_is_done();
            stream.chunk_count();
        }
        post(&mut stream);
        stream.chunk_is_done();
        stream.on_stop();
        assert!(stream.has_newly_stopped() && !stream.has_newly_stopped());
        assert!(stream.wants_note() && !stream.is_complete());
        stream.note_is_posted();
        let (entry, header) = (
            0..batch,
            stream.legs[0]
                .chunks(1)
                .and_then(|mut chunks| chunks.next())
                .expect("one"),
        );
        stream.on_note(entry.map(|checksum| Entry { header, checksum }).collect());
        assert!(!stream.wants_note() && stream.is_complete());
    }
}
