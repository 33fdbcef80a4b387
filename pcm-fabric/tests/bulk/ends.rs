//! Two endpoints, data to send, and a deadline for everything a test waits for.

use pcm_fabric::{
    ClusterKey, Limits,
    bulk::{BulkService as _, Protection, TcpBulk},
};
use pcm_proto::handshake::{Identity, Role};
use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(3 * DEADLINE, what)
        .await
        .expect("the deadline of a test passed")
}

pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(crate) fn key(byte: &str) -> ClusterKey {
    ClusterKey::from_hex("test", &byte.repeat(32)).unwrap()
}

pub(crate) async fn end_with(key: ClusterKey, protection: Protection) -> TcpBulk {
    end_within(key, protection, Limits::default()).await
}

pub(crate) async fn end_within(key: ClusterKey, protection: Protection, limits: Limits) -> TcpBulk {
    let limits = Limits {
        stall_deadline: Duration::from_millis(500),
        handshake_deadline: Duration::from_millis(500),
        ..limits
    };
    TcpBulk::start(any_port(), key, Identity::new(Role::Control), protection, limits)
        .await
        .unwrap()
}

pub(crate) async fn end(protection: Protection) -> TcpBulk {
    end_with(key("5a"), protection).await
}

pub(crate) fn data(length: usize, seed: usize) -> Arc<Vec<u8>> {
    Arc::new(
        (0..length)
            .map(|at| (((at + seed) * 2_654_435_761) >> 11) as u8)
            .collect(),
    )
}

/// Sends `length` bytes from one end to the other by way of `through`, and checks them.
pub(crate) async fn transfer(
    from: &TcpBulk,
    to: &TcpBulk,
    through: SocketAddr,
    length: usize,
) -> pcm_fabric::bulk::PutReport {
    let sent = data(length, length);
    let offer = to.offer(vec![0; length]).unwrap();
    let put = from.put(through, offer.token(), Arc::clone(&sent), DEADLINE);
    let (report, got) = in_time(async { tokio::join!(put, offer.filled(DEADLINE)) }).await;
    assert!(got.unwrap() == *sent, "the data differ");
    report.unwrap()
}
