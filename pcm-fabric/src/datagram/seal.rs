//! Sealing and opening of packets: AES-256-GCM, as on the links, under a key for each incarnation and epoch that only
//! a holder of the cluster's key can derive. Never allocates for a packet that does not open.

use super::wire::{HEADER_LENGTH, Header, Incarnation, TAG_LENGTH};
use crate::key::ClusterKey;
use ring::{
    aead::{self, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    hkdf,
};

const PURPOSE: &[u8] = b"pcm datagram 1";

/// Derives the keys of incarnations from the cluster's.
pub(super) struct Keys {
    root: hkdf::Prk,
    epoch: u32,
}

impl Keys {
    pub(super) fn new(key: &ClusterKey, epoch: u32) -> Self {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, key.cluster_id().as_bytes());
        Self {
            root: salt.extract(key.secret()),
            epoch,
        }
    }

    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(super) fn turn(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    /// Members turn to a new epoch at different moments, so its neighbours are believed too.
    pub(super) fn accepts(&self, epoch: u32) -> bool {
        self.epoch.abs_diff(epoch) <= 1
    }

    pub(super) fn of(&self, epoch: u32, incarnation: Incarnation) -> LessSafeKey {
        let epoch = epoch.to_le_bytes();
        let info = [PURPOSE, &epoch, &incarnation.0];
        let okm = self.root.expand(&info, &AES_256_GCM);
        LessSafeKey::new(UnboundKey::from(
            okm.expect("a key is no longer than the derivation allows"),
        ))
    }
}

/// Writes a whole packet into `out`, which holds nothing else; `body` appends what is to be sealed.
pub(super) fn seal(key: &LessSafeKey, header: &Header, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.clear();
    out.extend_from_slice(&header.to_bytes());
    body(out);
    let (head, sealed) = out.split_at_mut(HEADER_LENGTH);
    let tag = key.seal_in_place_separate_tag(nonce(header), Aad::from(&*head), sealed);
    let tag: aead::Tag = tag.expect("a packet is far shorter than the cipher allows");
    out.extend_from_slice(tag.as_ref());
}

/// The body of a packet, when a holder of the key sealed exactly these bytes.
pub(super) fn open<'a>(key: &LessSafeKey, header: &Header, packet: &'a mut [u8]) -> Option<&'a [u8]> {
    if packet.len() < HEADER_LENGTH + TAG_LENGTH {
        return None;
    }
    let (head, sealed) = packet.split_at_mut(HEADER_LENGTH);
    let body = key.open_in_place(nonce(header), Aad::from(&*head), sealed).ok()?;
    Some(body)
}

fn nonce(header: &Header) -> Nonce {
    let mut bytes = [0; aead::NONCE_LEN];
    bytes[..4].copy_from_slice(&header.session.to_le_bytes());
    bytes[4..].copy_from_slice(&header.counter.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}
