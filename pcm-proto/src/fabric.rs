//! What carries the messages of a daemon: what its owner wished for and what is in use; and how a message to another
//! daemon is laid out in a datagram. Never does I/O, and chooses nothing.

use crate::{
    frame::{self, EncodeError, FrameKind, HEADER_LENGTH, MessageError},
    handshake::PROTOCOL_VERSION,
    ids::NodeName,
    peer::DaemonToDaemon,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of the protocol's version in a datagram, where every release can read it.
const VERSION_LENGTH: usize = 2;

/// The file in a cluster's directory that says what exchanges cost on its fabric; `pcmctl doctor --tune` writes it.
pub const TUNING_FILE: &str = "fabric.json";

/// What a cluster's owner wants messages to be carried by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FabricWish {
    /// The best that works.
    #[default]
    Auto,
    /// UDP for small messages, TCP for the rest; a daemon that cannot use UDP does not start.
    Udp,
    /// TCP for everything.
    Tcp,
    /// InfiniBand or RoCE; a daemon without does not start.
    Rdma,
}

/// What carries a node's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricReport {
    /// Small messages: `udp`, or `none` where connections carry them too.
    pub datagrams: String,
    /// Everything else: `tcp`.
    pub connections: String,
    /// Why nothing better is in use, a sentence for each.
    pub why_not: Vec<String>,
}

/// What a datagram between daemons holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Spoken {
    /// A message of a node's daemon.
    Said {
        /// The node.
        from: NodeName,
        /// The message.
        message: Box<DaemonToDaemon>,
    },
    /// Somebody measures how long this takes; the bytes mean nothing.
    Measured(#[serde(with = "serde_bytes")] Vec<u8>),
}

#[derive(Serialize)]
enum Speaking<'a> {
    Said {
        from: &'a NodeName,
        message: &'a DaemonToDaemon,
    },
    Measured(#[serde(with = "serde_bytes")] &'a [u8]),
}

/// Why a datagram is not understood.
#[derive(Debug)]
pub enum SpokenError {
    /// It does not even say its version.
    Short,
    /// Its sender speaks another version of the protocol.
    Version {
        /// Which.
        version: u16,
    },
    /// It is not the message it should be.
    Message(MessageError),
}

impl fmt::Display for SpokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(f, "a datagram is too short to hold a message"),
            Self::Version { version } => write!(
                f,
                "a datagram is of protocol version {version}, this is {PROTOCOL_VERSION}: run the same release on every node"
            ),
            Self::Message(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SpokenError {}

/// A message as the bytes of a datagram of at most `max` bytes.
pub fn say(from: &NodeName, message: &DaemonToDaemon, max: usize) -> Result<Vec<u8>, EncodeError> {
    pack(&Speaking::Said { from, message }, max)
}

/// A datagram that means nothing, of about this length.
pub fn measure(bytes: usize) -> Result<Vec<u8>, EncodeError> {
    pack(&Speaking::Measured(&vec![0; bytes]), bytes + 64)
}

fn pack(speaking: &Speaking<'_>, max: usize) -> Result<Vec<u8>, EncodeError> {
    let version = PROTOCOL_VERSION.to_le_bytes();
    let max = max.saturating_sub(HEADER_LENGTH);
    let mut bytes = Vec::new();
    frame::encode_after(FrameKind::Message, &version, speaking, max, &mut bytes)?;
    Ok(bytes)
}

/// What the bytes of a datagram say.
pub fn understand(bytes: &[u8]) -> Result<Spoken, SpokenError> {
    let (version, message) = bytes
        .get(HEADER_LENGTH..)
        .and_then(|rest| rest.split_first_chunk::<VERSION_LENGTH>())
        .ok_or(SpokenError::Short)?;
    let version = u16::from_le_bytes(*version);
    if version != PROTOCOL_VERSION {
        return Err(SpokenError::Version { version });
    }
    frame::decode(message).map_err(SpokenError::Message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> (NodeName, DaemonToDaemon) {
        (NodeName::new("n1").unwrap(), DaemonToDaemon::Membership(vec![1, 2, 3]))
    }

    #[test]
    fn a_datagram_says_who_speaks_and_what() {
        let (from, message) = said();
        let bytes = say(&from, &message, 1000).unwrap();
        let spoken = Spoken::Said {
            from,
            message: Box::new(message),
        };
        assert_eq!(understand(&bytes).unwrap(), spoken);
        assert!(matches!(understand(&measure(200).unwrap()), Ok(Spoken::Measured(bytes)) if bytes.len() == 200));
    }

    #[test]
    fn a_datagram_of_another_version_or_cut_short_is_refused() {
        let (from, message) = said();
        let mut bytes = say(&from, &message, 1000).unwrap();
        assert!(matches!(
            understand(&bytes[..bytes.len() - 1]),
            Err(SpokenError::Message(_))
        ));
        assert!(matches!(understand(&bytes[..HEADER_LENGTH]), Err(SpokenError::Short)));
        bytes[HEADER_LENGTH] ^= 1;
        assert!(matches!(understand(&bytes), Err(SpokenError::Version { .. })));
    }

    #[test]
    fn what_is_longer_than_allowed_is_no_datagram() {
        let (from, message) = said();
        let length = say(&from, &message, 1000).unwrap().len();
        assert!(say(&from, &message, length).is_ok());
        assert!(matches!(
            say(&from, &message, length - 1),
            Err(EncodeError::TooLarge { .. })
        ));
    }
}
