//! A faulty network before one daemon of a test: a port for UDP and TCP that forwards to the daemon, but loses,
//! doubles and delays packets, makes connections late and breaks them on demand.

use super::dice::Dice;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;

struct Faults {
    dice: Dice,
    target: Mutex<SocketAddr>,
    /// How long a connection takes to be made.
    late: Duration,
    /// Each change breaks all connections.
    cuts: watch::Sender<u64>,
}

impl Faults {
    fn target(&self) -> SocketAddr {
        *self.target.lock().unwrap()
    }
}

/// A running proxy.
pub(super) struct Faulty {
    pub(super) address: SocketAddr,
    faults: Arc<Faults>,
}

impl Faulty {
    pub(super) async fn before(target: SocketAddr, seed: u64, late: Duration) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (listener, socket, address) = loop {
            let listener = TcpListener::bind(any).await.unwrap();
            let address = listener.local_addr().unwrap();
            // Another test may have the number for UDP.
            if let Ok(socket) = UdpSocket::bind(address).await {
                break (listener, Arc::new(socket), address);
            }
        };
        let faults = Arc::new(Faults {
            dice: Dice::new(seed),
            target: Mutex::new(target),
            late,
            cuts: watch::Sender::new(0),
        });
        tokio::spawn(forward_packets(socket, Arc::clone(&faults)));
        tokio::spawn(forward_connections(listener, Arc::clone(&faults)));
        Self { address, faults }
    }

    /// Breaks all connections there are.
    pub(super) fn cut(&self) {
        self.faults.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Forwards to another address from now on.
    pub(super) fn redirect(&self, target: SocketAddr) {
        *self.faults.target.lock().unwrap() = target;
        self.cut();
    }
}

async fn forward_connections(listener: TcpListener, faults: Arc<Faults>) {
    while let Ok((mut client, _)) = listener.accept().await {
        let faults = Arc::clone(&faults);
        let mut cuts = faults.cuts.subscribe();
        tokio::spawn(async move {
            tokio::time::sleep(faults.late).await;
            let Ok(mut server) = TcpStream::connect(faults.target()).await else {
                return;
            };
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                _ = cuts.changed() => {}
            }
        });
    }
}

/// Each client gets a socket of its own towards the daemon.
async fn forward_packets(front: Arc<UdpSocket>, faults: Arc<Faults>) {
    let mut backs: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
    let mut buffer = vec![0; 65_536];
    while let Ok((length, client)) = front.recv_from(&mut buffer).await {
        if let Entry::Vacant(room) = backs.entry(client) {
            let back = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await;
            let back = Arc::new(back.unwrap());
            let (from, to, faults) = (Arc::clone(&back), Arc::clone(&front), Arc::clone(&faults));
            tokio::spawn(async move {
                let mut buffer = vec![0; 65_536];
                while let Ok((length, _)) = from.recv_from(&mut buffer).await {
                    mangle(&faults.dice, &to, client, &buffer[..length]);
                }
            });
            room.insert(back);
        }
        mangle(&faults.dice, &backs[&client], faults.target(), &buffer[..length]);
    }
}

/// Loses 30 % of the packets, doubles 10 %, delays all by up to 20 ms.
fn mangle(dice: &Dice, by: &Arc<UdpSocket>, to: SocketAddr, packet: &[u8]) {
    let copies = match dice.below(100) {
        0..30 => 0,
        30..40 => 2,
        _ => 1,
    };
    for _ in 0..copies {
        let (by, packet, late) = (Arc::clone(by), packet.to_vec(), dice.below(20_000));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_micros(late)).await;
            // Its receiver may be gone.
            let _ = by.send_to(&packet, to).await;
        });
    }
}
