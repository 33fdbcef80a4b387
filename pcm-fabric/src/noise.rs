//! The cryptographic handshake as bytes in, bytes out: Noise NNpsk0 with the cluster's secret as the pre-shared key.
//! Never does I/O. Nothing is decoded before it has been authenticated, and nothing of a responder's link exists
//! before the initiator has proven with its third message that it is there now (a replayed first message cannot).

use crate::key::ClusterKey;
use pcm_proto::{
    frame::{Decoder, FrameKind, HEADER_LENGTH},
    handshake::{HelloError, IDENTITY_LENGTH_MAX, Identity, PREAMBLE, VersionMismatch},
};
use snow::{HandshakeState, StatelessTransportState};
use std::fmt;

/// X25519 for the session keys (forward secrecy), AES-GCM because every CPU of interest has instructions for it.
const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// Bytes of the authentication tag of each message.
pub(crate) const TAG_LENGTH: usize = 16;

/// Longest message of the handshake: a public key, a hello and a tag.
pub const MESSAGE_LENGTH_MAX: usize = 32 + HEADER_LENGTH + IDENTITY_LENGTH_MAX + TAG_LENGTH;

/// Bytes before each message of the handshake: the preamble and a length.
pub const OPENING_LENGTH: usize = PREAMBLE.len() + 2;

/// Why a peer was refused during the handshake.
#[derive(Debug)]
pub enum Rejection {
    /// Its first bytes are not those of this protocol, or of another version of the handshake itself.
    NotOurs,
    /// It does not hold the key, or the message was altered or replayed.
    Key,
    /// It holds the key but speaks another protocol version.
    Version(VersionMismatch),
    /// It holds the key but its hello is malformed.
    Hello,
    /// The cryptographic library refused to work, which no peer can cause.
    Library(snow::Error),
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOurs => write!(f, "its first bytes are not those of a pcm link of this version"),
            Self::Key => write!(f, "it does not hold this cluster's key"),
            Self::Version(mismatch) => mismatch.fmt(f),
            Self::Hello => write!(f, "its hello is malformed"),
            Self::Library(error) => write!(f, "the cryptographic library failed: {error}"),
        }
    }
}

impl std::error::Error for Rejection {}

/// Checks the bytes before a handshake message and says how long the message is.
pub fn message_length(opening: &[u8; OPENING_LENGTH]) -> Result<usize, Rejection> {
    let [preamble @ .., low, high] = opening;
    let length = usize::from(u16::from_le_bytes([*low, *high]));
    if *preamble != PREAMBLE || !(TAG_LENGTH..=MESSAGE_LENGTH_MAX).contains(&length) {
        return Err(Rejection::NotOurs);
    }
    Ok(length)
}

/// The encrypted state of a link whose handshake is done, with the number of the next record each way.
#[derive(Debug)]
pub struct Session {
    pub(crate) cipher: StatelessTransportState,
    pub(crate) next_out: u64,
    pub(crate) next_in: u64,
}

/// The side that connects.
#[derive(Debug)]
pub struct Initiator {
    state: HandshakeState,
    local: Identity,
}

/// What the initiator has to do when it got the answer.
#[derive(Debug)]
pub struct Established {
    /// The link's keys.
    pub session: Session,
    /// Last bytes of the handshake, to be sent even when `peer` is an error, so that the peer learns it too.
    pub last_message: Vec<u8>,
    /// Who answered, or why we cannot speak with it.
    pub peer: Result<Identity, Rejection>,
}

impl Initiator {
    /// Begins a handshake and returns the first bytes to send.
    pub fn new(key: &ClusterKey, local: Identity) -> Result<(Self, Vec<u8>), Rejection> {
        let mut state = builder(key)?.build_initiator().map_err(Rejection::Library)?;
        let opening = write_opened(&mut state, &[])?;
        Ok((Self { state, local }, opening))
    }

    /// Takes the peer's one message.
    pub fn receive(mut self, message: &[u8]) -> Result<Established, Rejection> {
        let mut payload = [0; MESSAGE_LENGTH_MAX];
        let length = self
            .state
            .read_message(message, &mut payload)
            .map_err(|_| Rejection::Key)?;
        let peer = hello(&payload[..length], self.local.version);
        let cipher = self.state.into_stateless_transport_mode().map_err(Rejection::Library)?;
        let hello = self.local.to_frame().map_err(|_| Rejection::Hello)?;
        let mut last_message = vec![0; 2 + hello.len() + TAG_LENGTH];
        let sealed = cipher
            .write_message(0, &hello, &mut last_message[2..])
            .map_err(Rejection::Library)?;
        put_length(&mut last_message, sealed)?;
        Ok(Established {
            session: Session {
                cipher,
                next_out: 1,
                next_in: 0,
            },
            last_message,
            peer,
        })
    }
}

/// The side that is connected to, after it answered and before it knows that the initiator is really there.
#[derive(Debug)]
pub struct Responder {
    cipher: StatelessTransportState,
    version: u16,
}

impl Responder {
    /// Takes the initiator's first message; returns the answer to send.
    pub fn answer(key: &ClusterKey, local: &Identity, message: &[u8]) -> Result<(Self, Vec<u8>), Rejection> {
        let mut state = builder(key)?.build_responder().map_err(Rejection::Library)?;
        let mut payload = [0; MESSAGE_LENGTH_MAX];
        state.read_message(message, &mut payload).map_err(|_| Rejection::Key)?;
        let hello = local.to_frame().map_err(|_| Rejection::Hello)?;
        let answer = write_opened(&mut state, &hello)?;
        let cipher = state.into_stateless_transport_mode().map_err(Rejection::Library)?;
        Ok((
            Self {
                cipher,
                version: local.version,
            },
            answer,
        ))
    }

    /// Takes the initiator's last message (without its length), encrypted with keys that only it can have.
    pub fn confirm(self, message: &[u8]) -> Result<(Session, Identity), Rejection> {
        let mut payload = [0; MESSAGE_LENGTH_MAX];
        if message.len() > MESSAGE_LENGTH_MAX {
            return Err(Rejection::Key);
        }
        let length = self
            .cipher
            .read_message(0, message, &mut payload)
            .map_err(|_| Rejection::Key)?;
        let peer = hello(&payload[..length], self.version)?;
        Ok((
            Session {
                cipher: self.cipher,
                next_out: 0,
                next_in: 1,
            },
            peer,
        ))
    }
}

fn builder(key: &ClusterKey) -> Result<snow::Builder<'_>, Rejection> {
    let pattern = PATTERN.parse().map_err(Rejection::Library)?;
    // The id is bound to the handshake, so the same secret under another id is another cluster.
    snow::Builder::new(pattern)
        .psk(0, key.secret())
        .and_then(|builder| builder.prologue(key.cluster_id().as_bytes()))
        .map_err(Rejection::Library)
}

fn write_opened(state: &mut HandshakeState, payload: &[u8]) -> Result<Vec<u8>, Rejection> {
    let mut out = vec![0; OPENING_LENGTH + MESSAGE_LENGTH_MAX];
    out[..PREAMBLE.len()].copy_from_slice(&PREAMBLE);
    let length = state
        .write_message(payload, &mut out[OPENING_LENGTH..])
        .map_err(Rejection::Library)?;
    put_length(&mut out[PREAMBLE.len()..], length)?;
    out.truncate(OPENING_LENGTH + length);
    Ok(out)
}

fn put_length(out: &mut [u8], length: usize) -> Result<(), Rejection> {
    let length = u16::try_from(length).map_err(|_| Rejection::Library(snow::Error::Input))?;
    out[..2].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

fn hello(bytes: &[u8], version: u16) -> Result<Identity, Rejection> {
    let mut decoder = Decoder::new(IDENTITY_LENGTH_MAX);
    decoder.push(bytes);
    let identity = match decoder.next_frame() {
        Ok(Some(frame)) if frame.kind == FrameKind::Hello => Identity::from_payload(frame.payload, version),
        _ => return Err(Rejection::Hello),
    };
    match identity {
        Ok(identity) if decoder.buffered() == 0 => Ok(identity),
        Err(HelloError::Version(mismatch)) => Err(Rejection::Version(mismatch)),
        _ => Err(Rejection::Hello),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::{
        handshake::{PROTOCOL_VERSION, Role},
        ids::NodeName,
    };

    fn daemon(name: &str) -> Identity {
        Identity::new(Role::Daemon {
            node: NodeName::new(name).unwrap(),
        })
    }

    fn body(opened: &[u8]) -> &[u8] {
        let (opening, message) = opened.split_first_chunk::<OPENING_LENGTH>().unwrap();
        assert_eq!(message_length(opening).unwrap(), message.len());
        message
    }

    #[test]
    fn both_sides_learn_who_the_other_is() {
        let key = ClusterKey::generate().unwrap();
        let (initiator, first) = Initiator::new(&key, Identity::new(Role::Control)).unwrap();
        let (responder, answer) = Responder::answer(&key, &daemon("n1"), body(&first)).unwrap();
        let established = initiator.receive(body(&answer)).unwrap();
        assert_eq!(established.peer.unwrap(), daemon("n1"));
        let (_, peer) = responder.confirm(&established.last_message[2..]).unwrap();
        assert_eq!(peer, Identity::new(Role::Control));
    }

    #[test]
    fn another_secret_or_another_cluster_id_is_refused_by_both_sides() {
        let key = ClusterKey::generate_for("one").unwrap();
        let same_secret = ClusterKey::from_hex("two", &key.secret_hex()).unwrap();
        for other in [ClusterKey::generate_for("one").unwrap(), same_secret] {
            let (initiator, first) = Initiator::new(&key, daemon("n0")).unwrap();
            assert!(matches!(
                Responder::answer(&other, &daemon("n1"), body(&first)),
                Err(Rejection::Key)
            ));
            let (_, others_first) = Initiator::new(&other, daemon("n2")).unwrap();
            let (_, answer) = Responder::answer(&other, &daemon("n1"), body(&others_first)).unwrap();
            assert!(matches!(initiator.receive(body(&answer)), Err(Rejection::Key)));
        }
    }

    #[test]
    fn every_altered_bit_of_a_handshake_is_refused() {
        let key = ClusterKey::generate().unwrap();
        let (_, first) = Initiator::new(&key, daemon("n0")).unwrap();
        for bit in 0..8 * (first.len() - OPENING_LENGTH) {
            let mut altered = body(&first).to_vec();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(Responder::answer(&key, &daemon("n1"), &altered).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_replayed_last_message_does_not_confirm_a_replayed_first_one() {
        let key = ClusterKey::generate().unwrap();
        let (initiator, first) = Initiator::new(&key, daemon("n0")).unwrap();
        let (responder, answer) = Responder::answer(&key, &daemon("n1"), body(&first)).unwrap();
        let last = initiator.receive(body(&answer)).unwrap().last_message;
        responder.confirm(&last[2..]).unwrap();
        let (replayed, _) = Responder::answer(&key, &daemon("n1"), body(&first)).unwrap();
        assert!(matches!(replayed.confirm(&last[2..]), Err(Rejection::Key)));
    }

    #[test]
    fn a_version_mismatch_is_told_to_both_sides() {
        let key = ClusterKey::generate().unwrap();
        let newer = Identity {
            version: 99,
            ..daemon("n0")
        };
        let (initiator, first) = Initiator::new(&key, newer).unwrap();
        let (responder, answer) = Responder::answer(&key, &daemon("n1"), body(&first)).unwrap();
        let established = initiator.receive(body(&answer)).unwrap();
        assert!(matches!(
            established.peer,
            Err(Rejection::Version(VersionMismatch {
                ours: 99,
                theirs: PROTOCOL_VERSION
            }))
        ));
        let refused = responder.confirm(&established.last_message[2..]).map(|(_, peer)| peer);
        assert!(matches!(
            refused,
            Err(Rejection::Version(VersionMismatch {
                ours: PROTOCOL_VERSION,
                theirs: 99
            }))
        ));
    }
}
