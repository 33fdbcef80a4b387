//! What detectors tell each other, as bytes. The link says who sent them; the header says which life and which
//! statement of it.

use super::{timing, view::Update};
use pcm_proto::{frame, ids::NodeName};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    /// The sender's boot and revision.
    pub(super) boot: u64,
    pub(super) revision: u64,
    /// What the sender believes of the living, in short.
    pub(super) digest: u64,
    pub(super) body: Body,
    pub(super) updates: Vec<Update>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Body {
    Probe,
    Answer,
    /// I do not hear this node: probe it for me.
    ProbeFor {
        subject: NodeName,
    },
    /// The node you do not hear answered me.
    Heard {
        subject: NodeName,
        boot: u64,
    },
    /// Nothing but updates.
    News,
    /// I do not know you, or not all you said about yourself: tell me.
    WhoAreYou,
    /// All I believe; more of it follows, or it is complete and I want to know what you believe.
    Sync {
        answer_wanted: bool,
    },
}

/// Why a packet was refused; nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum Rejection {
    /// It is not a packet of this protocol.
    #[error("a membership packet is malformed: {0}")]
    Malformed(#[source] frame::MessageError),
    /// It holds more updates than any sender puts into one, or one longer than its limits.
    #[error("a membership packet is larger than any sender makes it")]
    TooLarge,
    /// It claims to come from this very node.
    #[error("a membership packet came from a second daemon with this node's name")]
    FromOurselves,
}

impl Message {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        rmp_serde::to_vec(self).expect("numbers, strings and lists always serialise into memory")
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Rejection> {
        let message: Self = frame::decode(bytes).map_err(Rejection::Malformed)?;
        let fits = |update: &Update| update.details.as_ref().is_none_or(super::view::Details::fits);
        if message.updates.len() > timing::UPDATES_PER_SYNC || !message.updates.iter().all(fits) {
            return Err(Rejection::TooLarge);
        }
        Ok(message)
    }
}
