//! What this process sends: one stream of chunks to each process that gets something, a few streams at a time, a few
//! chunks of each under way. Never waits.
#![allow(unsafe_code, reason = "hands memory to MPI")]

use super::{
    Limits, MoveError,
    checksum::checksum,
    leg::Leg,
    notes::{ENTRIES_MAX, Entry, entries_encode, lengths_encode},
    pending::{Pending, Purpose, tag},
    staging::Staging,
};
use crate::mpi::Transport;
use pcm_core::redistribution::{ChunkHeader, Chunks};
use pcm_proto::{ids::Bytes, reconfiguration::Tally};

/// Everything that leaves.
#[derive(Debug)]
pub(super) struct Outbound {
    streams: Vec<OutStream>,
    limits: Limits,
    token: u64,
    staging: Staging,
    sent: Tally,
    are_lengths_sent: bool,
}

/// Everything that leaves for one process.
#[derive(Debug)]
struct OutStream {
    to: u32,
    legs: Vec<Leg>,
    /// The leg whose chunks are being sent.
    leg: usize,
    chunks: Option<Chunks>,
    are_lengths_sent: bool,
    /// Chunks sent since the last note.
    entries: Vec<Entry>,
    under_way: usize,
    is_all_posted: bool,
}

impl Outbound {
    /// `streams`: by receiver, in the order in which they are to be served; in each the legs in the order in which
    /// the receiver expects them, opaque data last.
    pub(super) fn new(streams: Vec<(u32, Vec<Leg>)>, limits: Limits, token: u64) -> Self {
        let stream = |(to, legs)| OutStream {
            to,
            legs,
            leg: 0,
            chunks: None,
            are_lengths_sent: false,
            entries: Vec::new(),
            under_way: 0,
            is_all_posted: false,
        };
        Self {
            streams: streams.into_iter().map(stream).collect(),
            limits,
            token,
            staging: Staging::new(limits.chunk_bytes, limits.in_flight * limits.peers),
            sent: Tally::default(),
            are_lengths_sent: false,
        }
    }

    /// Posts what may be posted now; says whether that was anything.
    pub(super) fn post(&mut self, transfer: &dyn Transport, pending: &mut Pending) -> Result<bool, MoveError> {
        let mut has_posted = false;
        let mut served = 0;
        if !self.are_lengths_sent {
            self.are_lengths_sent = true;
            // To all at once: where data belongs may depend on how much others give.
            for stream in &mut self.streams {
                has_posted |= stream.lengths_post(self.token, transfer, pending)?;
                // Who hears that all of it is empty waits for nothing more, not for word of a stop either.
                stream.is_all_posted = stream.next_chunk(self.limits.chunk_bytes as u64).is_none();
            }
        }
        for (place, stream) in self.streams.iter_mut().enumerate() {
            if stream.is_all_posted && stream.under_way == 0 {
                continue;
            }
            served += 1;
            if served > self.limits.peers {
                break;
            }
            while !stream.is_all_posted && stream.under_way < self.limits.in_flight {
                let (staging, sent) = (&mut self.staging, &mut self.sent);
                if !stream.chunk_post(place, self.limits, staging, sent, transfer, pending)? {
                    break;
                }
                has_posted = true;
                stream.note_post(self.token, transfer, pending)?;
            }
        }
        Ok(has_posted)
    }

    /// A chunk has left.
    pub(super) fn on_sent(&mut self, stream: usize, staged: Option<Vec<u8>>) {
        self.streams[stream].under_way -= 1;
        staged.into_iter().for_each(|buffer| self.staging.give_back(buffer));
    }

    /// Sends no more: receivers are told, unless they have everything.
    pub(super) fn stop(&mut self, transfer: &dyn Transport, pending: &mut Pending) -> Result<(), MoveError> {
        // Lengths that were not sent by now are not sent later.
        self.are_lengths_sent = true;
        for stream in self.streams.iter_mut().filter(|stream| !stream.is_all_posted) {
            // Of a stream that was never begun, lengths are what its receiver waits for first.
            let is_begun = stream.are_lengths_sent || !stream.has_parcels();
            let tag = if is_begun { tag::DATA } else { tag::LENGTHS };
            // SAFETY: there are no bytes.
            let request = unsafe { transfer.isend(&[], stream.to, tag)? };
            pending.add(request, Purpose::Note(Vec::new()));
            stream.is_all_posted = true;
        }
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.streams
            .iter()
            .all(|stream| stream.is_all_posted && stream.under_way == 0)
    }

    /// What has been sent.
    pub(super) fn tally(&self) -> Tally {
        self.sent
    }
}

impl OutStream {
    fn has_parcels(&self) -> bool {
        self.legs.iter().any(Leg::is_parcel)
    }

    fn lengths_post(&mut self, token: u64, transfer: &dyn Transport, pending: &mut Pending) -> Result<bool, MoveError> {
        if self.are_lengths_sent || !self.has_parcels() {
            return Ok(false);
        }
        let parcels = self.legs.iter().filter(|leg| leg.is_parcel());
        let lengths: Vec<u64> = parcels.map(|leg| leg.total().unwrap_or(0)).collect();
        let note = lengths_encode(token, &lengths);
        // SAFETY: the note is owned by its purpose.
        let request = unsafe { transfer.isend(&note, self.to, tag::LENGTHS)? };
        pending.add(request, Purpose::Note(note));
        self.are_lengths_sent = true;
        Ok(true)
    }

    /// Posts the next chunk; false if there is no buffer for it.
    fn chunk_post(
        &mut self,
        place: usize,
        limits: Limits,
        staging: &mut Staging,
        sent: &mut Tally,
        transfer: &dyn Transport,
        pending: &mut Pending,
    ) -> Result<bool, MoveError> {
        let chunk_max = limits.chunk_bytes as u64;
        let Some(header) = self.next_chunk(chunk_max) else {
            self.is_all_posted = true;
            return Ok(true);
        };
        let leg = &mut self.legs[self.leg];
        let length = header.length as usize;
        let (bytes, staged) = match leg.direct(&header) {
            // SAFETY: the plan says that these bytes are there; old cells do not change before the commit.
            Some(first) => (unsafe { std::slice::from_raw_parts(first.as_ptr(), length) }, None),
            None => {
                let Some(mut buffer) = staging.take() else {
                    return Ok(false);
                };
                // SAFETY: as above.
                unsafe { leg.gather(&header, &mut buffer[..length]) };
                // SAFETY: the buffer's bytes stay where they are while its purpose owns it.
                (
                    unsafe { std::slice::from_raw_parts(buffer.as_ptr(), length) },
                    Some(buffer),
                )
            }
        };
        // SAFETY: the bytes stay as they are until the request is complete, see above.
        let request = unsafe { transfer.isend(bytes, self.to, tag::DATA)? };
        // After the send: the receiver's copying and this computation overlap.
        let checksum = checksum(bytes);
        pending.add(request, Purpose::Chunk { stream: place, staged });
        self.under_way += 1;
        self.entries.push(Entry { header, checksum });
        *sent = sent.plus(Tally {
            bytes: Bytes(header.length),
            checksum,
            ahead: Bytes(0),
        });
        if let Some(chunks) = &mut self.chunks {
            chunks.next();
        }
        self.is_all_posted = self.next_chunk(chunk_max).is_none();
        Ok(true)
    }

    /// The next chunk that has bytes; none if all are sent.
    fn next_chunk(&mut self, chunk_max: u64) -> Option<ChunkHeader> {
        loop {
            let leg = self.legs.get(self.leg)?;
            let chunks = match &mut self.chunks {
                Some(chunks) => chunks,
                None => self
                    .chunks
                    .insert(leg.chunks(chunk_max).expect("a sender knows its lengths")),
            };
            match chunks.clone().next() {
                Some(header) if header.length > 0 => return Some(header),
                _ => (self.leg, self.chunks) = (self.leg + 1, None),
            }
        }
    }

    fn note_post(&mut self, token: u64, transfer: &dyn Transport, pending: &mut Pending) -> Result<(), MoveError> {
        let is_due = self.entries.len() == ENTRIES_MAX || (self.is_all_posted && !self.entries.is_empty());
        if is_due {
            let note = entries_encode(token, &self.entries);
            self.entries.clear();
            // SAFETY: the note is owned by its purpose.
            let request = unsafe { transfer.isend(&note, self.to, tag::NOTE)? };
            pending.add(request, Purpose::Note(note));
        }
        Ok(())
    }
}
