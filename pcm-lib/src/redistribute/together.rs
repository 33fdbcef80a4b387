//! A move by collective operations: all processes exchange what belongs to one array after the other, then opaque data.
//! Each knows beforehand how much it gets of whom, so that no counts travel; checksums follow at the end. Never waits
//! and never decides.

use super::{
    Limits, MoveError,
    leg::Leg,
    notes::{ENTRIES_MAX, Entry, NOTE_BYTES_MAX, entries_bytes, entries_decode, entries_encode},
    notes::{lengths_bytes, lengths_decode, lengths_encode},
    round::{Round, Side, Subject},
};
use crate::mpi::Transport;
use pcm_core::redistribution::Ledger;
use pcm_proto::{
    ids::{Bytes, RegionId},
    reconfiguration::Tally,
};

/// Both directions of a move.
#[derive(Debug)]
pub(super) struct Together {
    outgoing: Vec<Side>,
    incoming: Vec<Side>,
    /// What is still to be exchanged, last to first; the same on every process.
    subjects: Vec<Subject>,
    round: Option<Round>,
    processes: usize,
    limits: Limits,
    token: u64,
    ledger: Ledger,
    sent: Tally,
    received: Tally,
    /// The move was called off. The exchanges go on all the same, as every process waits for every other in them.
    is_draining: bool,
    /// An exchange that others wait for cannot be made here.
    is_broken: bool,
}

impl Together {
    /// `outgoing` and `incoming`: legs by process, in an order that both ends have, opaque data last. `arrays`: those
    /// that travel, whether or not this process has to do with them.
    pub(super) fn new(
        outgoing: Vec<(u32, Vec<Leg>)>,
        incoming: Vec<(u32, Vec<Leg>)>,
        arrays: impl DoubleEndedIterator<Item = RegionId>,
        processes: u32,
        limits: Limits,
        token: u64,
    ) -> Self {
        let mut ledger = Ledger::default();
        for leg in incoming.iter().flat_map(|(_, legs)| legs) {
            ledger.expect(leg.region, leg.id, leg.total());
        }
        let sides = |streams: Vec<(u32, Vec<Leg>)>| streams.into_iter().map(Side::from).collect();
        let mut subjects = vec![Subject::Notes, Subject::Parcels];
        subjects.extend(arrays.rev().map(Subject::Array));
        subjects.push(Subject::Lengths);
        Self {
            outgoing: sides(outgoing),
            incoming: sides(incoming),
            subjects,
            round: None,
            processes: processes as usize,
            limits,
            token,
            ledger,
            sent: Tally::default(),
            received: Tally::default(),
            is_draining: false,
            is_broken: false,
        }
    }

    /// Goes on as far as possible without waiting, at most by one chunk; says whether anything happened.
    pub(super) fn step(&mut self, transfer: &dyn Transport) -> Result<bool, MoveError> {
        if self.is_broken {
            return Ok(false);
        }
        let outcome = self.step_unbroken(transfer);
        self.is_broken |= matches!(outcome, Err(MoveError::Mpi(_) | MoveError::NoRoom { .. }));
        outcome
    }

    fn step_unbroken(&mut self, transfer: &dyn Transport) -> Result<bool, MoveError> {
        let Some(round) = &mut self.round else {
            let Some(subject) = self.subjects.pop() else {
                return Ok(false);
            };
            self.round = Some(self.round_of(subject)?);
            return Ok(true);
        };
        if round.step(&mut self.outgoing, &mut self.incoming, self.processes, transfer)? {
            return Ok(true);
        }
        if !round.is_over() {
            return Ok(false);
        }
        let Some(round) = self.round.take() else {
            return Ok(false);
        };
        match round.subject() {
            Subject::Lengths => self.on_lengths(&round)?,
            Subject::Notes => self.on_notes(&round)?,
            Subject::Array(_) | Subject::Parcels => {}
        }
        Ok(true)
    }

    fn round_of(&mut self, subject: Subject) -> Result<Round, MoveError> {
        let chunk_max = self.limits.chunk_bytes as u64;
        match subject {
            Subject::Array(_) | Subject::Parcels => {
                Round::of_legs(subject, &mut self.outgoing, &mut self.incoming, chunk_max)
            }
            Subject::Lengths => Round::of_notes(
                subject,
                self.outgoing.iter().map(|side| self.lengths_of(side)).collect(),
                self.incoming
                    .iter()
                    .map(|side| {
                        if side.parcels() == 0 {
                            0
                        } else {
                            lengths_bytes(side.parcels())
                        }
                    })
                    .collect(),
            ),
            Subject::Notes => Round::of_notes(
                subject,
                self.outgoing.iter().map(|side| self.notes_of(side)).collect(),
                self.incoming
                    .iter()
                    .map(|side| notes_bytes(side.entries.len()))
                    .collect(),
            ),
        }
    }

    fn lengths_of(&self, side: &Side) -> Vec<u8> {
        if side.parcels() == 0 {
            return Vec::new();
        }
        let parcels = side.legs.iter().filter(|leg| leg.is_parcel());
        let lengths: Vec<u64> = parcels.map(|leg| leg.total().unwrap_or(0)).collect();
        lengths_encode(self.token, &lengths)
    }

    fn notes_of(&self, side: &Side) -> Vec<u8> {
        let notes = side.entries.chunks(ENTRIES_MAX);
        notes.flat_map(|entries| entries_encode(self.token, entries)).collect()
    }

    /// Makes room for opaque data.
    fn on_lengths(&mut self, round: &Round) -> Result<(), MoveError> {
        for (side, bytes) in self.incoming.iter_mut().zip(round.notes()) {
            if side.parcels() == 0 {
                continue;
            }
            let from = side.process;
            let lengths = lengths_decode(self.token, side.parcels(), bytes);
            let lengths = lengths.map_err(|problem| {
                self.is_broken = true;
                MoveError::Unexpected { from, problem }
            })?;
            side.make_room(&lengths)?;
            for header in side.empty_parcels() {
                let refused = |refused| MoveError::refused(from, refused);
                self.ledger.accept(&header).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Holds what has arrived against what was said of it.
    fn on_notes(&mut self, round: &Round) -> Result<(), MoveError> {
        for entry in self.outgoing.iter().flat_map(|side| &side.entries) {
            self.sent = self.sent.plus(tally(entry));
        }
        if self.is_draining {
            return Ok(());
        }
        for (side, bytes) in self.incoming.iter().zip(round.notes()) {
            let from = side.process;
            let unexpected = |problem: String| MoveError::Unexpected { from, problem };
            let mut said = Vec::with_capacity(side.entries.len());
            for note in bytes.chunks(NOTE_BYTES_MAX) {
                said.extend(entries_decode(self.token, note).map_err(unexpected)?);
            }
            if said.len() != side.entries.len() {
                return Err(unexpected(format!(
                    "word of {} chunks where {} have come",
                    said.len(),
                    side.entries.len()
                )));
            }
            for (arrived, said) in side.entries.iter().zip(&said) {
                if arrived.header != said.header {
                    return Err(unexpected(format!(
                        "{:?} where {:?} is due",
                        said.header, arrived.header
                    )));
                }
                if arrived.checksum != said.checksum {
                    let chunk = arrived.header;
                    return Err(MoveError::Corrupt { chunk, from });
                }
                let refused = |refused| MoveError::refused(from, refused);
                self.ledger.accept(&arrived.header).map_err(refused)?;
                self.received = self.received.plus(tally(arrived));
            }
        }
        Ok(())
    }

    /// Whether everything has left and everything has come as it was sent.
    pub(super) fn is_complete(&self) -> bool {
        let is_over = self.round.is_none() && self.subjects.is_empty();
        is_over && (self.is_draining || self.ledger.is_complete())
    }

    /// What left and what came.
    pub(super) fn tallies(&self) -> (Tally, Tally) {
        (self.sent, self.received)
    }

    /// What comes from now on is of no interest.
    pub(super) fn stop(&mut self) {
        self.is_draining = true;
    }

    /// Number of exchanges that are not over.
    pub(super) fn under_way(&self) -> usize {
        usize::from(self.round.is_some()) + self.subjects.len()
    }

    /// What arrived as opaque data.
    pub(super) fn into_legs(self) -> impl Iterator<Item = Leg> {
        self.incoming.into_iter().flat_map(|side| side.legs)
    }
}

fn tally(entry: &Entry) -> Tally {
    Tally {
        bytes: Bytes(entry.header.length),
        checksum: entry.checksum,
        ahead: Bytes(0),
    }
}

/// Length of all notes about so many chunks.
fn notes_bytes(chunks: usize) -> usize {
    let rest = chunks % ENTRIES_MAX;
    let last = if rest > 0 { entries_bytes(rest) } else { 0 };
    chunks / ENTRIES_MAX * NOTE_BYTES_MAX + last
}
