//! Two endpoints of one cluster and the links between them; deadlines for everything a test waits for.

use pcm_fabric::{ClusterKey, CountersSnapshot, Endpoint, Limits, Link, Listener};
use pcm_proto::{
    handshake::{Identity, Role},
    ids::NodeName,
};
use std::{future::Future, net::SocketAddr, time::Duration};

/// No step of a test takes a tenth of this on an idle machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) fn daemon(name: &str) -> Identity {
    Identity::new(Role::Daemon {
        node: NodeName::new(name).unwrap(),
    })
}

pub(crate) async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what)
        .await
        .expect("the deadline of a test passed")
}

pub(crate) fn limits() -> Limits {
    Limits {
        handshake_deadline: Duration::from_millis(300),
        half_open_max: 4,
        half_open_grace: Duration::from_millis(20),
        stall_deadline: Duration::from_millis(400),
        queue_bytes_max: 1 << 20,
        payload_length_max: 256 << 10,
        ..Limits::default()
    }
}

pub(crate) struct Server {
    pub(crate) key: ClusterKey,
    pub(crate) endpoint: Endpoint,
    pub(crate) listener: Listener,
}

impl Server {
    pub(crate) async fn start(limits: Limits) -> Self {
        let key = ClusterKey::generate().unwrap();
        let endpoint = Endpoint::with_limits(key.clone(), daemon("server"), limits);
        let listener = endpoint.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        Self {
            key,
            endpoint,
            listener,
        }
    }

    pub(crate) fn address(&self) -> String {
        self.listener.address().to_string()
    }

    /// A link as its client and as this server see it.
    pub(crate) async fn link(&mut self, limits: Limits) -> (Link, Link) {
        let client = Endpoint::with_limits(self.key.clone(), Identity::new(Role::Control), limits);
        let address = self.address();
        let (connected, accepted) = tokio::join!(client.connect(&address, DEADLINE), self.listener.accept());
        (connected.unwrap(), accepted.unwrap())
    }

    pub(crate) async fn until(&self, reached: impl Fn(&CountersSnapshot) -> bool) {
        until(|| reached(&self.endpoint.counters().snapshot())).await;
    }
}

/// Polls a condition that has no event to wait for.
pub(crate) async fn until(reached: impl Fn() -> bool) {
    in_time(async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

pub(crate) fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
