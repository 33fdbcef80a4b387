//! Members of one cluster over TCP.

use crate::pair::{DEADLINE, Server, daemon, in_time, limits, until};
use pcm_fabric::{BindError, ClusterKey, ConnectError, Endpoint, LinkEnd, RecvError, SendError};
use pcm_proto::handshake::{Identity, PROTOCOL_VERSION, Role, VersionMismatch};
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, time::Duration};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Word {
    Number(u64),
    Text(String),
    Block(Vec<u32>),
}

#[tokio::test]
async fn messages_arrive_in_order_and_both_know_who_the_other_is() {
    let mut server = Server::start(limits()).await;
    let (mut client, mut peer) = in_time(server.link(limits())).await;
    assert_eq!(*client.peer(), daemon("server"));
    assert_eq!(*peer.peer(), Identity::new(Role::Control));
    let words: Vec<Word> = (0..500)
        .map(Word::Number)
        .chain([Word::Text("ä".repeat(300))])
        .collect();
    for word in &words {
        client.send(word).await.unwrap();
        peer.send(word).await.unwrap();
    }
    for word in &words {
        assert_eq!(in_time(peer.recv::<Word>()).await.unwrap(), *word);
        assert_eq!(in_time(client.recv::<Word>()).await.unwrap(), *word);
    }
}

#[tokio::test]
async fn a_message_larger_than_a_record_arrives_whole() {
    let mut server = Server::start(limits()).await;
    let (client, mut peer) = in_time(server.link(limits())).await;
    let block = Word::Block((0..50_000).collect());
    client.send(&block).await.unwrap();
    client.send(&Word::Number(1)).await.unwrap();
    assert_eq!(in_time(peer.recv::<Word>()).await.unwrap(), block);
    assert_eq!(in_time(peer.recv::<Word>()).await.unwrap(), Word::Number(1));
}

#[tokio::test]
async fn a_closed_link_delivers_everything_first_and_a_dropped_one_is_closed() {
    let mut server = Server::start(limits()).await;
    for closes in [true, false] {
        let (client, mut peer) = in_time(server.link(limits())).await;
        let (sender, receiver) = client.split();
        for number in 0..100 {
            sender.send(&Word::Number(number)).await.unwrap();
        }
        if closes {
            assert_eq!(in_time(sender.close()).await, LinkEnd::Closed);
        } else {
            drop(sender);
        }
        for number in 0..100 {
            assert_eq!(in_time(peer.recv::<Word>()).await.unwrap(), Word::Number(number));
        }
        assert!(matches!(in_time(peer.recv::<Word>()).await, Err(RecvError::Closed)));
        drop(receiver);
    }
    assert_eq!(server.endpoint.counters().snapshot().lost, 0);
}

#[tokio::test]
async fn last_words_arrive_although_the_speaker_never_read_what_was_sent_to_it() {
    let mut server = Server::start(limits()).await;
    for _ in 0..20 {
        let (mut client, peer) = in_time(server.link(limits())).await;
        for _ in 0..20 {
            client.send(&Word::Block(vec![1; 20_000])).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        peer.send(&Word::Number(3)).await.unwrap();
        drop(peer);
        assert_eq!(in_time(client.recv::<Word>()).await.unwrap(), Word::Number(3));
        assert!(matches!(in_time(client.recv::<Word>()).await, Err(RecvError::Closed)));
    }
}

#[tokio::test]
async fn a_link_closed_on_our_side_still_receives() {
    let mut server = Server::start(limits()).await;
    let (client, mut peer) = in_time(server.link(limits())).await;
    let (sender, mut receiver) = client.split();
    let hears = tokio::spawn(async move { receiver.recv::<Word>().await });
    assert_eq!(in_time(sender.close()).await, LinkEnd::Closed);
    assert!(matches!(in_time(peer.recv::<Word>()).await, Err(RecvError::Closed)));
    peer.send(&Word::Number(4)).await.unwrap();
    assert_eq!(in_time(hears).await.unwrap().unwrap(), Word::Number(4));
}

#[tokio::test]
async fn a_peer_that_vanishes_is_lost_and_not_closed() {
    let mut server = Server::start(limits()).await;
    let (client, mut peer) = in_time(server.link(limits())).await;
    let (sender, receiver) = client.split();
    sender.abort();
    drop(receiver);
    let error = in_time(peer.recv::<Word>()).await.unwrap_err();
    assert!(matches!(error, RecvError::Ended(LinkEnd::Lost(_))), "{error:?}");
    assert!(matches!(
        peer.send(&Word::Number(0)).await,
        Err(SendError::Ended(LinkEnd::Lost(_)))
    ));
    assert_eq!(server.endpoint.counters().snapshot().lost, 1);
}

#[tokio::test]
async fn another_key_is_refused_on_both_sides_with_what_to_do() {
    let server = Server::start(limits()).await;
    let stranger = Endpoint::new(ClusterKey::generate_for("other").unwrap(), daemon("n1"));
    let error = in_time(stranger.connect(&server.address(), DEADLINE))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ConnectError::WrongKey { cluster_id, .. } if cluster_id == "other"),
        "{error:?}"
    );
    assert!(error.to_string().contains("check --cluster"), "{error}");
    server
        .until(|counters| counters.rejected_key == 1 && counters.accepted == 0)
        .await;
}

#[tokio::test]
async fn another_protocol_version_is_refused_on_both_sides_with_what_to_do() {
    let server = Server::start(limits()).await;
    let newer = Identity {
        version: PROTOCOL_VERSION + 1,
        role: Role::Control,
    };
    let client = Endpoint::new(server.key.clone(), newer);
    let error = in_time(client.connect(&server.address(), DEADLINE)).await.unwrap_err();
    let expected = VersionMismatch {
        ours: PROTOCOL_VERSION + 1,
        theirs: PROTOCOL_VERSION,
    };
    assert!(
        matches!(&error, ConnectError::Version { mismatch, .. } if *mismatch == expected),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("install one release on every node"),
        "{error}"
    );
    server
        .until(|counters| counters.rejected_version == 1 && counters.accepted == 0)
        .await;
}

#[tokio::test]
async fn an_address_without_a_daemon_is_a_clear_error() {
    let server = Server::start(limits()).await;
    let (address, client) = (server.address(), server.endpoint.clone());
    drop(server);
    let mut error = in_time(client.connect(&address, DEADLINE)).await.unwrap_err();
    // The listener's task ends a moment after the listener is dropped; until then the connection may still be made.
    while !matches!(error, ConnectError::Unreachable { .. }) {
        error = in_time(client.connect(&address, DEADLINE)).await.unwrap_err();
    }
    assert!(error.to_string().contains("is its daemon running"), "{error}");
    assert!(matches!(
        in_time(client.connect("no-such-host.invalid:1", DEADLINE)).await,
        Err(ConnectError::Unreachable { .. } | ConnectError::Deadline { .. })
    ));
}

#[tokio::test]
async fn a_listener_that_says_nothing_costs_no_more_than_the_deadline() {
    let silent = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .unwrap();
    let client = Endpoint::new(ClusterKey::generate().unwrap(), daemon("n1"));
    let address = silent.local_addr().unwrap().to_string();
    let error = in_time(client.connect(&address, Duration::from_millis(100)))
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Deadline { .. }), "{error:?}");
}

#[tokio::test]
async fn a_taken_port_is_a_clear_error() {
    let server = Server::start(limits()).await;
    let error = server.endpoint.listen(server.listener.address()).await.unwrap_err();
    assert!(matches!(error, BindError::PortTaken { .. }));
    assert!(error.to_string().contains("pcmctl down"), "{error}");
}

#[tokio::test]
async fn a_peer_that_does_not_read_costs_bounded_memory_and_is_disconnected() {
    let mut server = Server::start(limits()).await;
    let (client, peer) = in_time(server.link(limits())).await;
    let (sender, _receiver) = peer.split();
    let block = Word::Block(vec![7; 30_000]);
    // Without a pause the link's writer does not run, so the queue fills whatever the system would take.
    let refused = loop {
        match sender.try_send(&block) {
            Ok(()) => assert!(sender.queued_bytes() <= limits().queue_bytes_max + limits().payload_length_max),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, SendError::QueueFull { .. }), "{refused:?}");
    let end = in_time(async {
        loop {
            if let Err(error) = sender.send(&block).await {
                break error;
            }
        }
    })
    .await;
    assert!(matches!(end, SendError::Ended(LinkEnd::Stalled(_))), "{end:?}");
    assert!(matches!(in_time(sender.ended()).await, LinkEnd::Stalled(_)));
    assert_eq!(sender.queued_bytes(), 0);
    assert_eq!(server.endpoint.counters().snapshot().stalled, 1);
    assert!(server.endpoint.counters().snapshot().send_refused >= 1);
    drop(client);
}

#[tokio::test]
async fn a_message_of_another_type_is_skipped_and_the_link_goes_on() {
    let mut server = Server::start(limits()).await;
    let (client, mut peer) = in_time(server.link(limits())).await;
    client.send("not a word").await.unwrap();
    client.send(&Word::Number(5)).await.unwrap();
    let error = in_time(peer.recv::<Word>()).await.unwrap_err();
    assert!(matches!(error, RecvError::Message(_)) && !error.is_end());
    assert_eq!(in_time(peer.recv::<Word>()).await.unwrap(), Word::Number(5));
    assert_eq!(server.endpoint.counters().snapshot().messages_rejected, 1);
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_by_its_sender_and_by_its_receiver() {
    let mut server = Server::start(limits()).await;
    let (client, _peer) = in_time(server.link(limits())).await;
    assert!(matches!(
        client.send(&vec![7u32; 300_000]).await,
        Err(SendError::Encode(_))
    ));
    let generous = pcm_fabric::Limits {
        payload_length_max: 4 << 20,
        queue_bytes_max: 8 << 20,
        ..limits()
    };
    let (client, mut peer) = in_time(server.link(generous)).await;
    client.send(&vec![7u32; 300_000]).await.unwrap();
    let error = in_time(peer.recv::<Vec<u32>>()).await.unwrap_err();
    assert!(matches!(error, RecvError::Frame(_)) && error.is_end(), "{error:?}");
    assert_eq!(server.endpoint.counters().snapshot().frames_rejected, 1);
}

#[tokio::test]
async fn a_cancelled_receive_loses_nothing() {
    let mut server = Server::start(limits()).await;
    let (client, mut peer) = in_time(server.link(limits())).await;
    let (sender, _receiver) = client.split();
    let writer = tokio::spawn(async move {
        for number in 0..2000 {
            sender.send(&Word::Block(vec![number; 100])).await.unwrap();
            tokio::task::yield_now().await;
        }
        sender.close().await
    });
    let mut expected = 0;
    in_time(async {
        while expected < 2000 {
            tokio::select! {
                biased;
                word = peer.recv::<Word>() => {
                    assert_eq!(word.unwrap(), Word::Block(vec![expected; 100]));
                    expected += 1;
                }
                () = tokio::task::yield_now() => {}
            }
        }
    })
    .await;
    assert_eq!(in_time(writer).await.unwrap(), LinkEnd::Closed);
}

#[tokio::test]
async fn a_thousand_connects_in_a_row_leave_no_descriptor() {
    let mut server = Server::start(limits()).await;
    let client = Endpoint::with_limits(server.key.clone(), Identity::new(Role::Control), limits());
    let stranger = Endpoint::with_limits(ClusterKey::generate().unwrap(), daemon("s"), limits());
    let address = server.address();
    let before = crate::pair::open_descriptors();
    for round in 0..1000 {
        if round % 10 == 9 {
            assert!(in_time(stranger.connect(&address, DEADLINE)).await.is_err());
            continue;
        }
        let (connected, accepted) =
            in_time(async { tokio::join!(client.connect(&address, DEADLINE), server.listener.accept()) }).await;
        let (connected, mut accepted) = (connected.unwrap(), accepted.unwrap());
        connected.send(&Word::Number(round)).await.unwrap();
        assert_eq!(in_time(accepted.recv::<Word>()).await.unwrap(), Word::Number(round));
    }
    // Other tests of this process run beside this one, so their few descriptors are allowed for.
    until(|| crate::pair::open_descriptors() < before + 100).await;
    assert_eq!(server.endpoint.counters().snapshot().accepted, 900);
}
