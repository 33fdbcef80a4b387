//! Orders to the keeper, sent by a task of their own so that the loop never waits for the keeper's socket.

use super::event::Event;
use crate::keeper_link::{FromKeeper, KeeperLink, LinkError};
use crate::rank::PageFile;
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey, ProcessSpec};
use pcm_proto::parked::ParkKey;
use pcm_proto::refusal;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Orders on their way: a job of the largest size starts at once, and is signalled.
const ORDERS_MAX: usize = 16 * 1024;

enum Order {
    Start { spec: Box<ProcessSpec>, page: PageFile },
    Park { key: ParkKey, bytes: u64, file: OwnedFd },
    Keep { key: BufferKey, bytes: u64, file: OwnedFd },
    Other(DaemonToKeeper),
}

/// The way to the keeper.
#[derive(Debug)]
pub(super) struct KeeperOrders {
    orders: mpsc::Sender<Order>,
    events: mpsc::Sender<Event>,
}

impl KeeperOrders {
    /// Starts to pass on orders, and facts as events.
    pub(super) fn start(link: KeeperLink, events: mpsc::Sender<Event>) -> Self {
        let link = Arc::new(link);
        let (orders, receiver) = mpsc::channel(ORDERS_MAX);
        tokio::spawn(pass_orders(Arc::clone(&link), receiver, events.clone()));
        tokio::spawn(pass_facts(link, events.clone()));
        Self { orders, events }
    }

    pub(super) fn start_process(&self, spec: ProcessSpec, page: PageFile) {
        self.push(Order::Start {
            spec: Box::new(spec),
            page,
        });
    }

    /// Has an image held; the file is closed here when it is on its way.
    pub(super) fn park(&self, key: ParkKey, bytes: u64, file: OwnedFd) {
        self.push(Order::Park { key, bytes, file });
    }

    /// Has a buffer of a checkpoint held.
    pub(super) fn keep(&self, key: BufferKey, bytes: u64, file: OwnedFd) {
        self.push(Order::Keep { key, bytes, file });
    }

    pub(super) fn order(&self, order: DaemonToKeeper) {
        self.push(Order::Other(order));
    }

    fn push(&self, order: Order) {
        if self.orders.try_send(order).is_err() {
            let reason = format!("it did not take {ORDERS_MAX} orders");
            let _ = self.events.try_send(Event::KeeperLost { reason });
        }
    }
}

async fn pass_orders(link: Arc<KeeperLink>, mut orders: mpsc::Receiver<Order>, events: mpsc::Sender<Event>) {
    while let Some(order) = orders.recv().await {
        let starts = match &order {
            Order::Start { spec, .. } => Some(spec.key),
            _ => None,
        };
        let sent = match order {
            Order::Start { spec, page } => link.start(*spec, page.as_fd()).await,
            Order::Park { key, bytes, file } => link.park(key, bytes, file.as_fd()).await,
            Order::Keep { key, bytes, file } => link.keep(key, bytes, file.as_fd()).await,
            Order::Other(order) => link.send(&order).await,
        };
        let event = match (sent, starts) {
            (Ok(()), _) => continue,
            (Err(LinkError::Unsendable(error)), Some(key)) => refused(key, &error),
            (Err(error @ LinkError::Unsendable(_)), None) => {
                tracing::error!(%error, "the order is dropped");
                continue;
            }
            (Err(error), _) => Event::KeeperLost {
                reason: error.to_string(),
            },
        };
        let is_lost = matches!(event, Event::KeeperLost { .. });
        let _ = events.send(event).await;
        if is_lost {
            return;
        }
    }
}

/// An order that the keeper cannot have costs the start of that process, not the node.
fn refused(key: ProcessKey, error: &io::Error) -> Event {
    let code = match error.kind() {
        io::ErrorKind::InvalidInput => refusal::ENVIRONMENT_TOO_LARGE,
        _ => refusal::START_FAILED,
    };
    Event::Keeper(FromKeeper::StartRefused {
        key,
        code: code.to_owned(),
        reason: format!("the order for the keeper: {error}"),
    })
}

async fn pass_facts(link: Arc<KeeperLink>, events: mpsc::Sender<Event>) {
    let reason = loop {
        match link.receive().await {
            Ok(Some(fact)) => {
                if events.send(Event::Keeper(fact)).await.is_err() {
                    return;
                }
            }
            Ok(None) => break "it is dead".to_owned(),
            Err(error) => break error.to_string(),
        }
    };
    let _ = events.send(Event::KeeperLost { reason }).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::letter_receive;
    use pcm_proto::ids::{JobId, ProcessId};
    use pcm_proto::keeper::MESSAGE_BYTES_MAX;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::time::Duration;

    fn spec(job: u64, argument: usize) -> ProcessSpec {
        ProcessSpec {
            key: ProcessKey {
                job: JobId(job),
                process: ProcessId(0),
            },
            program: "true".into(),
            search_path: Vec::new(),
            args: vec![vec![b'x'; argument]],
            env: Vec::new(),
            cwd: "/".into(),
            cpus: Vec::new(),
            stdin: false,
            segments: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_start_that_is_too_long_for_the_keeper_is_refused_and_the_next_one_reaches_it() {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, keeper) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let (events, mut receiver) = mpsc::channel(8);
        let orders = KeeperOrders::start(KeeperLink::new(own).unwrap(), events);
        orders.start_process(spec(1, MESSAGE_BYTES_MAX), PageFile::new(1).unwrap());
        orders.start_process(spec(2, 1), PageFile::new(1).unwrap());
        let event = tokio::time::timeout(Duration::from_secs(30), receiver.recv()).await;
        match event.unwrap() {
            Some(Event::Keeper(FromKeeper::StartRefused { key, code, reason })) => {
                assert_eq!(
                    (key.job, code.as_str()),
                    (JobId(1), refusal::ENVIRONMENT_TOO_LARGE),
                    "{reason}"
                );
            }
            other => panic!("{other:?}"),
        }
        let keeper = crate::watched::watch(keeper).unwrap();
        let heard = keeper.async_io(tokio::io::Interest::READABLE, |socket| {
            letter_receive::<DaemonToKeeper>(socket)
        });
        let heard = tokio::time::timeout(Duration::from_secs(30), heard).await.unwrap();
        let (order, descriptors) = heard.unwrap().unwrap();
        assert!(matches!(order, DaemonToKeeper::Start(spec) if spec.key.job == JobId(2)));
        assert_eq!(descriptors.len(), 1);
    }
}
