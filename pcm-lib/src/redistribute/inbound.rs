//! What this process receives: one stream of chunks from each process that sends something, a few streams at a time, a
//! few chunks of each awaited, arriving in any order. Bytes go to their place in memory that is not live yet; each
//! chunk is held against what its sender said of it. Never waits.
#![allow(unsafe_code, reason = "hands memory to MPI")]

use super::{
    Limits, MoveError,
    checksum::checksum,
    in_stream::InStream,
    leg::Leg,
    notes::{NOTE_BYTES_MAX, entries_decode, lengths_bytes, lengths_decode},
    pending::{Pending, Purpose, tag},
    staging::Staging,
};
use crate::mpi::{Received, Transport};
use pcm_core::redistribution::{ChunkHeader, Ledger};
use pcm_proto::{ids::Bytes, reconfiguration::Tally};

/// Everything that arrives.
#[derive(Debug)]
pub(super) struct Inbound {
    streams: Vec<InStream>,
    limits: Limits,
    token: u64,
    staging: Staging,
    ledger: Ledger,
    received: Tally,
    are_lengths_posted: bool,
    /// The move was called off: what arrives is taken and forgotten.
    is_draining: bool,
}

impl Inbound {
    /// `streams`: by sender, as [`super::outbound::Outbound::new`] has them at the other end.
    pub(super) fn new(streams: Vec<(u32, Vec<Leg>)>, limits: Limits, token: u64) -> Self {
        let mut ledger = Ledger::default();
        for leg in streams.iter().flat_map(|(_, legs)| legs) {
            ledger.expect(leg.region, leg.id, leg.total());
        }
        Self {
            streams: streams
                .into_iter()
                .map(|(from, legs)| InStream::new(from, legs))
                .collect(),
            limits,
            token,
            staging: Staging::new(limits.chunk_bytes, limits.in_flight * limits.peers),
            ledger,
            received: Tally::default(),
            are_lengths_posted: false,
            is_draining: false,
        }
    }

    /// Posts what may be posted now; says whether that was anything.
    pub(super) fn post(&mut self, transfer: &dyn Transport, pending: &mut Pending) -> Result<bool, MoveError> {
        let mut has_posted = self.lengths_post(transfer, pending)?;
        let mut served = 0;
        for (place, stream) in self.streams.iter_mut().enumerate() {
            if stream.is_complete() {
                continue;
            }
            served += 1;
            if served > self.limits.peers {
                break;
            }
            while stream.wants_chunk(self.limits.in_flight) {
                if !chunk_post(stream, place, self.limits, &mut self.staging, transfer, pending)? {
                    break;
                }
                has_posted = true;
            }
            if stream.wants_note() {
                let mut buffer = vec![0; NOTE_BYTES_MAX];
                // SAFETY: the buffer is owned by its purpose.
                let request = unsafe { transfer.irecv(&mut buffer, stream.from, tag::NOTE)? };
                stream.note_is_posted();
                pending.add(request, Purpose::NoteFrom { stream: place, buffer });
                has_posted = true;
            }
        }
        Ok(has_posted)
    }

    /// Of all at once: where data belongs may depend on how much others give.
    fn lengths_post(&mut self, transfer: &dyn Transport, pending: &mut Pending) -> Result<bool, MoveError> {
        let is_first = !std::mem::replace(&mut self.are_lengths_posted, true);
        let streams = self.streams.iter_mut().enumerate().filter(|_| is_first);
        let mut has_posted = false;
        for (place, stream) in streams.filter(|(_, stream)| stream.wants_lengths()) {
            let mut buffer = vec![0; lengths_bytes(stream.parcels())];
            // SAFETY: the buffer is owned by its purpose.
            let request = unsafe { transfer.irecv(&mut buffer, stream.from, tag::LENGTHS)? };
            stream.lengths_are_posted();
            pending.add(request, Purpose::LengthsFrom { stream: place, buffer });
            has_posted = true;
        }
        Ok(has_posted)
    }

    /// A chunk has arrived, or word that no more will.
    pub(super) fn on_chunk(
        &mut self,
        place: usize,
        number: u64,
        header: ChunkHeader,
        staged: Option<Vec<u8>>,
        received: Received,
    ) -> Result<(), MoveError> {
        let stream = &mut self.streams[place];
        stream.chunk_is_done();
        let outcome = if received.bytes == 0 {
            stream.on_stop();
            Err(MoveError::SenderStopped { from: stream.from })
        } else if received.bytes != header.length {
            Err(MoveError::Unexpected {
                from: stream.from,
                problem: format!("a chunk of {} bytes, {} are due", received.bytes, header.length),
            })
        } else {
            stream.chunk_count();
            Ok(())
        };
        if outcome.is_ok() && !self.is_draining {
            let length = header.length as usize;
            let leg = stream.leg_of(&header);
            let sum = match &staged {
                Some(buffer) => {
                    let sum = checksum(&buffer[..length]);
                    // SAFETY: the place is not live before the commit.
                    unsafe { leg.scatter(&header, &buffer[..length]) };
                    sum
                }
                None => {
                    let first = leg.direct(&header).expect("it was received there");
                    // SAFETY: the bytes have arrived there and nobody else writes them.
                    checksum(unsafe { std::slice::from_raw_parts(first.as_ptr(), length) })
                }
            };
            stream.on_arrived(number, header, sum);
        }
        staged.into_iter().for_each(|buffer| self.staging.give_back(buffer));
        if self.is_draining {
            return Ok(());
        }
        outcome.and_then(|()| self.verify(place))
    }

    /// A note about chunks has arrived.
    pub(super) fn on_note(&mut self, place: usize, buffer: &[u8], received: Received) -> Result<(), MoveError> {
        let stream = &mut self.streams[place];
        let entries = entries_decode(self.token, &buffer[..(received.bytes as usize).min(buffer.len())]);
        match entries {
            Ok(entries) => stream.on_note(entries),
            Err(problem) => {
                stream.on_bad_note();
                if !self.is_draining {
                    return Err(MoveError::Unexpected {
                        from: stream.from,
                        problem,
                    });
                }
            }
        }
        if self.is_draining { Ok(()) } else { self.verify(place) }
    }

    /// A note about lengths has arrived.
    pub(super) fn on_lengths(&mut self, place: usize, buffer: &[u8], received: Received) -> Result<(), MoveError> {
        let stream = &mut self.streams[place];
        if received.bytes == 0 {
            stream.on_no_lengths();
            let stopped = MoveError::SenderStopped { from: stream.from };
            return if self.is_draining { Ok(()) } else { Err(stopped) };
        }
        let lengths = lengths_decode(
            self.token,
            stream.parcels(),
            &buffer[..(received.bytes as usize).min(buffer.len())],
        );
        let taken = lengths.and_then(|lengths| stream.on_lengths(&lengths));
        let unexpected = |problem| MoveError::Unexpected {
            from: stream.from,
            problem,
        };
        taken.map_err(unexpected)?;
        for header in stream.empty_parcels() {
            let refused = |refused| MoveError::refused(stream.from, refused);
            self.ledger.accept(&header).map_err(refused)?;
        }
        Ok(())
    }

    /// Takes and forgets what still comes; streams whose sender has stopped expect nothing more.
    pub(super) fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Gives up receives that nothing will match.
    pub(super) fn cancel_stopped(&mut self, pending: &mut Pending) -> Result<(), MoveError> {
        let streams = &mut self.streams;
        let stopped: Vec<bool> = streams.iter_mut().map(InStream::has_newly_stopped).collect();
        if !stopped.contains(&true) {
            return Ok(());
        }
        pending.cancel(|purpose| match purpose {
            Purpose::ChunkFrom { stream, .. } => stopped[*stream],
            Purpose::NoteFrom { stream, .. } => stopped[*stream] && !streams[*stream].is_note_due(),
            _ => false,
        })
    }

    /// Whether everything has arrived as it was sent, or in a drain, nothing more will.
    pub(super) fn is_complete(&self) -> bool {
        self.streams.iter().all(InStream::is_complete) && (self.is_draining || self.ledger.is_complete())
    }

    /// What has arrived and was found good.
    pub(super) fn tally(&self) -> Tally {
        self.received
    }

    /// The legs, with the opaque data that arrived.
    pub(super) fn into_legs(self) -> impl Iterator<Item = Leg> {
        self.streams.into_iter().flat_map(InStream::into_legs)
    }

    /// Holds what has arrived against what was said of it.
    fn verify(&mut self, place: usize) -> Result<(), MoveError> {
        let stream = &mut self.streams[place];
        while let Some((arrived, said)) = stream.next_to_verify() {
            if arrived.header != said.header {
                return Err(MoveError::Unexpected {
                    from: stream.from,
                    problem: format!(
                        "bytes {}+{} of {} where {}+{} of {} are due",
                        said.header.offset,
                        said.header.length,
                        said.header.transfer,
                        arrived.header.offset,
                        arrived.header.length,
                        arrived.header.transfer
                    ),
                });
            }
            if arrived.checksum != said.checksum {
                return Err(MoveError::Corrupt {
                    chunk: arrived.header,
                    from: stream.from,
                });
            }
            let refused = |refused| MoveError::refused(stream.from, refused);
            self.ledger.accept(&arrived.header).map_err(refused)?;
            self.received = self.received.plus(Tally {
                bytes: Bytes(arrived.header.length),
                checksum: arrived.checksum,
                ahead: Bytes(0),
            });
        }
        Ok(())
    }
}

/// Posts the receive of a stream's next chunk; false if there is no buffer for it.
fn chunk_post(
    stream: &mut InStream,
    place: usize,
    limits: Limits,
    staging: &mut Staging,
    transfer: &dyn Transport,
    pending: &mut Pending,
) -> Result<bool, MoveError> {
    let Some(header) = stream.next_chunk(limits.chunk_bytes as u64) else {
        return Ok(false);
    };
    let length = header.length as usize;
    let (first, staged) = match stream.leg_of(&header).direct(&header) {
        Some(first) => (first.as_ptr(), None),
        None => {
            let Some(mut buffer) = staging.take() else {
                return Ok(false);
            };
            (buffer.as_mut_ptr(), Some(buffer))
        }
    };
    // SAFETY: the bytes are the plan's target, which is not live before the commit, or a buffer that its purpose owns.
    let request = unsafe {
        let room = std::slice::from_raw_parts_mut(first, length);
        transfer.irecv(room, stream.from, tag::DATA)?
    };
    let number = stream.chunk_is_posted();
    pending.add(
        request,
        Purpose::ChunkFrom {
            stream: place,
            number,
            header,
            staged,
        },
    );
    Ok(true)
}
