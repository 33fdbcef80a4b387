//! The order of messages to and from one other daemon, whatever carries each of them: numbers given on one side; on the
//! other side what comes twice is dropped and what comes early is held, within limits. A number that is missing for
//! good ends what the links promised, like a link that breaks. Pure; never knows what a message says.

use pcm_proto::fabric::Ordinal;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// How long early messages are held. What is missing is in another queue of this process or comes within the
/// deadline of a datagram, so only one that is lost takes longer.
const HELD_FOR: Duration = Duration::from_secs(1);

/// Early messages held: more than a daemon has waiting for a link at once come early only from one that goes wrong.
const HELD_MAX: usize = 1024;

/// Former lives of the other daemon whose messages are recognised; packets and links do not outlive more of them.
const FORMER_MAX: usize = 8;

/// The numbers of what is sent to one daemon.
#[derive(Debug)]
pub(super) struct Outgoing {
    boot: u64,
    next: u64,
    since: u64,
}

impl Outgoing {
    /// In this life of the own daemon nothing was sent yet.
    pub(super) fn new(boot: u64) -> Self {
        Self {
            boot,
            next: 0,
            since: 0,
        }
    }

    /// The ordinal of the next message. It stays the next one's until it is [taken](Self::take).
    pub(super) fn peek(&self) -> Ordinal {
        self.again(self.next)
    }

    /// The ordinal of the message that is sent now.
    pub(super) fn take(&mut self) -> Ordinal {
        let ordinal = self.peek();
        self.next += 1;
        ordinal
    }

    /// The ordinal of a message with this number that is sent once more.
    pub(super) fn again(&self, number: u64) -> Ordinal {
        Ordinal {
            boot: self.boot,
            number,
            since: self.since,
        }
    }

    /// What was sent may be lost, but for a message that will be sent again.
    pub(super) fn give_up(&mut self, but: Option<u64>) {
        self.since = but.unwrap_or(self.next);
    }
}

/// What a message, or a while without one, sets free.
#[derive(Debug)]
pub(super) struct Freed<M> {
    /// Messages whose turn it is, in order.
    pub(super) messages: Vec<M>,
    /// Something between them is missing for good, and its sender does not know.
    pub(super) is_broken: bool,
}

/// The messages of one daemon.
#[derive(Debug)]
pub(super) struct Incoming<M> {
    boot: Option<u64>,
    former: VecDeque<u64>,
    next: u64,
    /// The highest number of which the sender said that those below it may be lost.
    since: u64,
    held: BTreeMap<u64, M>,
    held_at: Option<Instant>,
}

impl<M> Default for Incoming<M> {
    fn default() -> Self {
        Self {
            boot: None,
            former: VecDeque::new(),
            next: 0,
            since: 0,
            held: BTreeMap::new(),
            held_at: None,
        }
    }
}

impl<M> Incoming<M> {
    /// A message came.
    pub(super) fn on_message(&mut self, ordinal: Ordinal, message: M, now: Instant) -> Freed<M> {
        let mut messages = Vec::new();
        let mut is_broken = false;
        if self.is_of_this_life(ordinal) && ordinal.number >= self.next {
            self.since = self.since.max(ordinal.since);
            self.held.entry(ordinal.number).or_insert(message);
            self.drain(&mut messages);
            if self.held.len() > HELD_MAX {
                is_broken = self.skip(&mut messages);
            }
            self.held_at = (!self.held.is_empty()).then(|| self.held_at.unwrap_or(now));
        }
        Freed { messages, is_broken }
    }

    /// Time passes: what was missing for too long is done without.
    pub(super) fn on_time(&mut self, now: Instant) -> Freed<M> {
        let mut messages = Vec::new();
        let mut is_broken = false;
        if let Some(at) = self.held_at
            && now.saturating_duration_since(at) >= HELD_FOR
        {
            is_broken = self.skip(&mut messages);
            self.held_at = None;
        }
        Freed { messages, is_broken }
    }

    fn is_of_this_life(&mut self, ordinal: Ordinal) -> bool {
        if self.boot == Some(ordinal.boot) {
            return true;
        }
        if self.former.contains(&ordinal.boot) {
            return false;
        }
        self.former.extend(self.boot.replace(ordinal.boot));
        if self.former.len() > FORMER_MAX {
            self.former.pop_front();
        }
        // What its sender takes for lost may be on a link of which we have not heard yet.
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

    /// Goes on without what its sender knows to be lost.
    fn jump(&mut self, messages: &mut Vec<M>) {
        while let Some(first) = self.held.first_entry()
            && *first.key() < self.since
        {
            messages.push(first.remove());
        }
        self.next = self.next.max(self.since);
        self.drain(messages);
    }

    /// Goes on without what is missing before every message that is held. Whether its sender does not know of that.
    fn skip(&mut self, messages: &mut Vec<M>) -> bool {
        self.jump(messages);
        let is_broken = !self.held.is_empty();
        while let Some(first) = self.held.keys().next().copied() {
            self.next = first;
            self.drain(messages);
        }
        is_broken
    }
}
