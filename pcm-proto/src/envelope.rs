//! What is around a message between daemons: its ordinal among those before and after it, and its layout in a datagram.
//! Never does I/O.

use crate::{
    frame::{self, EncodeError, FrameKind, HEADER_LENGTH, MessageError},
    handshake::PROTOCOL_VERSION,
    ids::NodeName,
    peer::DaemonToDaemon,
};
use serde::{Deserialize, Serialize};

/// Bytes of the protocol's version in a datagram, where every release can read it.
const VERSION_LENGTH: usize = 2;

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
pub struct Envelope {
    /// Its ordinal; none for a message that keeps no order.
    pub ordinal: Option<Ordinal>,
    pub message: DaemonToDaemon,
}

/// An [`Envelope`] for its sender, who keeps the message.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EnvelopeRef<'a> {
    /// Its ordinal; none for a message that keeps no order.
    pub ordinal: Option<Ordinal>,
    pub message: &'a DaemonToDaemon,
}

/// What a datagram between daemons holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DatagramBody {
    /// A message of a node's daemon.
    Said {
        from: NodeName,
        /// The message and its ordinal.
        envelope: Envelope,
    },
    /// Measures how long this takes; the bytes mean nothing.
    Measured(#[serde(with = "serde_bytes")] Vec<u8>),
}

#[derive(Serialize)]
enum DatagramBodyRef<'a> {
    Said {
        from: &'a NodeName,
        envelope: EnvelopeRef<'a>,
    },
    Measured(#[serde(with = "serde_bytes")] &'a [u8]),
}

/// Why a datagram is not understood.
#[derive(Debug, thiserror::Error)]
pub enum DatagramError {
    /// It does not even say its version.
    #[error("a datagram is too short to hold a message")]
    Short,
    /// Its sender speaks another version of the protocol.
    #[error(
        "a datagram is of protocol version {version}, this program speaks version {PROTOCOL_VERSION}: install one \
         release on every node, then restart the cluster with `pcmctl down` and `pcmctl up`"
    )]
    Version { version: u16 },
    /// It is not the message it should be.
    #[error(transparent)]
    Message(MessageError),
}

/// A message as the bytes of a datagram of at most `max` bytes.
pub fn encode_datagram(from: &NodeName, envelope: EnvelopeRef<'_>, max: usize) -> Result<Vec<u8>, EncodeError> {
    pack(&DatagramBodyRef::Said { from, envelope }, max)
}

/// A datagram that means nothing, of about this length.
pub fn encode_measuring(bytes: usize) -> Result<Vec<u8>, EncodeError> {
    pack(&DatagramBodyRef::Measured(&vec![0; bytes]), bytes + 64)
}

fn pack(body: &DatagramBodyRef<'_>, max: usize) -> Result<Vec<u8>, EncodeError> {
    let version = PROTOCOL_VERSION.to_le_bytes();
    let max = max.saturating_sub(HEADER_LENGTH);
    let mut bytes = Vec::new();
    frame::encode_after(FrameKind::Message, &version, body, max, &mut bytes)?;
    Ok(bytes)
}

/// What the bytes of a datagram say.
pub fn decode_datagram(bytes: &[u8]) -> Result<DatagramBody, DatagramError> {
    let (version, message) = bytes
        .get(HEADER_LENGTH..)
        .and_then(|rest| rest.split_first_chunk::<VERSION_LENGTH>())
        .ok_or(DatagramError::Short)?;
    let version = u16::from_le_bytes(*version);
    if version != PROTOCOL_VERSION {
        return Err(DatagramError::Version { version });
    }
    frame::decode(message).map_err(DatagramError::Message)
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

    fn envelope_ref(message: &DaemonToDaemon) -> EnvelopeRef<'_> {
        EnvelopeRef {
            ordinal: Some(ORDINAL),
            message,
        }
    }

    #[test]
    fn an_envelope_arrives_as_its_sender_wrote_it() {
        let (_, message) = said();
        for ordinal in [None, Some(ORDINAL)] {
            let mut bytes = Vec::new();
            let envelope_ref = EnvelopeRef {
                ordinal,
                message: &message,
            };
            frame::encode(FrameKind::Message, &envelope_ref, 100, &mut bytes).unwrap();
            let envelope: Envelope = frame::decode(&bytes[HEADER_LENGTH..]).unwrap();
            assert_eq!((envelope.ordinal, envelope.message), (ordinal, message.clone()));
        }
    }

    #[test]
    fn golden_bytes_of_an_envelope_do_not_change() {
        let (_, message) = said();
        let mut bytes = Vec::new();
        frame::encode(FrameKind::Message, &envelope_ref(&message), 100, &mut bytes).unwrap();
        let golden: &[u8] =
            b"\x92\x93\xcf\x01\x02\x03\x04\x05\x06\x07\x08\x09\x04\x81\xaaMembership\xc4\x03\x01\x02\x03";
        assert_eq!(&bytes[HEADER_LENGTH..], golden);
    }

    #[test]
    fn a_datagram_says_who_speaks_and_what() {
        let (from, message) = said();
        let bytes = encode_datagram(&from, envelope_ref(&message), 1000).unwrap();
        let body = DatagramBody::Said {
            from,
            envelope: Envelope {
                ordinal: Some(ORDINAL),
                message,
            },
        };
        assert_eq!(decode_datagram(&bytes).unwrap(), body);
        assert!(matches!(
            decode_datagram(&encode_measuring(200).unwrap()),
            Ok(DatagramBody::Measured(bytes)) if bytes.len() == 200
        ));
    }

    #[test]
    fn a_datagram_of_another_version_or_cut_short_is_refused() {
        let (from, message) = said();
        let mut bytes = encode_datagram(&from, envelope_ref(&message), 1000).unwrap();
        assert!(matches!(
            decode_datagram(&bytes[..bytes.len() - 1]),
            Err(DatagramError::Message(_))
        ));
        assert!(matches!(
            decode_datagram(&bytes[..HEADER_LENGTH]),
            Err(DatagramError::Short)
        ));
        bytes[HEADER_LENGTH] ^= 1;
        assert!(matches!(decode_datagram(&bytes), Err(DatagramError::Version { .. })));
    }

    #[test]
    fn what_is_longer_than_allowed_is_no_datagram() {
        let (from, message) = said();
        let length = encode_datagram(&from, envelope_ref(&message), 1000).unwrap().len();
        assert!(encode_datagram(&from, envelope_ref(&message), length).is_ok());
        assert!(matches!(
            encode_datagram(&from, envelope_ref(&message), length - 1),
            Err(EncodeError::TooLarge { .. })
        ));
    }
}
