//! Runs a datagram endpoint over something that sends and receives packets: one task, which owns the state machine.
//! Knows nothing of what messages mean, and holds no more than the endpoint's limits and a short inbox.

use super::{
    core::{Address, Core, Received, Refusal},
    counters::DatagramCounters,
    limits::DatagramLimits,
    outbound::{ExchangeFailure, ExchangeId},
    wire::Incarnation,
};
use crate::key::ClusterKey;
use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot},
    time,
};

/// Packets taken before the answers to them are sent; an acknowledgement has entries for twice as many.
const BATCH: usize = 32;

/// Orders waiting for the task, and messages waiting for the application outside the endpoint's own limit.
const CHANNEL_MAX: usize = 64;

/// Messages of some KiB to any address, without a connection; each is delivered once or reported failed.
pub trait DatagramService: Clone + Send + Sync + 'static {
    /// How peers are named.
    type Address: Address;

    /// Where peers reach this endpoint.
    fn local(&self) -> Self::Address;

    /// Sends a message and waits until its receiver has it or `deadline` has passed.
    fn exchange(
        &self,
        to: Self::Address,
        message: Vec<u8>,
        deadline: Duration,
    ) -> impl Future<Output = Result<(), ExchangeError>> + Send;

    /// Waits for the next message; `None` when the endpoint has stopped.
    fn receive(&self) -> impl Future<Output = Option<Received<Self::Address>>> + Send;
}

/// What carries packets: unreliably, in any order, each to one address.
pub trait PacketIo: Send + 'static {
    /// How ends are named.
    type Address: Address;

    fn local(&self) -> Self::Address;

    /// Takes a packet that has arrived: its length and where it came from.
    fn try_receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<(usize, Self::Address)>>;

    /// Sends a packet; false when there is no room now. A packet that cannot be sent at all is dropped.
    fn try_send(&mut self, to: Self::Address, packet: &[u8]) -> io::Result<bool>;

    /// Waits until a packet can be received, or sent if that is asked for.
    fn ready(&mut self, to_send: bool) -> impl Future<Output = io::Result<()>> + Send;
}

/// Why an exchange was not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeError {
    /// It was not taken; nothing was sent.
    Refused(Refusal),
    /// It was taken and failed.
    Failed(ExchangeFailure),
    /// The endpoint has stopped.
    Stopped,
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
            Self::Stopped => write!(f, "this endpoint has stopped"),
        }
    }
}

impl std::error::Error for ExchangeError {}

type Outcome = Result<(), ExchangeError>;

enum Order<A> {
    Send {
        to: A,
        message: Vec<u8>,
        deadline: Duration,
        outcome: oneshot::Sender<Outcome>,
    },
    Turn(u32),
}

/// A running datagram endpoint; it stops when its last clone is dropped.
#[derive(Debug)]
pub struct Datagram<A> {
    local: A,
    orders: mpsc::Sender<Order<A>>,
    inbox: Arc<tokio::sync::Mutex<mpsc::Receiver<Received<A>>>>,
    counters: Arc<Mutex<DatagramCounters>>,
}

impl<A: Address> Clone for Datagram<A> {
    fn clone(&self) -> Self {
        Self {
            local: self.local,
            orders: self.orders.clone(),
            inbox: Arc::clone(&self.inbox),
            counters: Arc::clone(&self.counters),
        }
    }
}

impl<A: Address + Sync> Datagram<A> {
    /// Starts an endpoint on something that carries packets, with keys of this cluster and epoch.
    pub fn start<I>(io: I, key: &ClusterKey, epoch: u32, limits: DatagramLimits) -> io::Result<Self>
    where
        I: PacketIo<Address = A>,
    {
        let mut incarnation = [0; 16];
        getrandom::fill(&mut incarnation).map_err(io::Error::other)?;
        let (orders, orders_in) = mpsc::channel(CHANNEL_MAX);
        let (inbox_in, inbox) = mpsc::channel(CHANNEL_MAX);
        let counters = Arc::new(Mutex::new(DatagramCounters::default()));
        let local = io.local();
        let driver = Driver {
            core: Core::new(key, epoch, Incarnation(incarnation), limits),
            io,
            begun: Instant::now(),
            orders: orders_in,
            inbox: inbox_in,
            waiting: BTreeMap::new(),
            unsent: None,
            buffer: vec![0; limits.packet_length_max.max(2048)],
            packet: Vec::new(),
            counters: Arc::clone(&counters),
        };
        tokio::spawn(driver.run());
        Ok(Self {
            local,
            orders,
            inbox: Arc::new(tokio::sync::Mutex::new(inbox)),
            counters,
        })
    }

    /// Turns to the keys of another epoch.
    pub async fn turn(&self, epoch: u32) {
        // A stopped endpoint needs no keys.
        let _ = self.orders.send(Order::Turn(epoch)).await;
    }

    /// What was seen, refused and dropped so far.
    pub fn counters(&self) -> DatagramCounters {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Address + Sync> DatagramService for Datagram<A> {
    type Address = A;

    fn local(&self) -> A {
        self.local
    }

    async fn exchange(&self, to: A, message: Vec<u8>, deadline: Duration) -> Outcome {
        let (outcome, decided) = oneshot::channel();
        let order = Order::Send {
            to,
            message,
            deadline,
            outcome,
        };
        self.orders.send(order).await.map_err(|_| ExchangeError::Stopped)?;
        decided.await.unwrap_or(Err(ExchangeError::Stopped))
    }

    async fn receive(&self) -> Option<Received<A>> {
        self.inbox.lock().await.recv().await
    }
}

struct Driver<I: PacketIo> {
    core: Core<I::Address>,
    io: I,
    begun: Instant,
    orders: mpsc::Receiver<Order<I::Address>>,
    inbox: mpsc::Sender<Received<I::Address>>,
    waiting: BTreeMap<ExchangeId, oneshot::Sender<Outcome>>,
    unsent: Option<I::Address>,
    buffer: Vec<u8>,
    packet: Vec<u8>,
    counters: Arc<Mutex<DatagramCounters>>,
}

impl<I: PacketIo> Driver<I> {
    async fn run(mut self) {
        loop {
            let step = self.receive().and_then(|()| {
                self.core.on_time(self.begun.elapsed());
                self.hand_out();
                self.transmit()
            });
            *self.counters.lock().unwrap_or_else(PoisonError::into_inner) = self.core.counters();
            if let Err(error) = step {
                tracing::error!(%error, "a datagram endpoint stops: its socket is broken");
                return;
            }
            let wakeup = self.core.next_wakeup().map(|when| self.begun + when);
            let order = tokio::select! {
                ready = self.io.ready(self.unsent.is_some()) => ready.is_ok().then_some(None),
                order = self.orders.recv() => order.map(Some),
                () = at(wakeup) => Some(None),
                // The room is taken by `hand_out`.
                room = self.inbox.reserve(), if self.core.has_received() => room.is_ok().then_some(None),
            };
            match order {
                Some(Some(order)) => self.on_order(order),
                Some(None) => {}
                None => return,
            }
            while let Ok(order) = self.orders.try_recv() {
                self.on_order(order);
            }
        }
    }

    fn on_order(&mut self, order: Order<I::Address>) {
        match order {
            Order::Turn(epoch) => self.core.turn(epoch),
            Order::Send {
                to,
                message,
                deadline,
                outcome,
            } => match self.core.send(self.begun.elapsed(), to, message, deadline) {
                Ok(exchange) => {
                    self.waiting.insert(exchange, outcome);
                }
                Err(refusal) => drop(outcome.send(Err(ExchangeError::Refused(refusal)))),
            },
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            let Some((length, from)) = self.io.try_receive(&mut self.buffer)? else {
                return Ok(());
            };
            let now = self.begun.elapsed();
            self.core.on_packet(now, from, &mut self.buffer[..length]);
        }
        Ok(())
    }

    fn hand_out(&mut self) {
        while let Some((exchange, outcome)) = self.core.poll_outcome() {
            if let Some(waiting) = self.waiting.remove(&exchange) {
                // Who no longer waits does not need the answer.
                let _ = waiting.send(outcome.map_err(ExchangeError::Failed));
            }
        }
        while self.core.has_received()
            && let Ok(permit) = self.inbox.try_reserve()
            && let Some(received) = self.core.poll_received()
        {
            permit.send(received);
        }
    }

    fn transmit(&mut self) -> io::Result<()> {
        loop {
            let to = match self.unsent.take() {
                Some(to) => to,
                None => match self.core.poll_transmit(self.begun.elapsed(), &mut self.packet) {
                    Some(to) => to,
                    None => return Ok(()),
                },
            };
            if !self.io.try_send(to, &self.packet)? {
                self.unsent = Some(to);
                return Ok(());
            }
        }
    }
}

async fn at(wakeup: Option<Instant>) {
    match wakeup {
        Some(wakeup) => time::sleep_until(wakeup.into()).await,
        None => std::future::pending().await,
    }
}
