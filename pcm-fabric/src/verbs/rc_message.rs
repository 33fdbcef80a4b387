//! What the two ends of a bulk transfer over RC tell each other by datagrams.

use super::pair::End;
use crate::bulk::{Reason, RegionToken, wire::BLOCK_LENGTH};
use crc_fast::{CrcAlgorithm, checksum};
use pcm_proto::frame::{self, FrameKind, HEADER_LENGTH};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

pub(super) const KEY_LENGTH: usize = 32;

/// Bytes that seal a block, or its checksum and zeros.
pub(super) type Check = [u8; 16];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Said {
    /// Sender: it wants to fill a region from this end; with a key, blocks are encrypted under it.
    Open {
        transfer: u64,
        token: [u8; 16],
        length: u64,
        end: End,
        key: Option<[u8; KEY_LENGTH]>,
    },
    /// Receiver: where to write, and what is there already.
    Opened {
        transfer: u64,
        end: End,
        address: u64,
        remote_key: u32,
        #[serde(with = "serde_bytes")]
        ledger: Vec<u8>,
    },
    /// Receiver: it cannot be.
    Refused { transfer: u64, reason: u32 },
    /// Sender: these blocks are written.
    Written { transfer: u64, blocks: Vec<(u32, Check)> },
    /// Receiver: these blocks are not what was written; again.
    Damaged { transfer: u64, blocks: Vec<u32> },
    /// Receiver: it knows nothing of this connection (any more).
    Lost { transfer: u64 },
    /// Receiver: all is there.
    Done { transfer: u64 },
}

impl Said {
    pub(super) fn transfer(&self) -> u64 {
        match self {
            Self::Open { transfer, .. }
            | Self::Opened { transfer, .. }
            | Self::Refused { transfer, .. }
            | Self::Written { transfer, .. }
            | Self::Damaged { transfer, .. }
            | Self::Lost { transfer }
            | Self::Done { transfer } => *transfer,
        }
    }

    pub(super) fn refused(transfer: u64, reason: Reason) -> Self {
        Self::Refused {
            transfer,
            reason: reason as u32,
        }
    }

    /// As a datagram's message; empty if it is too long for one, which its sizes exclude.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let limit = crate::datagram::MESSAGE_LENGTH_MAX - HEADER_LENGTH;
        if frame::encode(FrameKind::Message, self, limit, &mut bytes).is_err() {
            bytes.clear();
        }
        bytes
    }

    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        frame::decode(message.get(HEADER_LENGTH..)?).ok()
    }
}

pub(super) fn token(bytes: [u8; 16]) -> RegionToken {
    RegionToken(bytes)
}

/// Encrypts blocks under a transfer's key, or sums them where there is none.
pub(super) struct Protector {
    key: Option<LessSafeKey>,
}

impl Protector {
    pub(super) fn new(key: Option<&[u8; KEY_LENGTH]>) -> Option<Self> {
        let key = match key {
            Some(key) => Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?)),
            None => None,
        };
        Some(Self { key })
    }

    pub(super) fn is_sealing(&self) -> bool {
        self.key.is_some()
    }

    /// Encrypts a block where it is, and gives its check.
    pub(super) fn protect(&self, block: u32, bytes: &mut [u8]) -> Option<Check> {
        let Some(key) = &self.key else {
            return Some(sum(bytes));
        };
        let tag = key.seal_in_place_separate_tag(nonce(block), Aad::empty(), bytes).ok()?;
        tag.as_ref().try_into().ok()
    }

    /// Gives the check of a block that is not to be changed; only where nothing is encrypted.
    pub(super) fn check_of(&self, bytes: &[u8]) -> Check {
        sum(bytes)
    }

    /// Decrypts a block where it is; whether it is what was sent.
    pub(super) fn open(&self, block: u32, check: Check, bytes: &mut [u8]) -> bool {
        match &self.key {
            None => sum(bytes) == check,
            Some(key) => key
                .open_in_place_separate_tag(nonce(block), Aad::empty(), check.into(), bytes, 0..)
                .is_ok(),
        }
    }
}

/// A transfer's key is used for one connection, and in it a block's number for the same bytes only.
fn nonce(block: u32) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..4].copy_from_slice(&block.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn sum(bytes: &[u8]) -> Check {
    let mut check = [0; 16];
    check[..8].copy_from_slice(&checksum(CrcAlgorithm::Crc64Nvme, bytes).to_le_bytes());
    check
}

/// Blocks that are announced together; with the checks they fit into a datagram several times.
pub(super) const ANNOUNCED_MAX: usize = 64;

const _: () = assert!(ANNOUNCED_MAX * 32 < crate::datagram::MESSAGE_LENGTH_MAX && BLOCK_LENGTH <= u32::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_back_and_fits_into_a_datagram() {
        let longest = Said::Opened {
            transfer: u64::MAX,
            end: End {
                gid: [255; 16],
                pair: u32::MAX,
                first_packet: u32::MAX,
            },
            address: u64::MAX,
            remote_key: u32::MAX,
            ledger: vec![255; 32 << 10],
        };
        let bytes = longest.to_bytes();
        assert!(!bytes.is_empty());
        assert_eq!(Said::parse(&bytes), Some(longest));
        let many = Said::Written {
            transfer: u64::MAX,
            blocks: vec![(u32::MAX, [255; 16]); ANNOUNCED_MAX],
        };
        assert_eq!(Said::parse(&many.to_bytes()), Some(many));
        assert_eq!(Said::parse(b"x"), None);
    }

    #[test]
    fn a_block_that_changed_on_its_way_is_not_opened() {
        for key in [None, Some([7; KEY_LENGTH])] {
            let protector = Protector::new(key.as_ref()).unwrap();
            let mut bytes = vec![5; 1000];
            let check = protector.protect(3, &mut bytes).unwrap();
            assert_eq!(protector.is_sealing(), bytes != vec![5; 1000]);
            let mut changed = bytes.clone();
            changed[17] ^= 1;
            assert!(!protector.open(3, check, &mut changed));
            assert!(protector.open(3, check, &mut bytes));
            assert_eq!(bytes, vec![5; 1000]);
        }
    }
}
