//! The seal: the last file of a checkpoint, with the manifest's length and checksum. A directory without it is what was
//! left of an interrupted write or copy.

use crate::{block::checksum, manifest::VERSION};

/// The manifest's file.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The seal's file.
pub(crate) const SEAL: &str = "SEAL";

/// What stands in the seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) version: u32,
    pub(crate) manifest_bytes: u64,
    pub(crate) manifest_crc32: u32,
}

impl Seal {
    pub(crate) fn of(manifest: &[u8]) -> Self {
        Self {
            version: VERSION,
            manifest_bytes: manifest.len() as u64,
            manifest_crc32: checksum(manifest),
        }
    }

    pub(crate) fn text(self) -> String {
        let Self {
            version,
            manifest_bytes,
            manifest_crc32,
        } = self;
        format!("pcm-checkpoint {version} {MANIFEST} {manifest_bytes} {manifest_crc32:08x}\n")
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let is_ours = words.next() == Some("pcm-checkpoint");
        let version = words.next()?.parse().ok()?;
        let names_manifest = words.next() == Some(MANIFEST);
        let manifest_bytes = words.next()?.parse().ok()?;
        let manifest_crc32 = u32::from_str_radix(words.next()?, 16).ok()?;
        (is_ours && names_manifest).then_some(Self {
            version,
            manifest_bytes,
            manifest_crc32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_survives_its_text_and_anything_else_is_none() {
        let seal = Seal::of(b"{}");
        assert_eq!(Seal::parse(&seal.text()), Some(seal));
        for text in ["", "pcm-checkpoint 1 manifest.json", "tar 1 manifest.json 2 00000000"] {
            assert_eq!(Seal::parse(text), None, "{text}");
        }
    }
}
