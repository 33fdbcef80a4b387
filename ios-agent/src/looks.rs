//! Counts what `pcmctl` takes of this node's CPUs, as each one tells it. Believes only processes of the same user.

use pcm_proto::ids::NodeName;
use pcm_proto::looking::{Looked, socket_of};
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Of those that come faster the rest is read the next time.
const TAKEN_AT_ONCE: usize = 256;

#[derive(Debug)]
pub(crate) struct Looks {
    socket: Option<UnixDatagram>,
    used_us: u64,
}

impl Looks {
    /// Hears of them from now on; without a socket they are a load like any other.
    pub(crate) fn open(cluster_id: &str, node: &NodeName) -> Self {
        let socket = bind(&socket_of(cluster_id, node));
        if let Err(error) = &socket {
            tracing::warn!(%error, "what looks at the cluster is not told apart from load");
        }
        Self {
            socket: socket.ok(),
            used_us: 0,
        }
    }

    /// CPU time in seconds that was told until now, of these CPUs.
    pub(crate) fn used_s(&mut self, cpus: &[u32]) -> f64 {
        for _ in 0..TAKEN_AT_ONCE {
            let Some(heard) = self.socket.as_ref().and_then(|socket| receive(socket).ok()) else {
                break;
            };
            if let Some(looked) = heard.filter(|looked| cpus.contains(&looked.cpu)) {
                self.used_us = self.used_us.saturating_add(looked.used_us);
            }
        }
        self.used_us as f64 / 1e6
    }
}

fn bind(name: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    socket.set_nonblocking(true)?;
    set_socket_passcred(&socket, true)?;
    Ok(socket)
}

/// The next datagram, if it is one of ours and makes sense.
fn receive(socket: &UnixDatagram) -> io::Result<Option<Looked>> {
    let mut bytes = [0; Looked::BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut ancillary,
        RecvFlags::DONTWAIT,
    )?;
    let user = rustix::process::getuid();
    let is_ours = ancillary
        .drain()
        .any(|message| matches!(message, RecvAncillaryMessage::ScmCredentials(of) if of.uid == user));
    Ok(Looked::decode(&bytes[..received.bytes]).filter(|_| is_ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "two runs at once need two names")]
    fn what_is_told_of_this_nodes_cpus_is_added_up() {
        let cluster_id = format!("test-{}", std::process::id());
        let node = NodeName::new("n0").unwrap();
        let mut looks = Looks::open(&cluster_id, &node);
        assert_eq!(looks.used_s(&[0, 1]), 0.0);
        let address = SocketAddr::from_abstract_name(socket_of(&cluster_id, &node)).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        let tell = |cpu, used_us| {
            let looked = Looked { cpu, used_us };
            sender.send_to_addr(&looked.encode(), &address).unwrap();
        };
        tell(1, 20_000);
        tell(2, 900_000);
        sender.send_to_addr(b"nonsense", &address).unwrap();
        tell(0, 5_000);
        assert!((looks.used_s(&[0, 1]) - 0.025).abs() < 1e-9);
        assert!((looks.used_s(&[0, 1]) - 0.025).abs() < 1e-9, "nothing counts twice");
    }
}
