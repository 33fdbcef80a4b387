//! The door of a listener: connections that have not shown yet that they hold the key wait here, a limited number for a
//! limited time. A flood of strangers cannot keep members out: when all places are taken, the source with the most of
//! them gives up its oldest. Reads no byte itself.

use crate::{counters::Counters, limits::Limits};
use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::{self, Duration, Instant},
};

/// Pause after a failed accept, which mostly means that descriptors are short; the connection waits in the kernel.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Accepts connections and lets in those whose handshake succeeds.
pub(crate) struct Door<T> {
    listener: TcpListener,
    counters: Arc<Counters>,
    grace: Duration,
    handshakes: JoinSet<Option<T>>,
    places: Places,
}

impl<T: Send + 'static> Door<T> {
    pub(crate) fn new(listener: TcpListener, limits: &Limits, counters: Arc<Counters>) -> Self {
        Self {
            listener,
            counters,
            grace: limits.half_open_grace,
            handshakes: JoinSet::new(),
            places: Places::new(limits.half_open_max),
        }
    }

    /// Runs until it is dropped. `handshake` must end by itself; what it lets in is handed on.
    pub(crate) async fn run<H>(mut self, handshake: impl Fn(TcpStream, SocketAddr) -> H, mut hand_on: impl FnMut(T))
    where
        H: Future<Output = Option<T>> + Send + 'static,
    {
        loop {
            let longest = self.places.first_to_go();
            let grace_ends = longest.map_or_else(Instant::now, |begun| begun + self.grace);
            tokio::select! {
                biased;
                Some(done) = self.handshakes.join_next() => {
                    self.places.forget_finished();
                    if let Ok(Some(member)) = done {
                        hand_on(member);
                    }
                }
                accepted = self.listener.accept(), if longest.is_none() => match accepted {
                    Ok((stream, from)) => {
                        let task = self.handshakes.spawn(handshake(stream, from));
                        self.places.take(from.ip(), task);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        Counters::count(&self.counters.accept_failed);
                        time::sleep(ACCEPT_RETRY).await;
                    }
                },
                () = time::sleep_until(grace_ends), if longest.is_some() => {
                    self.places.make_room();
                    Counters::count(&self.counters.half_open_displaced);
                }
            }
        }
    }
}

/// The handshakes under way, by where they come from.
struct Places {
    max: usize,
    taken: usize,
    /// Of each source the oldest first; none is empty.
    by_source: BTreeMap<IpAddr, VecDeque<(Instant, AbortHandle)>>,
}

impl Places {
    fn new(max: usize) -> Self {
        Self {
            max,
            taken: 0,
            by_source: BTreeMap::new(),
        }
    }

    fn take(&mut self, from: IpAddr, handshake: AbortHandle) {
        let source = self.by_source.entry(source_of(from)).or_default();
        source.push_back((Instant::now(), handshake));
        self.taken += 1;
    }

    /// When all places are taken, since when the one has been there that must go next: the oldest of the source with
    /// the most places.
    fn first_to_go(&self) -> Option<Instant> {
        if self.taken < self.max {
            return None;
        }
        let (_, waiting) = self.largest()?;
        waiting.front().map(|(begun, _)| *begun)
    }

    fn largest(&self) -> Option<(&IpAddr, &VecDeque<(Instant, AbortHandle)>)> {
        self.by_source.iter().max_by_key(|(_, waiting)| waiting.len())
    }

    fn make_room(&mut self) {
        let Some(source) = self.largest().map(|(source, _)| *source) else {
            return;
        };
        let waiting = self.by_source.entry(source).or_default();
        if let Some((_, oldest)) = waiting.pop_front() {
            oldest.abort();
            self.taken -= 1;
        }
        if waiting.is_empty() {
            self.by_source.remove(&source);
        }
    }

    fn forget_finished(&mut self) {
        self.by_source.retain(|_, waiting| {
            waiting.retain(|(_, handshake)| !handshake.is_finished());
            !waiting.is_empty()
        });
        self.taken = self.by_source.values().map(VecDeque::len).sum();
    }
}

/// What counts as one source: an address, or the network of 64 bits that a host has to itself in IPv6.
fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(network.into())
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> (tokio::task::JoinHandle<()>, AbortHandle) {
        let task = tokio::spawn(std::future::pending());
        let handle = task.abort_handle();
        (task, handle)
    }

    #[tokio::test]
    async fn a_source_with_the_most_places_gives_up_its_oldest() {
        let mut places = Places::new(4);
        let (member, handle) = waiting();
        places.take("10.0.0.1".parse().unwrap(), handle);
        let strangers: Vec<_> = (0..3)
            .map(|_| {
                let (stranger, handle) = waiting();
                places.take("10.0.0.2".parse().unwrap(), handle);
                stranger
            })
            .collect();
        assert!(places.first_to_go().is_some());
        places.make_room();
        assert!(places.first_to_go().is_none());
        let [first, others @ ..] = <[_; 3]>::try_from(strangers).unwrap();
        assert!(first.await.unwrap_err().is_cancelled());
        places.forget_finished();
        assert_eq!(places.taken, 3);
        assert!(!member.is_finished() && others.iter().all(|other| !other.is_finished()));
    }

    #[test]
    fn all_addresses_of_one_ipv6_network_are_one_source() {
        let source = |address: &str| source_of(address.parse().unwrap());
        assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff::9"));
        assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
    }
}
