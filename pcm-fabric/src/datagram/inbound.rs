//! Messages on their way from one peer: fragments put together, duplicates recognised, acknowledgements owed. Pure.

use super::{
    limits::{DatagramLimits, MESSAGE_LENGTH_MAX},
    outbound::OVERTAKING_MAX,
    replay::Seen,
    wire::{Fragment, fragment_range},
};
use ring::aead::LessSafeKey;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Entries of one acknowledgement; with them it still fits into the smallest packet.
const ACK_ENTRIES_MAX: usize = 64;

struct Partial {
    bytes: Vec<u8>,
    count: u8,
    have: u64,
}

/// What became of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It completed this message.
    Message(Vec<u8>),
    /// More fragments are missing.
    Kept,
    /// The message was complete before.
    Duplicate,
    /// There is no room for it now; its sender will send it again.
    NoRoom,
    /// It contradicts earlier fragments or the limits; only a member gone mad sends it.
    Malformed,
}

/// One peer that sends to us.
pub(super) struct Inbound<A> {
    pub(super) address: A,
    pub(super) key: LessSafeKey,
    pub(super) epoch: u32,
    pub(super) session: u32,
    pub(super) seen: Seen,
    pub(super) heard: Duration,
    done_below: u64,
    done: BTreeSet<u64>,
    partial: BTreeMap<u64, Partial>,
    partial_bytes: usize,
    touched: Vec<u64>,
    pub(super) owes_ack: bool,
}

impl<A> Inbound<A> {
    pub(super) fn new(address: A, key: LessSafeKey, epoch: u32, session: u32, now: Duration) -> Self {
        Self {
            address,
            key,
            epoch,
            session,
            seen: Seen::default(),
            heard: now,
            done_below: 0,
            done: BTreeSet::new(),
            partial: BTreeMap::new(),
            partial_bytes: 0,
            touched: Vec::new(),
            owes_ack: false,
        }
    }

    pub(super) fn partial_bytes(&self) -> usize {
        self.partial_bytes
    }

    /// Takes a fragment; `room` says how many bytes of unfinished messages all peers together may still add, and
    /// whether a complete message can be handed on.
    pub(super) fn on_fragment(
        &mut self,
        fragment: &Fragment<'_>,
        limits: &DatagramLimits,
        room: usize,
        can_deliver: bool,
    ) -> Taken {
        self.forget_below(fragment.base);
        let id = fragment.message;
        if id < self.done_below || self.done.contains(&id) {
            self.touch(id);
            return Taken::Duplicate;
        }
        let length = usize::try_from(fragment.length).unwrap_or(usize::MAX);
        if id >= self.done_below + OVERTAKING_MAX || length > MESSAGE_LENGTH_MAX {
            return Taken::Malformed;
        }
        let taken = if fragment.count == 1 && !self.partial.contains_key(&id) {
            if !can_deliver {
                return Taken::NoRoom;
            }
            Taken::Message(fragment.bytes.to_vec())
        } else {
            self.on_part(fragment, length, limits, room, can_deliver)
        };
        match taken {
            Taken::Message(_) => {
                self.done.insert(id);
                while self.done.remove(&self.done_below) {
                    self.done_below += 1;
                }
                self.touch(id);
            }
            Taken::Kept => self.touch(id),
            Taken::Duplicate | Taken::NoRoom | Taken::Malformed => {}
        }
        taken
    }

    fn on_part(
        &mut self,
        fragment: &Fragment<'_>,
        length: usize,
        limits: &DatagramLimits,
        room: usize,
        can_deliver: bool,
    ) -> Taken {
        let Some(range) = fragment_range(length, fragment.index, fragment.count) else {
            return Taken::Malformed;
        };
        if !self.partial.contains_key(&fragment.message) {
            if length > room || self.partial_bytes + length > limits.unfinished_bytes_max {
                return Taken::NoRoom;
            }
            self.partial_bytes += length;
            let fresh = Partial {
                bytes: vec![0; length],
                count: fragment.count,
                have: 0,
            };
            self.partial.insert(fragment.message, fresh);
        }
        let Some(partial) = self.partial.get_mut(&fragment.message) else {
            return Taken::Malformed;
        };
        if partial.bytes.len() != length || partial.count != fragment.count {
            return Taken::Malformed;
        }
        let have = partial.have | 1 << fragment.index;
        let is_complete = have == u64::MAX >> (64 - u32::from(partial.count));
        if is_complete && !can_deliver {
            return Taken::NoRoom;
        }
        partial.bytes[range].copy_from_slice(fragment.bytes);
        partial.have = have;
        if !is_complete {
            return Taken::Kept;
        }
        self.partial_bytes -= length;
        self.partial
            .remove(&fragment.message)
            .map_or(Taken::Malformed, |partial| Taken::Message(partial.bytes))
    }

    /// The sender no longer cares for older messages: they are complete or failed.
    fn forget_below(&mut self, base: u64) {
        if base <= self.done_below {
            return;
        }
        self.done_below = base;
        self.done = self.done.split_off(&base);
        while self.done.remove(&self.done_below) {
            self.done_below += 1;
        }
        let kept = self.partial.split_off(&base);
        for dropped in std::mem::replace(&mut self.partial, kept).into_values() {
            self.partial_bytes -= dropped.bytes.len();
        }
    }

    fn touch(&mut self, id: u64) {
        self.owes_ack = true;
        if !self.touched.contains(&id) {
            if self.touched.len() == ACK_ENTRIES_MAX {
                self.touched.remove(0);
            }
            self.touched.push(id);
        }
    }

    /// What is owed to the peer: never more entries than packets came since the last time.
    pub(super) fn acknowledge(&mut self, entries: &mut Vec<(u64, u64)>) -> u64 {
        self.owes_ack = false;
        for id in self.touched.drain(..) {
            let have = match self.partial.get(&id) {
                Some(partial) => partial.have,
                None if id < self.done_below || self.done.contains(&id) => u64::MAX,
                None => 0,
            };
            entries.push((id, have));
        }
        self.done_below
    }
}
