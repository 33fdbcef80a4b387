//! A network in virtual time: loses, doubles, delays and reorders packets as its seed says, and refuses those above
//! the MTU.

use pcm_fabric::{
    ClusterKey,
    datagram::{Core, DatagramLimits, ExchangeFailure, ExchangeId, Incarnation, PACKET_LENGTH_SAFE, Received},
};
use pcm_proto::random::Random;
use std::{
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

/// The incarnation of an endpoint.
pub(crate) fn incarnation(dice: &mut Random) -> Incarnation {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&dice.number().to_le_bytes());
    bytes[8..].copy_from_slice(&dice.number().to_le_bytes());
    Incarnation(bytes)
}

/// What an endpoint tells its application.
pub(crate) enum Event {
    Received(Received<u16>),
    Finished(ExchangeId, Result<(), ExchangeFailure>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) loss: u64,
    pub(crate) duplication: u64,
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
}

impl Faults {
    pub(crate) const NONE: Self = Self {
        loss: 0,
        duplication: 0,
        delay: Duration::from_micros(50),
        jitter: Duration::ZERO,
    };
    /// What the order asks for.
    pub(crate) const HARSH: Self = Self {
        loss: 30,
        duplication: 10,
        delay: Duration::from_millis(1),
        jitter: Duration::from_millis(20),
    };
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct OnWire {
    at: std::cmp::Reverse<(Duration, u64)>,
    from: u16,
    to: u16,
    bytes: Vec<u8>,
}

pub(crate) fn key() -> ClusterKey {
    ClusterKey::from_hex("test", &"5a".repeat(32)).unwrap()
}

/// Endpoints by address, and the packets between them.
pub(crate) struct Network {
    pub(crate) now: Duration,
    pub(crate) dice: Random,
    pub(crate) faults: Faults,
    pub(crate) endpoints: BTreeMap<u16, Core<u16>>,
    /// Every packet that was sent, where a test asks for them.
    pub(crate) recorded: Option<Vec<(u16, u16, Vec<u8>)>>,
    wire: BinaryHeap<OnWire>,
    count: u64,
}

impl Network {
    pub(crate) fn new(seed: u64, faults: Faults, addresses: u16) -> Self {
        let mut network = Self {
            now: Duration::ZERO,
            dice: Random::new(seed),
            faults,
            endpoints: BTreeMap::new(),
            recorded: None,
            wire: BinaryHeap::new(),
            count: 0,
        };
        for address in 0..addresses {
            network.restart(address);
        }
        network
    }

    /// Begins a new life at an address.
    pub(crate) fn restart(&mut self, address: u16) {
        self.restart_with(address, DatagramLimits::default());
    }

    pub(crate) fn restart_with(&mut self, address: u16, limits: DatagramLimits) {
        let incarnation = incarnation(&mut self.dice);
        let core = Core::new(&key(), 1, incarnation, limits);
        self.endpoints.insert(address, core);
    }

    pub(crate) fn at(&mut self, address: u16) -> &mut Core<u16> {
        self.endpoints.get_mut(&address).unwrap()
    }

    fn throw(&mut self, from: u16, to: u16, bytes: Vec<u8>) {
        assert!(bytes.len() <= PACKET_LENGTH_SAFE, "a packet is above the MTU");
        if let Some(recorded) = &mut self.recorded {
            recorded.push((from, to, bytes.clone()));
        }
        let copies = 1 + u64::from(self.dice.below(100) < self.faults.duplication);
        for _ in 0..copies {
            if self.dice.below(100) < self.faults.loss {
                continue;
            }
            let jitter = self.dice.below(self.faults.jitter.as_micros() as u64 + 1);
            let at = self.now + self.faults.delay + Duration::from_micros(jitter);
            self.count += 1;
            self.wire.push(OnWire {
                at: std::cmp::Reverse((at, self.count)),
                from,
                to,
                bytes: bytes.clone(),
            });
        }
    }

    /// Goes on until `until`, handing out every event at its moment.
    pub(crate) fn run(&mut self, until: Duration, mut on_event: impl FnMut(Duration, u16, Event)) {
        loop {
            self.flush(&mut on_event);
            let timers = self.endpoints.values().filter_map(Core::next_wakeup).min();
            let arrival = self.wire.peek().map(|packet| packet.at.0.0);
            let next = timers.into_iter().chain(arrival).min();
            let Some(next) = next.filter(|next| *next <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            for core in self.endpoints.values_mut() {
                core.on_time(self.now);
            }
            while self.wire.peek().is_some_and(|packet| packet.at.0.0 <= self.now) {
                let mut packet = self.wire.pop().unwrap();
                if let Some(core) = self.endpoints.get_mut(&packet.to) {
                    core.on_packet(self.now, packet.from, &mut packet.bytes);
                }
            }
        }
    }

    fn flush(&mut self, on_event: &mut impl FnMut(Duration, u16, Event)) {
        let mut out = Vec::new();
        for address in self.endpoints.keys().copied().collect::<Vec<u16>>() {
            loop {
                let now = self.now;
                let core = self.at(address);
                while let Some((exchange, outcome)) = core.poll_outcome() {
                    on_event(now, address, Event::Finished(exchange, outcome));
                }
                while let Some(received) = core.poll_received() {
                    on_event(now, address, Event::Received(received));
                }
                let Some(to) = self.at(address).poll_transmit(now, &mut out) else {
                    break;
                };
                self.throw(address, to, out.clone());
            }
        }
    }
}
