//! Two daemons through a network that loses, doubles, delays and reorders packets, makes connections late and breaks
//! them: ordered messages are delivered once and in order.

use super::dice::Dice;
use super::faulty::Faulty;
use super::*;
use pcm_proto::handshake::{Identity, Role};
use pcm_proto::ids::JobId;
use pcm_proto::peer::{JobMessage, StreamToNode};
use std::time::Duration;

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
    address: SocketAddr,
    accepting: JoinHandle<()>,
    delivered: Vec<u64>,
    /// Numbers that arrived in datagrams.
    in_datagrams: BTreeSet<u64>,
    arrived: BTreeSet<u64>,
    /// Messages that arrived again.
    repeated: usize,
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
        let (listener, peers) = loop {
            let listener = endpoint.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
            let opened = Peers::open(LocalDaemon {
                node: own.clone(),
                boot,
                endpoint: endpoint.clone(),
                port: listener.address(),
                key: &key,
                wish: FabricWish::Udp,
            });
            // Another test may have the number for UDP.
            if let Ok(peers) = opened.await {
                break (listener, peers);
            }
        };
        Self {
            address: listener.address(),
            accepting: peers.accept(listener, |link| panic!("{:?} is no daemon", link.peer())),
            peers,
            own,
            other: NodeName::new(other).unwrap(),
            delivered: Vec::new(),
            in_datagrams: BTreeSet::new(),
            arrived: BTreeSet::new(),
            repeated: 0,
        }
    }

    fn send(&mut self, number: u64) {
        let stdin = StreamToNode::Stdin {
            offset: number,
            bytes: Vec::new(),
        };
        let message = Box::new(stdin.into());
        let message = DaemonToDaemon::Job { job: JobId(1), message };
        self.peers.send(&self.other, message, Instant::now());
    }

    fn handle(&mut self, event: PeerEvent) {
        if let PeerEvent::Received { envelope, .. } | PeerEvent::DatagramReceived { envelope, .. } = &event
            && let Some(ordinal) = envelope.ordinal
        {
            self.repeated += usize::from(!self.arrived.insert(ordinal.number));
            if matches!(event, PeerEvent::DatagramReceived { .. }) {
                self.in_datagrams.insert(ordinal.number);
            }
        }
        let facts = self.peers.handle(event, Instant::now());
        self.take(facts);
    }

    fn take(&mut self, facts: Vec<PeerFact>) {
        for fact in facts {
            if let PeerFact::Said { message, .. } = fact
                && let DaemonToDaemon::Job { message, .. } = message
                && let JobMessage::StreamToNode(StreamToNode::Stdin { offset, .. }) = *message
            {
                self.delivered.push(offset);
            }
        }
    }

    /// The only fact of the next event that has one.
    async fn fact(&mut self) -> PeerFact {
        loop {
            let event = tokio::time::timeout(PATIENCE, self.peers.next_event()).await.unwrap();
            let mut facts = self.peers.handle(event, Instant::now());
            if let Some(fact) = facts.pop() {
                assert!(facts.is_empty(), "{facts:?} before {fact:?}");
                return fact;
            }
        }
    }

    /// Handles events until none arrives for a moment.
    async fn step(&mut self) {
        while let Ok(event) = tokio::time::timeout(Duration::from_millis(2), self.peers.next_event()).await {
            self.handle(event);
        }
        let late = self.peers.on_tick(Instant::now());
        self.take(late);
    }
}

struct Pair {
    a: Side,
    b: Side,
    to_a: Faulty,
    to_b: Faulty,
}

impl Pair {
    /// Two daemons with datagrams proven both ways.
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
        let is_proven = |side: &Side| side.peers.confirms_datagrams(&side.other);
        self.until("datagrams to arrive", |pair| {
            for side in [&mut pair.a, &mut pair.b] {
                let message = DaemonToDaemon::Membership(vec![1]);
                side.peers.send(&side.other, message, Instant::now());
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
                self.a.delivered,
                self.b.delivered
            );
        }
    }

    fn cut(&self) {
        self.to_a.cut();
        self.to_b.cut();
    }
}

fn assert_rising(delivered: &[u64], seed: u64) {
    assert!(
        delivered.is_sorted_by(|one, next| one < next),
        "seed {seed}: {delivered:?}"
    );
}

#[tokio::test]
async fn every_message_is_delivered_once_and_in_order_over_any_transport() {
    let (mut in_datagrams, mut repeated) = (0, 0);
    for seed in 0..24 {
        let mut pair = Pair::new(seed).await;
        let dice = Dice::new(seed);
        for number in 0..SAID {
            pair.a.send(number);
            pair.b.send(number);
            if dice.below(3) == 0 {
                pair.step().await;
            }
        }
        // No link is broken, so nothing may be lost with one.
        pair.until("all messages", |pair| {
            pair.a.delivered.len().min(pair.b.delivered.len()) >= SAID as usize
        })
        .await;
        let all: Vec<u64> = (0..SAID).collect();
        assert_eq!((&pair.a.delivered, &pair.b.delivered), (&all, &all), "seed {seed}");
        for side in [&pair.a, &pair.b] {
            in_datagrams += side.in_datagrams.len();
            repeated += side.repeated;
        }
    }
    assert!(in_datagrams > 0, "no ordered message went as a datagram");
    assert!(
        repeated > 0,
        "no message arrived twice, so the test shows nothing about it"
    );
}

#[tokio::test]
async fn broken_links_make_no_message_arrive_twice_or_late() {
    for seed in 0..4 {
        let mut pair = Pair::new(100 + seed).await;
        let dice = Dice::new(seed);
        for number in 0..200 {
            pair.a.send(number);
            pair.b.send(number);
            if dice.below(4) == 0 {
                pair.step().await;
            }
            if dice.below(40) == 0 {
                pair.cut();
            }
        }
        pair.until("the last message", |pair| {
            // The sender of a message that was lost with a link sends it again.
            let delivered = |side: &Side| side.delivered.last().is_some_and(|last| *last >= 200);
            for side in [&mut pair.a, &mut pair.b] {
                side.send(200);
            }
            delivered(&pair.a) && delivered(&pair.b)
        })
        .await;
        for side in [&pair.a, &pair.b] {
            let news: Vec<u64> = side.delivered.iter().copied().filter(|number| *number < 200).collect();
            assert_rising(&news, seed);
        }
    }
}

#[tokio::test]
async fn a_restarted_daemon_at_the_same_address_receives_and_is_received() {
    for seed in 0..3 {
        let mut pair = Pair::new(200 + seed).await;
        for number in 0..20 {
            pair.a.send(number);
            pair.b.send(number);
        }
        pair.until("the first messages of both", |pair| {
            pair.a.delivered.len().min(pair.b.delivered.len()) >= 20
        })
        .await;
        let mut next = Side::start("b", "a", 3).await;
        next.peers.set_address(&next.other, &pair.to_a.address.to_string());
        pair.to_b.redirect(next.address);
        let mut earlier = std::mem::replace(&mut pair.b, next);
        pair.to_a.cut();
        for number in 20..40 {
            pair.a.send(number);
            pair.b.send(number);
            pair.step().await;
        }
        pair.until("messages of the new life and to it", |pair| {
            // The first of them may have gone to the earlier life.
            pair.a.send(40);
            pair.b.delivered.last() == Some(&40) && pair.a.delivered.contains(&39)
        })
        .await;
        assert_eq!(pair.a.delivered, (0..40).collect::<Vec<_>>(), "seed {seed}");
        pair.b.delivered.retain(|number| *number < 40);
        assert_rising(&pair.b.delivered, seed);
        for number in 20..25 {
            earlier.send(number);
        }
        let end = Instant::now() + Duration::from_millis(500);
        let own = earlier.own.clone();
        while Instant::now() < end {
            earlier.step().await;
            pair.step().await;
        }
        assert_eq!(
            pair.a.delivered.len(),
            40,
            "the earlier life of {own} was delivered again"
        );
    }
}

#[tokio::test]
async fn an_unknown_daemon_at_an_address_gets_the_message_and_is_linked() {
    let (mut a, mut b) = (Side::start("a", "b", 1).await, Side::start("b", "a", 2).await);
    let sent = DaemonToDaemon::Membership(vec![7]);
    a.peers
        .send_to_address(b.address.to_string(), sent.clone(), Instant::now());
    assert!(matches!(a.fact().await, PeerFact::Linked(node) if node == b.own));
    assert!(matches!(b.fact().await, PeerFact::Linked(node) if node == a.own));
    assert!(matches!(b.fact().await, PeerFact::Said { node, message } if (&node, &message) == (&a.own, &sent)));
    assert!(a.peers.is_linked(&b.own) && b.peers.is_linked(&a.own));
    b.peers.forget(&a.own);
    assert!(matches!(a.fact().await, PeerFact::Unlinked(node) if node == b.own));
}

#[tokio::test]
async fn a_link_that_ends_beside_another_is_said_and_the_other_serves() {
    let (mut a, mut b) = (Side::start("a", "b", 1).await, Side::start("b", "a", 2).await);
    let mut also_b = Side::start("b", "a", 3).await;
    for side in [&mut b, &mut also_b] {
        side.peers.set_address(&a.own, &a.address.to_string());
        side.peers.dial(&a.own);
        assert!(matches!(side.fact().await, PeerFact::Linked(_)));
        assert!(matches!(a.fact().await, PeerFact::Linked(_)));
    }
    also_b.peers.forget(&a.own);
    assert!(matches!(a.fact().await, PeerFact::Linked(node) if node == b.own));
    a.send(1);
    let said = b.fact().await;
    b.take(vec![said]);
    assert_eq!(b.delivered, [1]);
    b.peers.forget(&a.own);
    assert!(matches!(a.fact().await, PeerFact::Unlinked(node) if node == b.own));
    assert!(!a.peers.is_linked(&b.own));
}

#[tokio::test]
async fn a_dial_without_an_answer_drops_the_waiting_messages() {
    let mut a = Side::start("a", "b", 1).await;
    a.peers.set_address(&a.other, "127.0.0.1:1");
    a.send(1);
    assert!(matches!(a.fact().await, PeerFact::Unreachable { node, .. } if node == a.other));
    let mut b = Side::start("b", "a", 2).await;
    a.peers.set_address(&a.other, &b.address.to_string());
    a.send(2);
    assert!(matches!(b.fact().await, PeerFact::Linked(_)));
    assert!(matches!(a.fact().await, PeerFact::Linked(_)));
    let said = b.fact().await;
    b.take(vec![said]);
    assert_eq!(b.delivered, [2]);
}
