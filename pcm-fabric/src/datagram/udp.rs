//! Packets over UDP.

use super::{
    limits::DatagramLimits,
    service::{Datagram, PacketIo},
};
use crate::key::ClusterKey;
use std::{io, net::SocketAddr};
use tokio::{io::Interest, net::UdpSocket};

/// Room for the packets of many peers at once while this process is not scheduled: some hundred of the longest.
const SOCKET_BYTES: usize = 1 << 20;

struct Udp {
    socket: UdpSocket,
    local: SocketAddr,
}

impl Datagram<SocketAddr> {
    /// Starts an endpoint on a UDP port; port 0 lets the system choose one.
    pub async fn udp(address: SocketAddr, key: &ClusterKey, epoch: u32, limits: DatagramLimits) -> io::Result<Self> {
        let socket = UdpSocket::bind(address).await?;
        // The system may grant less, which costs repetitions only.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES);
        let local = socket.local_addr()?;
        Self::start(Udp { socket, local }, key, epoch, limits)
    }
}

impl PacketIo for Udp {
    type Address = SocketAddr;

    fn local(&self) -> SocketAddr {
        self.local
    }

    fn try_receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
        match self.socket.try_recv_from(buffer) {
            Ok(received) => Ok(Some(received)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // What the network says of an earlier packet; that one is lost, the next may not be.
            Err(error) if is_transient(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn try_send(&mut self, to: SocketAddr, packet: &[u8]) -> io::Result<bool> {
        match self.socket.try_send_to(packet, to) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            // Unreachable, forbidden or too long: lost, as far as the protocol is concerned.
            Err(error) => {
                tracing::debug!(%to, %error, "a packet could not be sent");
                Ok(true)
            }
        }
    }

    async fn ready(&mut self, to_send: bool) -> io::Result<()> {
        let interest = if to_send {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        self.socket.ready(interest).await.map(drop)
    }
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable};
    matches!(
        error.kind(),
        ConnectionRefused | ConnectionReset | HostUnreachable | Interrupted | NetworkUnreachable
    )
}
