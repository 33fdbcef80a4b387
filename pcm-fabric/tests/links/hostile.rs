//! Strangers over TCP: none gets a link, none costs more than its limit, and members are served meanwhile.

use crate::pair::{DEADLINE, Server, in_time, limits};
use pcm_fabric::{
    ClusterKey, ConnectError, Endpoint,
    noise::{Initiator, MESSAGE_LENGTH_MAX, OPENING_LENGTH},
};
use pcm_proto::handshake::{Identity, PREAMBLE, Role};
use pcm_proto::random::Random;
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Sends bytes, then reads until the server hangs up; what it answered.
async fn answer_to(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.listener.address()).await.unwrap();
    // The server may hang up before it has read everything; that is its right.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(read) = in_time(stream.read(&mut piece)).await
        && read > 0
    {
        answer.extend_from_slice(&piece[..read]);
    }
    answer
}

fn pseudo_random(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length).map(|_| random.number() as u8).collect()
}

#[tokio::test]
async fn random_bytes_get_no_answer() {
    let server = Server::start(limits()).await;
    for seed in 0..50 {
        let length = usize::try_from(seed * 37 % 2000 + 8).unwrap();
        assert_eq!(answer_to(&server, &pseudo_random(seed, length)).await, b"");
    }
    server
        .until(|counters| counters.rejected_not_ours == 50 && counters.accepted == 0)
        .await;
}

#[tokio::test]
async fn other_protocols_are_refused_at_their_first_byte() {
    let server = Server::start(limits()).await;
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"SSH-2.0-x\r\n",
        b"\x16\x03\x01",
        b"PCM\x02aaaa",
        b"X",
    ] {
        assert_eq!(answer_to(&server, bytes).await, b"");
    }
    server.until(|counters| counters.rejected_not_ours == 5).await;
}

#[tokio::test]
async fn a_right_beginning_with_random_rest_is_told_only_that_the_key_is_wrong() {
    let server = Server::start(limits()).await;
    for seed in 0..50 {
        let message = pseudo_random(seed, 48);
        let bytes = [&PREAMBLE[..], &48u16.to_le_bytes(), &message].concat();
        let answer = answer_to(&server, &bytes).await;
        assert!(
            answer.len() < bytes.len() && answer == [&PREAMBLE[..], &[0, 0]].concat(),
            "{answer:?}"
        );
    }
    server
        .until(|counters| counters.rejected_key == 50 && counters.accepted == 0)
        .await;
}

#[tokio::test]
async fn a_handshake_message_over_its_limit_is_refused_by_its_length() {
    let server = Server::start(limits()).await;
    for length in [0, 1, u16::try_from(MESSAGE_LENGTH_MAX).unwrap() + 1, u16::MAX] {
        let bytes = [&PREAMBLE[..], &length.to_le_bytes()].concat();
        assert_eq!(answer_to(&server, &bytes).await, b"");
    }
    server.until(|counters| counters.rejected_not_ours == 4).await;
}

#[tokio::test]
async fn a_handshake_cut_short_anywhere_is_dropped_at_its_deadline_or_its_end() {
    let server = Server::start(limits()).await;
    let (_, first) = Initiator::new(&server.key, Identity::new(Role::Control)).unwrap();
    for length in [0, 3, OPENING_LENGTH, first.len() - 1, first.len()] {
        let mut held = TcpStream::connect(server.listener.address()).await.unwrap();
        held.write_all(&first[..length]).await.unwrap();
        let mut rest = Vec::new();
        in_time(held.read_to_end(&mut rest)).await.unwrap();
    }
    server.until(|counters| counters.rejected_deadline == 5).await;
    for length in [0, 3, OPENING_LENGTH, first.len() - 1] {
        let mut cut = TcpStream::connect(server.listener.address()).await.unwrap();
        cut.write_all(&first[..length]).await.unwrap();
    }
    server
        .until(|counters| counters.rejected_lost == 4 && counters.accepted == 0)
        .await;
}

#[tokio::test]
async fn members_get_in_while_strangers_hold_every_place() {
    let mut server = Server::start(limits()).await;
    let mut strangers = Vec::new();
    for _ in 0..3 * limits().half_open_max {
        strangers.push(TcpStream::connect(server.listener.address()).await.unwrap());
    }
    in_time(server.link(limits())).await;
    assert!(server.endpoint.counters().snapshot().half_open_displaced > 0);
    drop(strangers);
}

/// Passes bytes both ways and remembers what the client sent.
async fn recording_relay(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&recorded);
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(to).await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
        let mut piece = [0; 4096];
        while let Ok(read) = from_client.read(&mut piece).await
            && read > 0
        {
            record.lock().unwrap().extend_from_slice(&piece[..read]);
            if to_server.write_all(&piece[..read]).await.is_err() {
                break;
            }
        }
    });
    (address, recorded)
}

#[tokio::test]
async fn a_replayed_session_gets_no_link() {
    let mut server = Server::start(limits()).await;
    let (relay, recorded) = recording_relay(server.listener.address()).await;
    let client = Endpoint::new(server.key.clone(), Identity::new(Role::Control));
    let link = in_time(client.connect(&relay.to_string(), DEADLINE)).await.unwrap();
    let mut accepted = in_time(server.listener.accept()).await.unwrap();
    link.send("end the job").await.unwrap();
    assert_eq!(in_time(accepted.recv::<String>()).await.unwrap(), "end the job");
    let replay = recorded.lock().unwrap().clone();
    let answer = answer_to(&server, &replay).await;
    assert!(answer.len() < replay.len());
    server.until(|counters| counters.rejected_key == 1).await;
    assert_eq!(server.endpoint.counters().snapshot().accepted, 1);
}

/// Lets a handshake through, then changes one byte of what the client sends.
async fn altering_relay(to: SocketAddr, alter_at: usize) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(to).await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
        let mut passed = 0;
        let mut piece = [0; 4096];
        while let Ok(read) = from_client.read(&mut piece).await
            && read > 0
        {
            if let Some(byte) = alter_at.checked_sub(passed).and_then(|at| piece[..read].get_mut(at)) {
                *byte ^= 1;
            }
            passed += read;
            if to_server.write_all(&piece[..read]).await.is_err() {
                break;
            }
        }
    });
    address
}

#[tokio::test]
async fn a_record_altered_on_its_way_ends_the_link_before_any_decoder() {
    let mut server = Server::start(limits()).await;
    let handshake_bytes = {
        let (relay, recorded) = recording_relay(server.listener.address()).await;
        let client = Endpoint::new(server.key.clone(), Identity::new(Role::Control));
        let _link = in_time(client.connect(&relay.to_string(), DEADLINE)).await.unwrap();
        in_time(server.listener.accept()).await.unwrap();
        recorded.lock().unwrap().len()
    };
    let relay = altering_relay(server.listener.address(), handshake_bytes + 10).await;
    let client = Endpoint::new(server.key.clone(), Identity::new(Role::Control));
    let link = in_time(client.connect(&relay.to_string(), DEADLINE)).await.unwrap();
    let mut accepted = in_time(server.listener.accept()).await.unwrap();
    link.send("end the job").await.unwrap();
    let error = in_time(accepted.recv::<String>()).await.unwrap_err();
    assert!(matches!(error, pcm_fabric::RecvError::Forged), "{error:?}");
    assert_eq!(server.endpoint.counters().snapshot().records_rejected, 1);
    assert_eq!(server.endpoint.counters().snapshot().messages_rejected, 0);
}

#[tokio::test]
async fn a_client_is_told_when_what_answers_is_no_daemon() {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let web = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    });
    let client = Endpoint::new(ClusterKey::generate().unwrap(), Identity::new(Role::Control));
    let error = in_time(client.connect(&address, DEADLINE)).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotOurs { .. }), "{error:?}");
    in_time(web).await.unwrap();
}
