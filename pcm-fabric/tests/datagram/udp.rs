//! Over real sockets on the loopback, straight and through a relay that loses, doubles and delays.

use crate::network::key;
use pcm_fabric::datagram::{
    Datagram, DatagramLimits, DatagramService as _, ExchangeError, ExchangeFailure, PACKET_LENGTH_SAFE, Refusal,
};
use pcm_proto::random::Random;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::net::UdpSocket;

/// No step of a test takes a tenth of this on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);
const DEADLINE: Duration = Duration::from_secs(25);

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what)
        .await
        .expect("the deadline of a test passed")
}

async fn endpoint(address: SocketAddr) -> Datagram<SocketAddr> {
    Datagram::udp(address, &key(), 1, DatagramLimits::default())
        .await
        .unwrap()
}

/// Stands for `server`: each client gets a socket of its own towards it. Counts the packets above the MTU.
async fn lossy_relay(server: SocketAddr, seed: u64) -> (SocketAddr, Arc<AtomicU64>) {
    let front = Arc::new(UdpSocket::bind(any_port()).await.unwrap());
    let address = front.local_addr().unwrap();
    let above_mtu = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&above_mtu);
    tokio::spawn(async move {
        let mut dice = Random::new(seed);
        let mut backs: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
        let mut buffer = vec![0; 65_536];
        while let Ok((length, client)) = front.recv_from(&mut buffer).await {
            if let Entry::Vacant(place) = backs.entry(client) {
                let back = Arc::new(UdpSocket::bind(any_port()).await.unwrap());
                tokio::spawn(returns(Arc::clone(&back), Arc::clone(&front), client, dice.number()));
                place.insert(back);
            }
            if length > PACKET_LENGTH_SAFE {
                counter.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            mangle(&mut dice, &backs[&client], server, &buffer[..length]);
        }
    });
    (address, above_mtu)
}

async fn returns(back: Arc<UdpSocket>, front: Arc<UdpSocket>, client: SocketAddr, seed: u64) {
    let mut dice = Random::new(seed);
    let mut buffer = vec![0; 65_536];
    while let Ok((length, _)) = back.recv_from(&mut buffer).await {
        mangle(&mut dice, &front, client, &buffer[..length]);
    }
}

fn mangle(dice: &mut Random, by: &Arc<UdpSocket>, to: SocketAddr, packet: &[u8]) {
    for _ in 0..1 + u64::from(dice.below(100) < 10) {
        if dice.below(100) < 30 {
            continue;
        }
        let (by, packet) = (Arc::clone(by), packet.to_vec());
        let delay = Duration::from_micros(dice.below(20_000));
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let _ = by.send_to(&packet, to).await;
        });
    }
}

fn message(number: usize, length: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + length, number as u8);
    bytes
}

#[tokio::test]
async fn messages_of_every_size_arrive_once() {
    let (a, b) = (endpoint(any_port()).await, endpoint(any_port()).await);
    for (number, length) in [0, 1, 1000, 1136, 1137, 5000, 40_000, 57_336].into_iter().enumerate() {
        let sent = message(number, length);
        in_time(a.exchange(b.local(), sent.clone(), DEADLINE)).await.unwrap();
        let received = in_time(b.receive()).await.unwrap();
        assert_eq!((received.from, received.message), (a.local(), sent));
    }
    let error = a.exchange(b.local(), vec![0; 57_345], DEADLINE).await.unwrap_err();
    assert_eq!(error, ExchangeError::Refused(Refusal::TooLong { length: 57_345 }));
}

#[tokio::test]
async fn through_loss_duplication_and_delay_each_message_arrives_once() {
    const MESSAGES: usize = 150;
    let server = endpoint(any_port()).await;
    let client = endpoint(any_port()).await;
    let (relay, above_mtu) = lossy_relay(server.local(), 4).await;
    let sends = (0..MESSAGES).map(|number| {
        let client = client.clone();
        tokio::spawn(async move { client.exchange(relay, message(number, number * 40), DEADLINE).await })
    });
    let sends: Vec<_> = sends.collect();
    let mut got = BTreeMap::new();
    for _ in 0..MESSAGES {
        let received = in_time(server.receive()).await.unwrap().message;
        let number = usize::from_le_bytes(received[..8].try_into().unwrap());
        assert_eq!(received, message(number, number * 40));
        assert!(got.insert(number, ()).is_none(), "message {number} was delivered twice");
    }
    for send in sends {
        assert_eq!(in_time(send).await.unwrap(), Ok(()));
    }
    assert_eq!(above_mtu.load(Ordering::Relaxed), 0);
    let counters = client.counters();
    assert!(
        counters.fragments_sent > counters.confirmed,
        "nothing was lost: {counters:?}"
    );
}

#[tokio::test]
async fn a_peer_that_restarts_at_the_same_address_is_recognised() {
    let server = endpoint(any_port()).await;
    let address = server.local();
    let client = endpoint(any_port()).await;
    in_time(client.exchange(address, message(1, 10), DEADLINE))
        .await
        .unwrap();
    let first = in_time(server.receive()).await.unwrap();
    drop(server);
    let failed = client.exchange(address, message(2, 10), Duration::from_millis(300));
    assert_eq!(
        in_time(failed).await,
        Err(ExchangeError::Failed(ExchangeFailure::Deadline))
    );
    let server = in_time(async {
        loop {
            // The former socket closes when its task has seen that nobody holds it.
            match Datagram::udp(address, &key(), 1, DatagramLimits::default()).await {
                Ok(server) => return server,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await;
    // The client may learn of the restart with this message, then it is one that was entirely sent to the former life.
    let again = in_time(client.exchange(address, message(3, 10), DEADLINE)).await;
    assert_eq!(again, Err(ExchangeError::Failed(ExchangeFailure::PeerRestarted)));
    in_time(client.exchange(address, message(4, 10), DEADLINE))
        .await
        .unwrap();
    let received = in_time(server.receive()).await.unwrap();
    assert_eq!(received.message, message(4, 10));
    assert_eq!(received.incarnation, first.incarnation);
    assert_eq!(client.counters().restarts_seen, 1);
}
