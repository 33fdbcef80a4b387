//! A daemon that gives its end of the keeper's socket to the test and then only lives, so that the test itself can
//! play the daemon, and can kill it.

use pcm_daemon::packet::{packet_receive, packet_send};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Where the relay finds the test.
pub const RELAY: &str = "PCM_TEST_RELAY";

/// What a relay says of itself.
#[derive(Debug)]
pub struct Relayed {
    pub keeper: i32,
    pub daemon: i32,
    pub socket: OwnedFd,
    /// The relay ends when this closes.
    pub leash: OwnedFd,
}

/// Gives the keeper's socket away and lives until the test lets go. Never returns when it has a keeper.
pub fn serve(keeper: OwnedFd, test: &Path) -> ! {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    if connect(&socket, &SocketAddrUnix::new(test).unwrap()).is_err() {
        std::process::exit(1);
    }
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let numbers = [parent, std::process::id().cast_signed()]
        .map(i32::to_ne_bytes)
        .concat();
    packet_send(&socket, &numbers, &[keeper.as_fd()]).unwrap();
    drop(keeper);
    let code = rustix::io::read(&socket, &mut [0_u8; 1]).map_or(1, |length| i32::try_from(length).unwrap() * 78);
    std::process::exit(code);
}

/// Waits for the relay of the next daemon.
pub fn accept(listener: &OwnedFd) -> Option<Relayed> {
    let leash = rustix::net::accept_with(listener, SocketFlags::CLOEXEC).ok()?;
    let mut packet = loop {
        match packet_receive(&leash, 64) {
            Ok(packet) => break packet?,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(_) => return None,
        }
    };
    let number = |at: usize| i32::from_ne_bytes(packet.bytes[at..at + 4].try_into().unwrap());
    let (keeper, daemon) = (number(0), number(4));
    Some(Relayed {
        keeper,
        daemon,
        socket: packet.descriptors.pop()?,
        leash,
    })
}
