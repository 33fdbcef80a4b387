//! Orders to the keeper, sent by a task of their own so that the loop never waits for the keeper's socket.

use super::event::Event;
use crate::keeper_link::KeeperLink;
use crate::rank::PageFile;
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::keeper::{DaemonToKeeper, ProcessSpec};
use pcm_proto::parked::ParkKey;
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
        let sent = match order {
            Order::Start { spec, page } => link.start(*spec, page.as_fd()).await,
            Order::Park { key, bytes, file } => link.park(key, bytes, file.as_fd()).await,
            Order::Keep { key, bytes, file } => link.keep(key, bytes, file.as_fd()).await,
            Order::Other(order) => link.send(&order).await,
        };
        if let Err(error) = sent {
            let _ = events
                .send(Event::KeeperLost {
                    reason: error.to_string(),
                })
                .await;
            return;
        }
    }
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
