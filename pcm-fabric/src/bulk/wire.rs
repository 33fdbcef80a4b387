//! The bytes of bulk transfers on a stream: a header, then a payload of at most one block. Pure; no length is believed
//! before it has been checked.

/// Bytes of the header.
pub const HEADER_LENGTH: usize = 32;

/// Bytes of the header that its check covers too.
pub(super) const COVERED_LENGTH: usize = 16;

/// Bytes of one block: small enough to stay in a core's cache between checking and copying, large enough that system
/// calls and headers do not matter.
pub const BLOCK_LENGTH: usize = 256 << 10;

/// Longest region: its ledger then takes 32 KiB.
pub const REGION_LENGTH_MAX: u64 = 64 << 30;

/// Changes with the layout.
pub(super) const LAYOUT: u8 = 1;

/// Names an offered region; random bytes, so that only who was told can write into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionToken(pub [u8; 16]);

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Sender: which region, how long. Payload: `open_payload`.
    Open = 1,
    /// Receiver: which blocks are here already. Payload: the ledger.
    State = 2,
    /// Receiver: it cannot be; `number` says why.
    Refused = 3,
    /// Sender: block `number`.
    Block = 4,
    /// Receiver: every block is here.
    Done = 5,
}

/// Why a receiver refuses a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// Nobody offered this region, or its offer was withdrawn.
    Unknown = 1,
    /// The region has another length.
    Length = 2,
    /// Another connection fills it and does not let go.
    Busy = 3,
    /// The receiver's device does not take the region's memory.
    Unregistered = 4,
    /// The receiver takes only what is encrypted.
    Protection = 5,
}

impl Reason {
    /// The reason with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        [
            Self::Unknown,
            Self::Length,
            Self::Busy,
            Self::Unregistered,
            Self::Protection,
        ]
        .into_iter()
        .find(|reason| *reason as u32 == number)
    }
}

/// What stands before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is for.
    pub kind: Kind,
    /// The block, or the reason.
    pub number: u32,
    /// Bytes of the payload.
    pub length: u32,
    /// Seal or checksum of the covered bytes and the payload.
    pub check: [u8; 16],
}

impl Header {
    /// The covered bytes; the check comes after them.
    pub fn covered(&self) -> [u8; COVERED_LENGTH] {
        let mut bytes = [0; COVERED_LENGTH];
        bytes[0] = LAYOUT;
        bytes[1] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    pub fn to_bytes(&self) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        bytes[..COVERED_LENGTH].copy_from_slice(&self.covered());
        bytes[COVERED_LENGTH..].copy_from_slice(&self.check);
        bytes
    }

    /// The header, when the stream is one of bulk transfers and the payload no longer than a block.
    pub fn parse(bytes: &[u8; HEADER_LENGTH]) -> Option<Self> {
        let kind = match bytes[1] {
            1 => Kind::Open,
            2 => Kind::State,
            3 => Kind::Refused,
            4 => Kind::Block,
            5 => Kind::Done,
            _ => return None,
        };
        let (covered, check) = bytes.split_first_chunk::<COVERED_LENGTH>()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let header = Self {
            kind,
            number: word(4),
            length: word(8),
            check: check.try_into().ok()?,
        };
        let is_short = usize::try_from(header.length).is_ok_and(|length| length <= BLOCK_LENGTH);
        (*covered == header.covered() && is_short).then_some(header)
    }
}

/// Which region a sender means, and how long it believes it is.
pub fn open_payload(token: RegionToken, length: u64) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&token.0);
    bytes[16..].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Reads what `open_payload` wrote.
pub fn parse_open(payload: &[u8]) -> Option<(RegionToken, u64)> {
    let payload: &[u8; 24] = payload.try_into().ok()?;
    let (token, length) = payload.split_first_chunk::<16>()?;
    let length = u64::from_le_bytes(length.try_into().ok()?);
    (length <= REGION_LENGTH_MAX).then_some((RegionToken(*token), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_any_other_layout_is_refused() {
        let header = Header {
            kind: Kind::Block,
            number: 9,
            length: BLOCK_LENGTH as u32,
            check: [3; 16],
        };
        let bytes = header.to_bytes();
        assert_eq!(Header::parse(&bytes), Some(header));
        for at in [0, 1, 2, 3, 10, 11, 12, 15] {
            let mut changed = bytes;
            changed[at] ^= 0x40;
            assert_eq!(Header::parse(&changed), None, "byte {at}");
        }
    }
}
