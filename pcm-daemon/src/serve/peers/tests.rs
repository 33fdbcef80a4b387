//! Two daemons' ways to each other through a network that loses, doubles, delays and reorders packets, makes connections
//! late and breaks them: what keeps its order is heard once and in it.

use super::faulty::Faulty;
use super::*;
use crate::serve::dice::Dice;
use crate::serve::start::accept;
use pcm_fabric::ClusterKey;
use pcm_proto::fabric::FabricWish;
use pcm_proto::handshake::Identity;
use pcm_proto::ids::JobId;
use pcm_proto::peer::{JobMessage, StreamToNode};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Far above what any step takes on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Long enough for a few messages to go as datagrams before the link is there.
const LATE: Duration = Duration::from_millis(60);

/// Messages of each side while their links are being made, and some after.
const SAID: u64 = 40;

struct Side {
    own: NodeName,
    other: NodeName,
    peers: Peers,
    events: mpsc::Receiver<Event>,
    address: SocketAddr,
    accepting: tokio::task::JoinHandle<()>,
    heard: Vec<u64>,
    /// Numbers that came in datagrams, and how many messages came that had come before.
    in_datagrams: BTreeSet<u64>,
    repeated: usize,
    came: BTreeSet<u64>,
}

impl Drop for Side {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Side {
    async fn start(own: &str, other: &str, boot: u64) -> Self {
        let key = ClusterKey::from_hex("test", &"5a".repeat(32)).unwrap();
        let own = NodeName::new(own).unwrap();
        let identity = Identity::new(Role::Daemon { node: own.clone() });
        let endpoint = Endpoint::new(key.clone(), identity);
        let (sender, events) = mpsc::channel(1024);
        let directory = tempfile::tempdir().unwrap();
        let (listener, datagrams) = loop {
            let listener = endpoint.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
            let beside = (&key, listener.address());
            let opened = Datagrams::open(own.clone(), FabricWish::Udp, beside, directory.path(), sender.clone());
            // Another test may have the number for UDP.
            if let Ok(datagrams) = opened.await {
                break (listener, datagrams);
            }
        };
        let links = Arc::new(AtomicU64::new(0));
        Self {
            address: listener.address(),
            accepting: tokio::spawn(accept(listener, Arc::clone(&links), sender.clone())),
            peers: Peers::new((own.clone(), boot), (endpoint, datagrams), sender, links),
            own,
            other: NodeName::new(other).unwrap(),
            events,
            heard: Vec::new(),
            in_datagrams: BTreeSet::new(),
            repeated: 0,
            came: BTreeSet::new(),
        }
    }

    fn say(&mut self, number: u64) {
        let stdin = StreamToNode::Stdin {
            offset: number,
            bytes: Vec::new(),
        };
        let message = Box::new(stdin.into());
        let other = self.other.clone();
        self.peers.send(&other, DaemonToDaemon::Job { job: JobId(1), message });
    }

    fn told(&mut self, told: Told) {
        if let Some(ordinal) = told.ordinal {
            self.repeated += usize::from(!self.came.insert(ordinal.number));
        }
        let other = self.other.clone();
        let messages = self.peers.on_told(&other, told);
        self.hear(messages);
    }

    fn hear(&mut self, messages: Vec<DaemonToDaemon>) {
        for message in messages {
            if let DaemonToDaemon::Job { message, .. } = message
                && let JobMessage::StreamToNode(StreamToNode::Stdin { offset, .. }) = *message
            {
                self.heard.push(offset);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::PeerLinked { link, node, sender } => self.peers.on_linked(link, &node, sender),
            Event::PeerLost { link, node } => drop(self.peers.on_lost(link, &node)),
            Event::DialFailed { node, .. } => self.peers.on_dial_failed(&node),
            Event::PeerSaid { told, .. } => self.told(told),
            Event::DatagramSaid { node, carrier, told } => {
                self.in_datagrams.extend(told.ordinal.map(|ordinal| ordinal.number));
                self.peers.on_heard(&node, carrier);
                self.told(told);
            }
            Event::DatagramSent(sent) => drop(self.peers.on_sent(*sent)),
            other => panic!("nobody sent this: {other:?}"),
        }
    }

    /// Handles what happens until nothing has for a moment.
    async fn step(&mut self) {
        while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(2), self.events.recv()).await {
            self.handle(event);
        }
        for (_, message) in self.peers.on_beat() {
            self.hear(vec![message]);
        }
    }
}

struct Pair {
    a: Side,
    b: Side,
    to_a: Faulty,
    to_b: Faulty,
}

impl Pair {
    /// Two daemons that know of each other that datagrams arrive.
    async fn new(seed: u64) -> Self {
        let mut a = Side::start("a", "b", 1).await;
        let mut b = Side::start("b", "a", 2).await;
        let to_a = Faulty::before(a.address, 2 * seed, LATE).await;
        let to_b = Faulty::before(b.address, 2 * seed + 1, LATE).await;
        a.peers.set_address(&a.other, &to_b.address.to_string());
        b.peers.set_address(&b.other, &to_a.address.to_string());
        let mut pair = Self { a, b, to_a, to_b };
        pair.prove().await;
        pair
    }

    async fn prove(&mut self) {
        let is_proven = |side: &Side| side.peers.datagrams.is_proven(&side.other);
        self.until("datagrams to arrive", |pair| {
            for side in [&mut pair.a, &mut pair.b] {
                let other = side.other.clone();
                side.peers.send(&other, DaemonToDaemon::Membership(vec![1]));
            }
            is_proven(&pair.a) && is_proven(&pair.b)
        })
        .await;
    }

    async fn step(&mut self) {
        tokio::join!(self.a.step(), self.b.step());
    }

    async fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(self) {
            self.step().await;
            assert!(
                Instant::now() < end,
                "waiting for {what}: a {:?} b {:?}",
                self.a.heard,
                self.b.heard
            );
        }
    }

    fn cut(&self) {
        self.to_a.cut();
        self.to_b.cut();
    }
}

fn assert_rising(heard: &[u64], seed: u64) {
    assert!(heard.is_sorted_by(|one, next| one < next), "seed {seed}: {heard:?}");
}

#[tokio::test]
async fn everything_is_heard_once_and_in_order_whatever_way_it_took() {
    let (mut in_datagrams, mut repeated) = (0, 0);
    for seed in 0..24 {
        let mut pair = Pair::new(seed).await;
        let dice = Dice::new(seed);
        for number in 0..SAID {
            pair.a.say(number);
            pair.b.say(number);
            if dice.below(3) == 0 {
                pair.step().await;
            }
        }
        // No link is broken, so nothing may be lost with one.
        pair.until("all that was said", |pair| {
            pair.a.heard.len().min(pair.b.heard.len()) >= SAID as usize
        })
        .await;
        let all: Vec<u64> = (0..SAID).collect();
        assert_eq!((&pair.a.heard, &pair.b.heard), (&all, &all), "seed {seed}");
        for side in [&pair.a, &pair.b] {
            in_datagrams += side.in_datagrams.len();
            repeated += side.repeated;
        }
    }
    assert!(in_datagrams > 0, "no message in order went as a datagram");
    assert!(
        repeated > 0,
        "no message came a second time, so nothing shows that it would not be heard"
    );
}

#[tokio::test]
async fn links_that_break_with_messages_on_them_make_none_come_twice_or_late() {
    for seed in 0..4 {
        let mut pair = Pair::new(100 + seed).await;
        let dice = Dice::new(seed);
        for number in 0..200 {
            pair.a.say(number);
            pair.b.say(number);
            if dice.below(4) == 0 {
                pair.step().await;
            }
            if dice.below(40) == 0 {
                pair.cut();
            }
        }
        pair.until("the last that was said", |pair| {
            // What was lost with a link is said again by whoever minds.
            let heard = |side: &Side| side.heard.last().is_some_and(|last| *last >= 200);
            for side in [&mut pair.a, &mut pair.b] {
                side.say(200);
            }
            heard(&pair.a) && heard(&pair.b)
        })
        .await;
        for side in [&pair.a, &pair.b] {
            let news: Vec<u64> = side.heard.iter().copied().filter(|number| *number < 200).collect();
            assert_rising(&news, seed);
        }
    }
}

#[tokio::test]
async fn a_daemon_that_is_restarted_at_its_address_hears_and_is_heard_anew() {
    for seed in 0..3 {
        let mut pair = Pair::new(200 + seed).await;
        for number in 0..20 {
            pair.a.say(number);
            pair.b.say(number);
        }
        pair.until("both to hear the other", |pair| {
            pair.a.heard.len().min(pair.b.heard.len()) >= 20
        })
        .await;
        let mut next = Side::start("b", "a", 3).await;
        next.peers.set_address(&next.other, &pair.to_a.address.to_string());
        pair.to_b.turn_to(next.address);
        let mut former = std::mem::replace(&mut pair.b, next);
        pair.to_a.cut();
        for number in 20..40 {
            pair.a.say(number);
            pair.b.say(number);
            pair.step().await;
        }
        pair.until("the new life to hear and be heard", |pair| {
            // The first ones may have been taken by the life that ended.
            pair.a.say(40);
            pair.b.heard.last() == Some(&40) && pair.a.heard.contains(&39)
        })
        .await;
        assert_eq!(pair.a.heard, (0..40).collect::<Vec<_>>(), "seed {seed}");
        pair.b.heard.retain(|number| *number < 40);
        assert_rising(&pair.b.heard, seed);
        for number in 20..25 {
            former.say(number);
        }
        let end = Instant::now() + Duration::from_millis(500);
        let own = former.own.clone();
        while Instant::now() < end {
            former.step().await;
            pair.step().await;
        }
        assert_eq!(pair.a.heard.len(), 40, "the former life of {own} is heard again");
    }
}
