//! One authenticated connection for bulk transfers: frames, sealed or with a checksum. The handshake is that of the
//! links; over its encryption both sides agree on the protection of what follows and hand over fresh keys. Nothing of
//! a frame is used before its check.

use super::wire::{BLOCK_LENGTH, COVERED_LENGTH, HEADER_LENGTH, Header, Kind, LAYOUT};
use crate::{
    endpoint,
    handshake::{self, Failure},
    key::ClusterKey,
    noise::{Rejection, TAG_LENGTH},
    record::{self, Inbound, Outbound},
};
use crc_fast::{CrcAlgorithm, Digest};
use pcm_proto::handshake::Identity;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time,
};
use zeroize::Zeroizing;

const KEY_LENGTH: usize = 32;
const SETTINGS_LENGTH: usize = 2 + KEY_LENGTH;

/// How what is sent is protected; the peers are authenticated either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Encrypted and authenticated, frame by frame.
    #[default]
    Sealed,
    /// Not encrypted, for networks where nobody else listens: over TCP a checksum only, so that nobody else may write
    /// there either; over InfiniBand and RoCE each block is authenticated.
    Plain,
}

/// Why a connection cannot be used (any more).
#[derive(Debug)]
pub(super) enum Broken {
    /// The handshake failed.
    Handshake(Failure),
    /// The peer insists on another protection.
    Protection,
    /// The connection ended or stalled.
    Io(io::Error),
    /// What came is not a frame, or its check is wrong.
    Damaged,
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

struct Direction {
    key: LessSafeKey,
    count: u64,
}

impl Direction {
    fn new(key: &[u8; KEY_LENGTH]) -> Result<Self, Broken> {
        let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| Broken::Damaged)?;
        Ok(Self {
            key: LessSafeKey::new(key),
            count: 0,
        })
    }

    fn nonce(&mut self) -> Nonce {
        let mut bytes = [0; NONCE_LEN];
        bytes[..8].copy_from_slice(&self.count.to_le_bytes());
        self.count += 1;
        Nonce::assume_unique_for_key(bytes)
    }
}

struct Seals {
    out: Direction,
    inward: Direction,
}

/// A connection after its handshake.
pub(super) struct Channel {
    stream: TcpStream,
    seals: Option<Seals>,
    scratch: Vec<u8>,
    stall_deadline: Duration,
}

impl Channel {
    /// The side that connected and will send.
    pub(super) async fn initiate(
        mut stream: TcpStream,
        key: &ClusterKey,
        local: &Identity,
        protection: Protection,
        stall_deadline: Duration,
    ) -> Result<Self, Broken> {
        endpoint::configure(&stream)?;
        let (session, _) = handshake::initiate(&mut stream, key, local)
            .await
            .map_err(Broken::Handshake)?;
        let (mut outbound, mut inbound) = record::sealed(session);
        let mine = send_settings(&mut stream, &mut outbound, protection).await?;
        let (theirs, answer) = read_settings(&mut stream, &mut inbound).await?;
        if answer != protection {
            return Err(Broken::Protection);
        }
        Self::new(stream, protection, &mine, &theirs, stall_deadline)
    }

    /// The side that was connected to and will receive. A sender that wants no encryption gets its way only where
    /// this side does not insist on it.
    pub(super) async fn respond(
        mut stream: TcpStream,
        key: &ClusterKey,
        local: &Identity,
        least: Protection,
        stall_deadline: Duration,
    ) -> Result<Self, Broken> {
        endpoint::configure(&stream)?;
        let (session, _) = handshake::respond(&mut stream, key, local)
            .await
            .map_err(Broken::Handshake)?;
        let (mut outbound, mut inbound) = record::sealed(session);
        let (theirs, wanted) = read_settings(&mut stream, &mut inbound).await?;
        let protection = if least == Protection::Sealed { least } else { wanted };
        let mine = send_settings(&mut stream, &mut outbound, protection).await?;
        if protection != wanted {
            return Err(Broken::Protection);
        }
        Self::new(stream, protection, &mine, &theirs, stall_deadline)
    }

    fn new(
        stream: TcpStream,
        protection: Protection,
        mine: &[u8; KEY_LENGTH],
        theirs: &[u8; KEY_LENGTH],
        stall_deadline: Duration,
    ) -> Result<Self, Broken> {
        let seals = match protection {
            Protection::Plain => None,
            Protection::Sealed => Some(Seals {
                out: Direction::new(mine)?,
                inward: Direction::new(theirs)?,
            }),
        };
        Ok(Self {
            stream,
            seals,
            scratch: Vec::new(),
            stall_deadline,
        })
    }

    /// Sends one frame.
    pub(super) async fn send(&mut self, kind: Kind, number: u32, payload: &[u8]) -> Result<(), Broken> {
        let copied = |place: &mut [u8]| {
            place.copy_from_slice(payload);
            true
        };
        self.send_made(kind, number, payload.len(), copied).await
    }

    /// Sends one frame with a payload of this length that `make` puts into its place; it can say that it has none.
    pub(super) async fn send_made(
        &mut self,
        kind: Kind,
        number: u32,
        length: usize,
        make: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<(), Broken> {
        let mut header = Header {
            kind,
            number,
            length: u32::try_from(length).map_err(|_| Broken::Damaged)?,
            check: [0; 16],
        };
        self.scratch.resize(HEADER_LENGTH + length, 0);
        let (place, payload) = self.scratch.split_at_mut(HEADER_LENGTH);
        if !make(payload) {
            return Err(Broken::Damaged);
        }
        match &mut self.seals {
            None => {
                let sum = checksum(&header.covered(), payload);
                header.check[..8].copy_from_slice(&sum);
            }
            Some(seals) => {
                let (nonce, covered) = (seals.out.nonce(), Aad::from(header.covered()));
                let sealed = seals.out.key.seal_in_place_separate_tag(nonce, covered, payload);
                header
                    .check
                    .copy_from_slice(sealed.map_err(|_| Broken::Damaged)?.as_ref());
            }
        }
        place.copy_from_slice(&header.to_bytes());
        let written = time::timeout(self.stall_deadline, self.stream.write_all(&self.scratch)).await;
        Ok(written.map_err(|_| stalled())??)
    }

    /// Waits for the next frame's header; an idle connection may wait long.
    pub(super) async fn header(&mut self, patience: Duration) -> Result<Header, Broken> {
        let mut bytes = [0; HEADER_LENGTH];
        let first = time::timeout(patience, self.stream.read(&mut bytes)).await;
        let read = first.map_err(|_| stalled())??;
        if read == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let rest = time::timeout(self.stall_deadline, self.stream.read_exact(&mut bytes[read..])).await;
        rest.map_err(|_| stalled())??;
        Header::parse(&bytes).ok_or(Broken::Damaged)
    }

    /// Reads a frame's payload into exactly its place and checks it; on an error the place holds anything.
    pub(super) async fn payload(&mut self, header: &Header, into: &mut [u8]) -> Result<(), Broken> {
        let read = time::timeout(self.stall_deadline, self.stream.read_exact(into)).await;
        read.map_err(|_| stalled())??;
        match &mut self.seals {
            None => {
                let sum = checksum(&header.covered(), into);
                (header.check[..8] == sum && header.check[8..] == [0; 8])
                    .then_some(())
                    .ok_or(Broken::Damaged)
            }
            Some(seals) => {
                let nonce = seals.inward.nonce();
                let opened = seals.inward.key.open_in_place_separate_tag(
                    nonce,
                    Aad::from(header.covered()),
                    header.check.into(),
                    into,
                    0..,
                );
                opened.map(drop).map_err(|_| Broken::Damaged)
            }
        }
    }

    /// A short frame: its header and payload.
    pub(super) async fn short(&mut self, patience: Duration) -> Result<(Header, Vec<u8>), Broken> {
        let header = self.header(patience).await?;
        let length = usize::try_from(header.length).map_err(|_| Broken::Damaged)?;
        if header.kind == Kind::Block || length > BLOCK_LENGTH {
            return Err(Broken::Damaged);
        }
        let mut payload = vec![0; length];
        self.payload(&header, &mut payload).await?;
        Ok((header, payload))
    }
}

fn stalled() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

fn checksum(covered: &[u8; COVERED_LENGTH], payload: &[u8]) -> [u8; 8] {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(covered);
    digest.update(payload);
    digest.finalize().to_le_bytes()
}

async fn send_settings(
    stream: &mut TcpStream,
    outbound: &mut Outbound,
    protection: Protection,
) -> Result<Zeroizing<[u8; KEY_LENGTH]>, Broken> {
    let mut settings = Zeroizing::new([0; SETTINGS_LENGTH]);
    settings[0] = LAYOUT;
    settings[1] = u8::from(protection == Protection::Plain);
    let mut key = Zeroizing::new([0; KEY_LENGTH]);
    getrandom::fill(key.as_mut_slice()).map_err(io::Error::other)?;
    settings[2..].copy_from_slice(key.as_slice());
    let mut wire = Vec::new();
    outbound
        .seal(settings.as_slice(), &mut wire)
        .map_err(|error| Broken::Handshake(Rejection::Library(error).into()))?;
    stream.write_all(&wire).await?;
    Ok(key)
}

async fn read_settings(
    stream: &mut TcpStream,
    inbound: &mut Inbound,
) -> Result<(Zeroizing<[u8; KEY_LENGTH]>, Protection), Broken> {
    let mut wire = [0; 2 + SETTINGS_LENGTH + TAG_LENGTH];
    stream.read_exact(&mut wire).await?;
    let Ok(Some((_, settings))) = inbound.open(&wire) else {
        return Err(Broken::Damaged);
    };
    let protection = match settings.get(..2) {
        Some([LAYOUT, 0]) => Protection::Sealed,
        Some([LAYOUT, 1]) => Protection::Plain,
        _ => return Err(Broken::Damaged),
    };
    let key = settings[2..].try_into().map_err(|_| Broken::Damaged)?;
    Ok((Zeroizing::new(key), protection))
}
