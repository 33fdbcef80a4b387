//! The bytes of a packet: a header in the clear, which the seal covers, and a sealed body. Pure; never believes a
//! length before checking it, and allocates nothing for a packet it refuses.

use std::fmt;

/// Bytes of the header.
pub const HEADER_LENGTH: usize = 58;

/// Bytes of the seal at the end.
pub const TAG_LENGTH: usize = 16;

/// Shorter packets do not exist: those that are answered are padded to this, so that no answer is longer than what
/// it answers.
pub const PACKET_LENGTH_MIN: usize = 128;

/// Bytes before the fragment of a message in a data packet's body.
pub const DATA_HEADER_LENGTH: usize = 22;

/// Fragments of one message: as many as a word has bits.
pub const FRAGMENTS_MAX: u8 = 64;

/// Bytes of one entry of an acknowledgement.
pub const ACK_ENTRY_LENGTH: usize = 16;

/// Bytes before the entries of an acknowledgement.
const ACK_HEADER_LENGTH: usize = 8;

/// Changes with the layout; a packet of another layout is refused unread.
const LAYOUT: u8 = 0xd1;

/// One life of an endpoint: random bytes drawn when it starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation(pub [u8; 16]);

impl Incarnation {
    /// Stands where the receiver's incarnation is not known yet.
    pub const UNKNOWN: Self = Self([0; 16]);
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incarnation({:08x})", u128::from_le_bytes(self.0) >> 96)
    }
}

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Asks for a challenge.
    Hello = 1,
    /// Names the receiver's incarnation and the moment, so that only what is sent after it is believed.
    Challenge = 2,
    /// One fragment of a message.
    Data = 3,
    /// What has arrived.
    Ack = 4,
}

/// The clear part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the packet is for.
    pub kind: Kind,
    /// Which of the cluster's keys sealed it.
    pub epoch: u32,
    /// Who sealed it.
    pub from: Incarnation,
    /// The sender's session; with `counter` it makes the nonce, so no pair is used twice in an incarnation.
    pub session: u32,
    /// Counts the packets of the session.
    pub counter: u64,
    /// Whom it is for, or unknown in a hello.
    pub to: Incarnation,
    /// Data: the moment of the challenge it rests on. Challenge: that moment. Ack: the session it is about.
    pub cookie: u64,
}

impl Header {
    /// The bytes of the header.
    pub fn to_bytes(&self) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        bytes[0] = LAYOUT;
        bytes[1] = self.kind as u8;
        bytes[2..6].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[6..22].copy_from_slice(&self.from.0);
        bytes[22..26].copy_from_slice(&self.session.to_le_bytes());
        bytes[26..34].copy_from_slice(&self.counter.to_le_bytes());
        bytes[34..50].copy_from_slice(&self.to.0);
        bytes[50..58].copy_from_slice(&self.cookie.to_le_bytes());
        bytes
    }

    /// The header of a packet, when the packet can be one of ours.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let mut rest = Cursor(packet);
        let [layout, kind] = rest.take::<2>()?;
        let kind = match kind {
            1 => Kind::Hello,
            2 => Kind::Challenge,
            3 => Kind::Data,
            4 => Kind::Ack,
            _ => return None,
        };
        let header = Self {
            kind,
            epoch: rest.u32()?,
            from: Incarnation(rest.take()?),
            session: rest.u32()?,
            counter: rest.u64()?,
            to: Incarnation(rest.take()?),
            cookie: rest.u64()?,
        };
        let shortest = match kind {
            Kind::Hello | Kind::Data => PACKET_LENGTH_MIN,
            Kind::Challenge | Kind::Ack => HEADER_LENGTH + ACK_HEADER_LENGTH + TAG_LENGTH,
        };
        (layout == LAYOUT && packet.len() >= shortest).then_some(header)
    }
}

/// One fragment of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// The oldest message the sender still cares for.
    pub base: u64,
    pub message: u64,
    /// Bytes of the whole message.
    pub length: u32,
    pub index: u8,
    /// How many fragments.
    pub count: u8,
    pub bytes: &'a [u8],
}

/// How a message of `length` bytes is cut: the range of fragment `index` of `count`.
pub fn fragment_range(length: usize, index: u8, count: u8) -> Option<std::ops::Range<usize>> {
    if count == 0 || count > FRAGMENTS_MAX || index >= count {
        return None;
    }
    let stride = length.div_ceil(usize::from(count));
    let start = usize::from(index) * stride;
    (start < length || (length == 0 && count == 1)).then(|| start..length.min(start + stride))
}

impl<'a> Fragment<'a> {
    /// Appends the body, padded so that the packet reaches its shortest length.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&self.message.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&[self.index, self.count]);
        out.extend_from_slice(self.bytes);
        pad(out, start);
    }

    /// The fragment in an opened body; every length agrees with the others or it is refused.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let mut rest = Cursor(body);
        let (base, message, length) = (rest.u64()?, rest.u64()?, rest.u32()?);
        let [index, count] = rest.take::<2>()?;
        let range = fragment_range(usize::try_from(length).ok()?, index, count)?;
        let bytes = rest.0.get(..range.len())?;
        let padded = (DATA_HEADER_LENGTH + bytes.len()).max(PACKET_LENGTH_MIN - HEADER_LENGTH - TAG_LENGTH);
        (body.len() == padded && base <= message).then_some(Self {
            base,
            message,
            length,
            index,
            count,
            bytes,
        })
    }
}

/// Fills the body of a packet that is answered.
pub fn pad(out: &mut Vec<u8>, body_start: usize) {
    let shortest = body_start + PACKET_LENGTH_MIN - HEADER_LENGTH - TAG_LENGTH;
    if out.len() < shortest {
        out.resize(shortest, 0);
    }
}

/// What a challenge answers: the session and number of the packet.
pub fn challenge_body(session: u32, counter: u64) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&session.to_le_bytes());
    bytes[4..].copy_from_slice(&counter.to_le_bytes());
    bytes
}

/// Reads what `challenge_body` wrote.
pub fn parse_challenge(body: &[u8]) -> Option<(u32, u64)> {
    let mut rest = Cursor(body);
    let parsed = (rest.u32()?, rest.u64()?);
    rest.0.is_empty().then_some(parsed)
}

/// Appends an acknowledgement: every message below `done_below` is finished, and of each of `entries` these fragments
/// are here.
pub fn write_ack(done_below: u64, entries: &[(u64, u64)], out: &mut Vec<u8>) {
    out.extend_from_slice(&done_below.to_le_bytes());
    for (message, have) in entries {
        out.extend_from_slice(&message.to_le_bytes());
        out.extend_from_slice(&have.to_le_bytes());
    }
}

/// Reads an acknowledgement; the entries are read as they are asked for.
pub fn parse_ack(body: &[u8]) -> Option<(u64, impl Iterator<Item = (u64, u64)>)> {
    let mut rest = Cursor(body);
    let done_below = rest.u64()?;
    let entries = rest.0;
    if !entries.len().is_multiple_of(ACK_ENTRY_LENGTH) {
        return None;
    }
    let entries = entries.chunks_exact(ACK_ENTRY_LENGTH).filter_map(|entry| {
        let mut entry = Cursor(entry);
        Some((entry.u64()?, entry.u64()?))
    });
    Some((done_below, entries))
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back() {
        let header = Header {
            kind: Kind::Data,
            epoch: 7,
            from: Incarnation([1; 16]),
            session: 9,
            counter: 1 << 40,
            to: Incarnation([2; 16]),
            cookie: 12,
        };
        let mut packet = header.to_bytes().to_vec();
        assert_eq!(Header::parse(&packet), None);
        packet.resize(PACKET_LENGTH_MIN, 0);
        assert_eq!(Header::parse(&packet), Some(header));
        packet[0] ^= 1;
        assert_eq!(Header::parse(&packet), None);
    }

    #[test]
    fn the_fragments_of_a_message_cover_it_once() {
        for length in [0_usize, 1, 1023, 1024, 1025, 5000, 40_000, 65_535, 65_536] {
            let count = u8::try_from(length.div_ceil(1024).max(1)).unwrap();
            let mut at = 0;
            for index in 0..count {
                let range = fragment_range(length, index, count).unwrap();
                assert_eq!(range.start, at);
                assert!(range.len() <= 1024);
                at = range.end;
            }
            assert_eq!(at, length);
            assert_eq!(fragment_range(length, count, count), None);
        }
    }

    #[test]
    fn a_fragment_whose_lengths_disagree_is_refused() {
        let fragment = Fragment {
            base: 3,
            message: 4,
            length: 5,
            index: 0,
            count: 1,
            bytes: b"hello",
        };
        let mut body = Vec::new();
        fragment.write(&mut body);
        assert_eq!(Fragment::parse(&body), Some(fragment));
        body.push(0);
        assert_eq!(Fragment::parse(&body), None);
        body.pop();
        body[16] = 200;
        assert_eq!(Fragment::parse(&body), None);
    }
}
