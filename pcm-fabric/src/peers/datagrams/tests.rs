//! Which transport carries which message, with what outcome, and what the report says.

use super::*;
use crate::datagram::{Datagram, DatagramLimits, DatagramService as _, ExchangeFailure, PacketIo};
use pcm_proto::ids::JobId;
use pcm_proto::peer::{NodeToCoordinator, Question};
use std::io;
use tokio::net::UdpSocket;

/// Sent and missed in one moment.
fn at_once() -> (Instant, Instant) {
    let now = Instant::now();
    (now, now)
}

async fn two() -> ([Datagrams; 2], [mpsc::Receiver<PeerEvent>; 2], [String; 2]) {
    let key = ClusterKey::from_hex("test", &"5a".repeat(32)).unwrap();
    let mut made = Vec::new();
    for name in ["n0", "n1"] {
        let (events, receiver) = mpsc::channel(16);
        let own = NodeName::new(name).unwrap();
        let port = SocketAddr::from(([127, 0, 0, 1], 0));
        let open = Datagrams::open(own, FabricWish::Udp, (&key, port), events);
        let datagrams = open.await.unwrap();
        let address = datagrams.transports.udp.as_ref().unwrap().local().to_string();
        made.push((datagrams, receiver, address));
    }
    let [(a, from_a, at_a), (b, from_b, at_b)]: [_; 2] = made.try_into().ok().unwrap();
    ([a, b], [from_a, from_b], [at_a, at_b])
}

#[tokio::test]
async fn a_taken_port_stops_only_a_daemon_that_insists_on_udp() {
    let taken = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap();
    let key = ClusterKey::from_hex("test", &"5a".repeat(32)).unwrap();
    let open = |wish| {
        let (own, (events, _)) = (NodeName::new("n0").unwrap(), mpsc::channel(16));
        Datagrams::open(own, wish, (&key, port), events)
    };
    let report = open(FabricWish::Auto).await.unwrap().report();
    assert_eq!(report.datagrams, "none");
    assert!(report.why_not[0].contains("cannot be used"), "{report:?}");
    let refused = open(FabricWish::Udp).await.unwrap_err().to_string();
    assert!(refused.contains("--fabric auto"), "{refused}");
}

#[tokio::test]
async fn a_message_arrives_and_is_confirmed() {
    let ([mut a, mut b], [mut at_a, mut at_b], [_, address]) = two().await;
    let (there, message) = (b.own.clone(), DaemonToDaemon::Membership(vec![1; 300]));
    let exchange = a
        .send_unordered(&there, (Some(&address), false), message.clone(), Instant::now())
        .unwrap();
    let Some(PeerEvent::DatagramReceived {
        node,
        transport,
        envelope,
    }) = at_b.recv().await
    else {
        panic!("nothing was heard");
    };
    assert_eq!((&node, envelope.message), (&a.own, message));
    b.on_received(&node, transport);
    let Some(PeerEvent::DatagramSent(sent)) = at_a.recv().await else {
        panic!("nothing was confirmed");
    };
    assert_eq!((sent.exchange, sent.outcome), (exchange, Ok(())));
    assert!(!a.is_proven(&there));
    a.on_sent((&there, Transport::Udp), &Ok(()), false, at_once());
    assert!(a.is_proven(&there));
}

#[tokio::test]
async fn an_unconfirmed_message_goes_back_to_its_sender() {
    let ([mut a, b], [mut at_a, _], [_, address]) = two().await;
    let there = b.own.clone();
    drop(b);
    let closed = "127.0.0.1:1";
    assert_ne!(address, closed);
    let message = DaemonToDaemon::Membership(vec![7; 10]);
    a.send_unordered(&there, (Some(closed), false), message.clone(), Instant::now())
        .unwrap();
    let Some(PeerEvent::DatagramSent(sent)) = at_a.recv().await else {
        panic!("nothing came back");
    };
    assert!(matches!(sent.outcome, Err(ExchangeError::Failed(_))));
    assert_eq!(sent.message.as_deref(), Some(&message));
}

fn ud_address(number: u16) -> UdAddress {
    UdAddress {
        gid: [0; 16],
        pair: number.into(),
    }
}

/// Packets addressed as on InfiniBand and carried by UDP: the number of a pair is a port.
struct UdOverUdp(UdpSocket);

impl PacketIo for UdOverUdp {
    type Address = UdAddress;

    fn local(&self) -> UdAddress {
        ud_address(self.0.local_addr().unwrap().port())
    }

    fn try_receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<(usize, UdAddress)>> {
        let received = self.0.try_recv_from(buffer).ok();
        Ok(received.map(|(length, from)| (length, ud_address(from.port()))))
    }

    fn try_send(&mut self, to: UdAddress, packet: &[u8]) -> io::Result<bool> {
        let sent = self.0.try_send_to(packet, ([127, 0, 0, 1], to.pair as u16).into());
        Ok(!sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
    }

    async fn ready(&mut self, _: bool) -> io::Result<()> {
        self.0.readable().await
    }
}

/// Datagrams over UDP and a simulated device, their UDP address, and their events.
async fn with_device(name: &str) -> (Datagrams, String, mpsc::Receiver<PeerEvent>) {
    let key = ClusterKey::from_hex("test", &"5a".repeat(32)).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let (mut transports, _) = Transports::open(FabricWish::Udp, (&key, any), 1).await.unwrap();
    let packets = UdOverUdp(UdpSocket::bind(any).await.unwrap());
    transports.rdma = Some(Datagram::start(packets, &key, 1, DatagramLimits::default()).unwrap());
    let address = transports.udp.as_ref().unwrap().local().to_string();
    let (events, receiver) = mpsc::channel(16);
    let own = NodeName::new(name).unwrap();
    let datagrams = Datagrams::over(transports, own, (1, Vec::new()), events);
    (datagrams, address, receiver)
}

/// The transport of the next message received or confirmed.
async fn carried(at: &mut mpsc::Receiver<PeerEvent>) -> Transport {
    match at.recv().await {
        Some(PeerEvent::DatagramReceived { transport, .. }) => transport,
        Some(PeerEvent::DatagramSent(sent)) => sent.transport,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn rdma_carries_messages_where_both_nodes_have_a_device() {
    let ((mut a, _, mut at_a), (b, address, mut at_b)) = (with_device("n0").await, with_device("n1").await);
    let message = DaemonToDaemon::Membership(vec![1; 3000]);
    a.send_unordered(&b.own, (Some(&address), false), message.clone(), Instant::now())
        .unwrap();
    assert_eq!(
        (carried(&mut at_b).await, carried(&mut at_a).await),
        (Transport::Udp, Transport::Udp)
    );
    a.set_ud(&b.own, b.ud_address());
    assert_eq!(a.report().datagrams, "udp", "nothing was confirmed yet");
    a.send_unordered(&b.own, (Some(&address), false), message, Instant::now())
        .unwrap();
    assert_eq!(
        (carried(&mut at_b).await, carried(&mut at_a).await),
        (Transport::Rdma, Transport::Rdma)
    );
    assert_eq!(
        a.on_sent((&b.own, Transport::Rdma), &Ok(()), false, at_once()),
        Some(PathChange::Confirmed)
    );
    assert_eq!(a.report().datagrams, "rdma");
    assert_eq!(a.carried_by(&b.own), "rdma");
    let without = NodeName::new("n2").unwrap();
    a.set_ud(&without, None);
    let report = a.report();
    assert_eq!(report.datagrams, "rdma+udp");
    assert_eq!(report.why_not, ["rdma: no device is in use on n2"]);
    for other in 3..9 {
        a.set_ud(&NodeName::new(format!("n{other}")).unwrap(), None);
    }
    assert_eq!(
        a.report().why_not,
        ["rdma: no device is in use on n2 n3 n4 n5 and 3 others"]
    );
}

#[tokio::test]
async fn udp_takes_over_where_a_device_is_silent_until_its_address_changes() {
    let ((mut a, _, mut at_a), (b, address, _at_b)) = (with_device("n0").await, with_device("n1").await);
    let (there, failed) = (b.own.clone(), Err(ExchangeError::Failed(ExchangeFailure::Deadline)));
    a.set_ud(&there, Some(ud_address(1)));
    assert_eq!(a.on_sent((&there, Transport::Rdma), &failed, true, at_once()), None);
    assert_eq!(a.on_sent((&there, Transport::Rdma), &failed, true, at_once()), None);
    assert_eq!(
        a.on_sent((&there, Transport::Rdma), &failed, true, at_once()),
        Some(PathChange::Silent)
    );
    assert_eq!(a.carried_by(&there), "udp");
    assert_eq!(change_reason(Transport::Rdma, PathChange::Silent), Some(SILENT_RDMA));
    assert!(a.report().why_not[0].starts_with("rdma to n1"), "{:?}", a.report());
    let message = DaemonToDaemon::Membership(vec![1; 10]);
    a.send_unordered(&there, (Some(&address), true), message.clone(), Instant::now())
        .unwrap();
    assert_eq!(carried(&mut at_a).await, Transport::Udp);
    a.set_ud(&there, b.ud_address());
    a.send_unordered(&there, (Some(&address), true), message, Instant::now())
        .unwrap();
    assert_eq!(carried(&mut at_a).await, Transport::Rdma);
}

#[tokio::test]
async fn an_ordered_message_takes_only_a_proven_path() {
    let ((mut a, _, mut at_a), (b, address, _at_b)) = (with_device("n0").await, with_device("n1").await);
    let (there, message) = (b.own.clone(), Box::new(NodeToCoordinator::Emptied.into()));
    let message = DaemonToDaemon::Job { job: JobId(1), message };
    let envelope = EnvelopeRef {
        ordinal: None,
        message: &message,
    };
    a.set_ud(&there, b.ud_address());
    assert!(
        a.send_ordered(&there, &address, (envelope, 1), Instant::now())
            .is_none()
    );
    a.on_sent((&there, Transport::Udp), &Ok(()), false, at_once());
    assert!(a.is_proven(&there));
    a.send_ordered(&there, &address, (envelope, 1), Instant::now()).unwrap();
    assert_eq!(carried(&mut at_a).await, Transport::Udp);
}

#[tokio::test]
async fn a_long_message_or_one_that_must_arrive_once_needs_a_link() {
    let ([mut a, b], _, [_, address]) = two().await;
    let long = DaemonToDaemon::Membership(vec![0; MESSAGE_LENGTH_MAX]);
    assert_eq!(
        a.send_unordered(&b.own, (Some(&address), false), long.clone(), Instant::now()),
        Err(long)
    );
    let beside = DaemonToDaemon::Membership(vec![0; BESIDE_LINK_MAX]);
    assert_eq!(
        a.send_unordered(&b.own, (Some(&address), true), beside.clone(), Instant::now()),
        Err(beside)
    );
    let quit = DaemonToDaemon::Ask {
        ask: 1,
        question: Box::new(Question::Quit),
    };
    let envelope = EnvelopeRef {
        ordinal: None,
        message: &quit,
    };
    assert_eq!(a.send_ordered(&b.own, &address, (envelope, 1), Instant::now()), None);
    let unknown = DaemonToDaemon::Membership(vec![0]);
    assert_eq!(
        a.send_unordered(&b.own, (None, false), unknown.clone(), Instant::now()),
        Err(unknown)
    );
}

#[tokio::test]
async fn a_transport_that_no_node_confirms_is_not_in_use() {
    let ([mut a, b], _, _) = two().await;
    assert_eq!(a.report().datagrams, "udp");
    let failed = Err(ExchangeError::Failed(ExchangeFailure::Deadline));
    for _ in 0..3 {
        a.on_sent((&b.own, Transport::Udp), &failed, true, at_once());
    }
    let report = a.report();
    assert_eq!(report.datagrams, "none");
    assert!(report.why_not[0].starts_with("udp to n1"), "{report:?}");
    let third = NodeName::new("n2").unwrap();
    a.on_received(&third, Transport::Udp);
    let report = a.report();
    assert_eq!(report.datagrams, "udp");
    assert!(report.why_not[0].starts_with("udp to n1"), "{report:?}");
}
