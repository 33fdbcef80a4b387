//! The channel to the library inside a rank: one packet, one message. Messages of a rank are not trusted: what cannot
//! be read is reported and the channel given up, the rank goes on.

use crate::packet::{packet_receive, packet_send};
use crate::watched::watch;
use pcm_proto::app::{AppToDaemon, DaemonToApp, PACKET_BYTES_MAX, packet_encode};
use pcm_proto::frame::decode;
use pcm_proto::sound::fault_of_rank;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(super) struct Channel {
    socket: AsyncFd<OwnedFd>,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { socket: watch(socket)? })
    }

    /// The next message with its descriptors; `None` when the rank closed its end.
    pub(super) async fn next(&self) -> io::Result<Option<(AppToDaemon, Vec<OwnedFd>)>> {
        let received = self
            .socket
            .async_io(Interest::READABLE, |socket| packet_receive(socket, PACKET_BYTES_MAX))
            .await;
        let packet = match received {
            Ok(Some(packet)) => packet,
            Ok(None) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error),
        };
        let message = decode(&packet.bytes).map_err(io::Error::other)?;
        if let Some(fault) = fault_of_rank(&message) {
            return Err(io::Error::other(fault));
        }
        Ok(Some((message, packet.descriptors)))
    }

    /// Sends at once; `WouldBlock` when the rank has not read for long.
    pub(super) fn send(&self, message: &DaemonToApp, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let packet = packet_encode(message).map_err(io::Error::other)?;
        packet_send(&self.socket, &packet, descriptors)
    }
}
