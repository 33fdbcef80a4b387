//! The datagram protocol as a state machine: packets, messages and moments in, packets and events out. No I/O, no
//! clock, no randomness. Nothing is kept for, and nothing is answered to, a packet that no member sealed; the rules
//! stand in this crate's README.

use super::{
    counters::DatagramCounters,
    inbound::{Inbound, Taken},
    limits::{DEADLINE_MAX, DatagramLimits, MESSAGE_LENGTH_MAX},
    outbound::{ExchangeFailure, ExchangeId, Finished, Outbound, Step},
    seal::{self, Keys},
    wire::{self, Fragment, Header, Incarnation, Kind},
};
use crate::key::ClusterKey;
use ring::aead::LessSafeKey;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    time::Duration,
};

/// Challenges waiting to be sent; those asked for beyond it are asked for again.
const CHALLENGES_MAX: usize = 256;

/// How often silent peers are looked for.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);

/// The session number of packets that answer.
const ANSWERS: u32 = 0;

/// Where packets come from and go to.
pub trait Address: Copy + Ord + fmt::Debug + Send + 'static {}
impl<A: Copy + Ord + fmt::Debug + Send + 'static> Address for A {}

/// A message that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<A> {
    /// Where it came from; not authenticated.
    pub from: A,
    /// Which life of its sender sent it; another one means a restart.
    pub incarnation: Incarnation,
    pub message: Vec<u8>,
}

/// Why a message was not taken; nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is longer than a datagram's message may be.
    TooLong { length: usize },
    /// The deadline is further away than an exchange may take.
    DeadlineTooFar,
    /// Too much waits for this peer already.
    QueueFull,
    /// Exchanges with too many peers are under way.
    TooManyPeers,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { length } => write!(
                f,
                "a message of {length} bytes is longer than the {MESSAGE_LENGTH_MAX} of a datagram: send it over a link"
            ),
            Self::DeadlineTooFar => write!(f, "an exchange may take at most {} s", DEADLINE_MAX.as_secs()),
            Self::QueueFull => write!(
                f,
                "too much waits for this peer already: try again when some is confirmed"
            ),
            Self::TooManyPeers => write!(
                f,
                "exchanges with too many peers are under way: try again when some end"
            ),
        }
    }
}

impl std::error::Error for Refusal {}

struct Challenge<A> {
    address: A,
    to: Incarnation,
    session: u32,
    counter: u64,
}

pub struct Core<A> {
    limits: DatagramLimits,
    keys: Keys,
    incarnation: Incarnation,
    own_key: LessSafeKey,
    sessions: BTreeMap<u32, Outbound<A>>,
    by_address: BTreeMap<A, u32>,
    next_session: u32,
    next_exchange: u64,
    peers: BTreeMap<Incarnation, Inbound<A>>,
    /// Sessions that rest on a challenge of this moment or an older one may be replays.
    floor: u64,
    unfinished_bytes: usize,
    challenges: VecDeque<Challenge<A>>,
    acks: VecDeque<Incarnation>,
    answer_counter: u64,
    ready: BTreeSet<u32>,
    wakes: BTreeSet<(Duration, u32)>,
    next_sweep: Duration,
    received: VecDeque<Received<A>>,
    finished: Vec<Finished>,
    outcomes: VecDeque<Finished>,
    entries: Vec<(u64, u64)>,
    counters: DatagramCounters,
}

impl<A: Address> Core<A> {
    /// An endpoint that begins its life; `incarnation` must be random bytes never used before.
    pub fn new(key: &ClusterKey, epoch: u32, incarnation: Incarnation, limits: DatagramLimits) -> Self {
        let keys = Keys::new(key, epoch);
        Self {
            limits: limits.agreed(),
            own_key: keys.of(epoch, incarnation),
            keys,
            incarnation,
            sessions: BTreeMap::new(),
            by_address: BTreeMap::new(),
            next_session: ANSWERS + 1,
            next_exchange: 0,
            peers: BTreeMap::new(),
            floor: 0,
            unfinished_bytes: 0,
            challenges: VecDeque::new(),
            acks: VecDeque::new(),
            answer_counter: 0,
            ready: BTreeSet::new(),
            wakes: BTreeSet::new(),
            next_sweep: Duration::ZERO,
            received: VecDeque::new(),
            finished: Vec::new(),
            outcomes: VecDeque::new(),
            entries: Vec::new(),
            counters: DatagramCounters::default(),
        }
    }

    /// What was seen, refused and dropped so far.
    pub fn counters(&self) -> DatagramCounters {
        self.counters
    }

    /// Peers and messages that hold memory here: sessions to peers, sessions from peers, answers waiting.
    pub fn held(&self) -> (usize, usize, usize) {
        (self.sessions.len(), self.peers.len(), self.challenges.len())
    }

    /// Turns to the keys of another epoch; packets of its neighbours are still believed.
    pub fn turn(&mut self, epoch: u32) {
        self.keys.turn(epoch);
        self.own_key = self.keys.of(epoch, self.incarnation);
    }

    /// Takes a message for `to`, to be confirmed until `deadline` from now.
    pub fn send(&mut self, now: Duration, to: A, message: Vec<u8>, deadline: Duration) -> Result<ExchangeId, Refusal> {
        if message.len() > MESSAGE_LENGTH_MAX {
            return Err(Refusal::TooLong { length: message.len() });
        }
        if deadline > DEADLINE_MAX {
            return Err(Refusal::DeadlineTooFar);
        }
        let number = match self.by_address.get(&to) {
            Some(number) => *number,
            None => self.begin_session(now, to)?,
        };
        let session = self.sessions.get_mut(&number).ok_or(Refusal::TooManyPeers)?;
        if !session.has_room(message.len(), &self.limits) {
            return Err(Refusal::QueueFull);
        }
        let exchange = ExchangeId(self.next_exchange);
        self.next_exchange += 1;
        session.queue(exchange, message, now + deadline, &self.limits);
        self.ready.insert(number);
        Ok(exchange)
    }

    fn begin_session(&mut self, now: Duration, to: A) -> Result<u32, Refusal> {
        if self.sessions.len() >= self.limits.peers_max {
            let idle = self
                .sessions
                .iter()
                .filter_map(|(number, session)| Some((session.used()?, *number)))
                .min();
            self.end_session(idle.ok_or(Refusal::TooManyPeers)?.1);
        }
        let number = self.next_session;
        self.next_session = number.checked_add(1).ok_or(Refusal::TooManyPeers)?;
        self.sessions.insert(number, Outbound::new(to, now));
        self.by_address.insert(to, number);
        Ok(number)
    }

    fn end_session(&mut self, number: u32) {
        self.disarm(number);
        if let Some(session) = self.sessions.remove(&number) {
            self.by_address.remove(&session.address);
        }
        self.ready.remove(&number);
    }

    /// Takes a packet from the network.
    pub fn on_packet(&mut self, now: Duration, from: A, packet: &mut [u8]) {
        self.counters.packets_received += 1;
        self.counters.bytes_received += packet.len() as u64;
        let header = match Header::parse(packet) {
            Some(header) if self.keys.accepts(header.epoch) && header.from != self.incarnation => header,
            _ => {
                self.counters.not_ours += 1;
                return;
            }
        };
        match header.kind {
            Kind::Hello | Kind::Data => self.on_request(now, from, &header, packet),
            Kind::Challenge => self.on_challenge(now, &header, packet),
            Kind::Ack => self.on_ack(now, &header, packet),
        }
    }

    fn on_request(&mut self, now: Duration, from: A, header: &Header, packet: &mut [u8]) {
        let opened = match self.peers.get(&header.from) {
            Some(peer) if peer.epoch == header.epoch => seal::open(&peer.key, header, packet),
            _ => seal::open(&self.keys.of(header.epoch, header.from), header, packet),
        };
        let Some(body) = opened else {
            self.counters.forged += 1;
            return;
        };
        if header.kind == Kind::Hello || header.to != self.incarnation {
            self.challenge(from, header);
            return;
        }
        let Some(fragment) = Fragment::parse(body) else {
            self.counters.malformed += 1;
            return;
        };
        if self.admit(now, from, header) {
            self.on_fragment(header.from, &fragment);
        }
    }

    /// Whether a data packet belongs to a session whose duplicates would be recognised; begins one where the packet
    /// proves that it was sent after this endpoint last forgot anything.
    fn admit(&mut self, now: Duration, from: A, header: &Header) -> bool {
        let known = self.peers.get(&header.from).map(|peer| peer.session);
        if known.is_none_or(|session| header.session > session) {
            let moment = micros(now);
            let is_fresh = header.cookie > self.floor
                && header.cookie <= moment.max(self.floor + 1)
                && moment.saturating_sub(header.cookie) <= micros(self.limits.challenge_life);
            if !is_fresh {
                self.challenge(from, header);
                return false;
            }
            if known.is_none() && self.peers.len() >= self.limits.peers_max && !self.forget_silent(now) {
                self.counters.peers_refused += 1;
                return false;
            }
            let key = self.keys.of(header.epoch, header.from);
            let fresh = Inbound::new(from, key, header.epoch, header.session, now);
            if let Some(old) = self.peers.insert(header.from, fresh) {
                self.unfinished_bytes -= old.partial_bytes();
            }
        }
        let Some(peer) = self.peers.get_mut(&header.from) else {
            return false;
        };
        if header.session < peer.session || !peer.seen.insert(header.counter) {
            self.counters.replayed += 1;
            return false;
        }
        if peer.epoch != header.epoch {
            peer.epoch = header.epoch;
            peer.key = self.keys.of(header.epoch, header.from);
        }
        peer.address = from;
        peer.heard = now;
        true
    }

    fn on_fragment(&mut self, from: Incarnation, fragment: &Fragment<'_>) {
        let Some(peer) = self.peers.get_mut(&from) else {
            return;
        };
        let before = peer.partial_bytes();
        let owed = peer.owes_ack;
        let room = self
            .limits
            .unfinished_bytes_all_max
            .saturating_sub(self.unfinished_bytes);
        let can_deliver = self.received.len() < self.limits.received_max;
        let taken = peer.on_fragment(fragment, &self.limits, room, can_deliver);
        self.unfinished_bytes = self.unfinished_bytes - before + peer.partial_bytes();
        if peer.owes_ack && !owed {
            self.acks.push_back(from);
        }
        match taken {
            Taken::Message(message) => {
                self.counters.delivered += 1;
                self.received.push_back(Received {
                    from: peer.address,
                    incarnation: from,
                    message,
                });
            }
            Taken::Kept | Taken::Duplicate => {}
            Taken::NoRoom => self.counters.no_room += 1,
            Taken::Malformed => self.counters.malformed += 1,
        }
    }

    fn challenge(&mut self, address: A, header: &Header) {
        self.counters.challenged += 1;
        if self.challenges.len() < CHALLENGES_MAX {
            self.challenges.push_back(Challenge {
                address,
                to: header.from,
                session: header.session,
                counter: header.counter,
            });
        }
    }

    fn on_challenge(&mut self, now: Duration, header: &Header, packet: &mut [u8]) {
        if header.to != self.incarnation {
            self.counters.stale += 1;
            return;
        }
        let Some(body) = seal::open(&self.keys.of(header.epoch, header.from), header, packet) else {
            self.counters.forged += 1;
            return;
        };
        let Some((number, counter)) = wire::parse_challenge(body) else {
            self.counters.malformed += 1;
            return;
        };
        self.disarm(number);
        let Some(mut session) = self.sessions.remove(&number) else {
            self.counters.stale += 1;
            return;
        };
        let was = session.peer().map(|(incarnation, _)| incarnation);
        let believed = session.on_challenge(now, header.from, header.cookie, counter, &mut self.finished);
        // A new number, so that what is under way under the old one can neither be taken for it nor answered into it.
        let renewed = if believed {
            self.next_session.checked_add(1)
        } else {
            None
        };
        let key = match renewed {
            Some(next) => {
                let key = self.next_session;
                self.next_session = next;
                self.ready.remove(&number);
                key
            }
            None => number,
        };
        if believed && was.is_some_and(|was| was != header.from) {
            self.counters.restarts_seen += 1;
        }
        self.by_address.insert(session.address, key);
        self.sessions.insert(key, session);
        self.ready.insert(key);
        self.report_finished();
    }

    fn on_ack(&mut self, now: Duration, header: &Header, packet: &mut [u8]) {
        let number = u32::try_from(header.cookie).unwrap_or(ANSWERS);
        let session = self
            .sessions
            .get_mut(&number)
            .filter(|session| session.peer().is_some_and(|(peer, _)| peer == header.from));
        let (Some(session), true) = (session, header.to == self.incarnation) else {
            self.counters.stale += 1;
            return;
        };
        let Some(body) = seal::open(&self.keys.of(header.epoch, header.from), header, packet) else {
            self.counters.forged += 1;
            return;
        };
        let Some((done_below, entries)) = wire::parse_ack(body) else {
            self.counters.malformed += 1;
            return;
        };
        session.on_ack(now, done_below, entries, &mut self.finished);
        self.ready.insert(number);
        self.report_finished();
    }

    fn report_finished(&mut self) {
        for (exchange, outcome) in self.finished.drain(..) {
            match outcome {
                Ok(()) => self.counters.confirmed += 1,
                Err(_) => self.counters.failed += 1,
            }
            self.outcomes.push_back((exchange, outcome));
        }
    }

    /// Lets time pass.
    pub fn on_time(&mut self, now: Duration) {
        while let Some(&(when, number)) = self.wakes.first()
            && when <= now
        {
            self.wakes.pop_first();
            if let Some(session) = self.sessions.get_mut(&number) {
                session.armed = None;
                session.expire(now, &mut self.finished);
                self.ready.insert(number);
            }
        }
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP_PERIOD;
            while self.forget_silent(now) {}
            if let Some(moment) = now.checked_sub(self.limits.idle_max) {
                let idle = |(number, session): (&u32, &Outbound<A>)| session.is_idle_since(moment).then_some(*number);
                for number in self.sessions.iter().filter_map(idle).collect::<Vec<u32>>() {
                    self.end_session(number);
                }
            }
        }
        self.report_finished();
    }

    /// Forgets one peer that has been silent for long enough, if there is one.
    fn forget_silent(&mut self, now: Duration) -> bool {
        let idle_max = self.limits.idle_max;
        let silent = self
            .peers
            .iter()
            .find(|(_, peer)| peer.heard + idle_max <= now)
            .map(|(incarnation, _)| *incarnation);
        let Some(peer) = silent.and_then(|silent| self.peers.remove(&silent)) else {
            return false;
        };
        self.unfinished_bytes -= peer.partial_bytes();
        self.floor = self.floor.max(micros(now));
        true
    }

    /// When `on_time` has something to do at the latest.
    pub fn next_wakeup(&self) -> Option<Duration> {
        let timer = self.wakes.first().map(|(when, _)| *when);
        let sweep = (!self.peers.is_empty() || !self.sessions.is_empty()).then_some(self.next_sweep);
        timer.into_iter().chain(sweep).min()
    }

    /// The next outcome of a message of ours: confirmed by its receiver, or failed.
    pub fn poll_outcome(&mut self) -> Option<(ExchangeId, Result<(), ExchangeFailure>)> {
        self.outcomes.pop_front()
    }

    /// The next message that arrived.
    pub fn poll_received(&mut self) -> Option<Received<A>> {
        self.received.pop_front()
    }

    /// Whether a message waits to be taken.
    pub fn has_received(&self) -> bool {
        !self.received.is_empty()
    }

    /// Writes the next packet into `out` and says where it goes.
    pub fn poll_transmit(&mut self, now: Duration, out: &mut Vec<u8>) -> Option<A> {
        let to = self.poll_answer(now, out).or_else(|| self.poll_session(now, out))?;
        self.counters.packets_sent += 1;
        self.counters.bytes_sent += out.len() as u64;
        Some(to)
    }

    fn poll_answer(&mut self, now: Duration, out: &mut Vec<u8>) -> Option<A> {
        let mut header = Header {
            kind: Kind::Ack,
            epoch: self.keys.epoch(),
            from: self.incarnation,
            session: ANSWERS,
            counter: self.answer_counter,
            to: Incarnation::UNKNOWN,
            cookie: 0,
        };
        if let Some(challenge) = self.challenges.pop_front() {
            header.kind = Kind::Challenge;
            header.to = challenge.to;
            header.cookie = micros(now).max(self.floor + 1);
            self.answer_counter += 1;
            let body = wire::challenge_body(challenge.session, challenge.counter);
            seal::seal(&self.own_key, &header, out, |out| out.extend_from_slice(&body));
            return Some(challenge.address);
        }
        while let Some(incarnation) = self.acks.pop_front() {
            let Some(peer) = self.peers.get_mut(&incarnation).filter(|peer| peer.owes_ack) else {
                continue;
            };
            self.entries.clear();
            let done_below = peer.acknowledge(&mut self.entries);
            header.to = incarnation;
            header.cookie = u64::from(peer.session);
            self.answer_counter += 1;
            seal::seal(&self.own_key, &header, out, |out| {
                wire::write_ack(done_below, &self.entries, out);
            });
            return Some(peer.address);
        }
        None
    }

    fn poll_session(&mut self, now: Duration, out: &mut Vec<u8>) -> Option<A> {
        while let Some(number) = self.ready.pop_first() {
            let Some(session) = self.sessions.get_mut(&number) else {
                continue;
            };
            let step = session.step(now, &self.limits);
            let mut header = Header {
                kind: Kind::Hello,
                epoch: self.keys.epoch(),
                from: self.incarnation,
                session: number,
                counter: 0,
                to: Incarnation::UNKNOWN,
                cookie: 0,
            };
            match step {
                Step::Hello(counter) => {
                    header.counter = counter;
                    seal::seal(&self.own_key, &header, out, |out| wire::pad(out, out.len()));
                }
                Step::Fragment {
                    message,
                    index,
                    counter,
                } => {
                    let (Some((to, cookie)), Some(fragment)) = (session.peer(), session.fragment(message, index))
                    else {
                        continue;
                    };
                    header = Header {
                        kind: Kind::Data,
                        counter,
                        to,
                        cookie,
                        ..header
                    };
                    seal::seal(&self.own_key, &header, out, |out| fragment.write(out));
                    self.counters.fragments_sent += 1;
                }
                Step::Wait(when) => {
                    let when = session.first_deadline().map_or(when, |deadline| deadline.min(when));
                    self.arm(number, when);
                    continue;
                }
                Step::Idle => {
                    if let Some(deadline) = session.first_deadline() {
                        self.arm(number, deadline);
                    }
                    continue;
                }
            }
            let address = session.address;
            self.ready.insert(number);
            return Some(address);
        }
        None
    }

    fn arm(&mut self, number: u32, when: Duration) {
        self.disarm(number);
        if let Some(session) = self.sessions.get_mut(&number) {
            session.armed = Some(when);
            self.wakes.insert((when, number));
        }
    }

    fn disarm(&mut self, number: u32) {
        if let Some(armed) = self.sessions.get_mut(&number).and_then(|session| session.armed.take()) {
            self.wakes.remove(&(armed, number));
        }
    }
}

fn micros(moment: Duration) -> u64 {
    u64::try_from(moment.as_micros()).unwrap_or(u64::MAX)
}
