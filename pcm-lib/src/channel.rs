//! The channel to the node's daemon, from the rank's side. Never blocks the application for longer than
//! [`SEND_LIMIT`] unasked, never raises SIGPIPE, decides nothing about what it carries.
#![allow(unsafe_code, reason = "takes a descriptor by number")]

use pcm_proto::{
    app::{AppToDaemon, DaemonToApp, PACKET_BYTES_MAX, packet_encode},
    frame,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, FdFlags, fcntl_setfd},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        SocketType, recvmsg, sendmsg, sockopt::socket_type,
    },
};
use std::{
    fmt,
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

/// How long a full channel may hold the application: a daemon that restarts is back within this time.
const SEND_LIMIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The channel of one rank.
#[derive(Debug)]
pub(crate) struct Channel {
    fd: OwnedFd,
}

/// Why a message did not pass. The channel stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelError {
    /// The descriptor is not open.
    Closed {
        number: RawFd,
        /// What the kernel says.
        errno: Errno,
    },
    /// The descriptor is no packet socket.
    Kind { number: RawFd },
    /// The kernel refused; the daemon is gone for good, or the channel was full for `SEND_LIMIT`.
    Send(Errno),
    /// The kernel refused.
    Receive(Errno),
    /// A message that this build does not know, from the daemon or for it.
    Message {
        /// What is wrong with it.
        detail: String,
    },
}

/// One packet, which is empty when the other side is gone, and the descriptor that came with it.
pub(crate) fn packet_receive(fd: BorrowedFd<'_>, flags: RecvFlags) -> Result<(Vec<u8>, Option<OwnedFd>), Errno> {
    let mut packet = vec![0; PACKET_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let pieces = &mut [IoSliceMut::new(&mut packet)];
    let received = recvmsg(fd, pieces, &mut ancillary, flags | RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    packet.truncate(received.bytes);
    Ok((packet, descriptor))
}

impl Channel {
    /// Takes the descriptor that the daemon left open for this process and keeps it from this process's children.
    pub(crate) fn inherited(number: RawFd) -> Result<Self, ChannelError> {
        let closed = |errno| ChannelError::Closed { number, errno };
        // SAFETY: borrowed for these calls; a number that is not open gives an error, not undefined behaviour.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
        match socket_type(fd) {
            Ok(SocketType::SEQPACKET) => {}
            Ok(_) | Err(Errno::NOTSOCK) => return Err(ChannelError::Kind { number }),
            Err(errno) => return Err(closed(errno)),
        }
        fcntl_setfd(fd, FdFlags::CLOEXEC).map_err(closed)?;
        // SAFETY: open, a packet socket, and left to this library by the daemon's contract.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(Self { fd })
    }

    /// Sends one message.
    pub(crate) fn send(&self, message: &AppToDaemon) -> Result<(), ChannelError> {
        self.send_with(message, &[])
    }

    /// Sends one message, with a descriptor at most.
    pub(crate) fn send_with(&self, message: &AppToDaemon, descriptors: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        let packet = packet_encode(message).map_err(|e| ChannelError::Message { detail: e.to_string() })?;
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
                return Err(ChannelError::Send(Errno::TOOMANYREFS));
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendmsg(&self.fd, &[IoSlice::new(&packet)], &mut ancillary, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.room_wait()?,
                Err(errno) => return Err(ChannelError::Send(errno)),
            }
        }
    }

    fn room_wait(&self) -> Result<(), ChannelError> {
        match poll(&mut [PollFd::new(&self.fd.as_fd(), PollFlags::OUT)], Some(&SEND_LIMIT)) {
            Ok(0) => Err(ChannelError::Send(Errno::TIMEDOUT)),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(ChannelError::Send(errno)),
        }
    }

    /// The next message, if one has arrived, and the descriptor that came with it.
    pub(crate) fn receive(&self) -> Result<Option<(DaemonToApp, Option<OwnedFd>)>, ChannelError> {
        let (packet, descriptor) = match packet_receive(self.fd.as_fd(), RecvFlags::DONTWAIT) {
            Ok((packet, _)) if packet.is_empty() => return Ok(None),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Ok(received) => received,
            Err(errno) => return Err(ChannelError::Receive(errno)),
        };
        frame::decode(&packet)
            .map(|message| Some((message, descriptor)))
            .map_err(|e| ChannelError::Message { detail: e.to_string() })
    }

    /// Sleeps until a message has arrived or the time is up; says whether one has.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let limit = Timespec {
            tv_sec: limit.as_secs().cast_signed(),
            tv_nsec: limit.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        poll(&mut fds, Some(&limit)).is_ok() && fds[0].revents().contains(PollFlags::IN)
    }
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { number, errno } => {
                write!(
                    f,
                    "descriptor {number}, the channel to the daemon, cannot be used: {errno}"
                )
            }
            Self::Kind { number } => write!(f, "descriptor {number} is not a channel to a daemon"),
            Self::Send(errno) => write!(f, "cannot send to the daemon: {errno}"),
            Self::Receive(errno) => write!(f, "cannot receive from the daemon: {errno}"),
            Self::Message { detail } => {
                write!(
                    f,
                    "a message on the channel cannot be decoded: {detail}; install the libpcm of the daemon's release"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, recv, send, socketpair};
    use std::os::fd::IntoRawFd;

    fn pair() -> (Channel, OwnedFd) {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::empty(), None).unwrap();
        (Channel::inherited(ours.into_raw_fd()).unwrap(), theirs)
    }

    #[test]
    fn a_message_arrives_as_one_packet() {
        let (channel, daemon) = pair();
        channel.send(&AppToDaemon::Aborting { code: 3 }).unwrap();
        let mut packet = [0; 100];
        let (_, length) = recv(&daemon, &mut packet[..], RecvFlags::DONTWAIT).unwrap();
        assert_eq!(
            frame::decode::<AppToDaemon>(&packet[..length]).unwrap(),
            AppToDaemon::Aborting { code: 3 }
        );
    }

    #[test]
    fn a_message_is_waited_for_and_read_once() {
        let (channel, daemon) = pair();
        let refused = DaemonToApp::Refused {
            version: 9,
            reason: "old".into(),
        };
        assert!(!channel.wait(Duration::ZERO));
        assert!(matches!(channel.receive(), Ok(None)));
        send(&daemon, &packet_encode(&refused).unwrap(), SendFlags::DONTWAIT).unwrap();
        assert!(channel.wait(Duration::from_secs(10)));
        assert!(matches!(channel.receive(), Ok(Some((message, None))) if message == refused));
        assert!(matches!(channel.receive(), Ok(None)));
    }

    #[test]
    fn a_daemon_that_is_gone_is_an_error_and_no_signal() {
        let (channel, daemon) = pair();
        drop(daemon);
        assert_eq!(
            channel.send(&AppToDaemon::Finalizing),
            Err(ChannelError::Send(Errno::PIPE))
        );
    }

    #[test]
    fn a_descriptor_that_is_no_packet_socket_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap().into_raw_fd();
        assert_eq!(
            Channel::inherited(file).unwrap_err(),
            ChannelError::Kind { number: file }
        );
        assert!(matches!(Channel::inherited(987_654), Err(ChannelError::Closed { .. })));
    }
}
