//! What carries which message, what comes of it, and what is said of that.

use super::*;
use pcm_fabric::datagram::{Datagram, DatagramLimits, DatagramService as _, ExchangeFailure, PacketIo};
use pcm_proto::control::ControlToDaemon;
use pcm_proto::ids::JobId;
use pcm_proto::peer::NodeToCoordinator;
use std::io;
use tokio::net::UdpSocket;

fn ask(question: Question) -> DaemonToDaemon {
    DaemonToDaemon::Ask {
        ask: 1,
        question: Box::new(question),
    }
}

#[test]
fn a_request_that_changes_something_is_never_said_twice() {
    assert_eq!(manner(&ask(Question::Quit)), Manner::Once);
    let kill = ControlToDaemon::Kill { job: JobId(1) };
    assert_eq!(manner(&ask(Question::Control(Box::new(kill)))), Manner::Once);
    assert_eq!(manner(&ask(Question::Ping)), Manner::Loose);
}

#[test]
fn messages_about_a_job_keep_their_order() {
    let message = Box::new(NodeToCoordinator::Emptied.into());
    assert_eq!(manner(&DaemonToDaemon::Job { job: JobId(1), message }), Manner::InOrder);
}

async fn two() -> ([Datagrams; 2], [mpsc::Receiver<Event>; 2], [String; 2]) {
    let key = ClusterKey::from_hex("test", &"5a".repeat(32)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut made = Vec::new();
    for name in ["n0", "n1"] {
        let (events, heard) = mpsc::channel(16);
        let own = NodeName::new(name).unwrap();
        let port = SocketAddr::from(([127, 0, 0, 1], 0));
        let open = Datagrams::open(own, FabricWish::Udp, (&key, port), directory.path(), events);
        let datagrams = open.await.unwrap();
        let address = datagrams.carriers.udp.as_ref().unwrap().local().to_string();
        made.push((datagrams, heard, address));
    }
    let [(a, from_a, at_a), (b, from_b, at_b)]: [_; 2] = made.try_into().ok().unwrap();
    ([a, b], [from_a, from_b], [at_a, at_b])
}

#[tokio::test]
async fn a_port_that_is_taken_stops_only_who_insists_on_it() {
    let taken = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap();
    let key = ClusterKey::from_hex("test", &"5a".repeat(32)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let open = |wish| {
        let (own, (events, _)) = (NodeName::new("n0").unwrap(), mpsc::channel(16));
        Datagrams::open(own, wish, (&key, port), directory.path(), events)
    };
    let report = open(FabricWish::Auto).await.unwrap().report();
    assert_eq!(report.datagrams, "none");
    assert!(report.why_not[0].contains("cannot be used"), "{report:?}");
    let refused = open(FabricWish::Udp).await.unwrap_err();
    assert!(refused.contains("--fabric auto"), "{refused}");
}

#[tokio::test]
async fn a_message_arrives_and_its_sender_hears_so() {
    let ([mut a, mut b], [mut at_a, mut at_b], [_, address]) = two().await;
    let (there, message) = (b.own.clone(), DaemonToDaemon::Membership(vec![1; 300]));
    let number = a.send_loose(&there, Some(&address), message.clone(), false).unwrap();
    let Some(Event::DatagramSaid { node, carrier, told }) = at_b.recv().await else {
        panic!("nothing was heard");
    };
    assert_eq!((&node, told.message), (&a.own, message));
    b.on_heard(&node, carrier);
    let Some(Event::DatagramSent(sent)) = at_a.recv().await else {
        panic!("nothing was confirmed");
    };
    assert_eq!((sent.number, sent.outcome), (number, Ok(())));
    assert!(!a.is_proven(&there));
    a.on_sent((&there, Carrier::Udp), &Ok(()), false);
    assert!(a.is_proven(&there));
}

#[tokio::test]
async fn a_message_that_nobody_confirms_comes_back() {
    let ([mut a, b], [mut at_a, _], [_, address]) = two().await;
    let there = b.own.clone();
    drop(b);
    let closed = "127.0.0.1:1";
    assert_ne!(address, closed);
    let message = DaemonToDaemon::Membership(vec![7; 10]);
    a.send_loose(&there, Some(closed), message.clone(), false).unwrap();
    let Some(Event::DatagramSent(sent)) = at_a.recv().await else {
        panic!("nothing came back");
    };
    assert!(matches!(sent.outcome, Err(ExchangeError::Failed(_))));
    assert_eq!(sent.message.as_deref(), Some(&message));
}

fn pair(number: u16) -> UdAddress {
    UdAddress {
        gid: [0; 16],
        pair: number.into(),
    }
}

/// Packets addressed as on InfiniBand and carried by UDP: the number of a pair is a port.
struct Pair(UdpSocket);

impl PacketIo for Pair {
    type Address = UdAddress;

    fn local(&self) -> UdAddress {
        pair(self.0.local_addr().unwrap().port())
    }

    fn try_receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<(usize, UdAddress)>> {
        let received = self.0.try_recv_from(buffer).ok();
        Ok(received.map(|(length, from)| (length, pair(from.port()))))
    }

    fn try_send(&mut self, to: UdAddress, packet: &[u8]) -> io::Result<bool> {
        let sent = self.0.try_send_to(packet, ([127, 0, 0, 1], to.pair as u16).into());
        Ok(!sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
    }

    async fn ready(&mut self, _: bool) -> io::Result<()> {
        self.0.readable().await
    }
}

/// An end with UDP and with what answers like a device, where others reach it, and what it hears.
async fn with_device(name: &str) -> (Datagrams, String, mpsc::Receiver<Event>) {
    let key = ClusterKey::from_hex("test", &"5a".repeat(32)).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let (mut carriers, _) = Carriers::open(FabricWish::Udp, (&key, any), 1).await.unwrap();
    let packets = Pair(UdpSocket::bind(any).await.unwrap());
    carriers.rdma = Some(Datagram::start(packets, &key, 1, DatagramLimits::default()).unwrap());
    let address = carriers.udp.as_ref().unwrap().local().to_string();
    let (events, heard) = mpsc::channel(16);
    let (own, directory) = (NodeName::new(name).unwrap(), tempfile::tempdir().unwrap());
    let datagrams = Datagrams::over(carriers, own, (1, Vec::new()), directory.path(), events);
    (datagrams, address, heard)
}

/// What carried a message, by its receiver and by its sender.
async fn carried(at: &mut mpsc::Receiver<Event>) -> Carrier {
    match at.recv().await {
        Some(Event::DatagramSaid { carrier, .. }) => carrier,
        Some(Event::DatagramSent(sent)) => sent.carrier,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_device_is_taken_where_both_have_one() {
    let ((mut a, _, mut at_a), (b, address, mut at_b)) = (with_device("n0").await, with_device("n1").await);
    let message = DaemonToDaemon::Membership(vec![1; 3000]);
    a.send_loose(&b.own, Some(&address), message.clone(), false).unwrap();
    assert_eq!(
        (carried(&mut at_b).await, carried(&mut at_a).await),
        (Carrier::Udp, Carrier::Udp)
    );
    a.set_ud(&b.own, b.ud_address());
    assert_eq!(a.report().datagrams, "udp", "nothing was confirmed yet");
    a.send_loose(&b.own, Some(&address), message, false).unwrap();
    assert_eq!(
        (carried(&mut at_b).await, carried(&mut at_a).await),
        (Carrier::Rdma, Carrier::Rdma)
    );
    assert_eq!(a.on_sent((&b.own, Carrier::Rdma), &Ok(()), false), Some(Turn::First));
    assert_eq!(a.report().datagrams, "rdma");
    assert_eq!(
        a.news(&b.own, Carrier::Rdma, Turn::First).map(|(by, _)| by),
        Some("rdma")
    );
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
async fn udp_takes_over_where_a_device_is_silent_until_it_has_another_address() {
    let ((mut a, _, mut at_a), (b, address, _at_b)) = (with_device("n0").await, with_device("n1").await);
    let (there, failed) = (b.own.clone(), Err(ExchangeError::Failed(ExchangeFailure::Deadline)));
    a.set_ud(&there, Some(pair(1)));
    assert_eq!(a.on_sent((&there, Carrier::Rdma), &failed, true), None);
    assert_eq!(a.on_sent((&there, Carrier::Rdma), &failed, true), None);
    assert_eq!(a.on_sent((&there, Carrier::Rdma), &failed, true), Some(Turn::Silent));
    assert_eq!(a.news(&there, Carrier::Rdma, Turn::Silent), Some(("udp", SILENT_RDMA)));
    assert!(a.report().why_not[0].starts_with("rdma to n1"), "{:?}", a.report());
    let message = DaemonToDaemon::Membership(vec![1; 10]);
    a.send_loose(&there, Some(&address), message.clone(), true).unwrap();
    assert_eq!(carried(&mut at_a).await, Carrier::Udp);
    a.set_ud(&there, b.ud_address());
    a.send_loose(&there, Some(&address), message, true).unwrap();
    assert_eq!(carried(&mut at_a).await, Carrier::Rdma);
}

#[tokio::test]
async fn what_others_wait_behind_takes_only_a_way_that_works() {
    let ((mut a, _, mut at_a), (b, address, _at_b)) = (with_device("n0").await, with_device("n1").await);
    let (there, message) = (b.own.clone(), Box::new(NodeToCoordinator::Emptied.into()));
    let message = DaemonToDaemon::Job { job: JobId(1), message };
    let told = Telling {
        ordinal: None,
        message: &message,
    };
    a.set_ud(&there, b.ud_address());
    assert!(a.send_in_order(&there, &address, told, 1).is_none());
    a.on_sent((&there, Carrier::Udp), &Ok(()), false);
    assert!(a.is_proven(&there));
    a.send_in_order(&there, &address, told, 1).unwrap();
    assert_eq!(carried(&mut at_a).await, Carrier::Udp);
}

#[tokio::test]
async fn what_is_long_or_must_come_once_is_given_back_at_once() {
    let ([mut a, b], _, [_, address]) = two().await;
    let long = DaemonToDaemon::Membership(vec![0; MESSAGE_LENGTH_MAX]);
    assert_eq!(a.send_loose(&b.own, Some(&address), long.clone(), false), Err(long));
    let beside = DaemonToDaemon::Membership(vec![0; BESIDE_LINK_MAX]);
    assert_eq!(a.send_loose(&b.own, Some(&address), beside.clone(), true), Err(beside));
    let quit = ask(Question::Quit);
    let told = Telling {
        ordinal: None,
        message: &quit,
    };
    assert_eq!(a.send_in_order(&b.own, &address, told, 1), None);
    let unknown = DaemonToDaemon::Membership(vec![0]);
    assert_eq!(a.send_loose(&b.own, None, unknown.clone(), false), Err(unknown));
}

#[tokio::test]
async fn what_no_node_confirms_is_said_to_be_of_no_use() {
    let ([mut a, b], _, _) = two().await;
    assert_eq!(a.report().datagrams, "udp");
    let failed = Err(ExchangeError::Failed(ExchangeFailure::Deadline));
    for _ in 0..3 {
        a.on_sent((&b.own, Carrier::Udp), &failed, true);
    }
    let report = a.report();
    assert_eq!(report.datagrams, "none");
    assert!(report.why_not[0].starts_with("udp to n1"), "{report:?}");
    let third = NodeName::new("n2").unwrap();
    a.on_heard(&third, Carrier::Udp);
    let report = a.report();
    assert_eq!(report.datagrams, "udp");
    assert!(report.why_not[0].starts_with("udp to n1"), "{report:?}");
}
