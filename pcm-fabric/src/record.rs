//! Records: the pieces in which a stream of frames is encrypted, `length: u16 LE | ciphertext`. A stream over a unix
//! socket has no records; its bytes are the frames. Record numbers are counted on both sides and never sent, so a
//! record that is replayed, dropped or out of order does not decrypt.

use crate::noise::{Session, TAG_LENGTH};
use snow::StatelessTransportState;
use std::sync::Arc;

/// Bytes of frames in one record: the Noise limit of 65,535 less the tag.
pub(crate) const RECORD_PLAIN_MAX: usize = 65_535 - TAG_LENGTH;

const LENGTH_BYTES: usize = 2;

/// The outgoing direction.
#[derive(Debug)]
pub(crate) enum Outbound {
    Sealed {
        cipher: Arc<StatelessTransportState>,
        next: u64,
    },
    Plain,
}

/// The incoming direction.
#[derive(Debug)]
pub(crate) enum Inbound {
    Sealed {
        cipher: Arc<StatelessTransportState>,
        next: u64,
        plain: Vec<u8>,
    },
    Plain,
}

/// A record that the peer did not encrypt, or not now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forged;

/// The two directions of an encrypted link.
pub(crate) fn sealed(session: Session) -> (Outbound, Inbound) {
    let cipher = Arc::new(session.cipher);
    let outbound = Outbound::Sealed {
        cipher: Arc::clone(&cipher),
        next: session.next_out,
    };
    (
        outbound,
        Inbound::Sealed {
            cipher,
            next: session.next_in,
            plain: vec![0; RECORD_PLAIN_MAX + TAG_LENGTH],
        },
    )
}

impl Outbound {
    /// Appends `bytes` to `out` as they go onto the wire. Fails only after 2^64 records.
    pub(crate) fn seal(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), snow::Error> {
        let Self::Sealed { cipher, next } = self else {
            out.extend_from_slice(bytes);
            return Ok(());
        };
        for piece in bytes.chunks(RECORD_PLAIN_MAX) {
            let start = out.len();
            let length = u16::try_from(piece.len() + TAG_LENGTH).map_err(|_| snow::Error::Input)?;
            out.extend_from_slice(&length.to_le_bytes());
            out.resize(start + LENGTH_BYTES + usize::from(length), 0);
            cipher.write_message(*next, piece, &mut out[start + LENGTH_BYTES..])?;
            *next += 1;
        }
        Ok(())
    }
}

impl Inbound {
    /// Takes one piece off the front of `wire`: how many bytes it took and what they mean; `None` when more is needed.
    pub(crate) fn open<'a>(&'a mut self, wire: &'a [u8]) -> Result<Option<(usize, &'a [u8])>, Forged> {
        let Self::Sealed { cipher, next, plain } = self else {
            return Ok((!wire.is_empty()).then_some((wire.len(), wire)));
        };
        let Some((length, rest)) = wire.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_le_bytes(*length));
        if length <= TAG_LENGTH {
            return Err(Forged);
        }
        let Some(record) = rest.get(..length) else {
            return Ok(None);
        };
        let opened = cipher.read_message(*next, record, plain).map_err(|_| Forged)?;
        *next += 1;
        Ok(Some((LENGTH_BYTES + length, &plain[..opened])))
    }
}
