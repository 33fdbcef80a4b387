//! Packets with descriptors on a local `SOCK_SEQPACKET` socket: between keeper and daemon, and between daemon and
//! library. Knows nothing of what the packets say. Never blocks: a full or empty socket is `WouldBlock`.

use pcm_proto::keeper::{INLINE_BYTES_MAX, MESSAGE_BYTES_MAX};
use pcm_proto::unpack::from_slice_named;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Serialize, de::DeserializeOwned};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most descriptors with one packet: a process's six, and one for a long message.
pub const DESCRIPTORS_MAX: usize = 7;

const INLINE: u8 = 0;
const IN_MEMORY_FILE: u8 = 1;

/// A packet as it came.
#[derive(Debug)]
pub struct Packet {
    pub bytes: Vec<u8>,
    /// The descriptors that came with it; closed on exec.
    pub descriptors: Vec<OwnedFd>,
}

/// Sends one packet.
pub fn packet_send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "more descriptors than a packet carries",
        ));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::WriteZero,
            "a packet was cut by the system",
        ))
    }
}

/// Receives one packet of at most `bytes_max` bytes; `None` when the other side closed. A longer packet, or one with
/// more descriptors than allowed, is an error, and what came of it is dropped. A process that is out of open files gets
/// the packet without any descriptor.
pub fn packet_receive(socket: impl AsFd, bytes_max: usize) -> io::Result<Option<Packet>> {
    let mut bytes = vec![0; bytes_max + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.contains(ReturnFlags::TRUNC) || received.bytes > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a packet longer than agreed",
        ));
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        if descriptors.len() >= DESCRIPTORS_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "more descriptors than agreed",
            ));
        }
        tracing::warn!("out of open files: what came with a packet is lost");
        descriptors.clear();
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    bytes.truncate(received.bytes);
    Ok(Some(Packet { bytes, descriptors }))
}

/// A message of the keeper's socket, encoded once and sent when there is room.
#[derive(Debug)]
pub struct Letter {
    bytes: Vec<u8>,
    memory_file: Option<OwnedFd>,
}

impl Letter {
    /// Encodes a message; a long one goes into a memory file.
    pub fn new<M: Serialize>(message: &M) -> io::Result<Self> {
        let mut bytes = vec![INLINE];
        rmp_serde::encode::write_named(&mut bytes, message).map_err(io::Error::other)?;
        if bytes.len() <= INLINE_BYTES_MAX {
            return Ok(Self {
                bytes,
                memory_file: None,
            });
        }
        if bytes.len() > MESSAGE_BYTES_MAX {
            let text = format!(
                "a message of {} bytes where {MESSAGE_BYTES_MAX} are allowed",
                bytes.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut file = File::from(memfd_create("pcm-letter", MemfdFlags::CLOEXEC)?);
        file.write_all(&bytes[1..])?;
        Ok(Self {
            bytes: vec![IN_MEMORY_FILE],
            memory_file: Some(file.into()),
        })
    }

    /// Sends it with these descriptors.
    pub fn send(&self, socket: impl AsFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let file = self.memory_file.iter().map(OwnedFd::as_fd);
        let all: Vec<BorrowedFd<'_>> = file.chain(descriptors.iter().copied()).collect();
        packet_send(socket, &self.bytes, &all)
    }
}

/// Receives a message of the keeper's socket with its descriptors; `None` when the other side closed.
pub fn letter_receive<M: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let Some(mut packet) = packet_receive(socket, INLINE_BYTES_MAX)? else {
        return Ok(None);
    };
    let message = match packet.bytes.first() {
        Some(&INLINE) => from_slice_named(&packet.bytes[1..]),
        Some(&IN_MEMORY_FILE) if packet.descriptors.is_empty() => {
            return Err(io::Error::other("out of open files: a long message is lost"));
        }
        Some(&IN_MEMORY_FILE) => {
            let mut file = File::from(packet.descriptors.remove(0));
            file.rewind()?;
            let mut bytes = Vec::new();
            file.take(MESSAGE_BYTES_MAX as u64).read_to_end(&mut bytes)?;
            from_slice_named(&bytes)
        }
        _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet of no known kind")),
    };
    let message = message.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(Some((message, packet.descriptors)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_long_message_arrives_whole_with_its_descriptors() {
        let (a, b) = pair();
        let message = vec!["x".repeat(1000); 2000];
        let letter = Letter::new(&message).unwrap();
        letter.send(&a, &[a.as_fd(), b.as_fd()]).unwrap();
        let (received, descriptors): (Vec<String>, _) = letter_receive(&b).unwrap().unwrap();
        assert_eq!(received, message);
        assert_eq!(descriptors.len(), 2);
    }

    #[test]
    fn a_packet_longer_than_agreed_is_refused() {
        let (a, b) = pair();
        packet_send(&a, &[1; 11], &[]).unwrap();
        assert_eq!(packet_receive(&b, 10).unwrap_err().kind(), io::ErrorKind::InvalidData);
        packet_send(&a, &[1; 10], &[]).unwrap();
        assert_eq!(packet_receive(&b, 10).unwrap().unwrap().bytes.len(), 10);
    }

    /// The limit belongs to the whole process, so what depends on it runs in one of its own.
    #[test]
    fn a_process_without_open_files_gets_the_packet_and_no_part_of_its_descriptors() {
        const HERE: &str = "PACKET_TEST_IS_LIMITED";
        if std::env::var_os(HERE).is_none() {
            let line = "ulimit -n 40; exec \"$0\" --exact \
                        packet::tests::a_process_without_open_files_gets_the_packet_and_no_part_of_its_descriptors";
            let ran = std::process::Command::new("sh")
                .args(["-c", line])
                .arg(std::env::current_exe().unwrap())
                .env(HERE, "1")
                .output()
                .unwrap();
            return assert!(ran.status.success(), "{ran:?}");
        }
        let (a, b) = pair();
        packet_send(&a, &[7], &[a.as_fd(), b.as_fd(), a.as_fd()]).unwrap();
        packet_send(&a, &[8], &[a.as_fd()]).unwrap();
        let mut others = Vec::new();
        while let Ok(one) = a.try_clone() {
            others.push(one);
        }
        others.truncate(others.len() - 2);
        let cut = packet_receive(&b, 10).unwrap().unwrap();
        assert_eq!((&cut.bytes[..], cut.descriptors.len()), (&[7][..], 0));
        let whole = packet_receive(&b, 10).unwrap().unwrap();
        assert_eq!((&whole.bytes[..], whole.descriptors.len()), (&[8][..], 1));
    }

    #[test]
    fn the_end_of_the_other_side_is_not_a_packet() {
        let (a, b) = pair();
        assert_eq!(packet_receive(&b, 10).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(a);
        assert!(packet_receive(&b, 10).unwrap().is_none());
    }
}
