//! Parts of checkpoints between daemons of one host: a daemon lends the memory file of a part over a local socket, and the
//! borrower makes its own copy of it. The socket's name is one of the kernel's in the network namespace, so a node of
//! another one cannot reach it, whatever it takes for its host. Both sides are of one user, or nothing is lent. Never
//! writes what is lent.

use super::event::Event;
use super::kept::PartKey;
use super::memory::Memory;
use crate::packet::{packet_receive, packet_send};
use pcm_proto::ids::{CheckpointId, JobId, NodeName, Rank};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time;

/// Job, checkpoint, rank.
const ASK_BYTES: usize = 8 + 8 + 4;

/// Bytes of the image; 0 where it is not here.
const ANSWER_BYTES: usize = 8;

/// The answer takes the lender one turn of its loop; one that is stopped or very busy is not waited for.
const WITHIN: Duration = Duration::from_secs(3);

/// Borrowers at a time; each node makes a few copies at once.
const BORROWERS_MAX: usize = 256;

/// After an accept that failed, mostly for want of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The name of the local socket on which a node's daemon lends.
pub(super) fn lending_name(cluster_id: &str, node: &NodeName) -> String {
    format!("pcm-parts-{cluster_id}-{node}")
}

/// Lends from now on.
pub(super) fn open(name: &str, events: mpsc::Sender<Event>) -> io::Result<()> {
    let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    listener.set_nonblocking(true)?;
    tokio::spawn(serve(UnixListener::from_std(listener)?, events));
    Ok(())
}

async fn serve(listener: UnixListener, events: mpsc::Sender<Event>) {
    let places = Arc::new(Semaphore::new(BORROWERS_MAX));
    while !events.is_closed() {
        let Ok((stream, _)) = listener.accept().await else {
            time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let events = events.clone();
        tokio::spawn(async move {
            let lent = time::timeout(WITHIN, lend(stream, &events)).await;
            if !matches!(lent, Ok(Ok(()))) {
                tracing::debug!(?lent, "a part of a checkpoint was not lent");
            }
            drop(place);
        });
    }
}

async fn lend(mut stream: UnixStream, events: &mpsc::Sender<Event>) -> io::Result<()> {
    check_user(&stream)?;
    let mut asked = [0; ASK_BYTES];
    stream.read_exact(&mut asked).await?;
    let (lend, lent) = oneshot::channel();
    let key = part_key(&asked);
    let over = |_| io::Error::other("the daemon ends");
    events
        .send(Event::PartWanted { key, lend })
        .await
        .map_err(|_| over(()))?;
    let memory: Option<Arc<Memory>> = lent.await.map_err(|_| over(()))?;
    let bytes = memory.as_ref().map_or(0, |memory| memory.bytes()).to_le_bytes();
    let file: Vec<_> = memory.iter().map(|memory| memory.file().as_fd()).collect();
    let send = || packet_send(&stream, &bytes, &file);
    stream.async_io(Interest::WRITABLE, send).await
}

/// Asks the daemon with this name for a part.
pub(super) async fn borrow(name: &str, key: PartKey) -> io::Result<Memory> {
    time::timeout(WITHIN, ask(name, key))
        .await
        .unwrap_or_else(|_| Err(io::Error::other("its daemon does not answer")))
}

async fn ask(name: &str, key: PartKey) -> io::Result<Memory> {
    let mut stream = UnixStream::connect(format!("\0{name}")).await?;
    check_user(&stream)?;
    stream.write_all(&asked_bytes(key)).await?;
    let receive = || packet_receive(&stream, ANSWER_BYTES);
    let packet = stream.async_io(Interest::READABLE, receive).await?;
    let packet = packet.ok_or(io::ErrorKind::UnexpectedEof)?;
    let bytes = packet.bytes.try_into().map(u64::from_le_bytes);
    let bytes = bytes.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let file = packet.descriptors.into_iter().next();
    let file = file.ok_or_else(|| io::Error::other("it is not there (any more)"))?;
    Memory::of(File::from(file), bytes).ok_or_else(|| io::Error::other("what is lent is no memory file of a part"))
}

fn check_user(stream: &UnixStream) -> io::Result<()> {
    if stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::other("it runs as another user"))
}

fn asked_bytes((job, id, rank): PartKey) -> [u8; ASK_BYTES] {
    let mut bytes = [0; ASK_BYTES];
    bytes[..8].copy_from_slice(&job.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&id.0.to_le_bytes());
    bytes[16..].copy_from_slice(&rank.0.to_le_bytes());
    bytes
}

fn part_key(bytes: &[u8; ASK_BYTES]) -> PartKey {
    let word = |at: usize, length: usize| {
        let bytes = bytes[at..at + length].iter().rev();
        bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    (JobId(word(0, 8)), CheckpointId(word(8, 8)), Rank(word(16, 4) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const KEY: PartKey = (JobId(0x0102_0304_0506), CheckpointId(77), Rank(0x0a0b_0c0d));

    fn name(what: &str) -> String {
        format!("pcm-lending-test-{}-{what}", std::process::id())
    }

    #[test]
    fn what_is_asked_for_is_what_is_heard() {
        assert_eq!(part_key(&asked_bytes(KEY)), KEY);
    }

    #[tokio::test]
    async fn a_part_is_lent_and_one_that_is_not_there_is_refused() {
        let (events, mut heard) = mpsc::channel(4);
        let name = name("lent");
        open(&name, events).unwrap();
        let memory = Arc::new(Memory::new(5000).unwrap());
        memory.file().write_all_at(b"data", 4096).unwrap();
        let lender = async {
            for answer in [Some(memory), None] {
                let Some(Event::PartWanted { key, lend }) = heard.recv().await else {
                    panic!("somebody borrows");
                };
                assert_eq!(key, KEY);
                lend.send(answer).unwrap();
            }
        };
        let borrower = async {
            let lent = borrow(&name, KEY).await.unwrap();
            assert_eq!(
                (lent.bytes(), &lent.read().unwrap()[4096..5000 - 900]),
                (5000, &b"data"[..])
            );
            let refused = borrow(&name, KEY).await.unwrap_err();
            assert!(refused.to_string().contains("not there"), "{refused}");
        };
        tokio::join!(lender, borrower);
    }

    #[tokio::test]
    async fn a_lender_that_is_not_there_or_does_not_answer_is_not_waited_for_long() {
        assert!(borrow(&name("nobody"), KEY).await.is_err());
        let name = name("stopped");
        let _stopped = StdListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let error = borrow(&name, KEY).await.unwrap_err();
        assert!(error.to_string().contains("does not answer"), "{error}");
    }
}
