//! Framing: how a message becomes bytes on a stream and how bytes from a stream become messages again, with a limit
//! on everything. Never does I/O, and never believes a length before checking it.
//!
//! A frame is `length: u32 LE | version: u8 | kind: u8 | payload`; the payload is one message in MessagePack, structs
//! as arrays. Byte strings inside messages should use `serde_bytes`, else every byte is a number of its own.

use crate::unpack::{self, UnpackError};
use serde::{Serialize, de::DeserializeOwned};
use std::io;

/// Version of the frame layout; it changes only when the six bytes of the header or their meaning change.
pub const FRAME_VERSION: u8 = 1;

/// Bytes before the payload.
pub const HEADER_LENGTH: usize = 6;

/// Longest payload. The largest single message is an order to start a program with its arguments and environment,
/// which the kernel limits to 2 MiB on a default stack; twice that leaves room for what goes with it. Bulk data
/// travels in chunks far below this.
pub const PAYLOAD_LENGTH_MAX: usize = 4 << 20;

/// Buffer that a decoder keeps after a large frame has passed through; a few chunks of bulk data, so that a stream of
/// those does not allocate.
const IDLE_CAPACITY_MAX: usize = 1 << 20;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// The sender's [`crate::handshake::Identity`]; the first frame of each direction, and only there.
    Hello = 1,
    /// One message of the protocol that the two identities speak.
    Message = 2,
    /// The sender ends the stream on purpose; nothing follows. Without it, the end of a stream is a loss.
    Goodbye = 3,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Hello),
            2 => Some(Self::Message),
            3 => Some(Self::Goodbye),
            _ => None,
        }
    }
}

/// One frame, still inside the decoder's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What the payload is.
    pub kind: FrameKind,
    /// The encoded message.
    pub payload: &'a [u8],
}

/// Why a stream of bytes is not a stream of frames; the stream cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A header announces more than the limit.
    #[error("the peer announced a frame of {length} bytes, the limit is {max}")]
    TooLarge {
        /// Announced length of the payload.
        length: usize,
        /// The limit of this stream.
        max: usize,
    },
    /// A header of another frame layout.
    #[error(
        "the peer sent frame version {version}, this program speaks {FRAME_VERSION}: run the same release on both \
             sides"
    )]
    UnknownVersion {
        /// The version it names.
        version: u8,
    },
    /// A kind this version does not know.
    #[error("the peer sent a frame of unknown kind {kind}")]
    UnknownKind { kind: u8 },
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame, after {have} of {need} bytes")]
    Truncated {
        /// Bytes of the frame that arrived, header included.
        have: usize,
        /// Bytes it needs, as far as known.
        need: usize,
    },
}

/// Why a message could not become a frame; the output is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The encoded message is longer than the limit.
    #[error("a message is longer than a frame may be ({max} bytes): send it in parts")]
    TooLarge {
        /// The limit of this stream.
        max: usize,
    },
    /// The message's own serialisation failed.
    #[error("a message cannot be serialised: {0}")]
    Unserialisable(#[source] rmp_serde::encode::Error),
}

/// Why a payload is not the expected message; the stream itself is still in order.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// Not the expected shape, or cut short.
    #[error("a frame does not hold the expected message: {0}")]
    Malformed(#[source] UnpackError),
    /// The message ended before its frame did.
    #[error("a frame holds {count} bytes after its message")]
    TrailingBytes {
        /// How many bytes are left over.
        count: usize,
    },
}

/// Appends one frame to `out` and returns its length; on failure `out` is unchanged.
pub fn encode<T: Serialize + ?Sized>(
    kind: FrameKind,
    message: &T,
    max: usize,
    out: &mut Vec<u8>,
) -> Result<usize, EncodeError> {
    encode_after(kind, &[], message, max, out)
}

/// As [`encode`], with bytes of a fixed layout before the message.
pub(crate) fn encode_after<T: Serialize + ?Sized>(
    kind: FrameKind,
    prefix: &[u8],
    message: &T,
    max: usize,
    out: &mut Vec<u8>,
) -> Result<usize, EncodeError> {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, FRAME_VERSION, kind as u8]);
    out.extend_from_slice(prefix);
    let mut limited = LimitedWriter {
        out,
        end: start + HEADER_LENGTH + max,
        overflow: false,
    };
    let written = rmp_serde::encode::write(&mut limited, message);
    let overflow = limited.overflow;
    if let Err(error) = written {
        out.truncate(start);
        return Err(if overflow {
            EncodeError::TooLarge { max }
        } else {
            EncodeError::Unserialisable(error)
        });
    }
    let frame_length = out.len() - start;
    let Ok(length) = u32::try_from(frame_length - HEADER_LENGTH) else {
        out.truncate(start);
        return Err(EncodeError::TooLarge { max });
    };
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(frame_length)
}

/// Reads the one message a payload must be, no byte more and no byte less.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, MessageError> {
    let (message, rest) = unpack::first(payload).map_err(MessageError::Malformed)?;
    match rest.len() {
        0 => Ok(message),
        count => Err(MessageError::TrailingBytes { count }),
    }
}

struct LimitedWriter<'a> {
    out: &'a mut Vec<u8>,
    end: usize,
    overflow: bool,
}

impl io::Write for LimitedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.out.len() + bytes.len() > self.end {
            self.overflow = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Cuts a stream that arrives in any pieces into frames.
///
/// Holds at most one incomplete frame plus the last piece pushed, if [`Decoder::next_frame`] is called until it
/// returns `None` after each push. After an error it returns the same error for ever.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    max: usize,
    failed: Option<FrameError>,
}

impl Decoder {
    /// A decoder that refuses payloads longer than `max`.
    pub fn new(max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            max,
            failed: None,
        }
    }

    /// Takes the next piece of the stream; memory grows by what arrived, never by what a header announces.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
            if self.buffer.capacity() > IDLE_CAPACITY_MAX && bytes.len() <= IDLE_CAPACITY_MAX {
                self.buffer.shrink_to(IDLE_CAPACITY_MAX);
            }
        } else if self.start >= self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete frame, `None` when more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let (kind, length) = match self.header() {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.failed = Some(error.clone());
                self.buffer = Vec::new();
                self.start = 0;
                return Err(error);
            }
        };
        let payload_start = self.start + HEADER_LENGTH;
        if self.buffer.len() < payload_start + length {
            return Ok(None);
        }
        self.start = payload_start + length;
        Ok(Some(Frame {
            kind,
            payload: &self.buffer[payload_start..payload_start + length],
        }))
    }

    /// Says whether the stream may end here.
    pub fn finish(&self) -> Result<(), FrameError> {
        match self.header()? {
            None if self.buffered() == 0 => Ok(()),
            None => Err(FrameError::Truncated {
                have: self.buffered(),
                need: HEADER_LENGTH,
            }),
            Some((_, length)) => Err(FrameError::Truncated {
                have: self.buffered(),
                need: HEADER_LENGTH + length,
            }),
        }
    }

    /// Bytes that the frame under way still lacks; 0 between frames and before a header is complete.
    pub fn missing(&self) -> Result<usize, FrameError> {
        Ok(self.header()?.map_or(0, |(_, length)| {
            (HEADER_LENGTH + length).saturating_sub(self.buffered())
        }))
    }

    /// Bytes held that belong to no frame handed out yet.
    pub fn buffered(&self) -> usize {
        self.buffer.len() - self.start
    }

    fn header(&self) -> Result<Option<(FrameKind, usize)>, FrameError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let Some(&[a, b, c, d, version, kind]) = self.buffer[self.start..].first_chunk::<HEADER_LENGTH>() else {
            return Ok(None);
        };
        if version != FRAME_VERSION {
            return Err(FrameError::UnknownVersion { version });
        }
        let kind = FrameKind::from_byte(kind).ok_or(FrameError::UnknownKind { kind })?;
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if length > self.max {
            return Err(FrameError::TooLarge { length, max: self.max });
        }
        Ok(Some((kind, length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames_of(decoder: &mut Decoder) -> Result<Vec<(FrameKind, Vec<u8>)>, FrameError> {
        let mut frames = Vec::new();
        while let Some(frame) = decoder.next_frame()? {
            frames.push((frame.kind, frame.payload.to_vec()));
        }
        Ok(frames)
    }

    fn header(length: u32) -> [u8; HEADER_LENGTH] {
        let [a, b, c, d] = length.to_le_bytes();
        [a, b, c, d, FRAME_VERSION, FrameKind::Message as u8]
    }

    #[test]
    fn golden_bytes_of_a_frame_do_not_change() {
        let mut out = Vec::new();
        encode(FrameKind::Message, &(7u32, "ab"), 100, &mut out).unwrap();
        assert_eq!(out, [5, 0, 0, 0, 1, 2, 0x92, 7, 0xa2, b'a', b'b']);
    }

    #[test]
    fn an_oversized_length_is_refused_from_its_header_alone_without_allocating_it() {
        let mut decoder = Decoder::new(1000);
        decoder.push(&header(u32::MAX));
        let expected = FrameError::TooLarge {
            length: u32::MAX as usize,
            max: 1000,
        };
        assert_eq!(decoder.next_frame(), Err(expected.clone()));
        decoder.push(&[0; 100_000]);
        assert_eq!(decoder.buffered(), 0);
        assert_eq!(decoder.next_frame(), Err(expected));
    }

    #[test]
    fn an_announced_length_costs_no_memory_before_its_bytes_arrive() {
        let mut decoder = Decoder::new(PAYLOAD_LENGTH_MAX);
        decoder.push(&header(PAYLOAD_LENGTH_MAX as u32));
        assert_eq!(decoder.next_frame(), Ok(None));
        assert!(decoder.buffer.capacity() < 100);
    }

    #[test]
    fn a_large_frame_does_not_keep_its_memory() {
        let mut decoder = Decoder::new(PAYLOAD_LENGTH_MAX);
        decoder.push(&header(PAYLOAD_LENGTH_MAX as u32));
        decoder.push(&vec![0; PAYLOAD_LENGTH_MAX]);
        assert!(decoder.next_frame().unwrap().is_some());
        decoder.push(&[1]);
        assert!(decoder.buffer.capacity() <= IDLE_CAPACITY_MAX);
    }

    #[test]
    fn a_stream_that_ends_inside_a_frame_is_truncated() {
        let mut decoder = Decoder::new(100);
        assert_eq!(decoder.finish(), Ok(()));
        decoder.push(&header(3)[..4]);
        assert_eq!(decoder.finish(), Err(FrameError::Truncated { have: 4, need: 6 }));
        decoder.push(&header(3)[4..]);
        decoder.push(&[9]);
        assert_eq!(decoder.next_frame(), Ok(None));
        assert_eq!(decoder.finish(), Err(FrameError::Truncated { have: 7, need: 9 }));
    }

    #[test]
    fn a_message_over_the_limit_leaves_the_output_unchanged() {
        let mut out = vec![1, 2, 3];
        let error = encode(FrameKind::Message, &vec![0u8; 50], 20, &mut out).unwrap_err();
        assert!(matches!(error, EncodeError::TooLarge { max: 20 }));
        assert_eq!(out, [1, 2, 3]);
    }

    #[test]
    fn bytes_after_a_message_are_refused() {
        assert!(matches!(
            decode::<u8>(&[7, 7]),
            Err(MessageError::TrailingBytes { count: 1 })
        ));
        assert!(decode::<u8>(&[]).is_err());
    }

    #[test]
    fn endless_nesting_is_refused_before_the_stack_ends() {
        #[derive(Debug, serde::Deserialize)]
        struct Nest(#[allow(dead_code, reason = "only its depth matters")] Vec<Nest>);
        assert!(decode::<Nest>(&vec![0x91; 1 << 20]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_never_panic_and_stay_bounded(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20)
        ) {
            let mut decoder = Decoder::new(64);
            for piece in &pieces {
                decoder.push(piece);
                if let Ok(frames) = frames_of(&mut decoder) {
                    for (_, payload) in frames {
                        prop_assert!(payload.len() <= 64);
                        let _ = decode::<(u32, String, Vec<Option<f64>>)>(&payload);
                    }
                }
                prop_assert!(decoder.buffered() <= HEADER_LENGTH + 64);
            }
            let _ = decoder.finish();
        }

        #[test]
        fn any_payload_never_panics_the_message_decoder(payload in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode::<(u32, String, Vec<Option<f64>>, std::collections::BTreeMap<String, Vec<i64>>)>(&payload);
        }

        #[test]
        fn messages_come_back_as_they_were_wherever_the_stream_is_cut(
            messages in prop::collection::vec(
                (any::<u64>(), ".{0,40}", prop::collection::vec(any::<i32>(), 0..20)),
                0..8,
            ),
            cuts in prop::collection::vec(1usize..60, 1..40),
        ) {
            let mut stream = Vec::new();
            for message in &messages {
                encode(FrameKind::Message, message, 4096, &mut stream).unwrap();
            }
            let mut decoder = Decoder::new(4096);
            let mut received = Vec::new();
            let mut rest = stream.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, tail) = rest.split_at((*cut).min(rest.len()));
                rest = tail;
                decoder.push(piece);
                for (kind, payload) in frames_of(&mut decoder).unwrap() {
                    prop_assert_eq!(kind, FrameKind::Message);
                    received.push(decode::<(u64, String, Vec<i32>)>(&payload).unwrap());
                }
            }
            prop_assert_eq!(received, messages);
            prop_assert_eq!(decoder.finish(), Ok(()));
        }
    }
}
