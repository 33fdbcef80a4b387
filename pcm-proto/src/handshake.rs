//! The version handshake: who speaks at each end of a link, and whether the two speak the same protocol. Only types
//! and checks; sockets and keys belong to `pcm-fabric`.

use crate::{
    frame::{self, EncodeError, FrameKind, MessageError},
    ids::NodeName,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of everything two processes of the project say to each other, the shared page included. Both ends of a link
/// must have the same one. `tests/golden.rs` fails when bytes change and this does not, and says what to do.
pub const PROTOCOL_VERSION: u16 = 13;

/// Longest [`Identity`] in bytes; a name of the longest kind and the enum around it take less than a third.
pub const IDENTITY_LENGTH_MAX: usize = 256;

/// First bytes of every link in both directions, readable before any key is used. The last is the version of the
/// link's own handshake.
pub const PREAMBLE: [u8; 4] = *b"PCM\x01";

/// What a process is to its peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The daemon of a node.
    Daemon { node: NodeName },
    /// A user's command.
    Control,
    /// The agent of a node, on the local socket of its daemon.
    Agent { node: NodeName },
    /// The library inside an application, on the local socket of its daemon.
    Application,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Daemon { node } => write!(f, "the daemon of node {node}"),
            Self::Control => write!(f, "pcmctl"),
            Self::Agent { node } => write!(f, "the agent of node {node}"),
            Self::Application => write!(f, "an application"),
        }
    }
}

/// What each end says about itself, once the link is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// [`PROTOCOL_VERSION`] of the sender.
    pub version: u16,
    /// What the sender is.
    pub role: Role,
}

impl Identity {
    /// An identity that speaks this program's protocol version.
    pub fn new(role: Role) -> Self {
        Self {
            version: PROTOCOL_VERSION,
            role,
        }
    }

    /// As a frame of kind [`FrameKind::Hello`]: the version in two bytes, which every release can read, then the role.
    pub fn to_frame(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::new();
        frame::encode_after(
            FrameKind::Hello,
            &self.version.to_le_bytes(),
            &self.role,
            IDENTITY_LENGTH_MAX,
            &mut out,
        )?;
        Ok(out)
    }

    /// From the payload of a hello frame; the role of a peer that speaks another version is not looked at.
    pub fn from_payload(payload: &[u8], ours: u16) -> Result<Self, HelloError> {
        let (&version, role) = payload.split_first_chunk().ok_or(HelloError::TooShort)?;
        let version = u16::from_le_bytes(version);
        if version != ours {
            return Err(HelloError::Version(VersionMismatch { ours, theirs: version }));
        }
        Ok(Self {
            version,
            role: frame::decode(role).map_err(HelloError::Malformed)?,
        })
    }
}

/// Why a hello was refused; the link ends.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// It does not even hold a version.
    #[error("the peer's hello is shorter than its version number")]
    TooShort,
    /// The peer speaks another version.
    #[error(transparent)]
    Version(VersionMismatch),
    /// The role is not one this version knows.
    #[error("the peer's hello names no role: {0}")]
    Malformed(#[source] MessageError),
}

/// Two ends that do not speak the same protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionMismatch {
    /// What this program speaks.
    pub ours: u16,
    /// What the peer speaks.
    pub theirs: u16,
}

impl VersionMismatch {
    /// Refuses a peer of another version than this program's.
    pub fn check(theirs: u16) -> Result<(), Self> {
        let ours = PROTOCOL_VERSION;
        if theirs == ours {
            Ok(())
        } else {
            Err(Self { ours, theirs })
        }
    }
}

impl fmt::Display for VersionMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ours, theirs } = self;
        let older = if ours < theirs { "this program" } else { "the peer" };
        write!(
            f,
            "this program speaks protocol version {ours}, the peer version {theirs} ({older} is older): install one \
             release on every node, then restart the cluster with `pcmctl down` and `pcmctl up`"
        )
    }
}

impl std::error::Error for VersionMismatch {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{frame::HEADER_LENGTH, ids::NAME_LENGTH_MAX};

    #[test]
    fn the_longest_identity_fits_its_limit() {
        let node = NodeName::new("n".repeat(NAME_LENGTH_MAX)).unwrap();
        let identity = Identity::new(Role::Daemon { node });
        let frame = identity.to_frame().unwrap();
        assert!(frame.len() - HEADER_LENGTH <= IDENTITY_LENGTH_MAX / 2);
        assert_eq!(
            Identity::from_payload(&frame[HEADER_LENGTH..], PROTOCOL_VERSION).unwrap(),
            identity
        );
    }

    #[test]
    fn golden_bytes_of_an_identity_do_not_change() {
        let node = NodeName::new("n0").unwrap();
        let frame = Identity {
            version: 1,
            role: Role::Daemon { node },
        }
        .to_frame()
        .unwrap();
        assert_eq!(&frame[..6], [14, 0, 0, 0, 1, 1]);
        assert_eq!(&frame[6..], b"\x01\x00\x81\xa6Daemon\x91\xa2n0");
    }

    #[test]
    fn a_version_mismatch_is_seen_before_the_role_and_says_which_side_is_older() {
        let error = Identity::from_payload(b"\x07\x00 a role of the future", 1).unwrap_err();
        assert!(matches!(
            error,
            HelloError::Version(VersionMismatch { ours: 1, theirs: 7 })
        ));
        let text = error.to_string();
        assert!(text.contains("this program is older"), "{text}");
        assert!(matches!(Identity::from_payload(b"\x07", 1), Err(HelloError::TooShort)));
    }
}
