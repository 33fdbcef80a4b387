//! Messages on their way to one peer: what is sent next, what is sent again, what has arrived or failed. Pure; does
//! not know how packets are sealed or sent.

use super::{
    limits::DatagramLimits,
    path::Path,
    wire::{Fragment, Incarnation, fragment_range},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    time::Duration,
};

/// Messages that may overtake one another; the receiver keeps a bit for each.
pub(super) const OVERTAKING_MAX: u64 = 256;

/// One message given to an endpoint; its outcome names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExchangeId(pub(super) u64);

/// Why a message was not confirmed. It was delivered at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeFailure {
    /// Its deadline passed without confirmation.
    Deadline,
    /// The peer restarted after all of the message had been sent, so only its former life may have received it.
    PeerRestarted,
}

impl fmt::Display for ExchangeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => write!(
                f,
                "the peer did not confirm the message in time; it may be down, unreachable or overloaded"
            ),
            Self::PeerRestarted => write!(
                f,
                "the peer restarted while the message was under way; ask it what it knows before sending again"
            ),
        }
    }
}

impl std::error::Error for ExchangeFailure {}

#[derive(Debug)]
struct Message {
    exchange: ExchangeId,
    bytes: Vec<u8>,
    count: u8,
    begun: u8,
    acked: u64,
    repeated: u64,
    deadline: Duration,
}

impl Message {
    fn all(&self) -> u64 {
        first_bits(self.count)
    }

    fn begun_fragments(&self) -> u64 {
        first_bits(self.begun)
    }
}

fn first_bits(count: u8) -> u64 {
    u64::MAX.checked_shr(64 - u32::from(count)).unwrap_or(0)
}

#[derive(Debug)]
struct Flight {
    message: u64,
    index: u8,
    sent: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Proven {
    incarnation: Incarnation,
    cookie: u64,
}

/// What a session does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Send a hello with this number.
    Hello(u64),
    /// Send a fragment of this message with this number.
    Fragment { message: u64, index: u8, counter: u64 },
    /// Nothing before this moment.
    Wait(Duration),
    /// Nothing until something happens.
    Idle,
}

/// The outcome of one message.
pub(super) type Finished = (ExchangeId, Result<(), ExchangeFailure>);

/// A session with one address.
#[derive(Debug)]
pub(super) struct Outbound<A> {
    pub(super) address: A,
    peer: Option<Proven>,
    counter: u64,
    messages: BTreeMap<u64, Message>,
    next_message: u64,
    beginning: u64,
    deadlines: BTreeSet<(Duration, u64)>,
    flights: VecDeque<Flight>,
    again: VecDeque<(u64, u8)>,
    begun_bytes: usize,
    queued_bytes: usize,
    path: Path,
    hello: Option<(u64, Duration)>,
    used: Duration,
    /// When the endpoint will look after this session again.
    pub(super) armed: Option<Duration>,
}

impl<A> Outbound<A> {
    pub(super) fn new(address: A, now: Duration) -> Self {
        Self {
            address,
            peer: None,
            counter: 0,
            messages: BTreeMap::new(),
            next_message: 0,
            beginning: 0,
            deadlines: BTreeSet::new(),
            flights: VecDeque::new(),
            again: VecDeque::new(),
            begun_bytes: 0,
            queued_bytes: 0,
            path: Path::new(now),
            hello: None,
            used: now,
            armed: None,
        }
    }

    pub(super) fn has_room(&self, length: usize, limits: &DatagramLimits) -> bool {
        self.messages.len() < limits.messages_max && self.queued_bytes + length <= limits.queue_bytes_max
    }

    pub(super) fn is_idle_since(&self, moment: Duration) -> bool {
        self.messages.is_empty() && self.used <= moment
    }

    pub(super) fn used(&self) -> Option<Duration> {
        self.messages.is_empty().then_some(self.used)
    }

    pub(super) fn peer(&self) -> Option<(Incarnation, u64)> {
        self.peer.map(|peer| (peer.incarnation, peer.cookie))
    }

    pub(super) fn first_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(when, _)| *when)
    }

    pub(super) fn queue(&mut self, exchange: ExchangeId, bytes: Vec<u8>, deadline: Duration, limits: &DatagramLimits) {
        let fragments = bytes.len().div_ceil(limits.fragment_length_max()).max(1);
        let id = self.next_message;
        self.next_message += 1;
        self.queued_bytes += bytes.len();
        self.deadlines.insert((deadline, id));
        self.messages.insert(
            id,
            Message {
                exchange,
                count: u8::try_from(fragments).unwrap_or(u8::MAX),
                bytes,
                begun: 0,
                acked: 0,
                repeated: 0,
                deadline,
            },
        );
    }

    /// The oldest message that still matters here.
    fn base(&self) -> u64 {
        self.messages.keys().next().copied().unwrap_or(self.next_message)
    }

    /// The fragment to seal for a step.
    pub(super) fn fragment(&self, message: u64, index: u8) -> Option<Fragment<'_>> {
        let found = self.messages.get(&message)?;
        Some(Fragment {
            base: self.base(),
            message,
            length: u32::try_from(found.bytes.len()).ok()?,
            index,
            count: found.count,
            bytes: found
                .bytes
                .get(fragment_range(found.bytes.len(), index, found.count)?)?,
        })
    }

    pub(super) fn step(&mut self, now: Duration, limits: &DatagramLimits) -> Step {
        if self.messages.is_empty() {
            return Step::Idle;
        }
        self.used = now;
        if self.peer.is_none() {
            return self.step_hello(now);
        }
        self.time_out(now);
        let waited_for = self
            .flights
            .front()
            .map(|flight| Step::Wait(flight.sent + self.path.timeout()))
            .unwrap_or(Step::Idle);
        let Some((message, index)) = self.candidate(limits) else {
            return waited_for;
        };
        if !self.path.has_room(self.flights.len()) {
            return waited_for;
        }
        if let Err(when) = self.path.take(now) {
            return Step::Wait(when);
        }
        self.launch(now, message, index);
        let counter = self.count();
        Step::Fragment {
            message,
            index,
            counter,
        }
    }

    fn step_hello(&mut self, now: Duration) -> Step {
        if let Some((_, sent)) = self.hello {
            let again = sent + self.path.timeout();
            if now < again {
                return Step::Wait(again);
            }
            self.path.on_timeout(now);
        }
        let counter = self.count();
        self.hello = Some((counter, now));
        Step::Hello(counter)
    }

    fn count(&mut self) -> u64 {
        let counter = self.counter;
        self.counter += 1;
        counter
    }

    fn time_out(&mut self, now: Duration) {
        let timeout = self.path.timeout();
        let mut is_late = false;
        while let Some(flight) = self.flights.pop_front_if(|flight| flight.sent + timeout <= now) {
            self.again.push_back((flight.message, flight.index));
            is_late = true;
        }
        if is_late {
            self.path.on_timeout(now);
        }
    }

    /// The next fragment to send: a lost one first, then one that was never sent.
    fn candidate(&mut self, limits: &DatagramLimits) -> Option<(u64, u8)> {
        while let Some(&(id, index)) = self.again.front() {
            let matters = self
                .messages
                .get(&id)
                .is_some_and(|message| message.acked & (1 << index) == 0);
            if matters {
                return Some((id, index));
            }
            self.again.pop_front();
        }
        let base = self.base();
        let (&id, message) = self.messages.range(self.beginning..).next()?;
        self.beginning = id;
        let opens = message.begun == 0;
        let fits = !opens
            || (id < base + OVERTAKING_MAX && self.begun_bytes + message.bytes.len() <= limits.unfinished_bytes_max);
        fits.then_some((id, message.begun))
    }

    fn launch(&mut self, now: Duration, id: u64, index: u8) {
        let Some(message) = self.messages.get_mut(&id) else {
            return;
        };
        if self.again.front() == Some(&(id, index)) {
            self.again.pop_front();
            message.repeated |= 1 << index;
        } else {
            if message.begun == 0 {
                self.begun_bytes += message.bytes.len();
            }
            message.begun += 1;
            if message.begun == message.count {
                self.beginning = id + 1;
            }
        }
        self.flights.push_back(Flight {
            message: id,
            index,
            sent: now,
        });
    }

    pub(super) fn on_ack(
        &mut self,
        now: Duration,
        done_below: u64,
        entries: impl Iterator<Item = (u64, u64)>,
        out: &mut Vec<Finished>,
    ) {
        for (id, have) in entries.take(usize::from(super::wire::FRAGMENTS_MAX)) {
            if let Some(message) = self.messages.get_mut(&id) {
                // A fragment that was never sent cannot have arrived.
                message.acked |= have & message.begun_fragments();
            }
        }
        for (_, message) in self.messages.range_mut(..done_below) {
            if message.begun == message.count {
                message.acked = message.all();
            }
        }
        self.land(now);
        let done: Vec<u64> = self
            .messages
            .iter()
            .filter(|(_, message)| message.begun == message.count && message.acked == message.all())
            .map(|(id, _)| *id)
            .collect();
        for id in done {
            self.finish(id, Ok(()), out);
        }
    }

    /// Takes what has arrived out of the air, and learns from it.
    fn land(&mut self, now: Duration) {
        let (mut arrived, mut newest, mut sample) = (0, None, None);
        let messages = &self.messages;
        self.flights.retain(|flight| {
            let Some(message) = messages.get(&flight.message) else {
                return false;
            };
            let bit = 1 << flight.index;
            if message.acked & bit == 0 {
                return true;
            }
            arrived += 1;
            newest = newest.max(Some(flight.sent));
            if message.repeated & bit == 0 {
                sample = Some(now.saturating_sub(flight.sent));
            }
            false
        });
        if let Some(sample) = sample {
            self.path.on_round_trip(sample);
        }
        if arrived > 0 {
            self.path.on_acked(arrived);
        }
        let reordering = self.path.reordering();
        while let Some(flight) = self
            .flights
            .pop_front_if(|flight| Some(flight.sent) < newest && flight.sent + reordering <= now)
        {
            self.again.push_back((flight.message, flight.index));
            self.path.on_loss(now);
        }
    }

    /// Believes an authentic challenge if it answers this session; the session then needs a new number.
    pub(super) fn on_challenge(
        &mut self,
        now: Duration,
        incarnation: Incarnation,
        cookie: u64,
        answered: u64,
        out: &mut Vec<Finished>,
    ) -> bool {
        if answered >= self.counter {
            return false;
        }
        if let Some((counter, sent)) = self.hello.take()
            && counter == answered
        {
            self.path.on_round_trip(now.saturating_sub(sent));
        }
        let restarted = self.peer.is_some_and(|peer| peer.incarnation != incarnation);
        self.peer = Some(Proven { incarnation, cookie });
        self.path.on_acked(0);
        let unsure: Vec<u64> = self
            .messages
            .iter()
            .filter(|(_, message)| restarted && message.begun == message.count)
            .map(|(id, _)| *id)
            .collect();
        for id in unsure {
            self.finish(id, Err(ExchangeFailure::PeerRestarted), out);
        }
        for message in self.messages.values_mut() {
            message.begun = 0;
            message.acked = 0;
            message.repeated = 0;
        }
        self.flights.clear();
        self.again.clear();
        self.begun_bytes = 0;
        self.beginning = self.base();
        self.counter = 0;
        true
    }

    /// Fails what is overdue.
    pub(super) fn expire(&mut self, now: Duration, out: &mut Vec<Finished>) {
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= now
        {
            self.finish(id, Err(ExchangeFailure::Deadline), out);
        }
    }

    fn finish(&mut self, id: u64, outcome: Result<(), ExchangeFailure>, out: &mut Vec<Finished>) {
        let Some(message) = self.messages.remove(&id) else {
            return;
        };
        self.deadlines.remove(&(message.deadline, id));
        self.queued_bytes -= message.bytes.len();
        if message.begun > 0 {
            self.begun_bytes -= message.bytes.len();
            self.flights.retain(|flight| flight.message != id);
        }
        out.push((message.exchange, outcome));
    }
}
