//! What the daemon says to this process, read from the channel whoever asks, and the orders among it kept for the
//! session. Never carries out an order.

use crate::start::{self, StartError, Started};
use pcm_proto::{app::DaemonToApp, reconfiguration::ReconfigurationOrder};
use std::{
    collections::VecDeque,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed},
    },
    sync::{Mutex, PoisonError},
};

/// Orders kept at most: a daemon repeats one per phase; the others stay on the channel, which the kernel bounds.
const ORDERS_MAX: usize = 64;

/// Orders that were heard and not yet taken.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    waiting: Mutex<VecDeque<ReconfigurationOrder>>,
    /// The doorbell's count when the channel was last found empty.
    heard: AtomicU64,
}

impl Started {
    /// Whether the daemon rang since the channel was last found empty.
    #[inline]
    pub(crate) fn has_rung(&self) -> bool {
        self.recorder.page().head.orders.doorbell.load(Relaxed) != self.orders.heard.load(Relaxed)
    }

    /// Reads the channel if the daemon rang.
    pub(crate) fn hear_if_rung(&self) {
        if self.has_rung() {
            self.hear();
        }
    }

    /// Reads what is on the channel.
    pub(crate) fn hear(&self) {
        let rung = self.recorder.page().head.orders.doorbell.load(Acquire);
        let mut waiting = self.orders.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.len() < ORDERS_MAX {
            match self.channel.receive() {
                Ok(None) => {
                    self.orders.heard.store(rung, Relaxed);
                    return;
                }
                Ok(Some(DaemonToApp::Refused { version, reason })) => {
                    start::failure_keep(StartError::Refused { version, reason });
                }
                Ok(Some(DaemonToApp::Reconfiguration(order))) => waiting.push_back(order),
                // Nobody here has asked.
                Ok(Some(DaemonToApp::Restore(_))) => {}
                Err(error) => {
                    start::failure_keep(StartError::Channel(error));
                    self.orders.heard.store(rung, Relaxed);
                    return;
                }
            }
        }
    }

    /// The oldest order that was heard.
    pub(crate) fn order(&self) -> Option<ReconfigurationOrder> {
        let mut waiting = self.orders.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pop_front()
    }
}
