//! Drives the handshake over a stream: reads exactly what the next message needs, never more, and hands bytes to
//! [`crate::noise`]. Deadlines are set by the callers.

use crate::{
    key::ClusterKey,
    noise::{self, Initiator, MESSAGE_LENGTH_MAX, OPENING_LENGTH, Rejection, Responder, Session},
};
use pcm_proto::handshake::{Identity, PREAMBLE};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// What a responder says to a peer without the key: an opening of a message without length. It tells the peer only
/// that the key is wrong, and a forged one only ends a connection that its forger could have cut as well.
const REFUSAL: [u8; OPENING_LENGTH] = {
    let [a, b, c, d] = PREAMBLE;
    [a, b, c, d, 0, 0]
};

/// Why a handshake did not lead to a link.
#[derive(Debug)]
pub(crate) enum Failure {
    /// We refuse the peer.
    Rejected(Rejection),
    /// The peer refuses our key.
    Refused,
    /// The peer closed the connection or it broke.
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

/// The side that connected.
pub(crate) async fn initiate<S>(
    stream: &mut S,
    key: &ClusterKey,
    local: &Identity,
) -> Result<(Session, Identity), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (initiator, first) = Initiator::new(key, local.clone())?;
    stream.write_all(&first).await?;
    let opening = read_opening(stream).await?;
    if opening == REFUSAL {
        return Err(Failure::Refused);
    }
    let mut message = [0; MESSAGE_LENGTH_MAX];
    let message = &mut message[..noise::message_length(&opening)?];
    stream.read_exact(message).await?;
    let established = initiator.receive(message)?;
    stream.write_all(&established.last_message).await?;
    Ok((established.session, established.peer?))
}

/// The side that was connected to.
pub(crate) async fn respond<S>(
    stream: &mut S,
    key: &ClusterKey,
    local: &Identity,
) -> Result<(Session, Identity), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let opening = read_opening(stream).await?;
    let mut buffer = [0; MESSAGE_LENGTH_MAX];
    let message = &mut buffer[..noise::message_length(&opening)?];
    stream.read_exact(message).await?;
    let (responder, answer) = match Responder::answer(key, local, message) {
        Err(Rejection::Key) => {
            stream.write_all(&REFUSAL).await?;
            return Err(Rejection::Key.into());
        }
        answered => answered?,
    };
    stream.write_all(&answer).await?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).await?;
    let message = buffer
        .get_mut(..usize::from(u16::from_le_bytes(length)))
        .ok_or(Rejection::Key)?;
    stream.read_exact(message).await?;
    Ok(responder.confirm(message)?)
}

/// Reads the opening; the bytes of another protocol are refused as soon as they differ, not when enough have come.
async fn read_opening<S: AsyncRead + Unpin>(stream: &mut S) -> Result<[u8; OPENING_LENGTH], Failure> {
    let mut opening = [0; OPENING_LENGTH];
    let mut have = 0;
    while have < OPENING_LENGTH {
        match stream.read(&mut opening[have..]).await? {
            0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            read => have += read,
        }
        let preamble = have.min(PREAMBLE.len());
        if opening[..preamble] != PREAMBLE[..preamble] {
            return Err(Rejection::NotOurs.into());
        }
    }
    Ok(opening)
}
