//! What the two ends of a bulk transfer over RC tell each other by datagrams.

use super::pair::End;
use crate::bulk::{Protection, Reason, RegionToken, wire::BLOCK_LENGTH};
use pcm_proto::frame::{self, FrameKind, HEADER_LENGTH};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use std::fmt;

pub(super) const KEY_LENGTH: usize = 32;

/// What seals a block, or only proves who wrote it.
pub(super) type Check = [u8; 16];

/// A block that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) block: u32,
    /// Counts the writes of its connection: what it is checked with is used once.
    pub(super) number: u32,
    #[serde(with = "serde_bytes")]
    pub(super) check: Check,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Said {
    /// Sender: it wants to fill a region from this end; blocks are authenticated, or encrypted, under this key.
    Open {
        transfer: u64,
        token: [u8; 16],
        length: u64,
        end: End,
        #[serde(with = "serde_bytes")]
        key: [u8; KEY_LENGTH],
        is_sealed: bool,
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
    Written { transfer: u64, blocks: Vec<Written> },
    /// Receiver: these blocks are not what was written; again.
    Damaged { transfer: u64, blocks: Vec<u32> },
    /// Receiver: it knows nothing of this connection (any more).
    Lost { transfer: u64 },
    /// Receiver: all is there.
    Done { transfer: u64 },
}

/// A message may be logged; the key in it may not.
impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transfer = self.transfer();
        f.debug_struct("Said")
            .field("transfer", &transfer)
            .finish_non_exhaustive()
    }
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

/// Encrypts or authenticates the blocks of one connection.
pub(super) struct Protector {
    key: LessSafeKey,
    protection: Protection,
}

impl Protector {
    pub(super) fn new(key: &[u8; KEY_LENGTH], protection: Protection) -> Option<Self> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?);
        Some(Self { key, protection })
    }

    pub(super) fn is_sealing(&self) -> bool {
        self.protection == Protection::Sealed
    }

    /// Encrypts a block where it is, and gives its check.
    pub(super) fn seal(&self, block: u32, number: u32, bytes: &mut [u8]) -> Option<Check> {
        let sealed = self
            .key
            .seal_in_place_separate_tag(nonce(block, number), Aad::empty(), bytes);
        sealed.ok()?.as_ref().try_into().ok()
    }

    /// Gives the check of a block that stays as it is.
    pub(super) fn prove(&self, block: u32, number: u32, bytes: &[u8]) -> Option<Check> {
        let nothing = &mut [];
        let proved = self
            .key
            .seal_in_place_separate_tag(nonce(block, number), Aad::from(bytes), nothing);
        proved.ok()?.as_ref().try_into().ok()
    }

    /// Decrypts a block where it is, if it was encrypted; whether it is what was sent.
    pub(super) fn open(&self, written: &Written, bytes: &mut [u8]) -> bool {
        let (nonce, check) = (nonce(written.block, written.number), written.check.into());
        let opened = match self.protection {
            Protection::Sealed => self
                .key
                .open_in_place_separate_tag(nonce, Aad::empty(), check, bytes, 0..),
            Protection::Plain => self
                .key
                .open_in_place_separate_tag(nonce, Aad::from(&*bytes), check, &mut [], 0..),
        };
        opened.is_ok()
    }
}

/// A key is used in one connection, and there a number for one write.
fn nonce(block: u32, number: u32) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..4].copy_from_slice(&block.to_le_bytes());
    bytes[4..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
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
            blocks: vec![
                Written {
                    block: u32::MAX,
                    number: u32::MAX,
                    check: [255; 16],
                };
                ANNOUNCED_MAX
            ],
        };
        assert_eq!(Said::parse(&many.to_bytes()), Some(many));
        assert_eq!(Said::parse(b"x"), None);
    }

    fn written(protector: &Protector, bytes: &mut [u8]) -> Written {
        let (block, number) = (3, 7);
        let check = match protector.is_sealing() {
            true => protector.seal(block, number, bytes),
            false => protector.prove(block, number, bytes),
        };
        Written {
            block,
            number,
            check: check.unwrap(),
        }
    }

    #[test]
    fn a_block_that_changed_on_its_way_is_not_opened() {
        for protection in [Protection::Plain, Protection::Sealed] {
            let protector = Protector::new(&[7; KEY_LENGTH], protection).unwrap();
            let mut bytes = vec![5; 1000];
            let written = written(&protector, &mut bytes);
            assert_eq!(protector.is_sealing(), bytes != vec![5; 1000]);
            let mut changed = bytes.clone();
            changed[17] ^= 1;
            assert!(!protector.open(&written, &mut changed));
            assert!(protector.open(&written, &mut bytes));
            assert_eq!(bytes, vec![5; 1000]);
        }
    }

    #[test]
    fn a_block_is_only_what_it_was_written_as() {
        for protection in [Protection::Plain, Protection::Sealed] {
            let protector = Protector::new(&[7; KEY_LENGTH], protection).unwrap();
            let mut bytes = vec![5; 1000];
            let written = written(&protector, &mut bytes);
            let (other_block, later) = (Written { block: 4, ..written }, Written { number: 8, ..written });
            let stranger = Protector::new(&[8; KEY_LENGTH], protection).unwrap();
            for (protector, wrong) in [(&protector, other_block), (&protector, later), (&stranger, written)] {
                assert!(!protector.open(&wrong, &mut bytes.clone()), "{wrong:?}");
            }
        }
    }
}
