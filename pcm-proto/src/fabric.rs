//! What carries the messages of a daemon: what its owner wished for and what is in use; how a message to another daemon
//! says its ordinal among those before and after it; and how it is laid out in a datagram. Never does I/O, and chooses
//! nothing.

use crate::{
    frame::{self, EncodeError, FrameKind, HEADER_LENGTH, MessageError},
    handshake::PROTOCOL_VERSION,
    ids::NodeName,
    peer::DaemonToDaemon,
};
use serde::{Deserialize, Serialize};

/// Bytes of the protocol's version in a datagram, where every release can read it.
const VERSION_LENGTH: usize = 2;

/// The file in a cluster's directory that says what exchanges cost on its fabric; `pcmctl doctor --tune` writes it.
pub const TUNING_FILE: &str = "fabric.json";

/// Where datagrams over InfiniBand or RoCE reach a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UdAddress {
    /// Its port on the fabric.
    #[serde(with = "serde_bytes")]
    pub gid: [u8; 16],
    /// The number of its queue pair.
    pub pair: u32,
}

/// Where a daemon is reached that offers memory to bulk transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkAddress {
    /// On this port at its address.
    Tcp(u16),
    /// Over InfiniBand or RoCE.
    Rdma(UdAddress),
}

/// What a cluster's owner wants messages to be carried by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FabricWish {
    /// InfiniBand or RoCE between nodes that have it, for small messages and copies of checkpoints; else UDP for small
    /// messages; TCP for the rest and wherever these cannot be used.
    #[default]
    Auto,
    /// UDP for small messages, TCP for the rest; a daemon that cannot open its UDP port does not start.
    Udp,
    /// TCP for everything.
    Tcp,
    /// As with `Auto`; a daemon without a device does not start.
    Rdma,
}

/// What carries a node's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricReport {
    /// Small messages: `rdma`, `udp`, or `rdma+udp` where nodes differ; `none` where connections carry them too.
    pub datagrams: String,
    /// Everything else: `tcp`.
    pub connections: String,
    /// The ways that copies of checkpoints take from the other nodes as things stand (`shared`, `rdma`, `bulk`,
    /// `link`), with
    /// `+` between them; empty while there is no other node.
    pub copies: String,
    /// Why nothing better is in use, a sentence for each.
    pub why_not: Vec<String>,
}

/// Where a message stands among those of one daemon to another that keep their order, whatever carries each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordinal {
    /// The sender's life: another daemon of the same node has another.
    pub boot: u64,
    /// Its number among the messages of this life to this receiver, counted from 0.
    pub number: u64,
    /// Messages with lower numbers may be lost with a link that broke; whoever never had them waits for none of them.
    pub since: u64,
}

/// What comes over a link between daemons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Its ordinal; none for a message that keeps no order.
    pub ordinal: Option<Ordinal>,
    pub message: DaemonToDaemon,
}

/// A [`Told`] for its sender, who keeps the message.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Telling<'a> {
    /// Its ordinal; none for a message that keeps no order.
    pub ordinal: Option<Ordinal>,
    pub message: &'a DaemonToDaemon,
}

/// What a datagram between daemons holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Spoken {
    /// A message of a node's daemon.
    Said {
        from: NodeName,
        /// The message and its ordinal.
        told: Told,
    },
    /// Somebody measures how long this takes; the bytes mean nothing.
    Measured(#[serde(with = "serde_bytes")] Vec<u8>),
}

#[derive(Serialize)]
enum Speaking<'a> {
    Said { from: &'a NodeName, told: Telling<'a> },
    Measured(#[serde(with = "serde_bytes")] &'a [u8]),
}

/// Why a datagram is not understood.
#[derive(Debug, thiserror::Error)]
pub enum SpokenError {
    /// It does not even say its version.
    #[error("a datagram is too short to hold a message")]
    Short,
    /// Its sender speaks another version of the protocol.
    #[error(
        "a datagram is of protocol version {version}, this is {PROTOCOL_VERSION}: run the same release on every \
             node"
    )]
    Version { version: u16 },
    /// It is not the message it should be.
    #[error(transparent)]
    Message(MessageError),
}

/// A message as the bytes of a datagram of at most `max` bytes.
pub fn say(from: &NodeName, told: Telling<'_>, max: usize) -> Result<Vec<u8>, EncodeError> {
    pack(&Speaking::Said { from, told }, max)
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

    const ORDINAL: Ordinal = Ordinal {
        boot: 0x0102_0304_0506_0708,
        number: 9,
        since: 4,
    };

    fn said() -> (NodeName, DaemonToDaemon) {
        (NodeName::new("n1").unwrap(), DaemonToDaemon::Membership(vec![1, 2, 3]))
    }

    fn telling(message: &DaemonToDaemon) -> Telling<'_> {
        Telling {
            ordinal: Some(ORDINAL),
            message,
        }
    }

    #[test]
    fn what_a_sender_tells_is_what_its_receiver_is_told() {
        let (_, message) = said();
        for ordinal in [None, Some(ORDINAL)] {
            let mut bytes = Vec::new();
            let telling = Telling {
                ordinal,
                message: &message,
            };
            frame::encode(FrameKind::Message, &telling, 100, &mut bytes).unwrap();
            let told: Told = frame::decode(&bytes[HEADER_LENGTH..]).unwrap();
            assert_eq!((told.ordinal, told.message), (ordinal, message.clone()));
        }
    }

    #[test]
    fn golden_bytes_of_a_told_message_do_not_change() {
        let (_, message) = said();
        let mut bytes = Vec::new();
        frame::encode(FrameKind::Message, &telling(&message), 100, &mut bytes).unwrap();
        let golden: &[u8] =
            b"\x92\x93\xcf\x01\x02\x03\x04\x05\x06\x07\x08\x09\x04\x81\xaaMembership\xc4\x03\x01\x02\x03";
        assert_eq!(&bytes[HEADER_LENGTH..], golden);
    }

    #[test]
    fn a_datagram_says_who_speaks_and_what() {
        let (from, message) = said();
        let bytes = say(&from, telling(&message), 1000).unwrap();
        let spoken = Spoken::Said {
            from,
            told: Told {
                ordinal: Some(ORDINAL),
                message,
            },
        };
        assert_eq!(understand(&bytes).unwrap(), spoken);
        assert!(matches!(understand(&measure(200).unwrap()), Ok(Spoken::Measured(bytes)) if bytes.len() == 200));
    }

    #[test]
    fn a_datagram_of_another_version_or_cut_short_is_refused() {
        let (from, message) = said();
        let mut bytes = say(&from, telling(&message), 1000).unwrap();
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
        let length = say(&from, telling(&message), 1000).unwrap().len();
        assert!(say(&from, telling(&message), length).is_ok());
        assert!(matches!(
            say(&from, telling(&message), length - 1),
            Err(EncodeError::TooLarge { .. })
        ));
    }
}
