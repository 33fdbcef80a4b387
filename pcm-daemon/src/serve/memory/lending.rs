//! Images between daemons of one host: a daemon lends the memory file of one over a local socket. The borrower gives it
//! to ranks that read it, or makes its own copy. The socket's name is one of the kernel's in the network namespace, so
//! a node of another one cannot reach it, whatever it takes for its host. Both sides are of one user, or nothing is
//! lent. Never writes what is lent.

use super::event::MemoryEvent;
use super::memory_file::Memory;
use crate::packet::{packet_receive, packet_send};
use crate::serve::event::Event;
use pcm_core::node::store::image_key::ImageKey;
use pcm_proto::app::packet_encode;
use pcm_proto::frame;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::image::ImageName;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time;

/// Job and name, of which each number takes nine bytes at most.
const ASK_BYTES_MAX: usize = 80;

/// Bytes of the image; 0 where it is not here.
const ANSWER_BYTES: usize = 8;

/// The answer takes the lender one turn of its loop; one that is stopped or very busy is not waited for.
const WITHIN: Duration = Duration::from_secs(3);

/// Borrowers at a time; each node makes a few copies at once.
const BORROWERS_MAX: usize = 256;

/// After an accept that failed, mostly for want of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The name of the local socket on which a node's daemon lends.
pub(in super::super) fn lending_name(cluster_id: &str, node: &NodeName) -> String {
    format!("pcm-parts-{cluster_id}-{node}")
}

/// Lends from now on.
pub(in super::super) fn open(name: &str, events: mpsc::Sender<Event>) -> io::Result<()> {
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
                tracing::debug!(?lent, "an image was not lent");
            }
            drop(place);
        });
    }
}

async fn lend(stream: UnixStream, events: &mpsc::Sender<Event>) -> io::Result<()> {
    check_user(&stream)?;
    let asked = stream.async_io(Interest::READABLE, || packet_receive(&stream, ASK_BYTES_MAX));
    let asked = asked.await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let (job, name) = frame::decode::<(JobId, ImageName)>(&asked.bytes).map_err(io::Error::other)?;
    let key = ImageKey { job, name };
    let (lend, lent) = oneshot::channel();
    let over = |_| io::Error::other("the daemon ends");
    events
        .send(Event::Memory(MemoryEvent::Wanted { key, lend }))
        .await
        .map_err(|_| over(()))?;
    let memory: Option<Arc<Memory>> = lent.await.map_err(|_| over(()))?;
    let bytes = memory.as_ref().map_or(0, |memory| memory.bytes()).to_le_bytes();
    let file: Vec<_> = memory.iter().map(|memory| memory.file().as_fd()).collect();
    let send = || packet_send(&stream, &bytes, &file);
    stream.async_io(Interest::WRITABLE, send).await
}

/// Asks the daemon with this name for an image.
pub(super) async fn borrow(name: &str, key: ImageKey) -> io::Result<Memory> {
    time::timeout(WITHIN, ask(name, key))
        .await
        .unwrap_or_else(|_| Err(io::Error::other("its daemon does not answer")))
}

async fn ask(name: &str, key: ImageKey) -> io::Result<Memory> {
    let stream = UnixStream::connect(format!("\0{name}")).await?;
    check_user(&stream)?;
    let asked = packet_encode(&(key.job, key.name)).map_err(io::Error::other)?;
    let send = || packet_send(&stream, &asked, &[]);
    stream.async_io(Interest::WRITABLE, send).await?;
    let receive = || packet_receive(&stream, ANSWER_BYTES);
    let packet = stream.async_io(Interest::READABLE, receive).await?;
    let packet = packet.ok_or(io::ErrorKind::UnexpectedEof)?;
    let bytes = packet.bytes.try_into().map(u64::from_le_bytes);
    let bytes = bytes.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let file = packet.descriptors.into_iter().next();
    let file = file.ok_or_else(|| io::Error::other("it is not there (any more)"))?;
    Memory::of(File::from(file), bytes).ok_or_else(|| io::Error::other("what is lent is no memory file of an image"))
}

fn check_user(stream: &UnixStream) -> io::Result<()> {
    if stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::other("it runs as another user"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Epoch, ProcessId, Term};
    use pcm_proto::reconfiguration::Attempt;
    use std::os::unix::fs::FileExt;

    const KEY: ImageKey = ImageKey {
        job: JobId(u64::MAX),
        name: ImageName::Parked {
            attempt: Attempt {
                epoch: Epoch(u64::MAX),
                term: Term(u32::MAX),
                number: u32::MAX,
            },
            process: ProcessId(u32::MAX),
        },
    };

    fn name(what: &str) -> String {
        format!("pcm-lending-test-{}-{what}", std::process::id())
    }

    #[tokio::test]
    async fn an_image_is_lent_and_one_that_is_not_there_is_refused() {
        let (events, mut heard) = mpsc::channel(4);
        let name = name("lent");
        open(&name, events).unwrap();
        let memory = Arc::new(Memory::new(5000).unwrap());
        memory.file().write_all_at(b"data", 4096).unwrap();
        let lender = async {
            for answer in [Some(memory), None] {
                let Some(Event::Memory(MemoryEvent::Wanted { key, lend })) = heard.recv().await else {
                    panic!("somebody borrows");
                };
                assert_eq!(key, KEY);
                lend.send(answer).unwrap();
            }
        };
        let borrower = async {
            let lent = borrow(&name, KEY).await.unwrap();
            assert_eq!((lent.bytes(), &lent.contents()[4096..5000 - 900]), (5000, &b"data"[..]));
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
