//! Work with much memory beside the loop, in threads of low priority: it takes what the ranks of the node leave, and a
//! little where they leave nothing.

use std::io;
use std::thread;
use tokio::sync::{Semaphore, oneshot};

/// Few suffice to use all that the memory gives.
const AT_ONCE: usize = 4;

/// A third of what a rank gets that wants the same CPU: a copy of a gigabyte then takes a second and not ten, and a job
/// whose ranks wait for each other is not held up by the one that lost its CPU.
pub(super) const NICENESS: i32 = 5;

static PLACES: Semaphore = Semaphore::const_new(AT_ONCE);

/// Does it, after those that were there before.
pub(super) async fn beside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let _place = PLACES.acquire().await.map_err(io::Error::other)?;
    let (done, result) = oneshot::channel();
    // Who waited for it may be gone.
    start(move || _ = done.send(work()))?;
    result
        .await
        .unwrap_or_else(|_| Err(io::Error::other("its thread broke down")))
}

/// Gives memory, or the last of its files, back to the system, which takes it a while. Where there is no thread it
/// takes the caller that while.
pub(super) fn drop_beside<T: Send + 'static>(memory: Vec<T>) {
    if memory.is_empty() {
        return;
    }
    if let Err(error) = start(move || drop(memory)) {
        tracing::debug!(%error, "memory was given back in the loop");
    }
}

fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("pcm-beside".to_owned());
    let started = thread.spawn(move || {
        // Of this thread alone. Refused where the daemon is as nice already; then it goes on as it is.
        _ = rustix::process::nice(NICENESS);
        work();
    });
    started.map(drop)
}
