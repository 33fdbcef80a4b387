//! Numbers the ordered messages to one daemon and puts those from one daemon back in order, whichever transport
//! carried each of them. Rules: `README.md` beside this file. Pure: time is an argument. Never looks into a message.

#[cfg(test)]
mod tests;

use pcm_proto::envelope::Ordinal;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// How long early messages are held. A missing message is in another queue of this process or arrives within the
/// deadline of a datagram; only a lost one takes longer.
const HELD_FOR: Duration = Duration::from_secs(1);

/// Early messages held. A correct daemon has at most this many messages waiting for a link.
const HELD_MAX: usize = 1024;

/// Earlier lives of the other daemon whose messages are recognised; packets and links do not outlive more of them.
const EARLIER_LIVES_MAX: usize = 8;

/// Numbers the messages to one daemon.
#[derive(Debug)]
pub(super) struct SendSequence {
    boot: u64,
    next: u64,
    since: u64,
}

impl SendSequence {
    /// Starts at 0 in this life of the own daemon.
    pub(super) fn new(boot: u64) -> Self {
        Self {
            boot,
            next: 0,
            since: 0,
        }
    }

    /// The ordinal of the next message; [`advance`](Self::advance) uses it up.
    pub(super) fn next_ordinal(&self) -> Ordinal {
        self.ordinal_of(self.next)
    }

    /// Uses up the next ordinal.
    pub(super) fn advance(&mut self) -> Ordinal {
        let ordinal = self.next_ordinal();
        self.next += 1;
        ordinal
    }

    /// The present ordinal of a message with this number, to send it again.
    pub(super) fn ordinal_of(&self, number: u64) -> Ordinal {
        Ordinal {
            boot: self.boot,
            number,
            since: self.since,
        }
    }

    /// Messages sent so far may be lost, except one that will be sent again.
    pub(super) fn give_up(&mut self, except: Option<u64>) {
        self.since = except.unwrap_or(self.next);
    }
}

/// Messages to deliver now.
#[derive(Debug)]
pub(super) struct Released<M> {
    pub(super) messages: Vec<M>,
    /// A message before one of these is lost, and its sender does not know.
    pub(super) has_gap: bool,
}

/// Puts the messages of one daemon in order.
#[derive(Debug)]
pub(super) struct ReceiveSequence<M> {
    boot: Option<u64>,
    earlier_lives: VecDeque<u64>,
    next: u64,
    /// The highest `since` received: messages with lower numbers may be lost.
    since: u64,
    held: BTreeMap<u64, M>,
    held_at: Option<Instant>,
}

impl<M> Default for ReceiveSequence<M> {
    fn default() -> Self {
        Self {
            boot: None,
            earlier_lives: VecDeque::new(),
            next: 0,
            since: 0,
            held: BTreeMap::new(),
            held_at: None,
        }
    }
}

impl<M> ReceiveSequence<M> {
    /// Takes a message.
    pub(super) fn on_message(&mut self, ordinal: Ordinal, message: M, now: Instant) -> Released<M> {
        let mut messages = Vec::new();
        let mut has_gap = false;
        if self.is_of_this_life(ordinal) && ordinal.number >= self.next {
            self.since = self.since.max(ordinal.since);
            self.held.entry(ordinal.number).or_insert(message);
            self.drain(&mut messages);
            if self.held.len() > HELD_MAX {
                has_gap = self.skip_all(&mut messages);
            }
            self.held_at = (!self.held.is_empty()).then(|| self.held_at.unwrap_or(now));
        }
        Released { messages, has_gap }
    }

    /// Skips messages that have been missing for too long.
    pub(super) fn on_time(&mut self, now: Instant) -> Released<M> {
        let mut messages = Vec::new();
        let mut has_gap = false;
        if let Some(at) = self.held_at
            && now.saturating_duration_since(at) >= HELD_FOR
        {
            has_gap = self.skip_all(&mut messages);
            self.held_at = None;
        }
        Released { messages, has_gap }
    }

    fn is_of_this_life(&mut self, ordinal: Ordinal) -> bool {
        if self.boot == Some(ordinal.boot) {
            return true;
        }
        if self.earlier_lives.contains(&ordinal.boot) {
            return false;
        }
        self.earlier_lives.extend(self.boot.replace(ordinal.boot));
        if self.earlier_lives.len() > EARLIER_LIVES_MAX {
            self.earlier_lives.pop_front();
        }
        // A message its sender takes for lost may be on a link whose event has not been handled yet.
        self.next = 0;
        self.since = ordinal.since;
        self.held.clear();
        self.held_at = None;
        true
    }

    fn drain(&mut self, messages: &mut Vec<M>) {
        while let Some(message) = self.held.remove(&self.next) {
            messages.push(message);
            self.next += 1;
        }
    }

    /// Skips missing messages that their sender takes for lost.
    fn skip_given_up(&mut self, messages: &mut Vec<M>) {
        while let Some(first) = self.held.first_entry()
            && *first.key() < self.since
        {
            messages.push(first.remove());
        }
        self.next = self.next.max(self.since);
        self.drain(messages);
    }

    /// Skips all missing messages. Returns whether their sender does not know that one is lost.
    fn skip_all(&mut self, messages: &mut Vec<M>) -> bool {
        self.skip_given_up(messages);
        let has_gap = !self.held.is_empty();
        while let Some(first) = self.held.keys().next().copied() {
            self.next = first;
            self.drain(messages);
        }
        has_gap
    }
}
